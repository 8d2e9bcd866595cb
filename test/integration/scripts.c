/* Servers that forget their scripts at any moment: SCRIPT FLUSH, and NOSCRIPT. */
#include <criterion/criterion.h>

#include "stage.h"

static void flush_scripts(struct stage *s)
{
    for (unsigned i = 0; i < s->servers.n; i++)
        servers_do(&s->servers, i, "SCRIPT FLUSH");
}

static redlock_lease_options quiet_options(void)
{
    redlock_lease_options options = stage_lease_options();
    options.watchdog = false;
    return options;
}

static void extend(struct stage *s, redlock_lease *lease)
{
    cr_assert_eq(stage_extend(s, lease, 0), REDLOCK_OK);
    stage_drain(s);
}

Test(scripts, flushed_between_operations)
{
    struct stage s;
    redlock_lease_options options = quiet_options();
    stage_open(&s, 5);
    for (int i = 0; i < 5; i++) {
        redlock_lease *lease = stage_hold(&s, "job", &options);
        stage_drain(&s);
        extend(&s, lease);
        flush_scripts(&s);
        extend(&s, lease);
        extend(&s, lease);
        flush_scripts(&s);
        cr_assert_eq(stage_release(&s, lease), REDLOCK_OK);
        redlock_lease_free(lease);
        stage_drain(&s);
        cr_assert_eq(servers_keys(&s.servers), 0);
    }
    for (unsigned i = 0; i < 5; i++)
        cr_assert(stage_is(s.client, i, "ready"), "NOSCRIPT is no fault of a node");
    stage_close(&s);
}

/* On one node only: the others decide, and that one is not left behind. */
Test(scripts, flushed_on_one_node)
{
    struct stage s;
    redlock_lease_options options = quiet_options();
    stage_open(&s, 5);
    redlock_lease *lease = stage_hold(&s, "job", &options);
    extend(&s, lease);
    servers_do(&s.servers, 2, "SCRIPT FLUSH");
    servers_do(&s.servers, 2, "PEXPIRE job 5000");
    extend(&s, lease);
    cr_assert_str_eq(stage_node(lease, 2)->verdict, "granted");
    cr_assert_gt(servers_number(&s.servers, 2, "PTTL job"), 5000);
    servers_do(&s.servers, 2, "SCRIPT FLUSH");
    cr_assert_eq(stage_release(&s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    stage_drain(&s);
    cr_assert_eq(servers_keys(&s.servers), 0);
    stage_close(&s);
}

/*
 * An extension by hash is refused, a release with its whole script overtakes what would be
 * said in its place: what was released must not be planted again.
 */
static void release_over_a_refused_extension(bool release_is_known)
{
    struct stage s;
    redlock_lease_options options = quiet_options();
    struct told extended = {0}, released = {0};
    stage_open(&s, 5);
    if (release_is_known) {
        redlock_lease_free(stage_hold(&s, "first", &options));
        stage_drain(&s);
    }
    redlock_lease *lease = stage_hold(&s, "job", &options);
    extend(&s, lease);
    flush_scripts(&s);
    cr_assert_eq(redlock_extend(lease, 0, told_note, &extended), REDLOCK_OK);
    cr_assert_eq(redlock_release(lease, told_note, &released), REDLOCK_OK);
    EXPECT_TOLD(&s, &released, REDLOCK_OK);
    EXPECT_TOLD(&s, &extended, REDLOCK_CANCELLED);
    redlock_lease_free(lease);
    stage_drain(&s);
    cr_assert_eq(servers_keys(&s.servers), 0, "planted after the release");
    stage_close(&s);
}

Test(scripts, released_over_a_refused_extension)
{
    release_over_a_refused_extension(false);
}

Test(scripts, released_by_hash_over_a_refused_extension)
{
    release_over_a_refused_extension(true);
}

Test(scripts, flushed_before_a_survey)
{
    struct stage s;
    redlock_lease_options options = quiet_options();
    stage_open(&s, 3);
    for (int i = 0; i < 3; i++) {
        struct told told;
        for (unsigned j = 0; j < 2; j++)
            servers_do(&s.servers, j, "SET job stranger");
        redlock_lease *lease = stage_acquire(&s, "job", &options, &told);
        cr_assert_eq(told.result.code, REDLOCK_TAKEN);
        cr_assert_str_eq(stage_node(lease, 0)->holder, "stranger");
        cr_assert_eq(servers_with(&s.servers, "job", NULL), 1);
        redlock_lease_free(lease);
        flush_scripts(&s);
    }
    stage_close(&s);
}

/* A server that comes back has forgotten the scripts: each connection begins anew. */
Test(scripts, restarted_server)
{
    redlock_options options = stage_options();
    options.durable = true; /* it need not wait */
    redlock_lease_options lease_options = quiet_options();
    struct stage s;
    stage_open_with(&s, 3, &options);
    redlock_lease *lease = stage_hold(&s, "job", &lease_options);
    extend(&s, lease);
    servers_restart(&s.servers, 0);
    LOOP_UNTIL(s.base, !stage_is(s.client, 0, "ready"));
    stage_settle(&s);
    extend(&s, lease);
    cr_assert_eq(servers_with(&s.servers, "job", redlock_token(lease)), 3);
    redlock_lease_free(lease);
    stage_drain(&s);
    cr_assert_eq(servers_keys(&s.servers), 0);
    stage_close(&s);
}
