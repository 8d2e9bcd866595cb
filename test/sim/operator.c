#include "operator.h"

#include <string.h>

#include "world.h"

#define LOOK_AGAIN (250 * RL_MS)

static struct client *operator_of(struct world *world)
{
    return &world->client[world->swarm.clients];
}

static void begin(struct world *world, enum rl_admission_mode wish)
{
    struct client *client = operator_of(world);
    client->wish = wish;
    client_start(world, client);
}

/* How many of the nodes as they are configured now could vote, each in a seat of its own.
 */
static unsigned count_fit(const struct world *world)
{
    struct rl_marker marker[NODES];
    rl_node_set fit = 0;
    for (unsigned i = 0; i < NODES; i++) {
        const struct server *server = &world->server[world->behind[world->address[i]]];
        struct rl_process process;
        server_describe(server, &process);
        bool marked = server_marker(server, &marker[i]);
        if (marked && marker[i].active && rl_process_equal(&marker[i].process, &process))
            fit |= rl_bit(i);
        else if (!marked)
            memset(&marker[i], 0, sizeof(marker[i]));
    }
    unsigned count = 0;
    for (unsigned i = 0; i < NODES; i++) {
        bool counts = fit & rl_bit(i);
        for (unsigned j = 0; counts && j < NODES; j++) {
            bool later = rl_incarnation_is_newer(marker[j].roster.member[marker[i].index],
                                                 rl_marker_self(&marker[i]));
            bool again = j < i && world->address[j] == world->address[i];
            counts = !later && !again;
        }
        count += counts;
    }
    return count;
}

void operator_recovers(struct world *world)
{
    if (!operator_of(world)->alive && count_fit(world) < world->swarm.q)
        begin(world, RL_ADMIT_WAIT);
}

void operator_replaces(struct world *world, unsigned node)
{
    struct client *client = operator_of(world);
    const struct server *fresh = client->alive ? NULL : world_new_server(world);
    if (!fresh)
        return;
    trace_mishap(world, "node %u is to be server %u", node + 1, fresh->index + 1);
    world->address[node] = fresh->index;
    client->newcomer = node;
    begin(world, RL_ADMIT_REPLACE);
}

void operator_founds(struct world *world)
{
    begin(world, draw_once_in(&world->prng, 4) ? RL_ADMIT_NEW : RL_ADMIT_AT_ONCE);
}

/* What nobody can give a vote: somebody empties it, and it is seated as a new one. */
static void empty(struct world *world, unsigned node)
{
    struct server *server = &world->server[world->behind[world->address[node]]];
    struct store before = server->store;
    trace_mishap(world, "server %u is emptied by hand", server->index + 1);
    store_flush(&server->store);
    server_forgot(world, server, &before, false);
}

/* Nobody knows the deployment any more: another one is made of all nodes. */
static void begin_anew(struct world *world, struct client *client)
{
    unsigned node;
    for (unsigned i = 0; i < NODES; i++)
        if (client->steward.member[i].marked)
            empty(world, i);
    for (unsigned i = 0; i < NODES; i++)
        if (client->steward.member[i].marked || client->steward.member[i].garbled)
            return;
    rl_admission_begin(&client->steward, RL_ADMIT_NEW, &node, world->swarm.ttl_max / RL_MS,
                       prng_bits(&world->prng), client->view.now);
    ward_act(world, client);
}

void operator_pass(struct world *world, struct client *client)
{
    struct rl_membership *steward = &client->steward;
    bool storm = world->phase == PHASE_STORM;
    bool gives_up =
        client->view.now >= client->until || (client->wish != RL_ADMIT_WAIT && !storm);
    unsigned node = client->newcomer;
    enum rl_admission_error refusal = RL_ADMISSION_OK;
    client->look_again = client->view.now + LOOK_AGAIN;
    if (steward->admission == RL_ADMIT_NOTHING) {
        refusal =
            rl_admission_begin(steward, client->wish, &node, world->swarm.ttl_max / RL_MS,
                               prng_bits(&world->prng), client->view.now);
        ward_act(world, client);
    } else if (rl_admission_progress(steward) != RL_ADMISSION_RUNNING) {
        trace_mishap(world, "the operator is done");
        client_crash(world, client, false);
        return;
    }
    if (refusal == RL_ADMISSION_WRONG_DEPLOYMENT && !storm)
        empty(world, node);
    if (refusal == RL_ADMISSION_UNADMITTED && !storm)
        begin_anew(world, client);
    if (gives_up)
        client_crash(world, client, false);
}
