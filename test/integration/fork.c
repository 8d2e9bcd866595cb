/* After a fork the child's handles are inert, and the parent's handles work as before. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "quorum.h"

static void must_not_be_called(redlock_lease *lease, const redlock_result *result,
                               void *arg)
{
    (void)lease;
    (void)result;
    (void)arg;
    _exit(99);
}

static void nor_this(redlock_client *client, bool clean, void *arg)
{
    (void)client;
    (void)clean;
    (void)arg;
    _exit(99);
}

static void nor_that(redlock_client *client, const redlock_inspection *inspection,
                     void *arg)
{
    (void)client;
    (void)inspection;
    (void)arg;
    _exit(99);
}

static void nor_such(redlock_client *client, const redlock_health_report *report, void *arg)
{
    (void)client;
    (void)report;
    (void)arg;
    _exit(99);
}

static void nor_of_these(redlock_client *client, const redlock_admitted *result, void *arg)
{
    (void)client;
    (void)result;
    (void)arg;
    _exit(99);
}

/*
 * The child has no test framework: the number of its first failed check is its exit code.
 */
#define CHECK(number, condition)                                                           \
    if (!(condition))                                                                      \
    _exit(number)

static void be_inert(redlock_client *client, redlock_lease *held, redlock_lease *acquiring)
{
    redlock_lease *none = NULL;
    redlock_node node[5];
    CHECK(1, redlock_acquire(client, "job", 3, NULL, must_not_be_called, NULL, &none) ==
                 REDLOCK_FORKED);
    CHECK(2, redlock_adopt(client, "job", 3, "token", 0, NULL, &none) == REDLOCK_FORKED);
    CHECK(3, none == NULL);
    CHECK(4, redlock_extend(held, 0, must_not_be_called, NULL) == REDLOCK_FORKED);
    CHECK(5, redlock_release(held, must_not_be_called, NULL) == REDLOCK_FORKED);
    CHECK(6, redlock_inspect(client, "job", 3, nor_that, NULL) == REDLOCK_FORKED);
    CHECK(7, redlock_break(client, "job", 3, nor_that, NULL) == REDLOCK_FORKED);
    CHECK(8, redlock_client_drain(client, 0, nor_this, NULL) == REDLOCK_FORKED);
    CHECK(9, redlock_valid_ms(held) == 0);
    CHECK(10, redlock_explain(held, node, 5) == 0);
    CHECK(11, redlock_check(client, 0, nor_such, NULL) == REDLOCK_FORKED);
    CHECK(12, redlock_admit(client, REDLOCK_ADMIT_READMIT, 0, nor_of_these, NULL) ==
                  REDLOCK_FORKED);
    redlock_cancel(acquiring);
    redlock_disown(held);
}

enum order { NOTHING, LEASES_FIRST, CLIENT_FIRST, CLIENT_ONLY };

static void fork_and_free(enum order order, bool fenced)
{
    struct quorum s;
    struct reported reported = {0};
    redlock_lease_options options = quorum_lease_options();
    redlock_lease *acquiring;
    options.fenced = fenced;
    if (fenced)
        quorum_open_fenced(&s, 3, NULL);
    else
        quorum_open(&s, 3);
    redlock_lease *held = quorum_hold(&s, "job", &options);
    LOOP_UNTIL(s.base, servers_with(&s.servers, "job", redlock_token(held)) == 3);
    quorum_drain(&s);
    cr_assert_eq(redlock_acquire(s.client, "other", 5, &options, reported_note, &reported,
                                 &acquiring),
                 REDLOCK_OK);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        be_inert(s.client, held, acquiring);
        if (order == CLIENT_FIRST || order == CLIENT_ONLY)
            redlock_client_free(s.client);
        if (order == LEASES_FIRST || order == CLIENT_FIRST) {
            redlock_lease_free(held);
            redlock_lease_free(acquiring);
        }
        if (order == LEASES_FIRST)
            redlock_client_free(s.client);
        _exit(0);
    }
    child_expect(child);
    cr_assert_eq(servers_with(&s.servers, "job", redlock_token(held)), 3);
    EXPECT_REPORTED(&s, &reported, REDLOCK_OK);
    cr_assert_gt(redlock_valid_ms(held), 0);
    cr_assert_eq(quorum_extend(&s, held, 0), REDLOCK_OK);
    cr_assert_eq(quorum_release(&s, held), REDLOCK_OK);
    cr_assert_eq(quorum_release(&s, acquiring), REDLOCK_OK);
    quorum_drain(&s);
    cr_assert_eq(servers_keys(&s.servers), fenced ? 9 : 0); /* markers, and two fences */
    for (unsigned i = 0; i < 3; i++)
        cr_assert(quorum_is(s.client, i, "ready"));
    redlock_lease_free(held);
    redlock_lease_free(acquiring);
    quorum_close(&s);
}

