/*
 * A round: one command fanned out to the nodes, and the count of their votes.
 *
 * Votes are sets of nodes, so a node is never counted twice. The quorum is that of the
 * configured number of nodes, whoever can be reached: a missing node is a refusal.
 * Source: https://redis.io/docs/latest/develop/use/patterns/distributed-locks/
 */
#ifndef RL_QUORUM_H
#define RL_QUORUM_H

#include "fault.h"

/* How one node answered; kept after the round, to explain it. */
struct rl_ballot {
    enum rl_vote vote : 8;
    enum rl_fault fault : 8;
    uint32_t latency; /* how long it took to answer, us */
    int32_t pttl;     /* of another's lock; ABSENT: until it may vote; ms, -1 unknown */
};

enum rl_result { RL_OPEN, RL_WON, RL_LOST };

struct rl_round {
    rl_time start;
    rl_time due; /* the first of those that are asked is out of time; or earlier */
    enum rl_text text;
    uint32_t seq;
    rl_nodes waiting; /* asked, and neither answered nor out of time */
    rl_nodes granted; /* whoever is in neither set counts against winning */
};

/* The least majority of n. */
unsigned rl_majority(unsigned n);

/* Won at q grants; lost when q can no longer be reached; else open. */
enum rl_result rl_round_result(const struct rl_round *round, unsigned q);

/* Counts a vote. A node that was given up as silent may still grant. */
void rl_round_count(struct rl_round *round, unsigned node, enum rl_vote vote);

/*
 * Until when a key that was set for `ttl` by a command sent at `start` surely excludes
 * others: start + ttl - drift, where drift = ttl * ppm / 1e6 (rounded up) + 2 ms, for the
 * nodes' clocks may run faster than ours and Redis expires by the millisecond.
 */
rl_time rl_valid_until(rl_time start, rl_time ttl, uint32_t drift_ppm);

/*
 * When others' keys will have left a quorum free, in ms from when they were looked at, if
 * nobody extends: the k-th smallest remaining TTL, where k more nodes are needed. 0: q
 * nodes are free already; -1: unknown.
 */
int64_t rl_free_in(const struct rl_ballot *ballot, unsigned n, unsigned q);

/* The same, where absent nodes count from when they may vote: when a quorum can be had. */
int64_t rl_quorum_in(const struct rl_ballot *ballot, unsigned n, unsigned q);

#define RL_DRIFT_FLOOR (2 * RL_MS)

#endif
