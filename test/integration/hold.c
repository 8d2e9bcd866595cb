/* Holding a lock: the watchdog, its end, and how a loss is reported. */
#include <criterion/criterion.h>

#include "quorum.h"

struct holder {
    struct reported lost, extended;
};

static redlock_lease_options held_for(struct holder *holder, int64_t ttl_ms)
{
    redlock_lease_options options = quorum_lease_options();
    options.ttl_ms = ttl_ms;
    reported_on_lost(&options, &holder->lost);
    options.on_extended = reported_note;
    options.extended_arg = &holder->extended;
    return options;
}

/* `n` nodes, on which the lock is held without a watchdog. */
static redlock_lease *open_quiet(struct quorum *s, unsigned n, struct holder *holder,
                                 int64_t ttl_ms)
{
    redlock_lease_options options = held_for(holder, ttl_ms);
    options.watchdog = false;
    quorum_open(s, n);
    return quorum_hold(s, "job", &options);
}

Test(hold, the_watchdog_extends)
{
    struct quorum s;
    struct holder holder = {0};
    redlock_lease_options options = held_for(&holder, 2400);
    quorum_open(&s, 5);
    redlock_lease *lease = quorum_hold(&s, "job", &options);
    LOOP_UNTIL(s.base, holder.extended.times >= 4); /* longer than the TTL */
    cr_assert_eq(holder.lost.times, 0);
    cr_assert_eq(holder.extended.result.code, REDLOCK_OK);
    cr_assert_geq(holder.extended.result.granted, 3);
    cr_assert_gt(holder.extended.result.valid_ms, 0);
    cr_assert_leq(holder.extended.result.valid_ms, 2400);
    cr_assert_gt(redlock_valid_ms(lease), 0);
    LOOP_UNTIL(s.base, servers_with(&s.servers, "job", redlock_token(lease)) == 5);
    unsigned extended = holder.extended.times;
    redlock_lease_free(lease);
    quorum_expect_empty(&s);
    loop_run_for(s.base, 1000);
    cr_assert_eq(servers_keys(&s.servers), 0, "something was recreated");
    cr_assert_eq(holder.extended.times, extended);
    cr_assert_eq(holder.lost.times, 0);
    quorum_close(&s);
}

static void note_order(redlock_lease *lease, const redlock_result *result, void *arg)
{
    redlock_lease **first = arg;
    (void)result;
    *first = *first ? *first : lease;
}

/* rl_lease_spread(): of the first three it is the third that has the least time. */
Test(hold, those_acquired_at_once_are_extended_apart)
{
    struct quorum s;
    struct reported reported[3] = {0};
    redlock_lease *lease[3], *first = NULL;
    redlock_lease_options options = quorum_lease_options();
    options.ttl_ms = 6000;
    options.on_extended = note_order;
    options.extended_arg = &first;
    quorum_open(&s, 3);
    for (unsigned i = 0; i < 3; i++) {
        char key[] = {(char)('a' + i)};
        cr_assert_eq(redlock_acquire(s.client, key, 1, &options, reported_note,
                                     &reported[i], &lease[i]),
                     REDLOCK_OK);
    }
    for (unsigned i = 0; i < 3; i++)
        EXPECT_REPORTED(&s, &reported[i], REDLOCK_OK);
    LOOP_UNTIL(s.base, first);
    cr_assert_eq(first, lease[2]);
    for (unsigned i = 0; i < 3; i++)
        redlock_lease_free(lease[i]);
    quorum_close(&s);
}

Test(hold, extend_by_hand)
{
    struct quorum s;
    struct holder holder = {0};
    redlock_lease *lease = open_quiet(&s, 5, &holder, 10000);
    cr_assert_leq(redlock_valid_ms(lease), 10000);
    cr_assert_eq(quorum_extend(&s, lease, 50000), REDLOCK_OK);
    cr_assert_gt(redlock_valid_ms(lease), 10000);
    for (unsigned i = 0; i < 5; i++)
        LOOP_UNTIL(s.base, servers_number(&s.servers, i, "PTTL job") > 10000);
    cr_assert_eq(quorum_extend(&s, lease, 20000),
                 REDLOCK_OK); /* a shorter one counts, too */
    cr_assert_leq(redlock_valid_ms(lease), 20000);
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_OK);
    cr_assert_eq(holder.extended.times, 0, "only the watchdog reports this");
    cr_assert_eq(redlock_extend(lease, 1, reported_note, NULL), REDLOCK_BAD_TTL);
    struct reported reported = {0};
    cr_assert_eq(redlock_extend(lease, 0, reported_note, &reported), REDLOCK_OK);
    cr_assert_eq(redlock_extend(lease, 0, reported_note, &reported), REDLOCK_BUSY);
    EXPECT_REPORTED(&s, &reported, REDLOCK_OK);
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
    cr_assert_eq(redlock_extend(lease, 0, reported_note, &reported), REDLOCK_NOT_HELD);
    cr_assert_eq(reported.times, 1);
    redlock_lease_free(lease);
    quorum_close(&s);
}

