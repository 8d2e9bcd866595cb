/*
 * The clocks of the system that deadlines go by: none of them is ever set.
 *
 * CLOCK_BOOTTIME counts the time that the machine was suspended, and is slewed by a time
 * daemon. CLOCK_MONOTONIC_RAW is not slewed, and stands still in a suspension. The time
 * suspended is known: CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC by just that, and both are
 * slewed alike. The raw clock plus the time suspended is called the unslewed clock here.
 *
 * A thread may be interrupted between two readings. Where a span begins, a clock must not
 * be read too late; where it ends, not too early. So there is a function for each.
 */
#ifndef RL_SYSTEM_CLOCK_H
#define RL_SYSTEM_CLOCK_H

#include <stdint.h>
#include <time.h>

int64_t rl_clock_ns(clockid_t id);

/* At least what the unslewed clock says when this is called. `ret_raw`: the raw one alone.
 */
int64_t rl_clock_unslewed_ns(int64_t *ret_raw);

/* In us. */
struct rl_clocks {
    int64_t boot, unslewed;
};

/* At most what they say when this returns: a span begins. */
struct rl_clocks rl_clocks_begin(void);

/*
 * At least what they say when this is called: a span ends. One clock is read if this thread
 * called it less than RL_CLOCK_GLANCE ago; `unslewed` is up to 33 us more then.
 */
struct rl_clocks rl_clocks_end(void);

#endif
