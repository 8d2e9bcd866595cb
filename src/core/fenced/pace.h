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

/* What a reply that is not trusted shows. */
struct rl_pace_change {
    enum rl_clock_error error;
    rl_time after, until; /* when it happened: on our clock */
    rl_time least, most;  /* bounds of what the offset changed by, and the slack */
    rl_time size;         /* the sum that is not allowed */
};

/* Replies that agree with each other: since when, and how long the first of them took. */
struct rl_pace_agreement {
    rl_time since, width;
};

struct rl_pace {
    bool known;
    rl_time low, high;       /* bounds of the offset: how far it is ahead of us */
    rl_time at;              /* when the bounds were computed */
    rl_time reported, since; /* the last time it reported, and since when just that */
    rl_time excess;          /* the sum of the changes beyond the allowed rate */
    /* All replies agree since the first of them, and since the first of the quickest ones.
     */
    struct rl_pace_agreement agree, quick;
    rl_time sent;                 /* the request of the last of them */
    rl_time agreed_at;            /* the request of the last that agreed with little more */
    struct rl_pace_change change; /* after a reply that is not trusted */
};

/* A clock that reports the same time for this long by our clock stands still. */
#define RL_PACE_STILL (100 * RL_MS)

/* A client reads all nodes for the first time within this time. The first reply of each
   counts as so much earlier, so that the others can attest a change right after that. */
#define RL_PACE_FIRST RL_SECOND

/*
 * Records a reply. False: the clock cannot be trusted; later replies are compared with this
 * one. `ppm`: the allowed rate; `slack`: the largest allowed sum of changes beyond it.
 */
bool rl_pace_note(struct rl_pace *pace, rl_time sent, rl_time received, rl_time reported,
                  uint32_t ppm, rl_time slack);

/*
 * The reply that was recorded last, which took so long, attests that our own clock did not
 * cause an earlier change of another node's clock: had our clock changed so much, this node
 * would have seemed to change, too (safety.md, Clocks).
 */
bool rl_pace_attests(const struct rl_pace *pace, rl_time took,
                     const struct rl_pace_change *change);

#endif