Test(hold, max_hold_ends_it)
{
    struct quorum s;
    struct holder holder = {0};
    redlock_lease_options options = held_for(&holder, 1500);
    options.max_hold_ms = 2500;
    options.margin_ms = 200;
    quorum_open(&s, 3);
    int64_t start = loop_clock_ms();
    redlock_lease *lease = quorum_hold(&s, "job", &options);
    LOOP_UNTIL(s.base, holder.lost.times > 0);
    cr_assert_geq(loop_clock_ms() - start, 2500 - 200);
    cr_assert_eq(holder.lost.result.code, REDLOCK_MAX_HOLD);
    cr_assert_leq(holder.lost.result.valid_ms, 200);
    cr_assert_gt(holder.extended.times, 0);
    LOOP_UNTIL(s.base, redlock_valid_ms(lease) == 0);
    loop_run_for(s.base, 300);
    cr_assert_eq(holder.lost.times, 1);
    cr_assert_eq(redlock_extend(lease, 0, reported_note, NULL), REDLOCK_NOT_HELD);
    redlock_lease_free(lease);
    quorum_close_empty(&s);
}

/* The longest hold ends while the nodes do not reply to an extension. */
Test(hold, max_hold_ends_an_extension)
{
    struct quorum s;
    struct holder holder = {0};
    struct reported extended = {0};
    redlock_lease_options options = held_for(&holder, 60000);
    options.max_hold_ms = 3000;
    options.watchdog = false;
    quorum_open(&s, 3);
    redlock_lease *lease = quorum_hold(&s, "job", &options);
    servers_stop_first(&s.servers, 3);
    cr_assert_eq(redlock_extend(lease, 0, reported_note, &extended), REDLOCK_OK);
    EXPECT_REPORTED(&s, &extended, REDLOCK_MAX_HOLD);
    cr_assert_eq(holder.lost.result.code, REDLOCK_MAX_HOLD);
    redlock_lease_free(lease);
    quorum_close(&s);
}

Test(hold, without_a_watchdog_it_expires)
{
    struct quorum s;
    struct holder holder = {0};
    redlock_lease *lease = open_quiet(&s, 3, &holder, 1000);
    LOOP_UNTIL(s.base, holder.lost.times > 0);
    cr_assert_eq(holder.lost.result.code, REDLOCK_EXPIRED);
    cr_assert_eq(redlock_valid_ms(lease), 0);
    cr_assert_eq(holder.extended.times, 0);
    LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_GONE);
    cr_assert_eq(holder.lost.times, 1);
    redlock_lease_free(lease);
    quorum_close(&s);
}

/* Three of five die: the watchdog tries until the end, and the loss is reported in time. */
Test(hold, lost_with_the_majority)
{
    struct quorum s;
    struct holder holder = {0};
    redlock_lease_options options = held_for(&holder, 1500);
    options.margin_ms = 500;
    quorum_open(&s, 5);
    redlock_lease *lease = quorum_hold(&s, "job", &options);
    servers_kill_first(&s.servers, 3);
    LOOP_UNTIL(s.base, holder.lost.times > 0);
    cr_assert_eq(holder.lost.result.code, REDLOCK_EXPIRED);
    cr_assert_gt(holder.lost.result.valid_ms, 0);
    cr_assert_leq(holder.lost.result.valid_ms, 500);
    unsigned extended = holder.extended.times;
    LOOP_UNTIL(s.base, redlock_valid_ms(lease) == 0);
    loop_run_for(s.base, 500);
    cr_assert_eq(holder.lost.times, 1);
    cr_assert_eq(holder.extended.times, extended);
    struct reported reported = {0};
    cr_assert_eq(redlock_release(lease, reported_note, &reported), REDLOCK_OK);
    EXPECT_REPORTED(&s, &reported, REDLOCK_UNCONFIRMED);
    redlock_lease_free(lease);
    quorum_close(&s);
}

/* An extension without a quorum of replies leaves the old deadline. */
Test(hold, a_lost_extension_leaves_the_deadline)
{
    struct quorum s;
    struct holder holder = {0};
    redlock_lease *lease = open_quiet(&s, 3, &holder, 20000);
    servers_kill(&s.servers, 0);
    servers_kill(&s.servers, 1);
    for (unsigned i = 0; i < 2; i++)
        LOOP_UNTIL(s.base, !quorum_is(s.client, i, "ready"));
    int64_t before = redlock_valid_ms(lease);
    cr_assert_eq(quorum_extend(&s, lease, 60000), REDLOCK_NO_QUORUM);
    cr_assert_gt(redlock_valid_ms(lease), 0);
    cr_assert_leq(redlock_valid_ms(lease), before);
    cr_assert_eq(holder.lost.times, 0);
    redlock_lease_free(lease);
    quorum_close(&s);
}

/* The key is deleted, or replaced by another value, on most nodes: lost at once. */
static void lose_to(const char *command, redlock_code code)
{
    struct quorum s;
    struct holder holder = {0};
    redlock_lease *lease = open_quiet(&s, 5, &holder, 60000);
    LOOP_UNTIL(s.base, servers_keys(&s.servers) == 5);
    for (unsigned i = 1; i < 4; i++)
        servers_do(&s.servers, i, command);
    struct reported reported = {0};
    cr_assert_eq(redlock_extend(lease, 0, reported_note, &reported), REDLOCK_OK);
    EXPECT_REPORTED(&s, &reported, code);
    cr_assert_eq(holder.lost.times, 1);
    cr_assert_eq(holder.lost.result.code, code);
    cr_assert_eq(holder.lost.result.valid_ms, 0);
    cr_assert_eq(redlock_valid_ms(lease), 0);
    quorum_release(&s, lease);
    quorum_free_lease(&s, lease);
    cr_assert_eq(holder.lost.times, 1);
    cr_assert_eq(servers_with(&s.servers, "job", redlock_token(NULL)), 0);
    quorum_close(&s);
}

Test(hold, lost_to_a_delete)
{
    lose_to("DEL job", REDLOCK_GONE);
}

Test(hold, lost_to_another_value)
{
    lose_to("SET job stranger", REDLOCK_TAKEN);
}
