/* The parts of the store, for each other only. */
#ifndef RL_SIM_STORE_PARTS_H
#define RL_SIM_STORE_PARTS_H

#include "store.h"

/* A command that runs. */
struct call {
    struct store *store;
    struct store_entry *entry; /* what is there under its key, or NULL */
    struct rl_word key;
    const struct rl_word *argument;
    size_t arguments;
    const struct store_ears *ears;
    struct store_reply *ret;
    rl_time us; /* TIME */

    /* What guard.lua begins with. */
    struct rl_word fence_key, marker_key;
    int64_t stored, fence;
    bool ahead;
};

/* --- store.c --- */

bool store_same(struct rl_word a, struct rl_word b);

/* What is there under a key; what has expired goes for good, also if a clock steps back. */
struct store_entry *store_live(struct store *store, struct rl_word key);

/* --- store_run.c --- */

void store_answer(struct store_reply *ret, enum rl_reply_type type, const char *text,
                  size_t len);
#define ANSWER(ret, type, literal) store_answer(ret, type, literal, sizeof(literal) - 1)

/* Whether the resource is a string, or nothing is there; false: that was answered. */
bool store_is_readable(const struct call *call);

void store_answer_entry(const struct call *call); /* {value, pttl} */
int64_t store_whole_number(struct rl_word word);
int64_t store_number(struct rl_word word); /* of a TTL: above 0 */
void store_raise_expiry(struct call *call, struct rl_word ttl);

/* No script writes before it has looked at its keys. The server names it by its hash. */
#define WRONGTYPE                                                                          \
    "WRONGTYPE Operation against a key holding the wrong kind of value"                    \
    " script: 0000000000000000000000000000000000000000, on @user_script:1."

/* --- store_queue.c: who waits --- */

/* Takes a place, or leaves it if `waited` is empty; false: it could not. */
bool store_enter(struct call *call, struct rl_word place, struct rl_word waited);

/* Adds to what is there that no place could be taken. */
void store_answer_unplaced(const struct call *call);

/* The first who still listens is called; false: nobody waits, called or not. */
bool store_call_first(struct call *call);

struct rl_word store_channel(struct rl_word place);

/* --- store_fenced.c: the scripts of a fenced lock --- */

/* What all but the marker's begin with; false: it has answered with an error. */
bool store_guard(struct call *call);

void store_fenced_acquire(struct call *call);
void store_fenced_settle(struct call *call);
void store_fenced_extend(struct call *call);
void store_fenced_release(struct call *call);
void store_fenced_marker(struct call *call);

#endif
