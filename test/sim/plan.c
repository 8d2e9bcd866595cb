#include "plan.h"

#include <string.h>

#include "core/marker.h"
#include "core/quorum.h"

#define FENCED_DRIFT 1000 /* ppm */
#define FAR_MAX                                                                            \
    (100 * VIRTUAL_MS) /* connecting and greeting take less than its timeout               \
                        */

#define ROUND_EVENTS                                                                       \
    700 /* so few that an attempt's number fits into a byte of the model                   \
         */

#define MARKER_TTL (2 * VIRTUAL_S)

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const names[][2] = {
#define X(name, text) {#name, text},
    FAULTS(X)
#undef X
};

const char *fault_name(enum fault fault)
{
    return names[fault][0];
}

const char *fault_text(enum fault fault)
{
    return names[fault][1];
}

int32_t plan_loss(const struct plan *plan)
{
    return (int32_t)plan->drift_ppm / 2;
}

/* (1 - loss) / (1 + gain) = 1 - drift: what a key lasts, by the slow clock. */
int32_t plan_gain(const struct plan *plan)
{
    int64_t drift = plan->drift_ppm;
    return (int32_t)((drift - plan_loss(plan)) * 1000000 / (1000000 - drift));
}

int64_t plan_known_ttl(const struct plan *plan)
{
    int64_t least = plan->automatic ? VIRTUAL_S * 60 : 0;
    return plan->ttl_max > least ? plan->ttl_max : least;
}

/* Nonsense, too: if it can be read, it has a time, and shows a clock that was set. */
static const enum fault disturbing[] = {
    FAULT_SUSPEND, FAULT_RESTART, FAULT_FORGET,   FAULT_FLUSH, FAULT_GARBAGE,
    FAULT_STEP,    FAULT_SLEW,    FAULT_FREEZE,   FAULT_SWAP,  FAULT_REPLACE,
    FAULT_TYPO,    FAULT_UNLOAD,  FAULT_RECOVERY, FAULT_AWAY,  FAULT_ABSENT,
};

bool plan_disturbs(const struct plan *plan)
{
    bool is_durable = plan->promises & RL_PROMISE_DURABLE;
    for (unsigned i = 0; i < COUNT(disturbing); i++)
        if (plan->weight[disturbing[i]] > 0 &&
            !(is_durable && disturbing[i] == FAULT_RESTART))
            return true;
    return plan->unadmitted;
}

/* --- faults --- */

/*
 * Clocks that are set by hours are detected, but a vote that was lost meanwhile would be
 * given back by them: so in such a run nothing is forgotten.
 */
static void draw_fenced(struct plan *plan)
{
    bool stepped = plan->weight[FAULT_STEP] + plan->weight[FAULT_FREEZE] > 0;
    plan->events += 500 + (unsigned)events_random(2500);
    plan->idle = draw_once_in(2) ? draw_span(VIRTUAL_S, 20 * VIRTUAL_S) : 0;
    plan->slow = plan->idle > 0 && draw_once_in(2);
    if (plan->slow)
        plan->events += 3000;
    plan->unadmitted = !plan->duplicate && draw_once_in(8);
    plan->hasty = draw_once_in(4);
    plan->distant = plan->n > 2 && stepped && draw_once_in(4);
    if (!plan->distant)
        return;
    unsigned first = (unsigned)events_random(plan->n);
    unsigned other = first + 1 + (unsigned)events_random(plan->n - 1);
    plan->victims = rl_bit(first);
    if (plan->n >= 5) /* a minority: fences follow the median of the clocks */
        plan->victims |= rl_bit(other % plan->n);
    plan->weight[FAULT_FORGET] = plan->weight[FAULT_FLUSH] = plan->weight[FAULT_SWAP] =
        plan->weight[FAULT_REPLACE] = plan->weight[FAULT_UNLOAD] = 0;
}

/* Where the bounds allow a restart to forget, or not, follows from the rest. */
static void draw_faults(struct plan *plan)
{
    bool calm = draw_once_in(12);
    for (unsigned i = 0; i < FAULT_COMMON; i++)
        plan->weight[i] = calm || draw_once_in(2) ? 0 : 1 + (unsigned)events_random(8);
    if (plan->durable)
        plan->weight[FAULT_FORGET] = 0;
    if (!plan->fenced || plan->n < 3) /* one node cannot be told from another */
        plan->weight[FAULT_SWAP] = plan->weight[FAULT_REPLACE] = plan->weight[FAULT_TYPO] =
            plan->weight[FAULT_UNLOAD] = 0;
    if (plan->fenced && draw_once_in(plan->duplicate ? 2 : 8)) /* all votes stay */
        for (unsigned i = 0; i < COUNT(disturbing); i++)
            plan->weight[disturbing[i]] = 0;
    if (plan->fenced)
        draw_fenced(plan);
    if (!plan->named)
        plan->weight[FAULT_NAME] = 0;
    for (unsigned i = 0; i < FAULT_COUNT; i++)
        plan->weights += plan->weight[i];
}

