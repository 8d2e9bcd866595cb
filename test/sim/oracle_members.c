/*
 * The oracle on how a node that lost its vote comes back (docs/safety.md): each command
 * that writes a marker is one of the steps assign, register and lift, and is judged as soon
 * as it is written. A client knows what it has read of the nodes' markers, and no more.
 */
#include <string.h>

#include "core/quorum.h"
#include "oracle_parts.h"
#include "world.h"

/* By a slow clock, in which time a marker is read again: if it was active, or not. */
#define LOOK_ACTIVE (12 * VIRTUAL_S)
#define LOOK_OTHER  (3 * VIRTUAL_S)

/* --- when an incarnation was registered --- */

#define REGISTRATIONS_MAX 1024 /* two lists that name two servers may need hundreds */
static struct registration {
    uint64_t id;      /* of the incarnation */
    int64_t known_at; /* a majority of active nodes had it at one moment, first then ... */
    int64_t
        attested_at; /* ... and all nodes, in whatever state; true times; NEVER: not yet */
} registrations[REGISTRATIONS_MAX];
static unsigned registered;

static struct registration *registration_of(uint64_t id)
{
    for (unsigned i = 0; i < registered && i < REGISTRATIONS_MAX; i++)
        if (registrations[i].id == id)
            return &registrations[i];
    struct registration *new = &registrations[registered++ % REGISTRATIONS_MAX];
    *new = (struct registration){id, CLOCK_NEVER, CLOCK_NEVER};
    return new;
}

static void note_registration(const struct rl_marker *newest)
{
    struct rl_incarnation self = rl_marker_self(newest);
    rl_node_set active = 0, all = 0;
    for (unsigned s = 0; s < SERVERS_MAX; s++) {
        const struct rl_marker *marker = server_marker(&world.server[s]);
        if (!server_is_marked(&world.server[s]) ||
            marker->roster.deployment != newest->roster.deployment ||
            rl_incarnation_is_newer(self, marker->roster.member[newest->index]))
            continue;
        all |= rl_bit(marker->index);
        active |= marker->active ? rl_bit(marker->index) : 0;
    }
    struct registration *registration = registration_of(self.id);
    active &= ~rl_bit(newest->index);
    if (rl_count(active) >= rl_majority(world.plan.n) &&
        registration->known_at == CLOCK_NEVER)
        registration->known_at = events_now();
    if (rl_count(all) == world.plan.n && registration->attested_at == CLOCK_NEVER)
        registration->attested_at = events_now();
}

void oracle_ran_marker(void)
{
    for (unsigned s = 0; s < SERVERS_MAX; s++) {
        const struct rl_marker *marker = server_marker(&world.server[s]);
        if (marker)
            note_registration(marker);
    }
}

/* --- the steps --- */

static bool is_operator(const struct client *client)
{
    return client->users == 0 || client->founds;
}

/* The latest generation of this index that the client must have merged: what it reads in
   this iteration may come after what it writes. */
static uint32_t known_generation(const struct client *client, uint64_t deployment,
                                 unsigned index)
{
    uint32_t latest = 0;
    for (unsigned i = 0; i < world.plan.n; i++) {
        const struct acquainted *node = &client->node[i];
        bool is_new = node->has_since == client->process.iterations;
        uint32_t has = is_new ? node->has_before[index] : node->has[index];
        if (node->seal.deployment == deployment && has > latest)
            latest = has;
    }
    return latest;
}

/* The operator means these nodes: so each of them replies, and for a replacement each of
   the others has had its vote. */
static bool may_operator_assign(const struct client *client, unsigned node)
{
    if (!is_operator(client))
        return false;
    for (unsigned i = 0; i < world.plan.n; i++) {
        const struct acquainted *other = &client->node[i];
        bool replaces = client->admission == REDLOCK_ADMIT_REPLACE;
        if (other->greeted_at == 0 || (replaces && i != node && !other->has_been_active))
            return false;
    }
    return true;
}

/* Any client, if the operator promised that no other server of the index is alive: also by
   a marker that is older than what it knows. */
