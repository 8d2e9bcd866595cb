#include "world.h"

#include <stdio.h>
#include <string.h>

#include "faults.h"
#include "operator.h"

struct world world;
struct figures figures;

/* --- names --- */

static const char *const keys[RESOURCES_MAX] = {"stock", "report", "leader", "invoice"};
static const char *const fence_keys[RESOURCES_MAX] = {"stock!fence", "report!fence",
                                                      "leader!fence", "invoice!fence"};
/* All of one length, as are the keys of their slots. */
static const char *const semaphores[] = {"pool", "vats"};
static char slots[RESOURCES_MAX][16], fence_slots[RESOURCES_MAX][24];

static bool has_slots(void)
{
    return world.plan.kind == KIND_SLOT;
}

unsigned world_slots(void)
{
    return world.plan.resources / world.plan.semaphores;
}

unsigned world_slot(unsigned resource)
{
    return resource / world.plan.semaphores + 1;
}

unsigned world_semaphore_of(unsigned resource)
{
    unsigned all = 0;
    for (unsigned i = 0; i < world.plan.resources; i++)
        if (i % world.plan.semaphores == resource % world.plan.semaphores)
            all |= 1U << i;
    return all;
}

void world_name_slots(void)
{
    for (unsigned i = 0; i < RESOURCES_MAX; i++) {
        snprintf(slots[i], sizeof(slots[i]), "%s!%u", semaphores[i % world.plan.semaphores],
                 world_slot(i));
        snprintf(fence_slots[i], sizeof(fence_slots[i]), "%s!fence", slots[i]);
    }
}

const char *world_key(unsigned resource)
{
    return has_slots() ? slots[resource] : keys[resource];
}

const char *world_fence_key(unsigned resource)
{
    return has_slots() ? fence_slots[resource] : fence_keys[resource];
}

const char *world_queue_key(unsigned resource)
{
    return has_slots() ? semaphores[resource % world.plan.semaphores] : keys[resource];
}

const char *world_names(unsigned resources)
{
    static char text[64];
    text[0] = '\0';
    for (unsigned i = 0; i < RESOURCES_MAX; i++)
        if (resources >> i & 1) {
            strcat(text, text[0] ? " and " : "");
            strcat(text, world_key(i));
        }
    return text;
}

unsigned world_resource(struct rl_word key)
{
    unsigned i = 0;
    while (i < RESOURCES_MAX - 1 &&
           !word_is(key, (struct rl_word){world_key(i), strlen(world_key(i))}))
        i++;
    return i;
}

struct server *world_server_behind(unsigned host)
{
    return &world.server[network.address[host].server - 1];
}

struct server *world_new_server(void)
{
    if (!world.fresh)
        return NULL;
    unsigned first = rl_first(world.fresh);
    world.fresh &= ~(1U << first);
    return &world.server[first];
}

/* A client that has mistaken an address corrects that when all is well. */
void world_configure(struct client *client)
{
    bool mistaken = client->has_typo && world.phase == PHASE_STORM;
    bool latest = client->users == 0 || world.phase != PHASE_STORM || draw_once_in(2);
    if (latest && !mistaken)
        memcpy(client->address, world.address, sizeof(client->address));
}

/* --- phases --- */

static bool is_unbroken(void)
{
    return world.verdict.broken == INVARIANT_NONE;
}

static bool is_open(void)
{
    return is_unbroken() && (world.wanted || world.waiting);
}

#define CLAIMS_OF_STORM (CLAIMS_MAX / 2)

/* Runs until `until`, or `events` have happened; `served`: or each has what it wants. */
static void run(int64_t until, uint64_t events, bool served)
{
    while (is_unbroken() && world.events < events && (!served || is_open()) &&
           (world.phase != PHASE_STORM || claims_count() < CLAIMS_OF_STORM) &&
           events_step(until))
        world.events++;
}

/* Old keys and quarantines have to run out, and retries to meet. */
static int64_t liveness_bound(void)
{
    const struct plan *plan = &world.plan;
    if (plan->fenced)
        return 8 * plan->ttl_max + 400 * VIRTUAL_S;
    return 8 * plan->ttl_max + client_quarantine() + 40 * VIRTUAL_S;
}

static void phase(enum phase phase, const char *text)
{
    world.phase = phase;
    TRACE("--- %s ---", text);
}

/* By the promise that no other server is alive, this client can bring all nodes back. */
static bool can_recover(const struct client *client)
{
    bool can = client->is_alive && client->looks_since > 0 && !client->has_typo &&
               memcmp(client->address, world.address, sizeof(client->address)) == 0;
    for (unsigned i = 0; can && i < world.plan.n; i++)
        can = oracle_had_last(client, i);
    return can;
}

/* Of two admissions of new nodes at one time both may be withdrawn: then nothing is left.
 */
static bool is_founded(void)
{
    bool is = false;
    for (unsigned s = 0; s < SERVERS_MAX; s++)
        is |= world.server[s].was_active || server_marker(&world.server[s]);
    return is;
}

