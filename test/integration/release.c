/* A release is recorded when it is requested, and begins at the end of the iteration. */
#include <criterion/criterion.h>

#include "quorum.h"

/* Held by all five, as every callback must see it. */
static redlock_lease *hold_everywhere(struct quorum *s, const char *key,
                                      const redlock_lease_options *options)
{
    redlock_lease *lease = quorum_hold(s, key, options);
    LOOP_UNTIL(s->base, servers_with(&s->servers, key, redlock_token(lease)) == 5);
    quorum_drain(s);
    return lease;
}

Test(release, after_the_call_nothing_is_held)
{
    struct quorum s;
    struct reported reported = {0};
    quorum_open(&s, 5);
    redlock_lease *lease = hold_everywhere(&s, "job", NULL);
    cr_assert_gt(redlock_valid_ms(lease), 0);
    cr_assert_eq(redlock_release(lease, reported_note, &reported), REDLOCK_OK);
    cr_assert_eq(reported.times, 0, "never from inside the call");
    cr_assert_eq(redlock_valid_ms(lease), 0);
    cr_assert_eq(redlock_release(lease, reported_note, &reported), REDLOCK_NOT_HELD);
    cr_assert_eq(redlock_extend(lease, 0, reported_note, &reported), REDLOCK_NOT_HELD);
    redlock_disown(lease);
    redlock_cancel(lease);
    cr_assert_eq(servers_keys(&s.servers), 5);
    EXPECT_REPORTED(&s, &reported, REDLOCK_OK);
    quorum_expect_empty(&s);
    cr_assert_eq(reported.times, 1);
    redlock_lease_free(lease);
    quorum_close(&s);
}

/* Queued commands are sent before the connections are closed. */
Test(release, is_sent_though_the_client_is_freed_at_once)
{
    for (unsigned early = 0; early < 2; early++) {
        struct quorum s;
        struct reported reported = {0};
        quorum_open(&s, 5);
        redlock_lease *lease = hold_everywhere(&s, "job", NULL);
        cr_assert_eq(redlock_release(lease, reported_note, &reported), REDLOCK_OK);
        if (early)
            redlock_lease_free(lease);
        redlock_client_free(s.client);
        cr_assert_eq(reported.times, early ? 0 : 1);
        if (!early) {
            cr_assert_eq(reported.result.code, REDLOCK_CANCELLED);
            redlock_lease_free(lease);
        }
        s.client = quorum_client(&s, NULL);
        LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
        quorum_close(&s);
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

/* In the callback of a lease that was created before it. */
Test(release, is_sent_though_the_lease_is_freed_while_the_client_is)
{
    struct quorum s;
    struct reported reported = {0};
    quorum_open(&s, 5);
    redlock_lease *first = hold_everywhere(&s, "first", NULL);
    redlock_lease *second = hold_everywhere(&s, "second", NULL);
    cr_assert_eq(redlock_extend(first, 0, free_the_other, &second), REDLOCK_OK);
    cr_assert_eq(redlock_release(second, reported_note, &reported), REDLOCK_OK);
    redlock_client_free(s.client);
    cr_assert_null(second);
    cr_assert_eq(reported.times, 0);
    s.client = quorum_client(&s, NULL);
    LOOP_UNTIL(s.base, servers_keys(&s.servers) == 5);
    redlock_lease_free(first);
    quorum_close(&s);
}

/* The caller does something else before the loop runs again. */
Test(release, is_the_last_callback_of_the_holder)
{
    struct quorum s;
    struct reported reported = {0}, lost = {0};
    redlock_lease_options options = quorum_lease_options();
    options.ttl_ms = 1000;
    reported_on_lost(&options, &lost);
    quorum_open(&s, 3);
    redlock_lease *lease = quorum_hold(&s, "job", &options);
    cr_assert_eq(redlock_release(lease, reported_note, &reported), REDLOCK_OK);
    loop_block(options.ttl_ms);
    LOOP_UNTIL(s.base, reported.times > 0);
    cr_assert_eq(lost.times, 0);
    redlock_lease_free(lease);
    quorum_close(&s);
}

struct pair {
    redlock_lease *other;
    struct reported extended, released;
};

static void release_the_other(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct pair *pair = arg;
    (void)lease;
    cr_assert_eq(result->code, REDLOCK_OK);
    cr_assert_eq(redlock_release(pair->other, reported_note, &pair->released), REDLOCK_OK);
}

/* The replies to both extensions are read at once: the second comes after the release. */
Test(release, cancels_an_extension_whose_replies_are_unread)
{
    struct quorum s;
    struct pair pair = {0};
    quorum_open(&s, 1);
    redlock_lease *lease = quorum_hold(&s, "first", NULL);
    pair.other = quorum_hold(&s, "second", NULL);
    quorum_drain(&s);
    servers_stop(&s.servers, 0);
    cr_assert_eq(redlock_extend(lease, 0, release_the_other, &pair), REDLOCK_OK);
    cr_assert_eq(redlock_extend(pair.other, 0, reported_note, &pair.extended), REDLOCK_OK);
    loop_pass(s.base);
    servers_cont(&s.servers, 0);
    LOOP_UNTIL(s.base, pair.released.times > 0);
    cr_assert_eq(pair.extended.times, 1);
    cr_assert_eq(pair.extended.result.code, REDLOCK_CANCELLED);
    cr_assert_eq(pair.extended.result.valid_ms, 0);
    cr_assert_eq(pair.released.result.code, REDLOCK_OK);
    redlock_lease_free(lease);
    redlock_lease_free(pair.other);
    quorum_close(&s);
}