static bool may_take_back(const struct client *client, const struct rl_marker *expected,
                          const struct rl_marker *wanted)
{
    for (unsigned i = 0; i < world.plan.n; i++)
        if (client->node[i].greeted_at == 0)
            return false;
    return world.plan.promises & RL_PROMISE_SOLE &&
           rl_marker_self(expected).generation > 0 && expected->index == wanted->index;
}

static void judge_assignment(const struct client *client, unsigned node,
                             const struct rl_marker *expected,
                             const struct rl_marker *wanted)
{
    uint32_t known = known_generation(client, wanted->roster.deployment, wanted->index);
    bool founds = is_operator(client) && client->admission != REDLOCK_ADMIT_READMIT &&
                  client->admission != REDLOCK_ADMIT_REPLACE;
    uint32_t generation = rl_marker_self(wanted).generation;
    /* Bytes that a socket did not take are written later: it knows more by then. */
    if ((founds && generation == 1) || world.plan.weight[FAULT_ROOM] > 0)
        return;
    if (generation <= known)
        oracle_accuse(INVARIANT_MARKER,
                      "client %u assigns generation %u of index %u, and knows of %u",
                      client->index + 1, generation, wanted->index + 1U, known);
    if (client->node[node].had[wanted->index] < known &&
        !may_operator_assign(client, node) && !may_take_back(client, expected, wanted))
        oracle_accuse(INVARIANT_MARKER,
                      "client %u assigns index %u to node %u, which did not have it last",
                      client->index + 1, wanted->index + 1U, node + 1);
}

/* Nodes that the client read for the first time after none of its clocks had counted attest
   what happened in the second before. */
static bool may_err(const struct client *client)
{
    unsigned fresh = 0;
    for (unsigned i = 0; i < world.plan.n; i++)
        fresh += client->node[i].sample.first_at >= client->paused_until;
    return client->paused_until > 0 && fresh >= rl_majority(world.plan.n);
}

/* So long, and a TTL, the clock guard adds up what a clock gained. */
#define BORNE (10 * VIRTUAL_S)

/* An active node loses its vote at all clients for its own clock only, if its index has no
   newer incarnation. */
static void judge_bar(const struct client *client, const struct command *command)
{
    const struct server *server = &world.server[command->server];
    bool unsteady = world.plan.hasty && plan_disturbs(&world.plan);
    const struct sample *sample = &client->node[command->node].sample;
    int64_t borne_until = server->erred_at + world.plan.ttl_max + BORNE;
    bool errs = event_is_scheduled(&server->clock_ends) ||
                (server->erred_at > 0 && borne_until >= sample->fault_since);
    if (!errs && !unsteady && !may_err(client) && world.plan.weight[FAULT_GARBAGE] == 0)
        oracle_accuse(INVARIANT_BARRED,
                      "client %u bars node %u for its clock, which was right",
                      client->index + 1, command->node + 1);
}

static void judge_lift(const struct client *client, unsigned node,
                       const struct rl_marker *wanted)
{
    const struct registration *registration = registration_of(rl_marker_self(wanted).id);
    int64_t since = registration->known_at, seen = oracle_clock_seen(client, node);
    bool at_once = client->admission == REDLOCK_ADMIT_AT_ONCE;
    if (is_operator(client) && at_once && rl_marker_self(wanted).generation == 1)
        return;
    if (is_operator(client) || world.plan.promises & RL_PROMISE_SOLE)
        since = rl_min(since, registration->attested_at);
    since = rl_max(rl_max(since, client->node[node].greeted_at), seen);
    if (events_now() < since || events_now() - since < oracle_least_quarantine())
        oracle_accuse(
            INVARIANT_MARKER,
            "client %u ends the quarantine of node %u %lld ms after it began",
            client->index + 1, node + 1,
            (long long)(since == CLOCK_NEVER ? -1 : (events_now() - since) / VIRTUAL_MS));
}

/* What a node knows of incarnations only grows. */
static void judge_roster(const struct client *client, unsigned node,
                         const struct rl_marker *expected, const struct rl_marker *wanted)
{
    for (unsigned i = 0; i < wanted->roster.n; i++)
        if (rl_incarnation_is_newer(expected->roster.member[i], wanted->roster.member[i]))
            oracle_accuse(INVARIANT_MARKER,
                          "client %u makes node %u forget an incarnation of index %u",
                          client->index + 1, node + 1, i + 1);
}

