/*
 * The delays that a client draws: a waiter's time of the next attempt. The replay draws
 * what the dump has.
 */
#include <string.h>

#include "core/retry.h"
#include "replay_parts.h"

static bool is_input(const struct line *event)
{
    return line_is_named(event, "reply") || line_is_named(event, "asked") ||
           line_is_named(event, "notified") || line_is_named(event, "subscribed") ||
           (line_is_named(event, "link") && !line_is(event, "by", "tick"));
}

/* The delay that is drawn now: it follows from the next event. */
static const struct line *next_delayed(void)
{
    for (size_t i = player.next; i < player.dump->event.count; i++) {
        if (line_is_named(player_event(i), "delayed"))
            return player_event(i);
        if (i > player.next && is_input(player_event(i)))
            return NULL;
    }
    return NULL;
}

#define RECHECK (2 * RL_SECOND) /* src/lease/waiting.c */

/* How long the lock that a waiter saw lasts, on a quorum; it waits at most RECHECK. */
static rl_time seen_wait(const struct line *delayed)
{
    int64_t pttl[RL_NODES_MAX], lease = line_number(delayed, "lease", 0), attempt = -1;
    int64_t quorum = line_number(&player.dump->client, "quorum", 1);
    memset(pttl, -1, sizeof(pttl));
    for (const struct line *event = delayed; event-- > player_event(0);) {
        int64_t node = line_number(event, "node", 0);
        if (!line_is_named(event, "reply") || line_number(event, "lease", 0) != lease)
            continue;
        attempt = attempt < 0 ? line_number(event, "attempt", 0) : attempt;
        if (attempt == line_number(event, "attempt", 0) && pttl[node] < 0)
            pttl[node] =
                line_is(event, "vote", "held") ? line_number(event, "pttl_ms", -1) : 0;
    }
    for (int64_t best = 0, least = 0;; least = best) {
        unsigned below = 0;
        best = INT64_MAX;
        for (unsigned i = 0; i < RL_NODES_MAX; i++) {
            below += pttl[i] >= 0 && pttl[i] <= least;
            if (pttl[i] > least && pttl[i] < best)
                best = pttl[i];
        }
        if (below >= quorum)
            return rl_min(least * RL_MS, RECHECK);
        if (best == INT64_MAX)
            return 0;
    }
}

#define JITTER (50 * RL_MS)

/* The longest delay of the retry policy after this attempt. */
static rl_time longest_retry(const struct line *reply)
{
    redlock_lease_options options;
    int64_t attempt = line_number(reply, "attempt", 1);
    replay_lease_options(line_number(reply, "lease", 0), &options);
    rl_time base = options.retry_base_ms * RL_MS, cap = options.retry_cap_ms * RL_MS;
    bool grows = options.retry == REDLOCK_RETRY_EXPONENTIAL;
    return grows ? rl_backoff(base, cap, (unsigned)attempt - 1) : base;
}

/* Then only the retry policy decides when the waiter tries again. */
bool replay_is_foreign(const struct line *reply)
{
    int64_t lease = line_number(reply, "lease", 0);
    const struct line *event = reply, *end = player_event(0) + player.dump->event.count;
    while (event < end &&
           !(line_is_named(event, "delayed") && line_number(event, "lease", 0) == lease))
        event++;
    if (event == end)
        return false;
    rl_time delay = line_number(event, "until", -1) - event->at;
    rl_time more = delay - seen_wait(event);
    return delay <= longest_retry(reply) && (more < 0 || more > JITTER);
}

uint64_t replay_jitter(void)
{
    const struct line *delayed = next_delayed();
    int64_t until = delayed ? line_number(delayed, "until", -1) : -1;
    if (until < 0)
        return 0;
    bool is_policy = player.drawn++ == 0;
    rl_time span = until - delayed->at - (is_policy ? 0 : seen_wait(delayed));
    return (uint64_t)rl_max(span, 0);
}
