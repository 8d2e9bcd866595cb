/*
 * A forked child that uses its copy of its parent's event loop: its parent's handles are
 * inert there, and the parent's connections stay as they are.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "quorum.h"
#include "redlock/stats.h"

/*
 * The child has no test framework: the number of its first failed check is its exit code.
 */
#define CHECK(number, condition)                                                           \
    if (!(condition))                                                                      \
    _exit(number)

/* The parent's handles, and what they reported. */
struct parent {
    struct quorum quorum;
    redlock_lease *held, *acquiring;
    redlock_observer *observer;
    struct reported lost, acquired;
    unsigned leaders;
};

static void note_leader(redlock_observer *observer, const redlock_leader *leader, void *arg)
{
    (void)observer;
    (void)leader;
    ++*(unsigned *)arg;
}

static void note_drained(redlock_client *client, bool clean, void *arg)
{
    (void)client;
    *(bool *)arg = clean;
}

/* --- the child --- */

static void await(struct event_base *base, const unsigned *times)
{
    while (*times == 0)
        CHECK(1, event_base_loop(base, EVLOOP_ONCE) == 0);
}

/* With a client of its own: it locks, releases and drains. */
static void lock_on_the_same_loop(const struct quorum *s)
{
    redlock_options options = quorum_options();
    redlock_lease_options lease_options = quorum_lease_options();
    struct reported reported = {0};
    redlock_client *client;
    redlock_lease *lease;
    bool drained = false;
    CHECK(2,
          redlock_client_new(s->base, s->servers.uri, 3, &options, &client) == REDLOCK_OK);
    CHECK(3, redlock_acquire(client, "own", 3, &lease_options, reported_note, &reported,
                             &lease) == REDLOCK_OK);
    await(s->base, &reported.times);
    CHECK(4, reported.result.code == REDLOCK_OK);
    redlock_lease_free(lease);
    CHECK(5, redlock_client_drain(client, 10000, note_drained, &drained) == REDLOCK_OK);
    while (!drained)
        CHECK(6, event_base_loop(s->base, EVLOOP_ONCE) == 0);
    redlock_client_free(client);
}

static void free_handles(struct parent *p)
{
    redlock_lease_free(p->held);
    redlock_lease_free(p->acquiring);
    redlock_observer_free(p->observer);
    redlock_client_free(p->quorum.client);
}

static void be_silent(const struct parent *p, const struct parent *before)
{
    CHECK(7, p->lost.times == 0 && p->acquired.times == 0);
    CHECK(8, p->leaders == before->leaders);
}

typedef void child_fn(struct parent *p);

static void reinit_and_free(struct parent *p)
{
    CHECK(10, event_reinit(p->quorum.base) == 0);
    free_handles(p);
    lock_on_the_same_loop(&p->quorum);
    event_base_free(p->quorum.base);
}

static void free_and_reinit(struct parent *p)
{
    free_handles(p);
    CHECK(11, event_reinit(p->quorum.base) == 0);
    lock_on_the_same_loop(&p->quorum);
    event_base_free(p->quorum.base);
}

static void reinit_and_keep(struct parent *p)
{
    struct parent before = *p;
    CHECK(12, event_reinit(p->quorum.base) == 0);
    lock_on_the_same_loop(&p->quorum);
    be_silent(p, &before);
    CHECK(13, redlock_valid_ms(p->held) == 0);
    free_handles(p);
    CHECK(14, event_base_loop(p->quorum.base, 0) == 1); /* no event is left */
    event_base_free(p->quorum.base);
}

static void free_the_loop(struct parent *p)
{
    free_handles(p);
    event_base_free(p->quorum.base);
}

/* libevent forbids it without event_reinit(). */
static void run_the_shared_loop(struct parent *p)
{
    struct parent before = *p;
    for (unsigned i = 0; i < 1000; i++)
        CHECK(15, event_base_loop(p->quorum.base, EVLOOP_ONCE | EVLOOP_NONBLOCK) == 0);
    be_silent(p, &before);
}

/* --- the parent --- */

/* Three nodes, the first one by its host's name, so that the loop has the resolver's
 * events. */
static void open_quorum(struct quorum *s)
{
    static char uri[64];
    servers_start(&s->servers, 3, NULL);
    servers_kill(&s->servers, 0);
    servers_choose_port(&s->servers, 0, "127.0.0.1 -::1");
    servers_launch(&s->servers, 0);
    snprintf(uri, sizeof(uri), "redis://localhost:%d", s->servers.server[0].port);
    s->servers.uri[0] = uri;
    s->base = event_base_new();
    s->client = quorum_client(s, NULL);
    quorum_await_ready(s);
    cr_assert_eq(quorum_admit(s, REDLOCK_ADMIT_AT_ONCE, 0, NULL), REDLOCK_OK);
}

/* A lock, an attempt whose replies arrive, and an observer. */
static void open_parent(struct parent *p)
{
    redlock_lease_options options = quorum_lease_options();
    memset(p, 0, sizeof(*p));
    open_quorum(&p->quorum);
    reported_on_lost(&options, &p->lost);
    p->held = quorum_hold(&p->quorum, "job", &options);
    cr_assert_eq(redlock_observe(p->quorum.client, "lead", 4, note_leader, &p->leaders,
                                 &p->observer),
                 REDLOCK_OK);
    LOOP_UNTIL(p->quorum.base, p->leaders > 0);
    quorum_drain(&p->quorum);
    p->acquiring = quorum_start(&p->quorum, "other", NULL, &p->acquired);
    event_base_loop(p->quorum.base, EVLOOP_ONCE); /* sends the commands */
}

/* Each node has replied to one greeting, and never gone. */
static void expect_first_connections(struct quorum *s)
{
    redlock_node_stats node[3];
    redlock_stats stats;
    redlock_stats_init(&stats);
    stats.nodes = node;
    stats.room = 3;
    cr_assert_eq(redlock_client_stats(s->client, &stats), REDLOCK_OK);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert(node[i].connected);
        cr_assert_eq(node[i].disconnects, 0);
    }
}

static void close_parent(struct parent *p)
{
    struct quorum *s = &p->quorum;
    EXPECT_REPORTED(s, &p->acquired, REDLOCK_OK);
    cr_assert_eq(quorum_extend(s, p->held, 0), REDLOCK_OK);
    cr_assert_eq(quorum_release(s, p->held), REDLOCK_OK);
    cr_assert_eq(quorum_release(s, p->acquiring), REDLOCK_OK);
    quorum_drain(s);
    cr_assert_eq(p->lost.times, 0);
    expect_first_connections(s);
    redlock_lease_free(p->held);
    redlock_lease_free(p->acquiring);
    redlock_observer_free(p->observer);
    quorum_close(s);
}

static void fork_child(child_fn *fn)
{
    struct parent p;
    open_parent(&p);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        fn(&p);
        _exit(0);
    }
    child_expect(child);
    close_parent(&p);
}

Test(fork_loop, child_that_reinits_the_loop_and_frees_its_client)
{
    fork_child(reinit_and_free);
}

Test(fork_loop, child_that_frees_its_client_and_reinits_the_loop)
{
    fork_child(free_and_reinit);
}

Test(fork_loop, child_that_reinits_the_loop_and_keeps_its_client)
{
    fork_child(reinit_and_keep);
}

Test(fork_loop, child_that_frees_the_loop)
{
    fork_child(free_the_loop);
}

Test(fork_loop, child_that_runs_the_shared_loop)
{
    fork_child(run_the_shared_loop);
}