static bool somebody_can_recover(void)
{
    bool can = false;
    for (unsigned c = 0; c < world.plan.clients; c++)
        can |= can_recover(&world.client[c]);
    return can && is_founded() && world.plan.promises & RL_PROMISE_SOLE;
}

/* Marker reads, a quarantine, and other faults of clocks and memory that end in it. */
#define RECOVERY (3 * VIRTUAL_S * 20)

static void calm(void)
{
    phase(PHASE_CALM, "a majority is healed");
    event_cancel(&world.fault);
    world.wanted = (1U << world.plan.resources) - 1;
    if (world.plan.each)
        world.waiting = (1U << world.plan.clients) - 1;
    fault_heal();
    int64_t bound = events_now() + liveness_bound();
    int64_t alone = somebody_can_recover() ? events_now() + RECOVERY : 0;
    while (world.plan.fenced && events_now() < bound && is_open()) {
        int64_t until = events_now() + 10 * VIRTUAL_S;
        if (events_now() >= alone && operator_recovers() && alone > 0 &&
            somebody_can_recover())
            oracle_accuse(INVARIANT_LIVENESS, "the nodes do not come back by themselves");
        run(until < bound ? until : bound, UINT64_MAX, true);
    }
    run(bound, UINT64_MAX, true);
    if (world.wanted)
        oracle_accuse(INVARIANT_LIVENESS, "nobody acquires \"%s\"",
                      world_key(rl_first(world.wanted)));
    if (world.waiting)
        oracle_accuse(INVARIANT_LIVENESS, "client %u acquires nothing",
                      rl_first(world.waiting) + 1);
}

/* Time to be given up, to connect and to greet, and between releases; and slow replies. */
static int64_t time_to_end(void)
{
    return 2 * HINDRANCE + 4 * VIRTUAL_S + 40 * world.plan.far + world.plan.ttl_min / 2;
}

#define LAST_EVENTS 100 /* that happen between the last hindrance and the end, at most */

#define LOOK (250 * VIRTUAL_MS)

/* Runs until nothing is open; now and then to the end, to see what must not come. */
static void run_to_end(int64_t end)
{
    bool lasts = draw_once_in(8);
    struct verdict open = oracle_open();
    while (is_unbroken() && events_now() < end && (lasts || open.broken)) {
        int64_t next = events_now() + LOOK;
        run(next < end ? next : end, UINT64_MAX, false);
        open = oracle_open();
    }
    if (is_unbroken() && open.broken)
        oracle_accuse(open.broken, "%s", open.text);
}

static void finish(void)
{
    world.is_hindered = true;
    fault_hinder();
    run(events_now() + draw_between(0, HINDRANCE), world.events + LAST_EVENTS, false);
    phase(PHASE_END, "all give back what they have");
    int64_t end = events_now();
    for (unsigned c = 0; c < world.plan.clients; c++) {
        struct client *client = &world.client[c];
        for (unsigned u = 0; u < client->users; u++)
            user_stop(&client->user[u]);
        if (end < client->process.stopped_until)
            end = client->process.stopped_until;
    }
    run_to_end(end + time_to_end());
    TRACE("--- the clients are freed ---");
    for (unsigned c = 0; is_unbroken() && c < world.clients; c++)
        if (world.client[c].is_alive)
            client_finish(&world.client[c]);
}

static void count_network(void)
{
    world.faults[FAULT_SPIKE] += network.counts.spikes;
    world.faults[FAULT_LOSS] += network.counts.losses;
    world.faults[FAULT_SPLIT] += network.counts.cuts;
    world.faults[FAULT_ROOM] += network.counts.partial_writes;
}

static void count(void)
{
    count_network();
    figures.schedules++;
    figures.events += world.events;
    figures.commands += world.commands;
    figures.acquisitions += world.acquisitions;
    figures.clients_that_acquired += rl_count(world.acquirers);
    figures.alone += rl_count(world.acquirers) < 2;
    figures.time += (uint64_t)world.ended;
    figures.violations += !is_unbroken();
    for (unsigned i = 0; i < FAULT_COUNT; i++)
        figures.faults[i] += world.faults[i];
    for (unsigned i = 0; i < BOUND_COUNT; i++)
        figures.outside[i] += world.verdict.outside[i];
    const struct plan *plan = &world.plan;
    bool only_fast = !plan->weight[FAULT_SUSPEND]; /* no clock was stopped either */
    bool nearer = figures.nearest_ppm == 0 || plan->beyond_ppm < figures.nearest_ppm;
    if (world.verdict.outside[BOUND_CLOCK] && only_fast && nearer)
        figures.nearest_ppm = plan->beyond_ppm;
}

void world_play(uint64_t seed, const struct cut *cut)
{
    world_begin(seed, cut);
    run(CLOCK_NEVER - 1, world.plan.events, false);
    if (is_unbroken())
        calm();
    if (is_unbroken())
        finish();
    trace_end();
    world.ended = events_now();
    world.trace.hash ^= network.trace;
    world_end();
    count();
}