#define CHANGES 10

/*
 * Only members change, or only their clocks are set; few other faults strike. So
 * quarantines begin and end while some clients still use the servers of before. Or faults
 * of members come in groups, and then a quarantine may end before the next one.
 */
static void draw_changes(struct plan *plan)
{
    static const enum fault members[CHANGES] = {
        FAULT_RESTART, FAULT_FORGET,  FAULT_FLUSH, FAULT_UNLOAD, FAULT_DEMOTE,
        FAULT_SWAP,    FAULT_REPLACE, FAULT_CUT,   FAULT_BLOCK,  FAULT_PARTITION,
    };
    static const enum fault clocks[CHANGES] = {
        FAULT_STEP,  FAULT_SLEW,  FAULT_FREEZE, FAULT_SUSPEND, FAULT_PAUSE,
        FAULT_STALL, FAULT_SPIKE, FAULT_BLOCK,  FAULT_CUT,     FAULT_RESTART,
    };
    static const enum fault recoveries[CHANGES] = {
        FAULT_RECOVERY, FAULT_AWAY,   FAULT_ABSENT, FAULT_RECOVERY, FAULT_AWAY,
        FAULT_SLEW,     FAULT_FORGET, FAULT_DEMOTE, FAULT_CRASH,    FAULT_CUT,
    };
    bool is_of_clocks = !plan->recovers && draw_once_in(2);
    const enum fault *faults = plan->recovers ? recoveries
                               : is_of_clocks ? clocks
                                              : members;
    unsigned least = is_of_clocks ? 1500 : plan->recovers ? 25000 : 4000;
    plan->weights = 0;
    for (unsigned i = 0; i < FAULT_COUNT; i++)
        plan->weight[i] = 0;
    for (unsigned i = 0; i < CHANGES; i++) {
        unsigned more = draw_once_in(3) ? 0 : 1 + (unsigned)events_random(8);
        plan->weight[faults[i]] += more;
        plan->weights += more;
    }
    plan->slow = !is_of_clocks;
    plan->idle =
        is_of_clocks && !draw_once_in(4) ? 0 : draw_span(VIRTUAL_S, 20 * VIRTUAL_S);
    plan->events = least + (unsigned)events_random(plan->recovers ? 25000 : 2500);
    plan->distant = plan->unadmitted = false;
    plan->gap = draw_span(VIRTUAL_S, 16 * VIRTUAL_S);
    if (!plan->recovers)
        return;
    plan->users = 1; /* so that fewer events happen in a quarantine */
    if (plan->clients > 4)
        plan->clients = 4;
}

/* --- the rest --- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* No lock can be had with a TTL of less than ten round trips: so long a node is waited for.
 */
static void draw_network(struct plan *plan)
{
    plan->near = draw_span(20 * VIRTUAL_US, least(plan->ttl_min / 80, 5 * VIRTUAL_MS));
    plan->far = draw_span(plan->near, least(plan->ttl_min / 40, FAR_MAX));
    if (draw_once_in(3))
        plan->node_timeout = draw_span(4 * plan->far, plan->ttl_min / 4);
    plan->named = draw_once_in(3);
    plan->queues = draw_once_in(2);
    plan->notify_faults = draw_once_in(2);
}

#define BURST 40 /* commands that a client may send to a server at once, about */

/*
 * Servers work for a while on each command, and few commands fill a client's window.
 * Without faults each request is served, so no node is suspect while it works on what all
 * have sent.
 */
static void draw_queues(struct plan *plan)
{
    plan->service = draw_span(10 * VIRTUAL_US, 500 * VIRTUAL_US);
    plan->window = (size_t)1 << events_random(2);
    plan->near = 20 * VIRTUAL_US;
    plan->far = draw_span(plan->near, 400 * VIRTUAL_US);
    if (plan->weights == 0 && plan->node_timeout > 0)
        plan->node_timeout += 4 * plan->far + BURST * plan->clients * plan->service;
}

