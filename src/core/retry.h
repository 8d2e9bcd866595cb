/* When to try again after a failed attempt. */
#ifndef RL_RETRY_H
#define RL_RETRY_H

#include "types.h"

enum rl_retry_kind {
    RL_RETRY_EXPONENTIAL, /* uniform in [0, min(cap, base * 2^attempt)]: full jitter */
    RL_RETRY_FIXED,       /* `base`, always */
    RL_RETRY_NONE,
    RL_RETRY_CUSTOM, /* as `custom` returns */
};

/* The delay after attempt number `attempt` (from 0), or a negative one to give up. */
typedef rl_time rl_retry_custom(unsigned attempt, uint64_t random, void *arg);

struct rl_retry {
    enum rl_retry_kind kind;
    rl_time base, cap;
    rl_retry_custom *custom;
    void *arg;
};

/*
 * When the next attempt begins, at the latest at `give_up`: the last attempt. RL_NEVER: no
 * attempt, because the policy gives up or `give_up` is reached. Full jitter is as in
 * https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
 */
rl_time rl_retry_at(const struct rl_retry *retry, unsigned attempt, uint64_t random,
                    rl_time now, rl_time give_up);

/* min(cap, base * 2^attempt), without overflow. */
rl_time rl_backoff(rl_time base, rl_time cap, unsigned attempt);

/* A number in [0, span], from 64 random bits. */
rl_time rl_uniform(uint64_t random, rl_time span);

#endif
