/*
 * The fixture of most tests: servers, a loop, a client, and the last report of a callback.
 */
#ifndef TEST_QUORUM_H
#define TEST_QUORUM_H

#include <string.h>

#include "loop.h"
#include "redlock/admin.h"
#include "servers.h"

struct quorum {
    struct servers servers;
    struct event_base *base;
    redlock_client *client;
};

/* The options of a test that does not set its own: long timeouts. */
redlock_options quorum_options(void);
redlock_lease_options quorum_lease_options(void);
redlock_lease_options quorum_quiet_options(void); /* without a watchdog */

/*
 * Starts n servers and a client that is ready on all of them. A later client does not wait
 * for slow nodes: an acquire does not send to a node that has not greeted.
 */
void quorum_open(struct quorum *quorum, unsigned n);
void quorum_open_with(struct quorum *quorum, unsigned n, const redlock_options *options);

/* The client has greeted no node yet. */
void quorum_open_fresh(struct quorum *quorum, unsigned n);
void quorum_open_fresh_with(struct quorum *quorum, unsigned n,
                            const redlock_options *options);

/* Another client of the same servers. */
redlock_client *quorum_client(struct quorum *quorum, const redlock_options *options);

/* Frees what still exists and ends the servers. */
void quorum_close(struct quorum *quorum);

/* Drains before, after which no key may exist. */
void quorum_close_empty(struct quorum *quorum);

/* --- reports --- */

struct reported {
    unsigned times;
    redlock_lease *lease;
    redlock_result result; /* the last */
};

void reported_note(redlock_lease *lease, const redlock_result *result, void *arg);

/* Makes `reported` note the loss of a lease with these options. */
void reported_on_lost(redlock_lease_options *options, struct reported *reported);

/* Runs the loop until the first report, and checks that its code is `expected`. */
#define EXPECT_REPORTED(quorum, reported, expected)                                        \
    do {                                                                                   \
        LOOP_UNTIL((quorum)->base, (reported)->times > 0);                                 \
        cr_assert_eq((reported)->times, 1);                                                \
        cr_assert_eq((reported)->result.code, expected, "told %s, not %s",                 \
                     redlock_code_name((reported)->result.code),                           \
                     redlock_code_name(expected));                                         \
    } while (0)

/* Starts to acquire. NULL options: the fixture's own. */
redlock_lease *quorum_start(struct quorum *quorum, const char *key,
                            const redlock_lease_options *options,
                            struct reported *reported);

/* Acquires and waits; returns the lease, whatever the result. */
redlock_lease *quorum_acquire(struct quorum *quorum, const char *key,
                              const redlock_lease_options *options,
                              struct reported *reported);

/* The lock must be held. */
redlock_lease *quorum_hold(struct quorum *quorum, const char *key,
                           const redlock_lease_options *options);

/* Releases or extends, and waits; returns the result. */
redlock_code quorum_release(struct quorum *quorum, redlock_lease *lease);
redlock_code quorum_extend(struct quorum *quorum, redlock_lease *lease, int64_t ttl_ms);

/* Runs until every reachable node has confirmed everything. */
void quorum_drain(struct quorum *quorum);

/* Frees the lease, and drains. */
void quorum_free_lease(struct quorum *quorum, redlock_lease *lease);

/* Drains, after which no key may exist. */
void quorum_expect_empty(struct quorum *quorum);

/* --- fenced locks --- */

redlock_lease_options quorum_fenced_options(void);
redlock_lease_options quorum_quiet_fenced_options(void); /* without a watchdog */

struct admitted {
    unsigned times;
    redlock_admitted result; /* the last; its text is copied to `text` */
    char text[256];
};

void admitted_note(redlock_client *client, const redlock_admitted *result, void *arg);

/* Admits and waits; returns the result. */
redlock_code quorum_admit(struct quorum *quorum, redlock_admission how, size_t node,
                          struct admitted *admitted);

/* Like quorum_open_with(), and admits the servers at once. */
void quorum_open_fenced(struct quorum *quorum, unsigned n, const redlock_options *options);

/* Holds a fenced lock without a watchdog. */
redlock_lease *quorum_hold_fenced(struct quorum *quorum, const char *key);

/* The fence that node i stores for the key, which must exist. */
int64_t quorum_stored_fence(struct quorum *quorum, unsigned i, const char *key);

/* A client knows the nodes' time to half a round trip, however slow the machine is. */
#define QUORUM_SLACK_US 60000000

/* The time of day of node i, us. */
int64_t quorum_time_us(struct quorum *quorum, unsigned i);

/*
 * Drains; only the markers and the fences of `keys` keys that were ever locked remain.
 */
void quorum_expect_fences(struct quorum *quorum, unsigned keys);

/* The member state of node i; valid until the next call. */
const redlock_node *quorum_member(const redlock_client *client, unsigned i);
bool quorum_member_is(const redlock_client *client, unsigned i, const char *fault);

/* --- nodes --- */

/* One node's reply in the last outcome, or the state of its connection; valid until the
   next call. */
const redlock_node *quorum_node(const redlock_lease *lease, unsigned i);
const redlock_node *quorum_link(const redlock_client *client, unsigned i);

/* Node i's connection is in this state. */
bool quorum_is(const redlock_client *client, unsigned i, const char *state);

/* Counts nodes with this verdict in the last outcome. */
unsigned quorum_count_votes(const redlock_lease *lease, const char *verdict);

/* Runs until all nodes are ready. */
void quorum_await_ready(struct quorum *quorum);

#endif