static void draw_nodes(struct plan *plan)
{
    static const unsigned others[] = {1, 3, 7};
    /* One node has no majority to come back by. */
    unsigned first = plan->kind == KIND_MEMBERS;
    plan->n = draw_once_in(5) ? others[first + events_random(COUNT(others) - first)] : 5;
    plan->q = rl_majority(plan->n);
    plan->spares = SPARES;
    plan->duplicate = plan->n > 1 && plan->kind != KIND_MEMBERS && draw_once_in(20);
    bool more = draw_once_in(6);
    if (more && !plan->duplicate && plan->q < plan->n) /* or nothing would be acquired */
        plan->q += 1 + (unsigned)events_random(plan->n - plan->q);
}

/*
 * One lock on three nodes, two or three clients with one user each: they acquire, hold and
 * release. No node forgets. No message is so slow that a node reads it after the greeting
 * on the next connection: the model excludes that.
 */
static void keep_rounds(struct plan *plan)
{
    static const enum fault kept[] = {
        FAULT_PAUSE, FAULT_STALL, FAULT_TIMER, FAULT_BLOCK, FAULT_PARTITION, FAULT_CUT,
        FAULT_HALF,  FAULT_LOSS,  FAULT_SPLIT, FAULT_STOP,  FAULT_REFUSE,
    };
    struct plan whole = *plan;
    *plan = (struct plan){
        .model = MODEL_ROUND,
        .clients = 2 + whole.clients % 2,
        .users = 1,
        .resources = 1,
        .semaphores = 1,
        .n = 3,
        .q = 2,
        .spares = whole.spares,
        .events = whole.events < ROUND_EVENTS ? whole.events : ROUND_EVENTS,
        .drift_ppm = whole.drift_ppm,
        .ttl_min = whole.ttl_min,
        .ttl_max = whole.ttl_max,
        .node_timeout = whole.node_timeout,
        .near = whole.near,
        .far = whole.far,
        .gap = whole.gap < whole.ttl_max ? whole.gap : whole.ttl_max,
        .notify_faults = whole.notify_faults,
    };
    for (unsigned i = 0; i < COUNT(kept); i++) {
        plan->weight[kept[i]] = whole.weight[kept[i]];
        plan->weights += whole.weight[kept[i]];
    }
}

/* The same with a fenced lock, of whose nodes some forget or are exchanged. No operator
 * helps.
 */
static void keep_markers(struct plan *plan)
{
    static const enum fault kept[] = {
        FAULT_RESTART, FAULT_FORGET, FAULT_FLUSH, FAULT_UNLOAD,    FAULT_DEMOTE,
        FAULT_SWAP,    FAULT_CUT,    FAULT_BLOCK, FAULT_PARTITION,
    };
    struct plan whole = *plan;
    keep_rounds(plan);
    plan->model = MODEL_MARKER;
    plan->kind = KIND_MEMBERS;
    plan->fenced = plan->slow = true;
    plan->drift_ppm = FENCED_DRIFT;
    plan->ttl_min = rl_min(whole.ttl_min, MARKER_TTL);
    plan->ttl_max = rl_min(whole.ttl_max, 2 * MARKER_TTL);
    plan->gap = 20 * VIRTUAL_S;
    plan->idle = 20 * VIRTUAL_S;
    plan->events = 8000;
    plan->weights = 0;
    for (unsigned i = 0; i < FAULT_COUNT; i++)
        plan->weight[i] = 0;
    for (unsigned i = 0; i < COUNT(kept); i++) {
        plan->weight[kept[i]] = whole.events / (i + 1) % 4;
        plan->weights += plan->weight[kept[i]];
    }
}

void plan_cut(struct plan *plan, const struct cut *cut)
{
    if (cut->model == MODEL_ROUND)
        keep_rounds(plan);
    if (cut->model == MODEL_MARKER)
        keep_markers(plan);
    if (cut->events > 0 && cut->events < plan->events)
        plan->events = (unsigned)cut->events;
    for (unsigned i = 0; i < FAULT_COUNT; i++)
        if (cut->without >> i & 1) {
            plan->weights -= plan->weight[i];
            plan->weight[i] = 0;
        }
}

enum kind plan_kind(uint64_t seed)
{
    static const enum kind kinds[] = {[2] = KIND_SLOT,
                                      [3] = KIND_SET,
                                      [5] = KIND_REDISSON,
                                      [6] = KIND_SHARED,
                                      [7] = KIND_SET};
    return seed % (2 * COUNT(kinds)) == 1 ? KIND_MEMBERS : kinds[seed % COUNT(kinds)];
}

