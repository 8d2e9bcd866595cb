/* Leases of several keys on real servers: all or nothing, on each node. */
#include <criterion/criterion.h>

#include "quorum.h"

#define KEY(text)                                                                          \
    {                                                                                      \
        (text), sizeof(text) - 1                                                           \
    }

static const redlock_key pear_apple_fig[] = {KEY("pear"), KEY("apple"), KEY("fig")};

static redlock_lease *start(struct quorum *s, const redlock_key *keys, size_t count,
                            const redlock_lease_options *options, struct reported *reported)
{
    redlock_lease *lease = NULL;
    *reported = (struct reported){0};
    cr_assert_eq(redlock_acquire_many(s->client, keys, count, options, reported_note,
                                      reported, &lease),
                 REDLOCK_OK, "%s", redlock_last_error()->text);
    return lease;
}

static redlock_lease *hold(struct quorum *s, const redlock_key *keys, size_t count,
                           const redlock_lease_options *options)
{
    struct reported reported;
    redlock_lease *lease = start(s, keys, count, options, &reported);
    EXPECT_REPORTED(s, &reported, REDLOCK_OK);
    return lease;
}

static void expect_at_all(struct quorum *s, const redlock_lease *lease, unsigned nodes)
{
    quorum_drain(s);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(
            servers_with(&s->servers, pear_apple_fig[i].bytes, redlock_token(lease)),
            nodes);
}

Test(many, acquired_extended_and_released)
{
    struct quorum s;
    quorum_open(&s, 5);
    redlock_lease *lease = hold(&s, pear_apple_fig, 3, NULL);
    cr_assert_eq(redlock_token(lease)[0], 'p');
    expect_at_all(&s, lease, 5);
    cr_assert_eq(quorum_extend(&s, lease, 50000), REDLOCK_OK);
    cr_assert_gt(redlock_valid_ms(lease), 40000);
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    quorum_close_empty(&s);
}

Test(many, one_taken_key_refuses_the_whole_set_and_is_named)
{
    struct quorum s;
    struct reported reported;
    redlock_lease_options options = quorum_quiet_options();
    quorum_open(&s, 3);
    redlock_lease *holder = quorum_hold(&s, "fig", &options);
    quorum_drain(&s);
    redlock_lease *lease = start(&s, pear_apple_fig, 3, &options, &reported);
    EXPECT_REPORTED(&s, &reported, REDLOCK_TAKEN);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(quorum_node(lease, i)->key, 2, "as the caller counts");
        cr_assert_str_eq(quorum_node(lease, i)->holder, "quorum");
    }
    quorum_free_lease(&s, lease);
    for (unsigned i = 0; i < 2; i++)
        cr_assert_eq(servers_with(&s.servers, pear_apple_fig[i].bytes, NULL), 3);
    quorum_free_lease(&s, holder);
    quorum_close_empty(&s);
}

Test(many, a_node_that_lost_one_key_lacks_the_lease)
{
    struct quorum s;
    struct reported lost = {0};
    redlock_lease_options options = quorum_quiet_options();
    reported_on_lost(&options, &lost);
    quorum_open(&s, 3);
    redlock_lease *lease = hold(&s, pear_apple_fig, 3, &options);
    quorum_drain(&s);
    for (unsigned i = 0; i < 2; i++) {
        freeReplyObject(servers_run(&s.servers, i, "DEL apple"));
        freeReplyObject(servers_run(&s.servers, i, "SET apple another PX 60000"));
    }
    cr_assert_neq(quorum_extend(&s, lease, 0), REDLOCK_OK);
    EXPECT_REPORTED(&s, &lost, REDLOCK_TAKEN);
    quorum_free_lease(&s, lease);
    quorum_close(&s);
}

Test(many, a_missing_key_is_stored_again)
{
    struct quorum s;
    redlock_lease_options options = quorum_quiet_options();
    quorum_open(&s, 3);
    redlock_lease *lease = hold(&s, pear_apple_fig, 3, &options);
    quorum_drain(&s);
    freeReplyObject(servers_run(&s.servers, 1, "DEL apple"));
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_OK);
    expect_at_all(&s, lease, 3);
    quorum_free_lease(&s, lease);
    quorum_close_empty(&s);
}