Test(fork, child_that_does_nothing)
{
    fork_and_free(NOTHING, false);
    fork_and_free(NOTHING, true);
}

Test(fork, child_that_frees_its_leases_first)
{
    fork_and_free(LEASES_FIRST, false);
    fork_and_free(LEASES_FIRST, true);
}

Test(fork, child_that_frees_its_client_first)
{
    fork_and_free(CLIENT_FIRST, false);
    fork_and_free(CLIENT_FIRST, true);
}

Test(fork, child_that_frees_its_client_only)
{
    fork_and_free(CLIENT_ONLY, false);
    fork_and_free(CLIENT_ONLY, true);
}

/* An admission that is under way belongs to the parent alone. */
Test(fork, child_of_a_parent_that_admits)
{
    struct quorum s;
    struct admitted admitted = {0};
    quorum_open(&s, 3);
    cr_assert_eq(
        redlock_admit(s.client, REDLOCK_ADMIT_AT_ONCE, 0, admitted_note, &admitted),
        REDLOCK_OK);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        CHECK(1, redlock_admit(s.client, REDLOCK_ADMIT_READMIT, 0, nor_of_these, NULL) ==
                     REDLOCK_FORKED);
        redlock_client_free(s.client);
        CHECK(2, admitted.times == 0);
        _exit(0);
    }
    child_expect(child);
    LOOP_UNTIL(s.base, admitted.times > 0);
    cr_assert_eq(admitted.result.code, REDLOCK_OK);
    cr_assert_eq(admitted.times, 1);
    cr_assert_eq(servers_keys(&s.servers), 3);
    quorum_close(&s);
}

/* --- forked in a callback --- */

struct forker {
    struct quorum *quorum;
    pid_t child;
    bool called;
};

/*
 * The child has ended before the parent continues: if both sent, the child would be first.
 */
static void fork_inside(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct forker *forker = arg;
    (void)lease;
    (void)result;
    forker->called = true;
    forker->child = fork();
    if (forker->child == 0)
        event_base_loopbreak(forker->quorum->base);
    else
        child_expect(forker->child);
}

/* The parent sends queued commands once, even if the child returns. */
Test(fork, child_that_returns_from_a_callback)
{
    struct quorum s;
    struct reported reported[2] = {{0}, {0}};
    struct forker forker = {.quorum = &s};
    redlock_lease_options options = quorum_lease_options();
    redlock_lease *lease[2], *cancelled;
    quorum_open(&s, 3);
    lease[0] = quorum_start(&s, "before", &options, &reported[0]);
    cr_assert_eq(
        redlock_acquire(s.client, "other", 5, &options, fork_inside, &forker, &cancelled),
        REDLOCK_OK);
    lease[1] = quorum_start(&s, "after", &options, &reported[1]);
    redlock_cancel(cancelled);
    LOOP_UNTIL(s.base, forker.called);
    if (forker.child == 0)
        _exit(0);
    for (unsigned i = 0; i < 2; i++)
        EXPECT_REPORTED(&s, &reported[i], REDLOCK_OK);
    quorum_drain(&s);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert(quorum_is(s.client, i, "ready"));
        const char *sets = servers_info(&s.servers, i, "commandstats", "cmdstat_set");
        cr_assert(sets && strncmp(sets, "calls=2,", 8) == 0, "%s", sets);
    }
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_eq(quorum_release(&s, lease[i]), REDLOCK_OK);
        redlock_lease_free(lease[i]);
    }
    redlock_lease_free(cancelled);
    quorum_close(&s);
}

