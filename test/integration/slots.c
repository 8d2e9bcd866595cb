/* Semaphores on real servers: at most k hold one slot each. */
#include <criterion/criterion.h>

#include "quorum.h"

#define KEY "pool"

static redlock_lease_options options_of_slots(unsigned slots)
{
    redlock_lease_options options = quorum_quiet_options();
    options.kind = REDLOCK_KIND_SLOT;
    options.slots = slots;
    return options;
}

static void hold_all(struct quorum *s, const redlock_lease_options *options,
                     redlock_lease *lease[])
{
    unsigned used = 0;
    for (unsigned i = 0; i < options->slots; i++) {
        lease[i] = quorum_hold(s, KEY, options);
        unsigned slot = redlock_slot(lease[i]);
        cr_assert(slot >= 1 && slot <= options->slots);
        cr_assert_not(used >> slot & 1, "slot %u twice", slot);
        used |= 1U << slot;
    }
}

static void hold_and_release_all(const redlock_lease_options *options)
{
    struct quorum s;
    struct reported reported;
    redlock_lease *lease[8];
    char key[16];
    quorum_open_fenced(&s, 5, NULL);
    hold_all(&s, options, lease);
    quorum_drain(&s);
    for (unsigned i = 0; i < options->slots; i++) {
        snprintf(key, sizeof(key), KEY "!%u", redlock_slot(lease[i]));
        cr_assert_eq(servers_with(&s.servers, key, redlock_token(lease[i])), 5);
    }
    redlock_lease *more = quorum_acquire(&s, KEY, options, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_TAKEN);
    cr_assert_gt(reported.result.remaining_ms, 0);
    quorum_free_lease(&s, more);

    unsigned freed = redlock_slot(lease[1]);
    cr_assert_eq(quorum_release(&s, lease[1]), REDLOCK_OK);
    redlock_lease_free(lease[1]);
    quorum_drain(&s);
    lease[1] = quorum_hold(&s, KEY, options);
    cr_assert_eq(redlock_slot(lease[1]), freed, "no other one is free");
    for (unsigned i = 0; i < options->slots; i++) {
        cr_assert_eq(quorum_extend(&s, lease[i], 0), REDLOCK_OK);
        cr_assert_eq(quorum_release(&s, lease[i]), REDLOCK_OK);
        redlock_lease_free(lease[i]);
    }
    quorum_expect_fences(&s, options->fenced ? options->slots : 0);
    quorum_close(&s);
}

Test(slots, as_many_hold_as_there_are)
{
    redlock_lease_options options = options_of_slots(3);
    hold_and_release_all(&options);
}

Test(slots, the_same_with_fencing_tokens)
{
    redlock_lease_options options = quorum_quiet_fenced_options();
    options.kind = REDLOCK_KIND_SLOT;
    options.slots = 3;
    hold_and_release_all(&options);
}

Test(slots, a_release_gives_its_slot_to_a_waiter)
{
    struct quorum s;
    struct reported reported = {0};
    redlock_lease *lease[3], *waiter;
    redlock_lease_options options = options_of_slots(3);
    quorum_open(&s, 3);
    redlock_client *other = quorum_client(&s, NULL);
    hold_all(&s, &options, lease);
    options.wait_ms = REDLOCK_FOREVER;
    cr_assert_eq(redlock_acquire(other, KEY, strlen(KEY), &options, reported_note,
                                 &reported, &waiter),
                 REDLOCK_OK);
    LOOP_UNTIL(s.base, servers_with(&s.servers, KEY "!queue", NULL) == 0);
    cr_assert_eq(reported.times, 0);
    unsigned freed = redlock_slot(lease[2]);
    cr_assert_eq(quorum_release(&s, lease[2]), REDLOCK_OK);
    EXPECT_REPORTED(&s, &reported, REDLOCK_OK);
    cr_assert_eq(redlock_slot(waiter), freed);
    cr_assert_eq(quorum_release(&s, waiter), REDLOCK_OK);
    redlock_lease_free(waiter);
    for (unsigned i = 0; i < 3; i++)
        redlock_lease_free(lease[i]);
    quorum_drain(&s);
    redlock_client_free(other);
    quorum_close_empty(&s);
}

static bool all_queued(struct quorum *s)
{
    long long entries = 0, subscribers = 0;
    for (unsigned i = 0; i < s->servers.n; i++) {
        redisReply *reply = servers_run(&s->servers, i, "PUBSUB CHANNELS !wake:*");
        subscribers += (long long)reply->elements;
        freeReplyObject(reply);
        entries += servers_number(&s->servers, i, "ZCARD " KEY "!queue");
    }
    return entries >= s->servers.n && subscribers >= s->servers.n;
}

static int64_t until_all_queued(unsigned attempt, uint64_t random, void *arg)
{
    (void)attempt;
    (void)random;
    return all_queued(arg) ? 3600000 : 5;
}

