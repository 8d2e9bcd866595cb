/* The clocks of the interface for threads. */
#ifndef RL_TIME_H
#define RL_TIME_H

#include <stdint.h>

#include "base/system_clock.h"

#define RL_FOREVER INT64_MAX

/* CLOCK_MONOTONIC in milliseconds, for waits. */
int64_t rl_now_ms(void);

/* `wait_ms` from now. RL_FOREVER if it is below 0 or more than 366 days. */
int64_t rl_in_ms(int64_t wait_ms);

/* The time left until `deadline`, at least 0; -1: the deadline is RL_FOREVER. */
int64_t rl_left_ms(int64_t deadline);

/*
 * A deadline on both clocks of system_clock.h, in us. The time left is the smaller of the
 * two remainders. Each clock counts suspension, and one of them is right throughout. So the
 * deadline is never late, however rarely it is checked. The client's own clock adds up the
 * larger step of each pair of readings. It may reach the deadline earlier; then the client
 * knows of it first.
 */
struct rl_until {
    int64_t boot, unslewed;
};

/* `now`: rl_clocks_begin(), read before `valid_ms` was. A deadline of 0 has passed. */
struct rl_until rl_until_after(struct rl_clocks now, int64_t valid_ms);
int64_t rl_until_left_ms(struct rl_until until);

#endif
