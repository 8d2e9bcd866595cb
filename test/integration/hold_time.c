/* How long a key was held lately: redlock_hold_time() and redlock_note_hold_time(). */
#include <criterion/criterion.h>

#include "quorum.h"

struct seen {
    unsigned times;
    int64_t longest_ms;
};

static void note(redlock_client *client, int64_t longest_ms, void *arg)
{
    struct seen *seen = arg;
    (void)client;
    seen->times++;
    seen->longest_ms = longest_ms;
}

static int64_t ask_of(struct quorum *s, const char *key, size_t len)
{
    struct seen seen = {0};
    cr_assert_eq(redlock_hold_time(s->client, key, len, note, &seen), REDLOCK_OK);
    LOOP_UNTIL(s->base, seen.times > 0);
    return seen.longest_ms;
}

static int64_t ask(struct quorum *s)
{
    return ask_of(s, "job", 3);
}

Test(hold_time, the_longest_is_remembered)
{
    struct quorum s;
    quorum_open(&s, 3);
    cr_assert_eq(ask(&s), 0);
    cr_assert_eq(redlock_note_hold_time(s.client, "job", 3, 5000), REDLOCK_OK);
    cr_assert_eq(ask(&s), 5000);
    cr_assert_eq(redlock_note_hold_time(s.client, "job", 3, 10), REDLOCK_OK);
    cr_assert_eq(ask(&s), 4970);
    cr_assert_eq(redlock_note_hold_time(s.client, "job", 3, 6000), REDLOCK_OK);
    cr_assert_eq(ask(&s), 6000);
    quorum_close(&s);
}

Test(hold_time, a_key_may_have_any_bytes)
{
    struct quorum s;
    quorum_open(&s, 3);
    cr_assert_eq(redlock_note_hold_time(s.client, "job\0a", 5, 5000), REDLOCK_OK);
    cr_assert_eq(ask_of(&s, "job\0a", 5), 5000);
    cr_assert_eq(ask_of(&s, "job\0b", 5), 0);
    cr_assert_eq(ask(&s), 0);
    quorum_close(&s);
}

/* The answers come before the grants, so that no round trip is waited for. */
Test(hold_time, it_is_known_when_the_lock_is_acquired)
{
    struct quorum s;
    struct seen seen = {0};
    redlock_lease_options options = quorum_lease_options();
    quorum_open_fresh(&s, 5);
    servers_do_first(&s.servers, 5, "SET job!hold 1234");
    cr_assert_eq(redlock_hold_time(s.client, "job", 3, note, &seen), REDLOCK_OK);
    redlock_lease *lease = quorum_hold(&s, "job", &options);
    cr_assert_eq(seen.times, 1);
    cr_assert_eq(seen.longest_ms, 1234);
    redlock_lease_free(lease);
    quorum_close(&s);
}

/* Holds like redlock acquire and release, with a least TTL of 1 s. Returns the TTL. */
static int64_t hold(struct quorum *s, int64_t held_ms, unsigned *lost)
{
    int64_t longest = ask(s), ttl = 2 * longest > 1000 ? 2 * longest : 1000;
    *lost += held_ms > ttl;
    held_ms *= held_ms > ttl ? 2 : 1;
    cr_assert_eq(redlock_note_hold_time(s->client, "job", 3, held_ms), REDLOCK_OK);
    return ttl;
}

Test(hold_time, a_long_hold_in_a_hundred)
{
    struct quorum s;
    unsigned lost = 0;
    quorum_open(&s, 3);
    for (unsigned i = 0; i < 1000; i++)
        hold(&s, i % 100 == 50 ? 5000 : 10, &lost);
    cr_assert_eq(lost, 1, "%u outlived their TTLs", lost);
    int64_t ttl = hold(&s, 10, &lost);
    for (unsigned i = 0; i < 100; i++)
        hold(&s, 10, &lost);
    cr_assert_lt(hold(&s, 10, &lost), ttl * 6 / 10, "it does not fall");
    quorum_close(&s);
}

Test(hold_time, too_few_answers)
{
    struct quorum s;
    quorum_open(&s, 3);
    servers_do_first(&s.servers, 2, "ACL SETUSER default -getrange");
    cr_assert_eq(ask(&s), REDLOCK_UNKNOWN);
    quorum_close(&s);
}

Test(hold_time, the_client_is_freed)
{
    struct quorum s;
    struct seen seen = {0};
    quorum_open(&s, 3);
    cr_assert_eq(redlock_hold_time(s.client, "job", 3, note, &seen), REDLOCK_OK);
    redlock_client_free(s.client);
    s.client = NULL;
    cr_assert_eq(seen.times, 1);
    cr_assert_eq(seen.longest_ms, REDLOCK_UNKNOWN);
    quorum_close(&s);
}
