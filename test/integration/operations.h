/*
 * Random operations on a Redis server: the commands of the kinds, and what else happens to
 * their keys.
 */
#ifndef TEST_OPERATIONS_H
#define TEST_OPERATIONS_H

#include "chance.h"
#include "core/kind.h"

#define LENGTH_MAX 300 /* of a value */

#define CHANNEL "!wake:live" /* to which somebody listens */

#define KAPPA    (5 * RL_SECOND) /* a fence farther ahead of the server's clock: AHEAD */
#define LATENESS RL_SECOND       /* and what was said longer ago: LATE */

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
    enum rl_text text;
    bool whole, is_fenced;     /* of a command */
    struct rl_subject subject; /* a ttl of 0: without expiry, and not a command */
    struct rl_command command; /* some of its words point into it */
    bool may_call;             /* it is about those who wait, too */
    char ttl[RL_DIGITS + 1], fence[RL_DIGITS + 1], queue_key[QUEUE_KEY_MAX];
};

/* Before the first is made. */
void operations_prepare(void);

/*
 * What it says of time is around the borders for a server that runs it at about `now`, and
 * what it says of fences is often one of a few, the same for all of one `era`; both in us.
 */
void operation_make(struct operation *operation, struct chance *chance, rl_time now,
                    rl_time era);

struct rl_word operation_word(const char *text);

/* The same text, of those that operations store; it lives on. */
struct rl_word operation_value(struct rl_word text);

/* The same for a place in a queue, and the key of that queue. */
struct rl_word operation_place(struct rl_word text);
struct rl_word operation_queue(struct operation *operation);

bool operation_is_same(struct rl_word a, struct rl_word b);

#endif
