/*
 * The pace of a node's clock relative to ours. Each reply with the node's time shows that
 * the node was ahead of us by between `reported - received` and `reported - sent` when it
 * read its clock. After that the offset may change at the allowed rate, also while the
 * reply is unread: this can be long if our process is stopped. Changes beyond the allowed
 * rate are summed, and the sum decreases at that rate. If the sum exceeds what the TTL of
 * the keys allows, the node's clock was set, or runs too fast or too slow.
 */
#ifndef RL_PACE_H
#define RL_PACE_H

#include "core/types.h"

/* What is wrong with a clock. A change by more than an eighth of the time since the reply
   before is no rate: the clock was set. */
enum rl_clock_error { RL_CLOCK_SET, RL_CLOCK_STILL, RL_CLOCK_FAST, RL_CLOCK_SLOW };

struct rl_pace {
    bool known;
    rl_time low, high;         /* bounds of the offset: how far it is ahead of us */
    rl_time at;                /* when the bounds were computed */
    rl_time reported, since;   /* the last time it reported, and since when just that */
    rl_time excess;            /* the sum of the changes beyond the allowed rate */
    enum rl_clock_error error; /* after a reply that is not trusted */
};

/* A clock that reports the same time for this long by our clock stands still. */
#define RL_PACE_STILL (100 * RL_MS)

/*
 * Records a reply. False: the clock cannot be trusted; later replies are compared with this
 * one. `ppm`: the allowed rate; `slack`: the largest allowed sum of changes beyond it.
 */
bool rl_pace_note(struct rl_pace *pace, rl_time sent, rl_time received, rl_time reported,
                  uint32_t ppm, rl_time slack);

#endif