/* An admission that is refused reads the markers once: a client goes on if it has used
 * fenced locks, or has written a marker. An operator is refused again and again. */
static bool reads_on(const struct client *client, const struct command *command)
{
    bool does = client->users == 0 || client->observer || command->wanted.len > 0;
    for (unsigned i = 0; i < client->users; i++)
        does |= client->user[i].began > client->born;
    return does;
}

void oracle_say_marker(const struct command *command)
{
    struct client *client = &world.client[command->client];
    struct rl_marker expected = {0}, wanted;
    client->node[command->node].is_looking = true;
    if (client->looks_since == 0 && reads_on(client, command))
        client->looks_since = events_now();
    if (!rl_marker_read(command->wanted, &wanted))
        return; /* it reads, or takes back what it wrote */
    bool had = rl_marker_read(command->expected, &expected);
    bool same = had && expected.index == wanted.index &&
                rl_incarnation_equal(rl_marker_self(&expected), rl_marker_self(&wanted));
    if (had && expected.roster.deployment == wanted.roster.deployment)
        judge_roster(client, command->node, &expected, &wanted);
    if (had && expected.active && !wanted.active &&
        rl_process_equal(&expected.process, &wanted.process) &&
        rl_marker_self(&wanted).generation == rl_marker_self(&expected).generation + 1)
        judge_bar(client, command);
    if (!same && wanted.active)
        oracle_accuse(INVARIANT_MARKER, "client %u assigns an index without a quarantine",
                      client->index + 1);
    else if (!same)
        judge_assignment(client, command->node, &expected, &wanted);
    else if (wanted.active && !expected.active)
        judge_lift(client, command->node, &wanted);
}

/* --- what a client knows --- */

/* Also of nodes that were read before the deployment was known. */
static void note_owned(struct client *client)
{
    for (unsigned i = 0; i < world.plan.n && client->knows_deployment; i++) {
        struct acquainted *node = &client->node[i];
        const struct seal *seal = &node->seal;
        if (node->greeted_at > 0 && seal->is_own &&
            seal->generation > node->owned[seal->index])
            node->owned[seal->index] = seal->generation;
    }
}

void oracle_hear_marker(struct client *client, const struct command *command)
{
    struct acquainted *node = &client->node[command->node];
    const struct seal *seal = &command->seal;
    if (node->refused_until > 0) /* the client does not use it */
        return;
    if (node->greeted_at == 0)
        node->greeted_at = events_now();
    node->look_due = events_now() + (seal->is_active ? LOOK_ACTIVE : LOOK_OTHER);
    node->seal = *seal;
    node->has_been_active |= seal->is_active;
    if (node->has_since != client->process.iterations)
        memcpy(node->has_before, node->has, sizeof(node->has));
    node->has_since = client->process.iterations;
    for (unsigned i = 0; i < world.plan.n; i++)
        node->has[i] = command->generation[i];
    if (seal->generation > 0)
        node->had_of = seal->deployment;
    if (seal->generation > node->had[seal->index])
        node->had[seal->index] = seal->generation;
    note_owned(client);
}

bool oracle_had_last(const struct client *client, unsigned node)
{
    const struct acquainted *place = &client->node[node];
    if (place->had_of != client->node[0].had_of)
        return false; /* two admissions of new nodes have left a part each */
    for (unsigned index = 0; index < world.plan.n; index++) {
        uint32_t had = place->had[index], latest = 1;
        for (unsigned i = 0; i < world.plan.n; i++)
            if (client->node[i].has[index] > latest)
                latest = client->node[i].has[index];
        if (had >= latest && (place->seal.generation > 0 || place->owned[index] >= had))
            return true;
    }
    return false;
}

void oracle_members_looked(struct acquainted *node)
{
    node->is_looking = false;
    node->look_due = events_now() + LOOK_OTHER; /* it may have failed */
}

void oracle_members_left(struct client *client, unsigned node)
{
    client->node[node].greeted_at = 0;
    client->node[node].is_looking = false;
}

