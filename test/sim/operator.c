#include "operator.h"

#include <string.h>

#include "auditor.h"
#include "world.h"

#define LOOK_AGAIN (250 * VIRTUAL_MS)
#define PATIENCE   (80 * VIRTUAL_S) /* then it begins anew, or gives up */
#define GIVES_UP   40               /* or it does once in so many refusals */

static struct client *operator_client(void)
{
    return &world.client[world.plan.clients];
}

static void begin(redlock_admission how)
{
    struct client *client = operator_client();
    client->admission = how;
    client->gives_up = events_now() + PATIENCE;
    client_start(client);
}

/* Counts the nodes that, as configured now, could vote, each with an index of its
   own. */
static unsigned count_fit(void)
{
    const struct rl_marker *marker[NODES_MAX];
    rl_node_set fit = 0;
    unsigned n = world.plan.n;
    for (unsigned i = 0; i < n; i++) {
        const struct server *server = world_server_behind(world.address[i]);
        marker[i] = server_marker(server);
        if (server_is_marked(server) && marker[i]->active)
            fit |= rl_bit(i);
    }
    unsigned count = 0;
    for (unsigned i = 0; i < n; i++) {
        bool counts = fit & rl_bit(i);
        for (unsigned j = 0; counts && j < n; j++) {
            bool later = marker[j] &&
                         rl_incarnation_is_newer(marker[j]->roster.member[marker[i]->index],
                                                 rl_marker_self(marker[i]));
            bool again = j < i && world.address[j] == world.address[i];
            counts = !later && !again;
        }
        count += counts;
    }
    return count;
}

/* No client configured now meets these: a recovery leaves them out. */
static void bury_others(void)
{
    rl_node_set used = 0;
    for (unsigned i = 0; i < world.plan.n; i++)
        used |= rl_bit(world_server_behind(world.address[i])->index);
    for (unsigned s = 0; s < SERVERS_MAX; s++)
        if (!(used & rl_bit(s)) && world.server[s].was_active)
            server_bury(&world.server[s]);
}

bool operator_recovers(void)
{
    if (operator_client()->is_alive || count_fit() >= world.plan.q)
        return false;
    bury_others();
    begin(REDLOCK_ADMIT_READMIT);
    return true;
}

static void on_comes(void *arg)
{
    (void)arg;
    if (world.phase == PHASE_STORM)
        operator_recovers();
}

void operator_comes(int64_t at)
{
    event_at(&operator_client()->comes, at);
}

void operator_replaces(unsigned node)
{
    struct client *client = operator_client();
    const struct server *fresh = client->is_alive ? NULL : world_new_server();
    if (!fresh)
        return;
    TRACE("node %u is to be server %u", node + 1, fresh->index + 1);
    world.address[node] = fresh->index + 1;
    client->newcomer = node;
    if (world.plan.promises & RL_PROMISE_SOLE)
        bury_others();
    begin(REDLOCK_ADMIT_REPLACE);
}

void operator_founds(void)
{
    begin(draw_once_in(4) ? REDLOCK_ADMIT_NEW : REDLOCK_ADMIT_AT_ONCE);
}

/* A server that nobody can give a vote is emptied by hand, and admitted anew. */
static void empty(unsigned node)
{
    struct server *server = world_server_behind(world.address[node]);
    struct keyspace before = server_copy(server);
    TRACE("server %u is emptied by hand", server->index + 1);
    server_empty(server);
    server_forgot(server, &before, false);
    keyspace_free(&before);
}

static bool is_marked(unsigned node)
{
    return server_marker(world_server_behind(world.address[node])) != NULL;
}

/* No deployment is known any more: another one is made of all nodes. Clients with an older
   list may know the last one still, so its servers are stopped. */
static void begin_anew(struct client *client)
{
    bury_others();
    for (unsigned i = 0; i < world.plan.n; i++)
        if (is_marked(i))
            empty(i);
    client->admission = REDLOCK_ADMIT_NEW;
}