/* The child may use its own client on its own loop. */
static void note_drained(redlock_client *client, bool clean, void *arg)
{
    (void)client;
    *(bool *)arg = clean;
}

/*
 * It drains before it frees its client: a server that is about to reply on a unix socket
 * when that is closed drops what it has not read yet, and the release with it.
 */
static void lock_in_the_child(struct quorum *s)
{
    struct reported reported = {0};
    redlock_lease *lease;
    redlock_options options = quorum_options();
    redlock_lease_options lease_options = quorum_lease_options();
    redlock_client *client;
    struct event_base *base = event_base_new();
    CHECK(1, base != NULL);
    CHECK(2, redlock_client_new(base, s->servers.uri, 3, &options, &client) == REDLOCK_OK);
    CHECK(3, redlock_acquire(client, "job", 3, &lease_options, reported_note, &reported,
                             &lease) == REDLOCK_OK);
    while (reported.times == 0)
        CHECK(4, event_base_loop(base, EVLOOP_ONCE) >= 0);
    CHECK(5, reported.result.code == REDLOCK_TAKEN);
    redlock_lease_free(lease);
    reported = (struct reported){0};
    CHECK(6, redlock_acquire(client, "own", 3, &lease_options, reported_note, &reported,
                             &lease) == REDLOCK_OK);
    while (reported.times == 0)
        CHECK(7, event_base_loop(base, EVLOOP_ONCE) >= 0);
    CHECK(8, reported.result.code == REDLOCK_OK);
    redlock_lease_free(lease);
    bool drained = false;
    CHECK(9, redlock_client_drain(client, 10000, note_drained, &drained) == REDLOCK_OK);
    while (!drained)
        CHECK(10, event_base_loop(base, EVLOOP_ONCE) >= 0);
    redlock_client_free(client);
    event_base_free(base);
    redlock_client_free(s->client);
    _exit(0);
}

Test(fork, child_with_its_own_client)
{
    struct quorum s;
    quorum_open(&s, 3);
    redlock_lease *held = quorum_hold(&s, "job", NULL);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0)
        lock_in_the_child(&s);
    child_expect(child);
    LOOP_UNTIL(s.base, servers_with(&s.servers, "own", NULL) == 3);
    cr_assert_eq(quorum_extend(&s, held, 0), REDLOCK_OK);
    redlock_lease_free(held);
    quorum_close_empty(&s);
}

/* Tokens come from the kernel: a parent and its copy never create the same token. */
Test(fork, tokens_differ)
{
    struct quorum s;
    quorum_open(&s, 1);
    int fd[2];
    char theirs[REDLOCK_TOKEN_MAX + 1] = "";
    cr_assert_eq(pipe(fd), 0);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        struct reported reported = {0};
        redlock_lease *lease;
        redlock_client *client;
        redlock_lease_options options = quorum_lease_options();
        struct event_base *base = event_base_new();
        CHECK(1, redlock_client_new(base, s.servers.uri, 1, NULL, &client) == REDLOCK_OK);
        CHECK(2, redlock_acquire(client, "child", 5, &options, reported_note, &reported,
                                 &lease) == REDLOCK_OK);
        while (reported.times == 0)
            event_base_loop(base, EVLOOP_ONCE);
        const char *token = redlock_token(lease);
        CHECK(3, write(fd[1], token, strlen(token)) > 0);
        _exit(0);
    }
    child_expect(child);
    cr_assert_gt(read(fd[0], theirs, sizeof(theirs) - 1), 0);
    redlock_lease *lease = quorum_hold(&s, "parent", NULL);
    cr_assert_neq(strncmp(theirs, redlock_token(lease), 33), 0);
    redlock_lease_free(lease);
    close(fd[0]);
    close(fd[1]);
    quorum_close(&s);
}
