/* Fenced locks that another client adopts by their tokens, and the longest TTL of both. */
#include <criterion/criterion.h>

#include "quorum.h"

/* Leaves a fenced lock on the nodes, with a new client. */
static int64_t leave_behind(struct quorum *s, char token[REDLOCK_TOKEN_MAX + 1])
{
    redlock_lease *lease = quorum_hold_fenced(s, "job");
    quorum_drain(s);
    int64_t fence = redlock_fence(lease);
    strcpy(token, redlock_token(lease));
    redlock_disown(lease);
    redlock_lease_free(lease);
    redlock_client_free(s->client);
    s->client = quorum_client(s, NULL);
    return fence;
}

static void adopt(bool tells_fence, int64_t valid_ms)
{
    struct quorum s;
    char token[REDLOCK_TOKEN_MAX + 1];
    redlock_lease_options options = quorum_quiet_fenced_options();
    redlock_lease *lease;
    quorum_open_fenced(&s, 3, NULL);
    int64_t fence = leave_behind(&s, token);
    options.fenced = false; /* the token contains the fence */
    options.fence = tells_fence ? fence : 0;
    cr_assert_eq(redlock_adopt(s.client, "job", 3, token, valid_ms, &options, &lease),
                 REDLOCK_OK);
    cr_assert_eq(redlock_fence(lease), tells_fence ? fence : 0);
    cr_assert_eq(redlock_valid_ms(lease) > 0, valid_ms > 0);
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_OK);
    cr_assert_gt(redlock_valid_ms(lease), 50000);
    cr_assert_eq(redlock_fence(lease), tells_fence ? fence : 0);
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    quorum_expect_fences(&s, 1);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(quorum_stored_fence(&s, i, "job"), fence);
    quorum_close(&s);
}

Test(fenced_adopt, adopted_with_its_fence)
{
    adopt(true, 30000);
}

Test(fenced_adopt, adopted_without_its_fence)
{
    adopt(false, 30000);
}

Test(fenced_adopt, adopted_with_an_unknown_deadline)
{
    adopt(true, 0);
}

/* A fence of no clock of ours: it is neither used in an extension nor stored. */
Test(fenced_adopt, adopted_with_a_fence_that_is_ahead)
{
    struct quorum s;
    char token[REDLOCK_TOKEN_MAX + 1];
    redlock_lease_options options = quorum_quiet_fenced_options();
    redlock_lease *lease;
    quorum_open_fenced(&s, 3, NULL);
    int64_t fence = leave_behind(&s, token);
    options.fence = fence + 60000000;
    cr_assert_eq(redlock_adopt(s.client, "job", 3, token, 30000, &options, &lease),
                 REDLOCK_OK);
    quorum_await_ready(&s);
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_NO_QUORUM);
    quorum_drain(&s);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(quorum_node(lease, i)->fault, REDLOCK_FAULT_AHEAD);
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
    quorum_free_lease(&s, lease);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(quorum_stored_fence(&s, i, "job"), fence);
    quorum_close(&s);
}

/* --- the longest TTL --- */

/* The longest TTL of the admission applies, also to clients that did not know it. */
Test(fenced_adopt, not_for_longer_than_the_admitted_ttl)
{
    struct quorum s;
    struct reported reported;
    redlock_options client_options = quorum_options();
    redlock_lease_options options = quorum_quiet_fenced_options();
    client_options.max_ttl_ms = 20000;
    quorum_open_fenced(&s, 3, &client_options);
    redlock_client_free(s.client);
    s.client = quorum_client(&s, NULL);
    options.ttl_ms = 20001;
    redlock_lease *lease = quorum_acquire(&s, "job", &options, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_BAD_TTL);
    cr_assert_eq(redlock_fence(lease), 0);
    redlock_lease_free(lease);
    options.ttl_ms = 20000;
    quorum_await_ready(&s);
    lease = quorum_hold(&s, "job", &options);
    cr_assert_eq(quorum_extend(&s, lease, 20001), REDLOCK_BAD_TTL);
    cr_assert_str_eq(
        redlock_last_error()->text,
        "ttl_ms is 20001, and must be at most 20000: the TTL is longer than the nodes were "
        "admitted for");
    cr_assert_eq(quorum_extend(&s, lease, 20000), REDLOCK_OK);
    redlock_lease_free(lease);
    options.fenced = false; /* the admitted TTL does not limit a plain lock */
    options.ttl_ms = 60000;
    lease = quorum_hold(&s, "plain", &options);
    redlock_lease_free(lease);
    quorum_expect_fences(&s, 1);
    quorum_close(&s);
}

static bool is_nowhere_longer(struct quorum *s, const char *key, int64_t ms)
{
    for (unsigned i = 0; i < s->servers.n; i++)
        if (servers_number(&s->servers, i, "PTTL %s", key) > ms)
            return false;
    return true;
}

/* A lock of 5 s on nodes that were admitted for 5 s, and another client that adopts it. */
struct handover {
    struct quorum s;
    redlock_lease *lease, *adopted;
    redlock_client *adopter;
};

static void hand_over(struct handover *h, int64_t valid_ms,
                      const redlock_lease_options *options)
{
    redlock_options client_options = quorum_options();
    redlock_lease_options mine = quorum_quiet_fenced_options();
    client_options.max_ttl_ms = mine.ttl_ms = 5000;
    quorum_open_fenced(&h->s, 3, &client_options);
    h->lease = quorum_hold(&h->s, "job", &mine);
    h->adopter = quorum_client(&h->s, NULL);
    cr_assert_eq(redlock_adopt(h->adopter, "job", 3, redlock_token(h->lease), valid_ms,
                               options, &h->adopted),
                 REDLOCK_OK);
}

static void end_handover(struct handover *h)
{
    cr_assert(is_nowhere_longer(&h->s, "job", 5000));
    redlock_disown(h->adopted);
    redlock_lease_free(h->adopted);
    redlock_client_free(h->adopter);
    redlock_lease_free(h->lease);
    quorum_close(&h->s);
}

/* A client that adopts it has not greeted the nodes yet, and cannot know the limit. */
Test(fenced_adopt, adopted_and_not_extended_for_longer_either)
{
    struct handover h;
    struct reported reported = {0};
    redlock_lease_options options = quorum_quiet_fenced_options();
    options.ttl_ms = 50000;
    hand_over(&h, 0, &options);
    cr_assert_eq(redlock_extend(h.adopted, 0, reported_note, &reported), REDLOCK_OK);
    EXPECT_REPORTED(&h.s, &reported, REDLOCK_BAD_TTL);
    cr_assert_eq(redlock_valid_ms(h.adopted), 0);
    cr_assert(is_nowhere_longer(&h.s, "job", 5000));
    cr_assert_eq(quorum_extend(&h.s, h.adopted, 5000), REDLOCK_OK);
    cr_assert_gt(redlock_valid_ms(h.adopted), 0);
    end_handover(&h);
}

Test(fenced_adopt, adopted_and_not_extended_for_longer_by_its_watchdog)
{
    struct handover h;
    struct reported lost = {0}, extended = {0};
    redlock_lease_options options = quorum_fenced_options();
    options.ttl_ms = 10000;
    options.on_lost = options.on_extended = reported_note;
    options.lost_arg = &lost;
    options.extended_arg = &extended;
    hand_over(&h, 1000, &options);
    LOOP_UNTIL(h.s.base, lost.times > 0);
    cr_assert_eq(lost.result.code, REDLOCK_EXPIRED);
    cr_assert_eq(extended.times, 0);
    end_handover(&h);
}