static void on_admitted(redlock_client *handle, const redlock_admitted *result, void *arg)
{
    struct client *client = arg;
    bool mends = world.phase != PHASE_STORM || (world.plan.recovers && draw_once_in(8));
    (void)handle;
    client->is_admitting = false;
    TRACE("the operator is told %s: %s", redlock_code_name(result->code), result->text);
    trace_mix((uint64_t)result->code);
    if (result->code == REDLOCK_OK) {
        oracle_judge_admitted(client);
        client->ends = true;
        return;
    }
    bool is_in_the_way =
        result->code == REDLOCK_WRONG_DEPLOYMENT || result->code == REDLOCK_NOT_EMPTY;
    if (is_in_the_way && mends && result->node >= 0) {
        bool is_known = world.plan.promises & RL_PROMISE_SOLE &&
                        result->code == REDLOCK_NOT_EMPTY &&
                        is_marked((unsigned)result->node);
        if (is_known) /* a client brings the deployment back */
            client->admission = REDLOCK_ADMIT_READMIT;
        else
            empty((unsigned)result->node);
    }
    if (result->code == REDLOCK_UNADMITTED && mends)
        begin_anew(client);
    if (world.phase == PHASE_STORM && world.plan.recovers && draw_once_in(GIVES_UP))
        client->gives_up = events_now();
}

/* A vote may have been given, and forgotten since: then none may be given at once. */
static bool has_been_active(void)
{
    for (unsigned i = 0; i < SERVERS_MAX; i++)
        if (world.server[i].was_active)
            return true;
    return false;
}

unsigned operator_how(const struct client *client)
{
    unsigned promises =
        (world.plan.promises & RL_PROMISE_DURABLE ? REDLOCK_PROMISE_DURABLE : 0) |
        (world.plan.promises & RL_PROMISE_SOLE ? REDLOCK_PROMISE_SOLE : 0);
    bool founds = client->admission == REDLOCK_ADMIT_NEW ||
                  client->admission == REDLOCK_ADMIT_AT_ONCE;
    return client->admission | (founds ? promises : 0);
}

static void admit(void *arg)
{
    struct client *client = arg;
    if (client->admission == REDLOCK_ADMIT_AT_ONCE && has_been_active())
        client->admission = REDLOCK_ADMIT_NEW;
    if (client->admission == REDLOCK_ADMIT_NEW ||
        client->admission == REDLOCK_ADMIT_AT_ONCE)
        auditor_founds();
    /* What the nodes have lost is gone for good. */
    size_t node = client->admission == REDLOCK_ADMIT_READMIT ? rl_all(world.plan.n)
                                                             : client->newcomer;
    redlock_code code =
        redlock_admit(client->handle, operator_how(client), node, on_admitted, client);
    client->is_admitting = code == REDLOCK_OK;
    if (code != REDLOCK_OK && code != REDLOCK_NO_MEMORY)
        oracle_accuse(INVARIANT_TOLD, "the operator: %s", redlock_last_error()->text);
}

static void look(void *arg)
{
    struct client *client = arg;
    bool storm = world.phase == PHASE_STORM;
    if (!client->handle)
        return;
    bool gives_up = events_now() >= client->gives_up ||
                    (client->admission != REDLOCK_ADMIT_READMIT &&
                     client->admission != REDLOCK_ADMIT_NEW && !storm);
    if (gives_up && client_kill(client, false))
        return;
    if (!client->is_admitting && client->process.inside == 0 &&
        events_now() >= client->process.stopped_until)
        process_call(&client->process, admit, client);
    event_at(&client->looks, events_now() + LOOK_AGAIN);
}

void operator_init(void)
{
    struct client *client = operator_client();
    client->looks = (struct event){.happen = look, .arg = client};
    client->comes = (struct event){.happen = on_comes};
}
