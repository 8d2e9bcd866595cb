/*
 * A round: one command sent to many nodes, and the count of their votes.
 *
 * Votes are sets of nodes, so no node counts twice. The quorum is computed from the
 * configured number of nodes, not from the reachable ones: an unreachable node refuses.
 * Source: https://redis.io/docs/latest/develop/use/patterns/distributed-locks/
 */
#ifndef RL_QUORUM_H
#define RL_QUORUM_H

#include "fault.h"

/* The reply of one node; kept after the round, to explain its result. */
struct rl_ballot {
    enum rl_vote vote : 8;
    enum rl_fault fault : 8;
    uint8_t key;      /* of a set: which one holds another client's value */
    uint32_t latency; /* from the command to the reply, us */
    int32_t pttl; /* of another client's lock; ABSENT: until it may vote; ms, -1: unknown */
};

enum rl_round_state { RL_ROUND_OPEN, RL_ROUND_WON, RL_ROUND_LOST };

struct rl_round {
    rl_time start;
    rl_time due; /* when the first asked node times out, or earlier */
    enum rl_command command : 8;
    bool repairs; /* for a node that lacks the lease: if it recreates, one more follows */
    bool repair_due; /* such a node may vote, since the round began */
    uint32_t seq;
    rl_node_set waiting; /* asked; no reply and no timeout yet */
    rl_node_set granted; /* a node in neither set counts as a refusal */
};

/* The smallest majority of n. */
unsigned rl_majority(unsigned n);

/* WON at q grants; LOST when q grants are impossible; else OPEN. */
enum rl_round_state rl_round_evaluate(const struct rl_round *round, unsigned q);

/* Counts a vote. A node that timed out (SILENT) may still grant. */
void rl_round_count(struct rl_round *round, unsigned node, enum rl_vote vote);

/*
 * Until when a key with this TTL, set by a command that was sent at `start`, certainly
 * excludes other clients: start + ttl - drift, drift = ttl * ppm / 1e6 (rounded up) + 2 ms.
 * The reasons: the nodes' clocks may run faster than ours, and Redis expires in whole
 * milliseconds.
 */
rl_time rl_valid_until(rl_time start, rl_time ttl, uint32_t drift_ppm);

/*
 * When q nodes will be free of other clients' keys, if no client extends them: in ms from
 * the time of the replies. It is the k-th smallest remaining TTL if k more nodes are
 * needed. A node that granted counts as free, unless its reply to the release reported
 * another client's key. 0: q nodes are free now; -1: unknown.
 */
int64_t rl_free_in(const struct rl_ballot *ballot, unsigned n, unsigned q);

/*
 * Whether the replies to an inspection tell who has a key: q nodes replied, and q of them
 * have one value (`agreeing` of the `held`), or q have none, or the nodes that did not
 * reply cannot make a quorum of any value.
 */
bool rl_replies_decide(unsigned n, unsigned q, unsigned held, unsigned free,
                       unsigned agreeing);

/* Also counts absent nodes, from when they may vote. */
int64_t rl_quorum_in(const struct rl_ballot *ballot, unsigned n, unsigned q);

#define RL_DRIFT_FLOOR (2 * RL_MS)

#endif
