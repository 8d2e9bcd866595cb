/* The clocks of the interface for threads. */
#ifndef RL_SYNC_TIME_H
#define RL_SYNC_TIME_H

#include <stdint.h>

#define RL_FOREVER INT64_MAX

/* CLOCK_MONOTONIC, in milliseconds: for waits. */
int64_t rl_now_ms(void);

/* So long from now; below 0, or too long to be told from that: RL_FOREVER. */
int64_t rl_in_ms(int64_t wait_ms);

/* What is left of it: at least 0, and -1 of RL_FOREVER. */
int64_t rl_left_ms(int64_t deadline);

/*
 * A deadline on both of the clocks that the core goes by: what is left is the less of the
 * two. The core adds up the larger of their steps, and so it may be earlier, never later;
 * then it is the client that knows.
 */
struct rl_until {
    int64_t boot, raw; /* CLOCK_BOOTTIME, CLOCK_MONOTONIC_RAW, in us */
};

struct rl_until rl_until_now(void);
struct rl_until rl_until_after(struct rl_until now, int64_t valid_ms); /* 0: it is over */
int64_t rl_until_left_ms(struct rl_until until);

#endif
