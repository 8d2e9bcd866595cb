/* A user's wishes, and how it waits for them. */
#include "core/quorum.h"
#include "world.h"

#define RETRY_ATTEMPTS 3
#define FENCES_MAX     64

static int64_t ms(int64_t span)
{
    return span / VIRTUAL_MS;
}

static int64_t custom_delay(unsigned attempt, uint64_t random, void *arg)
{
    const struct plan *plan = arg;
    return attempt < RETRY_ATTEMPTS ? (int64_t)(random % (uint64_t)ms(plan->ttl_min))
                                    : REDLOCK_GIVE_UP;
}

static void want_retry(struct user *user)
{
    static const redlock_retry kinds[] = {REDLOCK_RETRY_EXPONENTIAL, REDLOCK_RETRY_FIXED,
                                          REDLOCK_RETRY_CUSTOM, REDLOCK_RETRY_NONE};
    struct plan *plan = &world.plan;
    redlock_lease_options *options = &user->options;
    bool patient = world.phase != PHASE_STORM;
    options->retry = kinds[patient ? 0 : events_random(4)];
    options->retry_fn = options->retry == REDLOCK_RETRY_CUSTOM ? custom_delay : NULL;
    options->retry_arg = plan;
    if (patient) {
        int64_t least = plan->fenced ? 1000 : 1; /* for a quarantine takes long */
        options->retry_base_ms = rl_max(ms(plan->ttl_min) / 4, least);
        options->retry_cap_ms =
            rl_max(rl_max(ms(plan->ttl_max) / 2, least), options->retry_base_ms);
    }
    int64_t wait = draw_span(VIRTUAL_MS, 4 * plan->ttl_max);
    options->wait_ms = patient           ? REDLOCK_FOREVER
                       : draw_once_in(4) ? REDLOCK_ONE_ATTEMPT
                                         : ms(wait);
    bool cancels = !patient && draw_once_in(12);
    if (cancels && draw_once_in(2))
        options->wait_ms = REDLOCK_FOREVER;
    user->cancel_at = cancels ? events_now() + draw_span(VIRTUAL_US, wait) : CLOCK_NEVER;
}

int64_t user_draw_ttl(void)
{
    return draw_between(ms(world.plan.ttl_min), ms(world.plan.ttl_max));
}

#define RECORD_TTLS 4

int64_t user_draw_record(void)
{
    return draw_between(ms(world.plan.ttl_min), RECORD_TTLS * ms(world.plan.ttl_max));
}

/* Beside locks in other layouts there are exclusive ones. */
static redlock_kind draw_kind(const struct plan *plan)
{
    switch (plan->kind) {
    case KIND_REDISSON:
        return draw_once_in(3) ? REDLOCK_KIND_EXCLUSIVE : REDLOCK_KIND_REDISSON;
    case KIND_SHARED: return draw_once_in(3) ? REDLOCK_KIND_EXCLUSIVE : REDLOCK_KIND_SHARED;
    case KIND_SLOT: return REDLOCK_KIND_SLOT;
    default:
        return plan->elects    ? REDLOCK_KIND_ELECTION
               : plan->records ? REDLOCK_KIND_RECORD
                               : REDLOCK_KIND_EXCLUSIVE;
    }
}

/* The library refuses options whose margin or least validity would use up the rest. */
static void want_terms(struct user *user)
{
    const struct plan *plan = &world.plan;
    redlock_lease_options *options = &user->options;
    int64_t ttl = user_draw_ttl();
    redlock_lease_options_init(options);
    options->fenced = plan->fenced;
    options->kind = draw_kind(plan);
    options->slots = options->kind == REDLOCK_KIND_SLOT ? world_slots() : 0;
    options->ttl_ms = ttl;
    options->watchdog = !draw_once_in(3) && plan->model == MODEL_NONE;
    if (draw_once_in(3))
        options->margin_ms = draw_between(0, ttl / 4);
    /* There and back takes at most 3 of the 8. */
    int64_t most = ttl - ttl * plan->drift_ppm / 1000000 - 4 - ms(8 * plan->far);
    if (most > 0 && draw_once_in(4))
        options->min_validity_ms = draw_between(0, most);
    int64_t least = rl_max(ttl / 2, options->min_validity_ms + ttl / 4);
    if (draw_once_in(4))
        options->max_hold_ms = draw_between(rl_max(least, options->margin_ms + 1), 4 * ttl);
}

static void want_resource(struct user *user)
{
    unsigned resources = world.plan.resources;
    unsigned resource = (unsigned)events_random(resources);
    while (world.phase == PHASE_CALM && world.wanted && !(world.wanted & 1U << resource))
        resource = (resource + 1) % resources;
    user->resources = 1U << resource;
    if (world.plan.kind == KIND_SET && !draw_once_in(3))
        user->resources |= (unsigned)events_random(UINT64_C(1) << resources);
}

void user_want(struct user *user)
{
    want_terms(user);
    want_retry(user);
    want_resource(user);
    user->joins_tail = world.plan.queues && user->options.wait_ms != 0 && draw_once_in(4);
    user->fences =
        world.plan.fenced && !world.plan.model && !world.plan.elects && draw_once_in(2)
            ? 2 + (unsigned)events_random(FENCES_MAX - 1)
            : 1;
    user->frees_inside = draw_once_in(2);
}

#define LONG_HOLD 4 /* TTLs: more than those for which a release is sent again */

void user_plan_hold(struct user *user)
{
    int64_t now = events_now(), longest = world.plan.ttl_min / 4;
    if (world.phase == PHASE_STORM && draw_once_in(3))
        longest = 3 * world.plan.ttl_max;
    if (longest < world.plan.near)
        longest = world.plan.near;
    bool is_long = world.plan.recovers && world.phase == PHASE_STORM && draw_once_in(2);
    int64_t hold = is_long
                       ? draw_between(world.plan.ttl_max, LONG_HOLD * world.plan.ttl_max)
                       : draw_span(world.plan.near, longest);
    user->phase = USER_HOLDING;
    user->extend_at = draw_once_in(3) ? now + draw_between(0, hold) : CLOCK_NEVER;
    switch (events_random(16)) {
    case 0:
    case 1: user->end = USER_DISOWNS; break;
    case 2: user->end = USER_FREES; break;
    case 3:
    case 4: user->end = user->options.watchdog ? USER_RELEASES : USER_LETS_EXPIRE; break;
    default: user->end = USER_RELEASES; break;
    }
    if (world.plan.model != MODEL_NONE) { /* they have no extensions, and tokens stay */
        user->extend_at = CLOCK_NEVER;
        user->end = user->end == USER_DISOWNS ? USER_RELEASES : user->end;
    }
    if (user->options.kind == REDLOCK_KIND_RECORD && world.phase == PHASE_STORM) {
        user->extend_at = now;
        user->end = draw_once_in(4) ? user->end : USER_DISOWNS;
    }
    if (user->end == USER_LETS_EXPIRE && world.phase == PHASE_END)
        user->end = USER_RELEASES;
    user->end_at = user->end == USER_LETS_EXPIRE ? CLOCK_NEVER : now + hold;
    user_plan(user);
}