bool plan_find_kind(const char *name, enum kind *ret_kind)
{
    static const char *const names[] = {
#define X(name, text) text,
        KINDS(X)
#undef X
    };
    for (unsigned i = 0; i < KIND_COUNT; i++)
        if (strcmp(names[i], name) == 0) {
            *ret_kind = (enum kind)i;
            return true;
        }
    return false;
}

bool plan_find_model(const char *name, enum model *ret_model)
{
    *ret_model = name && strcmp(name, "round") == 0    ? MODEL_ROUND
                 : name && strcmp(name, "marker") == 0 ? MODEL_MARKER
                                                       : MODEL_NONE;
    return *ret_model != MODEL_NONE;
}

/* One TTL for all: of others that are longer than a minute a client would know nothing. */
static void draw_automatic(struct plan *plan, uint64_t seed)
{
    plan->automatic = seed % 16 == 9 && !plan->fenced && !plan->durable;
    if (!plan->automatic)
        return;
    bool is_long = seed / 16 % 2;
    int64_t seconds = is_long ? 61 + (int64_t)(seed / 32 % 60) : 4;
    plan->ttl_min = rl_max(plan->ttl_min, seconds * VIRTUAL_S);
    plan->ttl_max = is_long ? plan->ttl_min : plan->ttl_max;
    plan->ttl_max = rl_max(plan->ttl_max, plan->ttl_min);
}

void plan_draw(struct plan *plan, uint64_t seed)
{
    static const uint32_t drifts[] = {10000, 10000, 10000, 1000, 50000};
    bool changes = plan_kind(seed) == KIND_MEMBERS;
    *plan = (struct plan){
        .clients = 3 + (unsigned)events_random(USING_MAX - 2),
        .users = 1 + (unsigned)events_random(USERS_MAX),
        .resources = 1 + (unsigned)events_random(RESOURCES_MAX),
        .events = 1000 + (unsigned)events_random(1400),
        .drift_ppm = drifts[events_random(COUNT(drifts))],
        .ttl_min = draw_span(80 * VIRTUAL_MS, 16 * VIRTUAL_S),
        .durable = !changes && draw_once_in(10),
        .wild = !changes && draw_once_in(16),
        .each = draw_once_in(8),
        .kind = plan_kind(seed),
    };
    plan->semaphores = plan->kind == KIND_SLOT && seed % 16 == 10 ? 2 : 1;
    if (plan->semaphores > 1)
        plan->resources = RESOURCES_MAX;
    if ((plan->kind == KIND_SET || plan->kind == KIND_SLOT) && plan->resources == 1)
        plan->resources = 2;
    draw_nodes(plan);
    bool may_be_fenced = !plan->wild && !plan->durable && plan->kind != KIND_REDISSON;
    plan->fenced = changes || (may_be_fenced && draw_once_in(3));
    plan->elects = plan->fenced && plan->kind == KIND_SINGLE && seed % 8 == 4;
    plan->records = !plan->fenced && plan->kind == KIND_SINGLE && seed % 16 == 8;
    if (plan->fenced)
        plan->promises = (seed / 16 % 2 ? RL_PROMISE_DURABLE : 0) |
                         (seed / 32 % 2 ? RL_PROMISE_SOLE : 0);
    if (plan->fenced) { /* the nodes' clocks must not part */
        plan->drift_ppm = FENCED_DRIFT;
        plan->recovers = changes && draw_once_in(2);
        plan->ttl_min = draw_span((plan->recovers ? 800 : 80) * VIRTUAL_MS,
                                  (changes ? 4 : 8) * VIRTUAL_S);
    }
    plan->ttl_min = (plan->ttl_min / VIRTUAL_MS) * VIRTUAL_MS;
    if (plan->wild)
        plan->beyond_ppm = (int32_t)draw_span(100, 300000);
    plan->ttl_max = plan->ttl_min * (1 + (int64_t)events_random(3));
    draw_automatic(plan, seed);
    draw_network(plan);
    draw_faults(plan);
    int64_t longest = 4 * plan->ttl_min;
    if (plan->fenced && longest < 8 * VIRTUAL_S)
        longest = 8 * VIRTUAL_S;
    plan->gap = draw_span(plan->slow ? VIRTUAL_S : plan->ttl_min / 16, longest);
    if (plan->kind == KIND_MEMBERS)
        draw_changes(plan);
    if (!plan->fenced && (seed % 16 == 0 || seed % 16 == 7))
        draw_queues(plan);
}
