/*
 * What the client programs of chaos share: what to lock next, the history, and the resource
 * that compares fencing tokens.
 *
 * The environment: REDLOCK_NODES; CHAOS_NAME, which is the label of the client;
 * CHAOS_FOLDER; CHAOS_SEED; CHAOS_KINDS, what it locks; CHAOS_PAUSE_US,
 * between two turns of a lane, about. While CHAOS_FOLDER/pause exists, a client begins
 * nothing.
 *
 * The history of a client is FOLDER/NAME.history. history.py describes its lines.
 */
#ifndef CHAOS_CLIENT_H
#define CHAOS_CLIENT_H

#include "redlock/sync.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CHAOS_SET    3 /* keys */
#define CHAOS_ID     64
#define CHAOS_MAX_MS 10000 /* the longest TTL */
#define CHAOS_SLOTS  3

enum chaos_way {
    CHAOS_BRIEF,  /* held for some milliseconds */
    CHAOS_EXTEND, /* extended by the caller */
    CHAOS_LONG,   /* extended by the watchdog, for longer than the TTL */
    CHAOS_STALL,  /* held past the deadline, and then used */
    CHAOS_READ,   /* a writer becomes a reader */
};

/* One turn. */
struct chaos_plan {
    redlock_kind kind;
    bool fenced;
    unsigned slots;
    char name[CHAOS_SET][24];
    redlock_key key[CHAOS_SET];
    size_t keys;
    int64_t ttl_ms, wait_ms, hold_us;
    enum chaos_way way;
    /* what a line of the history has */
    char id[CHAOS_ID];
    int64_t begin;
    unsigned slot;
    int64_t fence;
    char token[REDLOCK_TOKEN_MAX + 1];
};

/* Reads the environment. */
void chaos_begin(redlock_options *options);
/* The nodes of REDLOCK_NODES. */
size_t chaos_nodes(const char *const **ret_uris);
/* SIGTERM came. */
bool chaos_ends(void);
bool chaos_pauses(void);
int64_t chaos_now_us(void);
unsigned chaos_draw(unsigned *seed, unsigned below);
unsigned chaos_seed(unsigned lane);
int64_t chaos_pause_us(unsigned *seed);
void chaos_fail(const char *what);

void chaos_choose(struct chaos_plan *plan, unsigned *seed);
/* A lock that nobody else wants: a plain one, or a fenced one. */
void chaos_probe(struct chaos_plan *plan, bool fenced);

/* Of the command of `redlock run`, which has the lock of these keys already. */
void chaos_job(struct chaos_plan *plan, const char *kind, char **keys);

/* Adds a line to the history. `until`: the deadline. */
void chaos_note(const struct chaos_plan *plan, const char *what, int64_t begin, int64_t end,
                const char *result, int64_t until);
/* The client is idle: told once, when all these nodes have greeted it. */
void chaos_note_idle(const redlock_node *node, size_t count, bool *told);
/* Appends a flight record to FOLDER/NAME.record. */
void chaos_keep_record(const char *why, const char *text);
void chaos_keep_sync_record(redlock_sync *sync, const char *why);

/* The lock is held until then, or longer; 0: it is not. */
int64_t chaos_deadline(int64_t (*valid_ms)(void *), void *arg);
/* Uses what the lock protects: `valid_ms` says for how long it is held, then. */
void chaos_use(const struct chaos_plan *plan, int64_t (*valid_ms)(void *), void *arg);

#ifdef __cplusplus
}
#endif

#endif
