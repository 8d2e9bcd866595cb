/* What most tests need: servers, a loop, a client, and somebody who is told. */
#ifndef TEST_STAGE_H
#define TEST_STAGE_H

#include <string.h>

#include "loop.h"
#include "redlock/redlock.h"
#include "servers.h"

struct stage {
    struct servers servers;
    struct event_base *base;
    redlock_client *client;
};

/* What the options are where a test does not say otherwise: patient ones. */
redlock_options stage_options(void);
redlock_lease_options stage_lease_options(void);

/*
 * Starts n servers and a client of them, that is ready for all: those that greet late are
 * not waited for, and an acquire does not ask them.
 */
void stage_open(struct stage *stage, unsigned n);
void stage_open_with(struct stage *stage, unsigned n, const redlock_options *options);

/* The same; the client has greeted nobody yet. */
void stage_open_fresh(struct stage *stage, unsigned n);
void stage_open_fresh_with(struct stage *stage, unsigned n, const redlock_options *options);

/* Another client of the same servers. */
redlock_client *stage_client(struct stage *stage, const redlock_options *options);

/* Frees what is there still, and ends the servers. */
void stage_close(struct stage *stage);

/* --- being told --- */

struct told {
    unsigned times;
    redlock_lease *lease;
    redlock_result result; /* the last */
};

void told_note(redlock_lease *lease, const redlock_result *result, void *arg);

/* Runs the loop until it was told once, and sees that it was told this. */
#define EXPECT_TOLD(stage, told, expected)                                                 \
    do {                                                                                   \
        LOOP_UNTIL((stage)->base, (told)->times > 0);                                      \
        cr_assert_eq((told)->times, 1);                                                    \
        cr_assert_eq((told)->result.code, expected, "told %s, not %s",                     \
                     redlock_code_name((told)->result.code), redlock_code_name(expected)); \
    } while (0)

/* Acquires and waits; the lease, whatever came out. NULL options: the stage's own. */
redlock_lease *stage_acquire(struct stage *stage, const char *key,
                             const redlock_lease_options *options, struct told *told);

/* The same; it must be held. */
redlock_lease *stage_hold(struct stage *stage, const char *key,
                          const redlock_lease_options *options);

/* Release or extend, and wait: how that ended. */
redlock_code stage_release(struct stage *stage, redlock_lease *lease);
redlock_code stage_extend(struct stage *stage, redlock_lease *lease, int64_t ttl_ms);

/* Runs until nothing is unconfirmed on nodes that can be reached. */
void stage_drain(struct stage *stage);

/* --- fenced locks --- */

redlock_lease_options stage_fenced_options(void);

struct admitted {
    unsigned times;
    redlock_admitted result; /* the last; its text is kept in `text` */
    char text[256];
};

void admitted_note(redlock_client *client, const redlock_admitted *result, void *arg);

/* Admits and waits: how that ended. */
redlock_code stage_admit(struct stage *stage, redlock_admission how, size_t node,
                         struct admitted *admitted);

/* As stage_open_with(), and the servers are admitted at once. */
void stage_open_fenced(struct stage *stage, unsigned n, const redlock_options *options);

/* How node i stands as a member; until the next call. */
const redlock_node *stage_standing(const redlock_client *client, unsigned i);
bool stage_stands(const redlock_client *client, unsigned i, const char *fault);

/* --- nodes --- */

/* One node's explanation of the last outcome, or its connection; until the next call. */
const redlock_node *stage_node(const redlock_lease *lease, unsigned i);
const redlock_node *stage_link(const redlock_client *client, unsigned i);

/* Whether node i's connection is in this state. */
bool stage_is(const redlock_client *client, unsigned i, const char *state);

/* How many nodes say this of the last outcome. */
unsigned stage_verdicts(const redlock_lease *lease, const char *verdict);

/* Runs until all nodes are ready. */
void stage_settle(struct stage *stage);

#endif
