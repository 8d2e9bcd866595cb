/*
 * A model of what one Redis master stores and answers: the commands and scripts of the
 * kinds, and what else happens to their keys. test/integration/model.c replays random
 * operations on it and on a real server, and compares.
 */
#ifndef RL_SIM_STORE_H
#define RL_SIM_STORE_H

#include "core/kind.h"

#define STORE_KEYS 16

enum store_type { STORE_NOTHING, STORE_STRING, STORE_LIST, STORE_FENCE };

/* The texts are the caller's, and live as long as the store. */
struct store_entry {
    enum store_type type;
    struct rl_word key, value;
    int64_t expires; /* in ms of the server's clock; still there at that very one */
    int64_t fence;   /* STORE_FENCE: the number that its text says */
};

#define STORE_NO_EXPIRY INT64_MAX

/* In the queue beside a key; all of one queue expire at once. */
struct store_place {
    struct rl_word key, place;
    int64_t since; /* in us of the server's clock */
    int64_t expires;
};

#define STORE_PLACES 48

struct store {
    struct store_entry entry[STORE_KEYS];
    bool queueless; /* nobody may write to queues */
    unsigned places;
    struct store_place place[STORE_PLACES]; /* in no order */
    unsigned scripts; /* that the server knows by their hash: a bit for each rl_command */
    int64_t now;      /* of the last command */
};

/* Who is published to, and as the first or the second. */
struct store_call {
    struct rl_word place;
    unsigned rank;
};

/* What a command is answered; `reply` points into the same struct, which stays in place. */
struct store_reply {
    struct rl_reply reply;
    struct rl_reply item[4];
    char text[4 * 20];
    unsigned calls;
    struct store_call call[2];
};

/* Who has subscribed to a channel. */
struct store_ears {
    bool (*hears)(void *arg, struct rl_word channel);
    void *arg;
};

/*
 * The server runs a command of rl_kind_argv() at `now` us of its own clock; its TTL is
 * above 0. What has expired by then under its key is deleted. `ears`: NULL: nobody listens.
 */
void store_run(struct store *store, const struct rl_argv *command, rl_time now,
               const struct store_ears *ears, struct store_reply *ret_reply);

/* The entry of a key, or NULL if there is none now, or it has expired. */
const struct store_entry *store_find(const struct store *store, struct rl_word key,
                                     int64_t now);

/* Of those who wait for a key: the first, or the one behind `after`; NULL: none. */
const struct store_place *store_next_place(const struct store *store, struct rl_word key,
                                           const struct store_place *after);

/* Whether somebody listens to the channel of a place. */
bool store_hears(const struct store_ears *ears, struct rl_word place);

/* Somebody has a place there, as another store shows it; nobody has. */
void store_put_place(struct store *store, const struct store_place *place);
void store_drop_places(struct store *store, struct rl_word key);

/* What others do to a key: SET without NX, RPUSH to no key, DEL; an expiry, or none. */
void store_put(struct store *store, enum store_type type, struct rl_word key,
               struct rl_word value, int64_t expires);
void store_put_fence(struct store *store, struct rl_word key, int64_t fence,
                     int64_t expires);
void store_drop(struct store *store, struct rl_word key);

/* FLUSHALL; the scripts stay known. A restart forgets these, too. */
void store_flush(struct store *store);
void store_forget_scripts(struct store *store);

#endif