Test(many, a_key_of_another_type_is_held)
{
    struct quorum s;
    struct reported reported;
    redlock_lease_options options = quorum_quiet_options();
    quorum_open(&s, 3);
    for (unsigned i = 0; i < 3; i++)
        freeReplyObject(servers_run(&s.servers, i, "HSET apple field 1"));
    redlock_lease *lease = start(&s, pear_apple_fig, 3, &options, &reported);
    EXPECT_REPORTED(&s, &reported, REDLOCK_TAKEN);
    cr_assert_eq(quorum_node(lease, 0)->key, 1);
    cr_assert_str_eq(quorum_node(lease, 0)->holder, "field");
    quorum_free_lease(&s, lease);
    quorum_close(&s);
}

Test(many, is_adopted)
{
    struct quorum s;
    redlock_lease_options options = quorum_quiet_options();
    redlock_lease *adopted = NULL;
    quorum_open(&s, 3);
    redlock_lease *lease = hold(&s, pear_apple_fig, 3, &options);
    int64_t left = redlock_valid_ms(lease);
    cr_assert_eq(redlock_adopt_many(s.client, pear_apple_fig, 3, redlock_token(lease), left,
                                    &options, &adopted),
                 REDLOCK_OK);
    redlock_disown(lease);
    redlock_lease_free(lease);
    cr_assert_eq(quorum_extend(&s, adopted, 0), REDLOCK_OK);
    cr_assert_eq(quorum_release(&s, adopted), REDLOCK_OK);
    redlock_lease_free(adopted);
    quorum_close_empty(&s);
}

Test(many, the_fence_is_above_that_of_each_key)
{
    struct quorum s;
    redlock_lease_options options = quorum_quiet_fenced_options();
    quorum_open_fenced(&s, 3, NULL);
    int64_t last = 0;
    for (unsigned i = 0; i < 3; i++) {
        redlock_lease *single = quorum_hold_fenced(&s, pear_apple_fig[i].bytes);
        last = redlock_fence(single);
        quorum_free_lease(&s, single);
    }
    redlock_lease *lease = hold(&s, pear_apple_fig, 3, &options);
    cr_assert_gt(redlock_fence(lease), last);
    last = redlock_fence(lease);
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_OK);
    quorum_drain(&s);
    for (unsigned i = 0; i < 3; i++)
        for (unsigned node = 0; node < 3; node++)
            cr_assert_eq(quorum_stored_fence(&s, node, pear_apple_fig[i].bytes), last);
    quorum_free_lease(&s, lease);
    redlock_lease *single = quorum_hold_fenced(&s, "apple");
    cr_assert_gt(redlock_fence(single), last);
    quorum_free_lease(&s, single);
    quorum_expect_fences(&s, 3);
    quorum_close(&s);
}

Test(many, as_many_as_there_may_be)
{
    struct quorum s;
    char text[REDLOCK_KEYS_MAX][8];
    redlock_key keys[REDLOCK_KEYS_MAX];
    redlock_lease_options options = quorum_quiet_fenced_options();
    for (unsigned i = 0; i < REDLOCK_KEYS_MAX; i++)
        keys[i] = (redlock_key){text[i], (size_t)snprintf(text[i], 8, "key%u", 97 - i)};
    quorum_open_fenced(&s, 3, NULL);
    redlock_lease *lease = hold(&s, keys, REDLOCK_KEYS_MAX, &options);
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_OK);
    quorum_drain(&s);
    for (unsigned i = 0; i < REDLOCK_KEYS_MAX; i++)
        cr_assert_eq(servers_with(&s.servers, text[i], redlock_token(lease)), 3);
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    quorum_expect_fences(&s, REDLOCK_KEYS_MAX);
    quorum_close(&s);
}
