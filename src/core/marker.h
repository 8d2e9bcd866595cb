/*
 * The marker: what a node of the fenced lock says of itself, in one key that never expires.
 * It names the deployment, the node's seat in it, the process that it was made for, and
 * which incarnation of each seat is entitled to vote.
 *
 * Incarnations of a seat are ordered, and rosters merge seat by seat: the later one wins.
 * So whoever meets two rosters knows what both know, and no consensus is needed.
 */
#ifndef RL_MARKER_H
#define RL_MARKER_H

#include "types.h"

#define RL_RUN_ID 40 /* hex digits */
#define RL_NONCE  16 /* hex digits: a marker's text begins with them */

/* One life of a seat: from its quarantine to its next loss of memory, step or change. */
struct rl_incarnation {
    uint32_t generation; /* from 1; 0: none */
    uint64_t id;         /* random */
};

struct rl_roster {
    uint64_t deployment; /* its name, random; 0: none */
    int64_t max_ttl_ms;  /* the longest that any lock may have */
    uint8_t n;
    struct rl_incarnation seat[RL_NODES_MAX];
};

/* The process that a server is, and the history of its data. */
struct rl_process {
    char run_id[RL_RUN_ID + 1];
    char replid[RL_RUN_ID + 1]; /* master_replid: new after each failover */
};

struct rl_marker {
    uint64_t nonce; /* random, fresh with each write */
    bool sound;     /* else it is quarantined, and does not vote */
    uint8_t seat;
    struct rl_process process;
    struct rl_roster roster;
};

/* nonce, state, seat, deployment, max_ttl, two ids, and an incarnation for each seat */
#define RL_MARKER_MAX (17 + 7 + 3 + 17 + 20 + 2 * (RL_RUN_ID + 1) + RL_NODES_MAX * 28)

/* Returns the length; the text is not terminated. */
size_t rl_marker_write(const struct rl_marker *marker, char text[RL_MARKER_MAX]);

/* False: this is none, to the letter as rl_marker_write() would have it. */
bool rl_marker_read(struct rl_word text, struct rl_marker *ret_marker);

/* The text's first word alone. */
void rl_marker_nonce(uint64_t nonce, char text[RL_NONCE]);

static inline bool rl_same_incarnation(struct rl_incarnation a, struct rl_incarnation b)
{
    return a.generation == b.generation && a.id == b.id;
}

/* `a` came after `b`, to the seat of both. */
static inline bool rl_later_incarnation(struct rl_incarnation a, struct rl_incarnation b)
{
    return a.generation > b.generation || (a.generation == b.generation && a.id > b.id);
}

bool rl_same_process(const struct rl_process *a, const struct rl_process *b);

/* The incarnation that the marked server is. */
static inline struct rl_incarnation rl_marker_self(const struct rl_marker *marker)
{
    return marker->roster.seat[marker->seat];
}

/* Both are of one deployment: `roster` learns what the other knows. */
void rl_roster_merge(struct rl_roster *roster, const struct rl_roster *other);

#endif
