/*
 * The system clocks that deadlines use. None of them can be set.
 *
 * CLOCK_BOOTTIME counts the time that the machine was suspended. A time daemon slews it.
 * CLOCK_MONOTONIC_RAW is not slewed, and stops during a suspension. The suspended time is
 * CLOCK_BOOTTIME minus CLOCK_MONOTONIC, because both are slewed alike. The unslewed clock
 * is the raw clock plus the suspended time.
 *
 * A thread may be interrupted between two readings. At the start of a time span, a reading
 * must not be too late; at its end, not too early. So there is a function for each.
 */
#ifndef RL_SYSTEM_CLOCK_H
#define RL_SYSTEM_CLOCK_H

#include <stdint.h>

/*
 * At least the unslewed clock's value at the time of the call. `ret_boot`: CLOCK_BOOTTIME,
 * which is read last.
 */
int64_t rl_clock_unslewed_ns(int64_t *ret_boot);

struct rl_clocks {
    int64_t boot, unslewed;
};

/* A span starts: at most the clocks' values when this returns. */
struct rl_clocks rl_clocks_begin(void);

/*
 * A span ends: at least the clocks' values at the time of the call. If this thread read all
 * clocks here less than RL_CLOCK_GLANCE (us) ago, it reads only CLOCK_BOOTTIME; `unslewed`
 * is then up to 33 us too high.
 */
struct rl_clocks rl_clocks_end(void);

#endif
