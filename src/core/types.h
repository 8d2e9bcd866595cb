/* Types and helpers that every part of the library uses. */
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
typedef uint32_t rl_node_set;

#define RL_NODES_MAX 32

static inline rl_node_set rl_bit(unsigned node)
{
    return UINT32_C(1) << node;
}

static inline rl_node_set rl_all(unsigned n)
{
    return n >= RL_NODES_MAX ? UINT32_MAX : rl_bit(n) - 1;
}

/* Bit sums in parallel. The builtin would be a function call on targets that may lack the
   instruction. */
static inline unsigned rl_count(rl_node_set set)
{
    set -= set >> 1 & 0x55555555;
    set = (set & 0x33333333) + (set >> 2 & 0x33333333);
    return ((set + (set >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24;
}

/* The lowest node of a set; the set must not be empty. */
static inline unsigned rl_first(rl_node_set set)
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

/* If low > high, the result is at most high. */
static inline rl_time rl_clamp(rl_time value, rl_time low, rl_time high)
{
    return rl_min(rl_max(value, low), high);
}

/* a + b, at most RL_NEVER. Both must be 0 or positive. */
static inline rl_time rl_time_add_sat(rl_time a, rl_time b)
{
    return a > RL_NEVER - b ? RL_NEVER : a + b;
}

/* Functions that a healthy quorum never calls: the compiler moves them away from the hot
   code. */
#define RL_RARE __attribute__((cold, noinline))

/* Functions that each cycle calls and that have no array: a check of their stack frame
   finds nothing. */
#define RL_HOT __attribute__((no_stack_protector))

/* Bytes without a terminating NUL. */
struct rl_word {
    const char *text;
    size_t len;
};

/* The commands that a client sends to a node. A kind implements those that it needs. */
enum rl_command {
    RL_CMD_ACQUIRE,
    RL_CMD_RAISE_FENCE,
    RL_CMD_EXTEND,
    RL_CMD_RELEASE, /* removes the token, if it is there; enters or leaves the wait queue */
    RL_CMD_INSPECT,
    RL_CMD_BREAK,
    RL_CMD_OBSERVE,
    RL_CMD_NOTE_HOLD, /* not a round: how long a key was held */
    RL_CMD_LIST,      /* not a round: one page of a node's keys */
    RL_CMD_MARKER,    /* not a round: reads or sets a node's marker */
    RL_COMMANDS,
};

/* The vote of one node in one round. */
enum rl_vote {
    RL_VOTE_UNASKED,   /* the client sent it nothing */
    RL_VOTE_WAITING,   /* sent; no reply yet */
    RL_VOTE_GRANTED,   /* acquired, extended or released, as asked */
    RL_VOTE_HELD,      /* the key holds another value */
    RL_VOTE_GONE,      /* the key is missing */
    RL_VOTE_RECREATED, /* an extension found no key and stored the token again */
    RL_VOTE_ERROR,     /* refused with an error; nothing was changed */
    RL_VOTE_UNKNOWN,   /* may be done: a script failed midway, or the connection ended */
    RL_VOTE_SILENT,    /* no reply within the node timeout */
    RL_VOTE_ABSENT,    /* not ready when the round began: counts as a refusal */
};

#endif
