/* The commands of the server: which there are, and who may call them when. */
#ifndef SIM_REDIS_COMMAND_H
#define SIM_REDIS_COMMAND_H

#include "redis.h"

/* One command while it is executed. */
struct call {
    struct redis *redis;
    struct redis_link *link;
    const struct rl_word *word; /* its name is the first */
    size_t words;
    int64_t now; /* us; the same for all commands of a script, as from Redis 7.2 on */
    struct bytes *out;
    unsigned in_script; /* 0, or which redis.call() of the script it is */
};

/* Executes what a client sent. */
void command_execute(struct call *call);

/*
 * Executes what a script calls. NULL if it replied to `out`; otherwise why it was not
 * executed: "text", or "-CODE text".
 */
const char *command_execute_in_script(struct call *call);

/* The key that is word `i`, or NULL. */
static inline struct key *call_key(const struct call *call, size_t i)
{
    return keyspace_find(&call->redis->keyspace, call->link->db, call->word[i],
                         call->now / RL_MS);
}

#endif
