/*
 * Another process may hold copies of the client's descriptors: after _Fork(), which does
 * not call what the library does after fork(). A connection that the client gives up or
 * closes ends all the same, for the server and for what the kernel has not delivered yet.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "quorum.h"

#define HUNG    0    /* it listens on TCP, too */
#define MANY    1500 /* times KEY_LEN: more than the socket of a stopped reader takes */
#define KEY_LEN 500

/* The child that holds them does nothing else; it dies with the test. */
static pid_t hold_copies(void)
{
    pid_t child = _Fork();
    cr_assert_geq(child, 0);
    if (child > 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
        pause();
}

static void end_copies(pid_t child)
{
    cr_assert_eq(kill(child, SIGKILL), 0);
    cr_assert_eq(waitpid(child, NULL, 0), child);
}

/* Three servers and a client, which gives up a node that hangs for a second. */
static void open_quorum(struct quorum *s, bool tcp)
{
    static char uri[64];
    redlock_options options = quorum_options();
    options.node_timeout_ms = 200;
    memset(s, 0, sizeof(*s));
    servers_start(&s->servers, 3, NULL);
    if (tcp) {
        servers_kill(&s->servers, HUNG);
        servers_choose_port(&s->servers, HUNG, "127.0.0.1");
        servers_launch(&s->servers, HUNG);
        snprintf(uri, sizeof(uri), "redis://127.0.0.1:%d", s->servers.server[HUNG].port);
        s->servers.uri[HUNG] = uri;
    }
    s->base = event_base_new();
    s->client = quorum_client(s, &options);
    quorum_await_ready(s);
}

static long long clients(struct quorum *s, unsigned i)
{
    return atoll(servers_info(&s->servers, i, "clients", "connected_clients"));
}

static void await_given_up(struct quorum *s)
{
    LOOP_UNTIL(s->base, quorum_is(s->client, HUNG, "down") ||
                            quorum_is(s->client, HUNG, "connecting") ||
                            quorum_is(s->client, HUNG, "greeting"));
}

/* --- connections that are given up --- */

/*
 * Only the test itself and the new connection are left, though a child holds the old one.
 */
static void give_up(bool tcp)
{
    struct quorum s;
    open_quorum(&s, tcp);
    servers_stop(&s.servers, HUNG);
    pid_t child = hold_copies();
    redlock_lease *lease = quorum_hold(&s, "job", NULL);
    await_given_up(&s);
    servers_cont(&s.servers, HUNG);
    LOOP_UNTIL(s.base, quorum_is(s.client, HUNG, "ready"));
    LOOP_UNTIL(s.base, clients(&s, HUNG) == 2);
    end_copies(child);
    redlock_lease_free(lease);
    LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
    quorum_close(&s);
}

Test(copies, a_tcp_connection_that_is_given_up_ends_for_the_server)
{
    give_up(true);
}

Test(copies, a_unix_connection_that_is_given_up_ends_for_the_server)
{
    give_up(false);
}

static long long sets(struct quorum *s)
{
    long long calls = 0;
    const char *stats = servers_info(&s->servers, HUNG, "commandstats", "cmdstat_set");
    if (stats)
        sscanf(stats, "calls=%lld", &calls);
    return calls;
}

static void count_told(redlock_lease *lease, const redlock_result *result, void *arg)
{
    (void)lease;
    (void)result;
    (*(unsigned *)arg)++;
}

/* Far more commands than the stopped server's socket takes: the kernel keeps the others. */
static void acquire_many(struct quorum *s, redlock_lease *lease[MANY], unsigned *reported)
{
    redlock_lease_options options = quorum_quiet_options();
    char key[KEY_LEN];
    memset(key, 'k', sizeof(key));
    for (unsigned i = 0; i < MANY; i++) {
        key[snprintf(key, sizeof(key), "%u", i)] = '-';
        cr_assert_eq(redlock_acquire(s->client, key, sizeof(key), &options, count_told,
                                     reported, &lease[i]),
                     REDLOCK_OK);
    }
}

/*
 * Rule 3: a SET that was not delivered when its connection was given up is never delivered.
 */
Test(copies, a_set_that_was_not_delivered_is_never_executed)
{
    struct quorum s;
    static redlock_lease *lease[MANY];
    unsigned reported = 0;
    open_quorum(&s, true);
    servers_stop(&s.servers, HUNG);
    acquire_many(&s, lease, &reported);
    event_base_loop(s.base, EVLOOP_NONBLOCK); /* all is written */
    pid_t child = hold_copies();
    LOOP_UNTIL(s.base, reported == MANY);
    await_given_up(&s);
    servers_cont(&s.servers, HUNG);
    LOOP_UNTIL(s.base, quorum_is(s.client, HUNG, "ready"));
    LOOP_UNTIL(s.base, clients(&s, HUNG) == 2 || sets(&s) == MANY);
    cr_assert_gt(sets(&s), 0, "the server's socket had taken some");
    cr_assert_lt(sets(&s), MANY, "all were executed after their connection was given up");
    end_copies(child);
    for (unsigned i = 0; i < MANY; i++)
        redlock_lease_free(lease[i]);
    LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
    quorum_close(&s);
}

/* --- connections that are closed --- */

/* How many of the servers have a client that is subscribed to releases. */
static unsigned listeners(struct quorum *s)
{
    unsigned count = 0;
    for (unsigned i = 0; i < s->servers.n; i++) {
        redisReply *reply = servers_run(&s->servers, i, "PUBSUB CHANNELS !wake:*");
        count += reply->elements > 0;
        freeReplyObject(reply);
    }
    return count;
}

/* Otherwise a release would count it as a waiter that was notified. */
Test(copies, a_subscriber_of_a_freed_client_receives_nothing)
{
    struct quorum s;
    struct reported reported = {0};
    redlock_lease_options options = quorum_lease_options();
    redlock_lease *waiter;
    options.wait_ms = REDLOCK_FOREVER;
    open_quorum(&s, true);
    redlock_client *other = quorum_client(&s, NULL);
    redlock_lease *holder = quorum_hold(&s, "job", NULL);
    cr_assert_eq(
        redlock_acquire(other, "job", 3, &options, reported_note, &reported, &waiter),
        REDLOCK_OK);
    LOOP_UNTIL(s.base, listeners(&s) == 3);
    pid_t child = hold_copies();
    redlock_lease_free(waiter);
    redlock_client_free(other);
    LOOP_UNTIL(s.base, listeners(&s) == 0);
    for (unsigned i = 0; i < 3; i++)
        LOOP_UNTIL(s.base, clients(&s, i) == 2);
    end_copies(child);
    quorum_free_lease(&s, holder);
    quorum_close(&s);
}
