/*
 * The pace of a node's clock against ours. Each answer that tells its time says that the
 * node was ahead by something between `told - heard` and `told - sent` when it told that.
 * From then on that may change by the allowed rate, also while the answer waits to be
 * heard, as it does for long where we are stopped. What it changes beyond that adds up, and
 * wears off at that rate; when more is left than keys can bear, the clock was set, or runs
 * too fast or too slow.
 */
#ifndef RL_PACE_H
#define RL_PACE_H

#include "types.h"

struct rl_pace {
    bool known;
    rl_time low, high;   /* by how much it is ahead of us */
    rl_time at;          /* when that was known */
    rl_time told, since; /* what it told, and from when on just that */
    rl_time worn;        /* of what keys can bear */
};

/* A clock that tells the same for so long of ours stands still. */
#define RL_PACE_STILL (100 * RL_MS)

/*
 * Notes an answer; false: the clock cannot be trusted, and is judged by this one from now
 * on. `ppm`: the allowed rate, `slack`: how far it may be off beyond that.
 */
bool rl_pace_note(struct rl_pace *pace, rl_time sent, rl_time heard, rl_time told,
                  uint32_t ppm, rl_time slack);

#endif