/* Who has nothing but the key of the slot and the token: `gives_up` gets these. */
static void expect_waiter_is_notified(const redlock_lease_options *of,
                                      void (*gives_up)(struct quorum *s, const char *key,
                                                       const char *token))
{
    struct quorum s;
    struct reported reported = {0};
    char key[16];
    redlock_lease_options options = *of;
    quorum_open_fenced(&s, 3, NULL);
    redlock_lease *lease = quorum_hold(&s, KEY, &options), *waiter;
    redlock_client *other = quorum_client(&s, NULL);
    options.wait_ms = REDLOCK_FOREVER;
    options.retry = REDLOCK_RETRY_CUSTOM; /* only a notification wakes it */
    options.retry_fn = until_all_queued;
    options.retry_arg = &s;
    cr_assert_eq(redlock_acquire(other, KEY, strlen(KEY), &options, reported_note,
                                 &reported, &waiter),
                 REDLOCK_OK);
    LOOP_UNTIL(s.base, all_queued(&s));
    snprintf(key, sizeof(key), KEY "!%u", redlock_slot(lease));
    gives_up(&s, key, redlock_token(lease));
    EXPECT_REPORTED(&s, &reported, REDLOCK_OK);
    redlock_disown(lease);
    redlock_lease_free(lease);
    quorum_free_lease(&s, waiter);
    redlock_client_free(other);
    quorum_close(&s);
}

static void release_by_token(struct quorum *s, const char *key, const char *token)
{
    redlock_lease *adopted;
    redlock_lease_options options = quorum_quiet_options(); /* no word of slots */
    cr_assert_eq(redlock_adopt(s->client, key, strlen(key), token, REDLOCK_UNKNOWN,
                               &options, &adopted),
                 REDLOCK_OK);
    cr_assert_eq(quorum_release(s, adopted), REDLOCK_OK);
    redlock_lease_free(adopted);
}

static void break_it(struct quorum *s, const char *key, const char *token)
{
    (void)token;
    cr_assert_eq(redlock_break(s->client, key, strlen(key), NULL, NULL), REDLOCK_OK);
}

Test(slots, a_slot_that_is_released_by_its_token_notifies)
{
    redlock_lease_options options = options_of_slots(1);
    expect_waiter_is_notified(&options, release_by_token);
    options = quorum_quiet_fenced_options();
    options.kind = REDLOCK_KIND_SLOT;
    options.slots = 1;
    expect_waiter_is_notified(&options, release_by_token);
}

Test(slots, a_slot_that_is_broken_notifies)
{
    redlock_lease_options options = options_of_slots(1);
    expect_waiter_is_notified(&options, break_it);
    options = quorum_quiet_fenced_options();
    options.kind = REDLOCK_KIND_SLOT;
    options.slots = 1;
    expect_waiter_is_notified(&options, break_it);
}

/* All but the last one are taken: the nodes say which is free. */
Test(slots, the_only_free_one_of_many_is_found)
{
    struct quorum s;
    struct reported reported;
    redlock_lease_options options = options_of_slots(REDLOCK_SLOTS_MAX);
    redlock_lease *lease[2];
    quorum_open(&s, 1);
    for (unsigned slot = 1; slot < REDLOCK_SLOTS_MAX; slot++)
        servers_do(&s.servers, 0, "SET " KEY "!%u another PX 600000", slot);
    lease[0] = quorum_hold(&s, KEY, &options);
    cr_assert_eq(redlock_slot(lease[0]), REDLOCK_SLOTS_MAX);
    lease[1] = quorum_acquire(&s, KEY, &options, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_TAKEN);
    redlock_lease_free(lease[1]);
    redlock_lease_free(lease[0]);
    quorum_close(&s);
}

Test(slots, a_slot_excludes_a_lock_of_its_name_and_not_of_its_key)
{
    struct quorum s;
    struct reported reported;
    redlock_lease_options options = options_of_slots(1), plain = quorum_quiet_options();
    quorum_open(&s, 3);
    redlock_lease *slot = quorum_hold(&s, KEY, &options);
    redlock_lease *named = quorum_acquire(&s, KEY "!1", &plain, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_TAKEN);
    redlock_lease *key = quorum_hold(&s, KEY, &plain);
    redlock_lease_free(named);
    redlock_lease_free(key);
    quorum_free_lease(&s, slot);
    quorum_close_empty(&s);
}

Test(slots, adopted_by_its_token_and_key)
{
    struct quorum s;
    redlock_lease *adopted;
    char key[16];
    static const char *const bad[] = {KEY, KEY "!0", KEY "!4", KEY "!01", "!1"};
    redlock_lease_options options = options_of_slots(3);
    quorum_open(&s, 3);
    redlock_lease *lease = quorum_hold(&s, KEY, &options);
    snprintf(key, sizeof(key), KEY "!%u", redlock_slot(lease));
    quorum_drain(&s);
    cr_assert_eq(redlock_adopt(s.client, key, strlen(key), redlock_token(lease),
                               REDLOCK_UNKNOWN, &options, &adopted),
                 REDLOCK_OK);
    cr_assert_eq(redlock_slot(adopted), redlock_slot(lease));
    redlock_disown(lease);
    redlock_lease_free(lease);
    cr_assert_eq(quorum_extend(&s, adopted, 0), REDLOCK_OK);
    cr_assert_eq(quorum_release(&s, adopted), REDLOCK_OK);
    redlock_lease_free(adopted);
    for (size_t i = 0; i < 2 * sizeof(bad) / sizeof(bad[0]); i++) {
        const char *other = bad[i / 2];
        options.slots = i % 2 ? 3 : 0; /* 0: any number of slots */
        if (options.slots == 0 && strcmp(other, KEY "!4") == 0)
            continue;
        cr_assert_eq(redlock_adopt(s.client, other, strlen(other),
                                   "pSLOTefghijklmnopqrstuvwxyz234567", 0, &options,
                                   &adopted),
                     REDLOCK_BAD_KEY, "%s", other);
    }
    quorum_close_empty(&s);
}
