/* The words that every part of the library shares. */
#ifndef RL_TYPES_H
#define RL_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Microseconds on the client's own clock (clock.h); never a wall clock. */
typedef int64_t rl_time;

#define RL_NEVER  INT64_MAX
#define RL_MS     INT64_C(1000)
#define RL_SECOND (1000 * RL_MS)

/* A set of nodes: bit i stands for node i. */
typedef uint32_t rl_nodes;

#define RL_NODES_MAX 32

static inline rl_nodes rl_bit(unsigned node)
{
    return UINT32_C(1) << node;
}

static inline rl_nodes rl_all(unsigned n)
{
    return n >= RL_NODES_MAX ? UINT32_MAX : rl_bit(n) - 1;
}

/* By sums side by side: the builtin is a call where the instruction may be missing. */
static inline unsigned rl_count(rl_nodes set)
{
    set -= set >> 1 & 0x55555555;
    set = (set & 0x33333333) + (set >> 2 & 0x33333333);
    return ((set + (set >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24;
}

/* The lowest node of a set that is not empty. */
static inline unsigned rl_first(rl_nodes set)
{
    return (unsigned)__builtin_ctz(set);
}

static inline rl_time rl_min(rl_time a, rl_time b)
{
    return a < b ? a : b;
}

static inline rl_time rl_max(rl_time a, rl_time b)
{
    return a > b ? a : b;
}

/* Where the bounds cross, the upper one counts. */
static inline rl_time rl_clamp(rl_time value, rl_time low, rl_time high)
{
    return rl_min(rl_max(value, low), high);
}

/* a + b, where both are times or spans that are not negative; stops at RL_NEVER. */
static inline rl_time rl_later(rl_time a, rl_time b)
{
    return a > RL_NEVER - b ? RL_NEVER : a + b;
}

/* What a healthy quorum never calls: the compiler keeps it out of the way of the rest. */
#define RL_RARE __attribute__((cold))

/* Some bytes; nobody's NUL ends them. */
struct rl_word {
    const char *text;
    size_t len;
};

/* What a round can say to a node. A kind has a text for each that it needs. */
enum rl_text {
    RL_ACQUIRE,
    RL_SETTLE,
    RL_EXTEND,
    RL_RELEASE,
    RL_INSPECT,
    RL_BREAK,
    RL_MARK, /* no round: looks at a node's marker, or sets it */
    RL_TEXTS,
};

/* How one node answered one round. */
enum rl_vote {
    RL_VOTE_UNASKED, /* nothing was sent to it */
    RL_VOTE_WAITING, /* asked; no answer yet */
    RL_VOTE_GRANTED, /* acquired, extended or released, as asked */
    RL_VOTE_HELD,    /* another's value is there */
    RL_VOTE_GONE,    /* no value is there */
    RL_VOTE_PLANTED, /* an extension found no value and stored ours anew */
    RL_VOTE_ERROR,   /* refused by an error: nothing was done */
    RL_VOTE_UNKNOWN, /* perhaps done: half a script, or the connection ended first */
    RL_VOTE_SILENT,  /* no answer within its time */
    RL_VOTE_ABSENT,  /* not ready when the round began: a refusal at once */
};

#endif
