/*
 * Random operations on a Redis server: the commands of the kinds, and other changes to
 * their keys.
 */
#ifndef TEST_OPERATIONS_H
#define TEST_OPERATIONS_H

#include "core/kind.h"
#include "prng.h"

#define LENGTH_MAX 300 /* of a value */

#define CHANNEL "!wake:live" /* with a subscriber */

#define KAPPA    (5 * RL_SECOND) /* a fence further ahead of the server's clock: AHEAD */
#define LATENESS RL_SECOND       /* and a command that was sent longer ago: LATE */

enum act {
    ACT_COMMAND,
    ACT_SET,
    ACT_LIST,
    ACT_DELETE,
    ACT_FENCE, /* SET of a fence key */
    ACT_FLUSH,
    ACT_FORGET,
    ACT_PAUSE,
};

#define QUEUE_KEY_MAX 16

struct operation {
    enum act act;
    enum rl_command text;
    bool whole, is_fenced;       /* of a command */
    struct rl_command_args args; /* a ttl of 0: without expiry, and not a command */
    struct rl_argv command;      /* some of its arguments point into it */
    bool may_call;               /* it also concerns the waiters */
    char ttl[RL_DIGITS + 1], fence[RL_DIGITS + 1], queue_key[QUEUE_KEY_MAX];
};

/* Call before the first is created. */
void operations_prepare(void);

/*
 * Its times are around the limits for a server that runs it at about `now`, and its fences
 * are often one of a few, the same for all of one `era`; both in us.
 */
void operation_make(struct operation *operation, struct prng *prng, rl_time now,
                    rl_time era);

struct rl_word operation_word(const char *text);

/* Equal texts, among those that operations store; they live on. */
struct rl_word operation_value(struct rl_word text);

/* An entry in a queue, and the key of that queue. */
struct rl_word operation_place(struct rl_word text);
struct rl_word operation_queue(struct operation *operation);

bool operation_is_same(struct rl_word a, struct rl_word b);

#endif
