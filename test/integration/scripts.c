/* Servers that lose their scripts at any moment: SCRIPT FLUSH, and NOSCRIPT. */
#include <criterion/criterion.h>

#include "quorum.h"

static void extend(struct quorum *s, redlock_lease *lease)
{
    cr_assert_eq(quorum_extend(s, lease, 0), REDLOCK_OK);
    quorum_drain(s);
}

Test(scripts, flushed_between_operations)
{
    struct quorum s;
    redlock_lease_options options = quorum_quiet_options();
    quorum_open(&s, 5);
    for (int i = 0; i < 5; i++) {
        redlock_lease *lease = quorum_hold(&s, "job", &options);
        quorum_drain(&s);
        extend(&s, lease);
        servers_do_first(&s.servers, s.servers.n, "SCRIPT FLUSH");
        extend(&s, lease);
        extend(&s, lease);
        servers_do_first(&s.servers, s.servers.n, "SCRIPT FLUSH");
        cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
        redlock_lease_free(lease);
        quorum_expect_empty(&s);
    }
    for (unsigned i = 0; i < 5; i++)
        cr_assert(quorum_is(s.client, i, "ready"), "NOSCRIPT is no fault of a node");
    quorum_close(&s);
}

/* On one node only: the others decide, and that node gets the script again. */
Test(scripts, flushed_on_one_node)
{
    struct quorum s;
    redlock_lease_options options = quorum_quiet_options();
    quorum_open(&s, 5);
    redlock_lease *lease = quorum_hold(&s, "job", &options);
    extend(&s, lease);
    servers_do(&s.servers, 2, "SCRIPT FLUSH");
    servers_do(&s.servers, 2, "PEXPIRE job 5000");
    extend(&s, lease);
    cr_assert_eq(quorum_node(lease, 2)->verdict, REDLOCK_VERDICT_GRANTED);
    cr_assert_gt(servers_number(&s.servers, 2, "PTTL job"), 5000);
    servers_do(&s.servers, 2, "SCRIPT FLUSH");
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    quorum_close_empty(&s);
}

/*
 * An extension by hash is refused; a release with its full script overtakes the extension
 * that would be sent again: a released key must not be recreated.
 */
static void release_over_a_refused_extension(bool release_is_known)
{
    struct quorum s;
    redlock_lease_options options = quorum_quiet_options();
    struct reported extended = {0}, released = {0};
    quorum_open(&s, 5);
    if (release_is_known) {
        quorum_free_lease(&s, quorum_hold(&s, "first", &options));
    }
    redlock_lease *lease = quorum_hold(&s, "job", &options);
    extend(&s, lease);
    servers_do_first(&s.servers, s.servers.n, "SCRIPT FLUSH");
    cr_assert_eq(redlock_extend(lease, 0, reported_note, &extended), REDLOCK_OK);
    cr_assert_eq(redlock_release(lease, reported_note, &released), REDLOCK_OK);
    EXPECT_REPORTED(&s, &released, REDLOCK_OK);
    EXPECT_REPORTED(&s, &extended, REDLOCK_CANCELLED);
    quorum_free_lease(&s, lease);
    cr_assert_eq(servers_keys(&s.servers), 0, "recreated after the release");
    quorum_close(&s);
}

Test(scripts, released_over_a_refused_extension)
{
    release_over_a_refused_extension(false);
}

Test(scripts, released_by_hash_over_a_refused_extension)
{
    release_over_a_refused_extension(true);
}

Test(scripts, flushed_before_an_inspection)
{
    struct quorum s;
    redlock_lease_options options = quorum_quiet_options();
    quorum_open(&s, 3);
    for (int i = 0; i < 3; i++) {
        struct reported reported;
        for (unsigned j = 0; j < 2; j++)
            servers_do(&s.servers, j, "SET job stranger");
        redlock_lease *lease = quorum_acquire(&s, "job", &options, &reported);
        cr_assert_eq(reported.result.code, REDLOCK_TAKEN);
        cr_assert_str_eq(quorum_node(lease, 0)->holder, "stranger");
        cr_assert_eq(servers_with(&s.servers, "job", NULL), 1);
        redlock_lease_free(lease);
        servers_do_first(&s.servers, s.servers.n, "SCRIPT FLUSH");
    }
    quorum_close(&s);
}

/* A server that restarts has no scripts: each connection starts without known scripts. */
Test(scripts, restarted_server)
{
    redlock_options options = quorum_options();
    options.durable = true; /* it need not wait */
    redlock_lease_options lease_options = quorum_quiet_options();
    struct quorum s;
    quorum_open_with(&s, 3, &options);
    redlock_lease *lease = quorum_hold(&s, "job", &lease_options);
    extend(&s, lease);
    servers_restart(&s.servers, 0);
    LOOP_UNTIL(s.base, !quorum_is(s.client, 0, "ready"));
    quorum_await_ready(&s);
    extend(&s, lease);
    cr_assert_eq(servers_with(&s.servers, "job", redlock_token(lease)), 3);
    redlock_lease_free(lease);
    quorum_close_empty(&s);
}
