/*
 * The marker: a key on each node of a fenced lock that never expires. It stores the
 * deployment, the node's member index, the operator's promises, the process that it was
 * written for, and for each member index the incarnation that is entitled to vote.
 *
 * The incarnations of a member index are ordered. Rosters merge index by index: the newer
 * incarnation wins. A client that reads two rosters therefore has the information of both,
 * and no consensus is needed.
 */
#ifndef RL_MARKER_H
#define RL_MARKER_H

#include "types.h"

#define RL_RUN_ID 40 /* hex digits */
#define RL_NONCE  16 /* hex digits: the text of a marker begins with them */

/*
 * An incarnation of a member: it begins with a quarantine, and ends when the server loses
 * its memory, its clock is set, or another server takes over.
 */
struct rl_incarnation {
    uint32_t generation; /* from 1; 0: none */
    uint64_t id;         /* random */
};

struct rl_roster {
    uint64_t deployment; /* its random id; 0: none */
    int64_t max_ttl_ms;  /* the longest TTL of any lock */
    uint8_t n;
    struct rl_incarnation member[RL_NODES_MAX];
};

/*
 * Promises of the operator, one bit for each small letter (safety.md, Promises). A letter
 * that this release does not know is kept and has no effect. A capital letter restricts the
 * node: R, it is retired. A marker with another one is not valid for this release.
 */
#define RL_PROMISE(letter) (1u << ((letter) - 'a'))
#define RL_PROMISE_DURABLE RL_PROMISE('d') /* the node loses nothing */
#define RL_PROMISE_SOLE    RL_PROMISE('s') /* one server of a member index is alive */
#define RL_PROMISES        (RL_PROMISE_DURABLE | RL_PROMISE_SOLE)
#define RL_PROMISE_LETTERS 26

/* The process of a server, and the history of its data. */
struct rl_process {
    char run_id[RL_RUN_ID + 1];
    char replid[RL_RUN_ID + 1]; /* master_replid: new after each failover */
};

struct rl_marker {
    uint64_t nonce; /* random, new with each write */
    bool active;    /* false: it is quarantined and does not vote */
    bool retired;   /* another server has its place: it never votes */
    uint8_t index;
    uint32_t promises;
    struct rl_process process;
    struct rl_roster roster;
};

/* nonce, state, index, deployment, max_ttl, promises, two ids, one incarnation per member
 */
#define RL_MARKER_MAX                                                                      \
    (17 + 7 + 3 + 17 + 20 + RL_PROMISE_LETTERS + 1 + 2 * (RL_RUN_ID + 1) +                 \
     RL_NODES_MAX * 28)

/* Returns the length; writes no terminating NUL. */
size_t rl_marker_write(const struct rl_marker *marker, char text[RL_MARKER_MAX]);

/* False: this is not exactly a text that rl_marker_write() writes. */
bool rl_marker_read(struct rl_word text, struct rl_marker *ret_marker);

/* Writes only the nonce, the first word of the text. */
void rl_marker_nonce(uint64_t nonce, char text[RL_NONCE]);

static inline bool rl_incarnation_equal(struct rl_incarnation a, struct rl_incarnation b)
{
    return a.generation == b.generation && a.id == b.id;
}

/* Both belong to one member index; `a` is newer than `b`. */
static inline bool rl_incarnation_is_newer(struct rl_incarnation a, struct rl_incarnation b)
{
    return a.generation > b.generation || (a.generation == b.generation && a.id > b.id);
}

bool rl_process_equal(const struct rl_process *a, const struct rl_process *b);

/* The run_id is equal. Its data may have another history. */
bool rl_process_is_same_run(const struct rl_process *a, const struct rl_process *b);

/* The incarnation of the server that stores this marker. */
static inline struct rl_incarnation rl_marker_self(const struct rl_marker *marker)
{
    return marker->roster.member[marker->index];
}

/* Merges `other` into `roster`; both must be of the same deployment. */
void rl_roster_merge(struct rl_roster *roster, const struct rl_roster *other);

#endif
