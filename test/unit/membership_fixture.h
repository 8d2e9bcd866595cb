/*
 * Membership machines, driven by hand: some stores that each keep a marker, as nodes do,
 * and agents (clients) that execute their membership's commands on the stores and return
 * the replies. The test moves the clock. Every command and every store is checked for the
 * invariants.
 */
#ifndef RL_TEST_MEMBERSHIP_FIXTURE_H
#define RL_TEST_MEMBERSHIP_FIXTURE_H

#include "core/fenced/admission.h"
#include "lease_fixture.h"

#define STORES_MAX 8
#define TEXT_MAX   (RL_MARKER_MAX + 1)

struct store {
    size_t len; /* 0: there is no marker */
    char text[TEXT_MAX];
    struct rl_process process;
    bool refuted;      /* its greeting refutes the promise that it loses nothing */
    rl_time off;       /* of its clock */
    rl_time forgot_at; /* when it forgot its locks; 0: never */
    unsigned writes;
};

struct stores {
    unsigned n;
    rl_time now;
    bool at_once;      /* the operator says that these nodes held no locks before */
    uint32_t promises; /* in the markers of stores_bootstrap() */
    uint64_t random;
    struct store store[STORES_MAX];
};

/* A command under way: sent, then executed, then its reply is parsed. */
struct transit {
    bool out, done;
    struct rl_member_command command;
    rl_time sent, reported;
    struct rl_process process; /* of the store, when it was executed */
    size_t expected_len, len;
    char expected[TEXT_MAX], text[TEXT_MAX];
};

struct agent {
    struct stores *stores;
    struct rl_membership membership;
    unsigned at[STORES_MAX]; /* which store is behind an address */
    struct transit transit[STORES_MAX];
    unsigned commands, writes; /* that were ever sent */
};

/* --- stores --- */

#define FIXTURE_TTL 10000 /* ms: the longest TTL of a lock on these stores */

/* At 1 s; all stores are empty. */
void stores_init(struct stores *stores, unsigned n);

/* One more server, empty. */
void stores_start(struct stores *stores, unsigned i);

/* Makes them a deployment in which all vote. */
void stores_bootstrap(struct stores *stores, uint64_t deployment);
void stores_init_bootstrapped(struct stores *stores, unsigned n);

void stores_put(struct stores *stores, unsigned i, const struct rl_marker *marker);
struct rl_marker stores_marker(const struct stores *stores, unsigned i);
bool stores_is_active(const struct stores *stores, unsigned i);
rl_node_set stores_active(const struct stores *stores);

void stores_forget(struct stores *stores, unsigned i); /* as FLUSHALL does */
void stores_restart(struct stores *stores, unsigned i, bool keeps_its_data);

/* --- agents --- */

/* With 1 % drift and an active membership; no node is greeted. */
void agent_init(struct agent *agent, struct stores *stores);
void agent_init_greeted(struct agent *agent, struct stores *stores);

/* An agent of `n` stores that vote; it has settled. */
void agent_open(struct agent *agent, struct stores *stores, unsigned n);

void agent_greet(struct agent *agent, unsigned node);
void agent_greet_all(struct agent *agent);
void agent_disconnected(struct agent *agent, unsigned node);
void agent_greet_again(struct agent *agent, unsigned node);
void agent_greet_forgotten(struct agent *agent,
                           unsigned node); /* its store forgets before */

/* Takes all commands that are due; returns their nodes. */
rl_node_set agent_next_command(struct agent *agent);
void agent_do(struct agent *agent, unsigned node);
void agent_reply(struct agent *agent, unsigned node);
void agent_carry(struct agent *agent, unsigned node);         /* both */
void agent_reply_marker(struct agent *agent, unsigned node);  /* only the first half, */
bool agent_reply_history(struct agent *agent, unsigned node); /* and the second */
/* it is not executed, and its error reply is parsed */
void agent_refuse(struct agent *agent, unsigned node);

/*
 * Takes commands, executes them and parses the replies, until none is left: no time passes.
 */
void agent_work(struct agent *agent);

/* Works for a while, whenever the memberships request a step. */
void agents_run(struct agent *const *agent, unsigned count, rl_time span);
void agent_run(struct agent *agent, rl_time span);

enum rl_member_state agent_state(const struct agent *agent, unsigned node);
rl_node_set agent_active(const struct agent *agent);

/* The agent would send the nonce of the marker that the store has. */
bool agent_may_have_a_grant(const struct agent *agent, unsigned node);

#endif
