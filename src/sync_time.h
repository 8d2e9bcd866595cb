/* The clocks of the interface for threads. */
#ifndef RL_SYNC_TIME_H
#define RL_SYNC_TIME_H

#include <stdint.h>

#include "system_clock.h"

#define RL_FOREVER INT64_MAX

/* CLOCK_MONOTONIC, in milliseconds: for waits. */
int64_t rl_now_ms(void);

/* So long from now; below 0, or too long to be told from that: RL_FOREVER. */
int64_t rl_in_ms(int64_t wait_ms);

/* What is left of it: at least 0, and -1 of RL_FOREVER. */
int64_t rl_left_ms(int64_t deadline);

/*
 * A deadline on both clocks of system_clock.h, in us: what is left is the smaller of the
 * two remainders. Each clock counts suspension, and one of them is right throughout: so the
 * deadline is never late, however rarely anybody looks. The client's own clock adds up the
 * larger step of each pair of readings. It may come earlier, and then the client knows.
 */
struct rl_until {
    int64_t boot, unslewed;
};

/* `now`: rl_clocks_begin(), before the client said `valid_ms`. 0: it is over. */
struct rl_until rl_until_after(struct rl_clocks now, int64_t valid_ms);
int64_t rl_until_left_ms(struct rl_until until);

#endif
