/*
 * A desk at which stewards are worked by hand: some stores that each keep a marker, as
 * nodes do, and clerks who carry a steward's orders there and come back with what it says.
 * The test moves the clock. What must hold of every order and of every store is checked.
 */
#ifndef RL_TEST_STEWARD_DESK_H
#define RL_TEST_STEWARD_DESK_H

#include "core/admission.h"
#include "desk.h"

#define STORES_MAX 8
#define TEXT_MAX   (RL_MARKER_MAX + 1)

struct store {
    size_t len; /* 0: there is no marker */
    char text[TEXT_MAX];
    struct rl_process process;
    rl_time off;       /* of its clock */
    rl_time forgot_at; /* when it forgot its locks; 0: never */
    unsigned writes;
};

struct stores {
    unsigned n;
    rl_time now;
    bool at_once; /* operators say that nobody ever used these */
    uint64_t random;
    struct store store[STORES_MAX];
};

/* An order on its way: it is given, then done, then heard of. */
struct errand {
    bool out, done;
    struct rl_steward_order order;
    rl_time sent, told;
    struct rl_process process; /* of the store, when it was done */
    size_t expected_len, len;
    char expected[TEXT_MAX], text[TEXT_MAX];
};

struct clerk {
    struct stores *stores;
    struct rl_steward steward;
    unsigned at[STORES_MAX]; /* which store is behind an address */
    struct errand errand[STORES_MAX];
    unsigned orders, writes; /* that were ever given */
};

/* --- stores --- */

#define DESK_TTL 10000 /* ms: the longest that a lock of theirs may have */

/* At 1 s, and each is empty. */
void stores_init(struct stores *stores, unsigned n);

/* They have a deployment, in which each votes. */
void stores_found(struct stores *stores, uint64_t deployment);
void stores_init_founded(struct stores *stores, unsigned n);

void stores_put(struct stores *stores, unsigned i, const struct rl_marker *marker);
struct rl_marker stores_marker(const struct stores *stores, unsigned i);
bool stores_is_sound(const struct stores *stores, unsigned i);
rl_nodes stores_sound(const struct stores *stores);

void stores_forget(struct stores *stores, unsigned i); /* as FLUSHALL does */
void stores_restart(struct stores *stores, unsigned i, bool keeps_its_data);

/* --- clerks --- */

/* Of 1 % drift, with an active steward; nothing was greeted. */
void clerk_init(struct clerk *clerk, struct stores *stores);
void clerk_init_greeted(struct clerk *clerk, struct stores *stores);

void clerk_greet(struct clerk *clerk, unsigned node);
void clerk_greet_all(struct clerk *clerk);
void clerk_gone(struct clerk *clerk, unsigned node);
void clerk_greet_again(struct clerk *clerk, unsigned node);

/* Takes all orders that are due; the nodes that they are for. */
rl_nodes clerk_ask(struct clerk *clerk);
void clerk_do(struct clerk *clerk, unsigned node);
void clerk_hear(struct clerk *clerk, unsigned node);
void clerk_hear_marker(struct clerk *clerk, unsigned node);  /* only the first half, */
bool clerk_hear_history(struct clerk *clerk, unsigned node); /* and the second */
void clerk_refuse(struct clerk *clerk, unsigned node); /* it is not done, and heard of */

/* Takes orders, and does and hears them all, over and over: no time passes. */
void clerk_work(struct clerk *clerk);

/* Works for a while, whenever the stewards want to. */
void clerks_run(struct clerk *const *clerk, unsigned count, rl_time span);
void clerk_run(struct clerk *clerk, rl_time span);

enum rl_standing clerk_standing(const struct clerk *clerk, unsigned node);
rl_nodes clerk_sound(const struct clerk *clerk);

/* The command that it would send says the marker that the store has. */
bool clerk_may_have_a_grant(const struct clerk *clerk, unsigned node);

#endif