/* 500 ms, and a second after a command that failed. */
#define BARRED_AFTER (3 * VIRTUAL_S)

static bool is_active(const struct client *client, unsigned node)
{
    redlock_node nodes[NODES_MAX];
    return redlock_client_members(client->handle, nodes, NODES_MAX) > node &&
           nodes[node].verdict == REDLOCK_VERDICT_ACTIVE;
}

/* A node whose clock was set gets a new incarnation soon, by this client or another; or it
   has no vote at this client for a quarantine. */
static void judge_clock(const struct client *client, unsigned i)
{
    const struct acquainted *node = &client->node[i];
    const struct seal *then = &node->sample.seal;
    int64_t seen = oracle_clock_seen(client, i);
    bool same = node->seal.is_active && node->seal.generation == then->generation &&
                node->seal.id == then->id;
    int64_t since = rl_max(rl_max(seen, client->process.resumed), node->greeted_at);
    if (seen > 0 && same && node->greeted_at > 0 && !node->is_looking &&
        events_now() > since + BARRED_AFTER &&
        events_now() < seen + oracle_least_quarantine() && client->handle &&
        is_active(client, i))
        oracle_accuse(INVARIANT_BARRED, "client %u saw that the clock of node %u was set",
                      client->index + 1, i + 1);
}

/* A quarantine is counted from a moment at which enough nodes had the incarnation: a node
   that forgot it since is no witness. */
static void judge_witnesses(const struct client *client)
{
    redlock_node nodes[NODES_MAX];
    rl_node_set barred = 0;
    for (unsigned i = 0; i < world.plan.n; i++)
        barred |= client->node[i].greeted_at > 0 && client->node[i].seal.generation > 0 &&
                          !client->node[i].seal.is_active
                      ? rl_bit(i)
                      : 0;
    if (!barred || client->admission == REDLOCK_ADMIT_AT_ONCE)
        return;
    (void)redlock_client_members(client->handle, nodes, NODES_MAX);
    for (; barred; barred &= barred - 1) {
        unsigned i = rl_first(barred);
        const struct server *server = &world.server[client->node[i].server];
        if (oracle_seal(server).id != client->node[i].seal.id)
            continue; /* it has a later one, which others may know */
        const struct registration *registration = registration_of(client->node[i].seal.id);
        bool all = is_operator(client) || world.plan.promises & RL_PROMISE_SOLE;
        if (nodes[i].remaining_us != REDLOCK_UNKNOWN &&
            registration->known_at == CLOCK_NEVER &&
            (!all || registration->attested_at == CLOCK_NEVER))
            oracle_accuse(INVARIANT_MARKER,
                          "client %u counts the quarantine of node %u, which too few know",
                          client->index + 1, i + 1);
    }
}

/* Each node that the client knows is read again in time, whatever became of the last
   command. */
void oracle_members_iterated(const struct client *client)
{
    if (client->handle && world.plan.fenced)
        judge_witnesses(client);
    bool fails = world.plan.weight[FAULT_ROOM] + world.plan.weight[FAULT_MEMORY] +
                     world.plan.weight[FAULT_RANDOM] >
                 0;
    for (unsigned i = 0; i < world.plan.n && client->looks_since > 0 && !fails; i++) {
        const struct acquainted *node = &client->node[i];
        int64_t since =
            rl_max(client->looks_since + LOOK_ACTIVE, client->process.resumed + LOOK_OTHER);
        if (node->greeted_at > 0 && !node->is_looking &&
            events_now() > rl_max(node->look_due, since))
            oracle_accuse(INVARIANT_LIVENESS,
                          "client %u does not read the marker of node %u",
                          client->index + 1, i + 1);
        judge_clock(client, i);
    }
}

void oracle_judge_admitted(const struct client *client)
{
    for (unsigned i = 0; i < world.plan.n; i++) {
        const struct server *server = world_server_behind(client->address[i]);
        const struct rl_marker *marker = server_marker(server);
        if (marker && marker->nonce == client->node[i].nonce && !marker->active)
            oracle_accuse(INVARIANT_TOLD, "the operator is told that node %u votes", i + 1);
    }
}

void oracle_members_begin(void)
{
    registered = 0;
}
