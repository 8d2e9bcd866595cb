/* A release is noted when it is asked for, and begins at the end of the pass. */
#include <criterion/criterion.h>

#include "stage.h"

/* Held by all five: whoever is told of that, in any callback. */
static redlock_lease *hold_everywhere(struct stage *s, const char *key,
                                      const redlock_lease_options *options)
{
    redlock_lease *lease = stage_hold(s, key, options);
    LOOP_UNTIL(s->base, servers_with(&s->servers, key, redlock_token(lease)) == 5);
    stage_drain(s);
    return lease;
}

Test(release, once_it_is_asked_for_nothing_is_held)
{
    struct stage s;
    struct told told = {0};
    stage_open(&s, 5);
    redlock_lease *lease = hold_everywhere(&s, "job", NULL);
    cr_assert_gt(redlock_valid_ms(lease), 0);
    cr_assert_eq(redlock_release(lease, told_note, &told), REDLOCK_OK);
    cr_assert_eq(told.times, 0, "never from inside the call");
    cr_assert_eq(redlock_valid_ms(lease), 0);
    cr_assert_eq(redlock_release(lease, told_note, &told), REDLOCK_NOT_HELD);
    cr_assert_eq(redlock_extend(lease, 0, told_note, &told), REDLOCK_NOT_HELD);
    redlock_disown(lease);
    redlock_cancel(lease);
    cr_assert_eq(servers_keys(&s.servers), 5);
    EXPECT_TOLD(&s, &told, REDLOCK_OK);
    stage_drain(&s);
    cr_assert_eq(servers_keys(&s.servers), 0);
    cr_assert_eq(told.times, 1);
    redlock_lease_free(lease);
    stage_close(&s);
}

Test(release, is_done_though_the_lease_is_freed_at_once)
{
    struct stage s;
    struct told told = {0};
    stage_open(&s, 5);
    redlock_lease *lease = hold_everywhere(&s, "job", NULL);
    cr_assert_eq(redlock_release(lease, told_note, &told), REDLOCK_OK);
    redlock_lease_free(lease);
    stage_drain(&s);
    cr_assert_eq(servers_keys(&s.servers), 0);
    cr_assert_eq(told.times, 0);
    stage_close(&s);
}

/* What was asked for is said before the connections are closed. */
Test(release, is_said_though_the_client_is_freed_at_once)
{
    for (unsigned early = 0; early < 2; early++) {
        struct stage s;
        struct told told = {0};
        stage_open(&s, 5);
        redlock_lease *lease = hold_everywhere(&s, "job", NULL);
        cr_assert_eq(redlock_release(lease, told_note, &told), REDLOCK_OK);
        if (early)
            redlock_lease_free(lease);
        redlock_client_free(s.client);
        cr_assert_eq(told.times, early ? 0 : 1);
        if (!early) {
            cr_assert_eq(told.result.code, REDLOCK_CANCELLED);
            redlock_lease_free(lease);
        }
        s.client = stage_client(&s, NULL);
        LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
        stage_close(&s);
    }
}

static void free_the_other(redlock_lease *lease, const redlock_result *result, void *arg)
{
    redlock_lease **other = arg;
    (void)lease;
    cr_assert_eq(result->code, REDLOCK_CANCELLED);
    redlock_lease_free(*other);
    *other = NULL;
}

/* In the callback of a lease that was made before it. */
Test(release, is_said_though_the_lease_is_freed_while_the_client_is)
{
    struct stage s;
    struct told told = {0};
    stage_open(&s, 5);
    redlock_lease *first = hold_everywhere(&s, "first", NULL);
    redlock_lease *second = hold_everywhere(&s, "second", NULL);
    cr_assert_eq(redlock_extend(first, 0, free_the_other, &second), REDLOCK_OK);
    cr_assert_eq(redlock_release(second, told_note, &told), REDLOCK_OK);
    redlock_client_free(s.client);
    cr_assert_null(second);
    cr_assert_eq(told.times, 0);
    s.client = stage_client(&s, NULL);
    LOOP_UNTIL(s.base, servers_keys(&s.servers) == 5);
    redlock_lease_free(first);
    stage_close(&s);
}

/* A lease that is taken over, by a client that has greeted nobody yet. */
Test(release, waits_for_the_nodes)
{
    struct stage s;
    struct told told = {0};
    char token[REDLOCK_TOKEN_MAX + 1];
    redlock_lease_options options = stage_lease_options();
    options.watchdog = false;
    stage_open(&s, 5);
    redlock_lease *lease = hold_everywhere(&s, "job", NULL), *taken;
    strcpy(token, redlock_token(lease));
    redlock_disown(lease);
    redlock_lease_free(lease);
    redlock_client_free(s.client);
    s.client = stage_client(&s, NULL);
    cr_assert_eq(redlock_adopt(s.client, "job", 3, token, 60000, &options, &taken),
                 REDLOCK_OK);
    cr_assert_gt(redlock_valid_ms(taken), 0);
    cr_assert_eq(redlock_release(taken, told_note, &told), REDLOCK_OK);
    cr_assert_eq(redlock_valid_ms(taken), 0);
    EXPECT_TOLD(&s, &told, REDLOCK_OK);
    stage_settle(&s); /* one that greets late is told late */
    stage_drain(&s);
    cr_assert_eq(servers_keys(&s.servers), 0);
    redlock_lease_free(taken);
    stage_close(&s);
}

/* The caller does something else before the loop runs again. */
Test(release, is_the_last_that_the_holder_is_told)
{
    struct stage s;
    struct told told = {0}, lost = {0};
    redlock_lease_options options = stage_lease_options();
    options.ttl_ms = 1000;
    options.on_lost = told_note;
    options.lost_arg = &lost;
    stage_open(&s, 3);
    redlock_lease *lease = stage_hold(&s, "job", &options);
    cr_assert_eq(redlock_release(lease, told_note, &told), REDLOCK_OK);
    loop_block(options.ttl_ms);
    LOOP_UNTIL(s.base, told.times > 0);
    cr_assert_eq(lost.times, 0);
    redlock_lease_free(lease);
    stage_close(&s);
}

struct pair {
    redlock_lease *other;
    struct told extended, released;
};

static void release_the_other(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct pair *pair = arg;
    (void)lease;
    cr_assert_eq(result->code, REDLOCK_OK);
    cr_assert_eq(redlock_release(pair->other, told_note, &pair->released), REDLOCK_OK);
}

/* The answers to both extensions are read at one go: the second comes after the release. */
Test(release, cancels_an_extension_that_is_answered)
{
    struct stage s;
    struct pair pair = {0};
    stage_open(&s, 1);
    redlock_lease *lease = stage_hold(&s, "first", NULL);
    pair.other = stage_hold(&s, "second", NULL);
    stage_drain(&s);
    servers_stop(&s.servers, 0);
    cr_assert_eq(redlock_extend(lease, 0, release_the_other, &pair), REDLOCK_OK);
    cr_assert_eq(redlock_extend(pair.other, 0, told_note, &pair.extended), REDLOCK_OK);
    loop_pass(s.base);
    servers_cont(&s.servers, 0);
    LOOP_UNTIL(s.base, pair.released.times > 0);
    cr_assert_eq(pair.extended.times, 1);
    cr_assert_eq(pair.extended.result.code, REDLOCK_CANCELLED);
    cr_assert_eq(pair.extended.result.valid_ms, 0);
    cr_assert_eq(pair.released.result.code, REDLOCK_OK);
    redlock_lease_free(lease);
    redlock_lease_free(pair.other);
    stage_close(&s);
}
