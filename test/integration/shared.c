/* Shared locks on real servers: many readers, or one writer. */
#include <criterion/criterion.h>

#include "quorum.h"

#define KEY "job"
#define OTHER                                                                              \
    "s"                                                                                    \
    "abcdefghijklmnopqrstuvwxyz234567@other" /* another client's reader */

static redlock_lease_options options_of_reader(void)
{
    redlock_lease_options options = quorum_quiet_options();
    options.kind = REDLOCK_KIND_SHARED;
    return options;
}

static redlock_lease_options options_of_fenced_reader(void)
{
    redlock_lease_options options = quorum_quiet_fenced_options();
    options.kind = REDLOCK_KIND_SHARED;
    return options;
}

static unsigned count_readers(struct quorum *s, long long readers)
{
    unsigned count = 0;
    for (unsigned i = 0; i < s->servers.n; i++)
        count += servers_int(&s->servers, i, readers, "ZCARD " KEY);
    return count;
}

/* --- readers and writers --- */

static void share(const redlock_lease_options *reader, const redlock_lease_options *writer)
{
    struct quorum s;
    struct reported reported;
    quorum_open_fenced(&s, 5, NULL);
    redlock_lease *first = quorum_hold(&s, KEY, reader);
    redlock_lease *second = quorum_hold(&s, KEY, reader);
    quorum_drain(&s);
    cr_assert_eq(count_readers(&s, 2), 5);
    cr_assert_gt(servers_number(&s.servers, 0, "PTTL " KEY), 0);

    redlock_lease *third = quorum_acquire(&s, KEY, writer, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_TAKEN);
    cr_assert_gt(reported.result.remaining_ms, 0);
    const char *told = quorum_node(third, 0)->value; /* their times may end together */
    cr_assert(strcmp(told, redlock_token(first)) == 0 ||
              strcmp(told, redlock_token(second)) == 0);
    quorum_free_lease(&s, third);

    cr_assert_eq(quorum_extend(&s, first, reader->fenced ? 0 : 600000), REDLOCK_OK);
    quorum_drain(&s);
    cr_assert(reader->fenced || servers_number(&s.servers, 4, "PTTL " KEY) > 500000);
    cr_assert_eq(quorum_release(&s, first), REDLOCK_OK);
    quorum_drain(&s);
    cr_assert_eq(count_readers(&s, 1), 5);
    cr_assert_lt(servers_number(&s.servers, 4, "PTTL " KEY), 500000,
                 "the key expires with its last reader");
    cr_assert_eq(quorum_release(&s, second), REDLOCK_OK);
    quorum_drain(&s);

    third = quorum_hold(&s, KEY, writer);
    redlock_lease *fourth = quorum_acquire(&s, KEY, reader, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_TAKEN);
    cr_assert_str_eq(quorum_node(fourth, 0)->value, redlock_token(third));
    cr_assert_eq(quorum_release(&s, third), REDLOCK_OK);
    redlock_lease_free(first);
    redlock_lease_free(second);
    redlock_lease_free(third);
    redlock_lease_free(fourth);
    quorum_expect_fences(&s, reader->fenced);
    quorum_close(&s);
}

Test(shared, many_readers_or_one_writer)
{
    redlock_lease_options reader = options_of_reader(), writer = quorum_quiet_options();
    share(&reader, &writer);
}

Test(shared, the_same_with_fencing_tokens)
{
    redlock_lease_options reader = options_of_fenced_reader(),
                          writer = quorum_quiet_fenced_options();
    share(&reader, &writer);
}

Test(shared, a_reader_that_expires_is_no_reader)
{
    struct quorum s;
    redlock_lease_options reader = options_of_reader();
    quorum_open(&s, 3);
    redlock_lease *lease = quorum_hold(&s, KEY, &reader);
    quorum_drain(&s);
    for (unsigned i = 0; i < 3; i++)
        servers_do(&s.servers, i, "ZADD " KEY " %lld " OTHER,
                   (long long)quorum_time_us(&s, i) / 1000 - 1);
    cr_assert_eq(count_readers(&s, 2), 3);
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_OK);
    quorum_drain(&s);
    cr_assert_eq(count_readers(&s, 1), 3);
    quorum_free_lease(&s, lease);
    quorum_close_empty(&s);
}

/* Neither is ours: it would never be purged, or is not stored by us. */
static void meet_sorted_sets(struct quorum *s, const redlock_lease_options *options)
{
    struct reported reported;
    redlock_lease *lease = quorum_acquire(s, KEY, options, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_TAKEN);
    cr_assert_str_eq(quorum_node(lease, 0)->value, OTHER);
    cr_assert_str_eq(quorum_node(lease, 1)->value, "somebody");
    quorum_free_lease(s, lease);
    cr_assert(servers_int(&s->servers, 0, 1, "ZCARD " KEY));
    cr_assert(servers_int(&s->servers, 1, 1, "ZCARD " KEY));
    cr_assert_gt(servers_number(&s->servers, 1, "PTTL " KEY), 500000);
}

/* The TTL of one is longer than that of any fenced lock. */
Test(shared, a_sorted_set_of_another_program_is_held_and_stays)
{
    struct quorum s;
    redlock_lease_options reader = options_of_reader();
    redlock_lease_options fenced_reader = options_of_fenced_reader();
    redlock_lease_options fenced_writer = quorum_quiet_fenced_options();
    quorum_open_fenced(&s, 3, NULL);
    servers_do(&s.servers, 0, "ZADD " KEY " 1 " OTHER); /* without an expiry */
    servers_do(&s.servers, 1, "ZADD " KEY " 1 somebody");
    servers_do(&s.servers, 1, "PEXPIRE " KEY " 600000");
    meet_sorted_sets(&s, &reader);
    meet_sorted_sets(&s, &fenced_reader);
    meet_sorted_sets(&s, &fenced_writer);
    quorum_close(&s);
}

/* A key without an expiry would lock for ever. */
Test(shared, stores_nothing_where_it_may_not_set_the_expiry)
{
    struct quorum s;
    struct reported reported;
    redlock_lease_options reader = options_of_reader();
    quorum_open(&s, 3);
    servers_do_first(&s.servers, 2, "ACL SETUSER default -pexpire");
    redlock_lease *lease = quorum_acquire(&s, KEY, &reader, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_DENIED);
    quorum_free_lease(&s, lease);
    quorum_close_empty(&s);
}

Test(shared, adopted_by_its_token)
{
    struct quorum s;
    redlock_lease *adopted;
    redlock_lease_options reader = options_of_reader();
    quorum_open(&s, 3);
    redlock_lease *lease = quorum_hold(&s, KEY, &reader);
    quorum_drain(&s);
    cr_assert_eq(redlock_adopt(s.client, KEY, strlen(KEY), redlock_token(lease),
                               REDLOCK_UNKNOWN, NULL, &adopted),
                 REDLOCK_OK);
    redlock_disown(lease);
    redlock_lease_free(lease);
    cr_assert_eq(quorum_extend(&s, adopted, 0), REDLOCK_OK);
    cr_assert_eq(quorum_release(&s, adopted), REDLOCK_OK);
    redlock_lease_free(adopted);
    quorum_close_empty(&s);
}

/* --- downgrade --- */

static redlock_code downgrade(struct quorum *s, redlock_lease *lease)
{
    struct reported reported = {0};
    cr_assert_eq(redlock_downgrade(lease, reported_note, &reported), REDLOCK_OK);
    LOOP_UNTIL(s->base, reported.times > 0);
    return reported.result.code;
}

static void downgrade_a(const redlock_lease_options *writer,
                        const redlock_lease_options *reader)
{
    struct quorum s;
    struct reported reported;
    redlock_lease *adopted;
    quorum_open_fenced(&s, 3, NULL);
    redlock_lease *lease = quorum_hold(&s, KEY, writer);
    int64_t fence = redlock_fence(lease);
    quorum_drain(&s);
    cr_assert_eq(downgrade(&s, lease), REDLOCK_OK);
    quorum_drain(&s);
    cr_assert_eq(count_readers(&s, 1), 3);
    cr_assert_eq(redlock_token(lease)[0], writer->fenced ? 'g' : 's');
    cr_assert_eq(redlock_fence(lease), fence);
    cr_assert_eq(redlock_downgrade(lease, NULL, NULL), REDLOCK_BAD_OPTION);

    redlock_lease *second = quorum_hold(&s, KEY, reader);
    redlock_lease *third = quorum_acquire(&s, KEY, writer, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_TAKEN);
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_OK);
    cr_assert_eq(redlock_adopt(s.client, KEY, strlen(KEY), redlock_token(lease),
                               REDLOCK_UNKNOWN, NULL, &adopted),
                 REDLOCK_OK);
    redlock_disown(lease);
    cr_assert_eq(quorum_extend(&s, adopted, 0), REDLOCK_OK);
    cr_assert_eq(quorum_release(&s, adopted), REDLOCK_OK);
    quorum_drain(&s);
    cr_assert_eq(count_readers(&s, 1), 3);
    redlock_lease_free(lease);
    redlock_lease_free(adopted);
    redlock_lease_free(third);
    quorum_free_lease(&s, second);
    quorum_expect_fences(&s, writer->fenced);
    quorum_close(&s);
}

Test(shared, a_writer_downgrades)
{
    redlock_lease_options reader = options_of_reader(), writer = quorum_quiet_options();
    downgrade_a(&writer, &reader);
}

Test(shared, a_fenced_writer_downgrades)
{
    redlock_lease_options reader = options_of_fenced_reader(),
                          writer = quorum_quiet_fenced_options();
    downgrade_a(&writer, &reader);
}

/* It is "+OK", which is no reply to a command of readers. */
Test(shared, a_late_reply_to_the_acquire_comes_after_the_downgrade)
{
    struct quorum s;
    redlock_lease_options writer = quorum_quiet_options();
    quorum_open(&s, 3);
    servers_stop(&s.servers, 2);
    redlock_lease *lease = quorum_hold(&s, KEY, &writer);
    cr_assert_eq(downgrade(&s, lease), REDLOCK_OK);
    servers_cont(&s.servers, 2);
    quorum_drain(&s);
    cr_assert_eq(count_readers(&s, 1), 3);
    cr_assert_str_eq(servers_info(&s.servers, 2, "stats", "total_connections_received"),
                     servers_info(&s.servers, 1, "stats", "total_connections_received"));
    quorum_free_lease(&s, lease);
    quorum_close_empty(&s);
}

Test(shared, a_downgrade_reaches_a_node_later)
{
    struct quorum s;
    redlock_lease_options writer = quorum_quiet_options();
    quorum_open(&s, 3);
    redlock_lease *lease = quorum_hold(&s, KEY, &writer);
    quorum_drain(&s);
    servers_stop(&s.servers, 2);
    cr_assert_eq(downgrade(&s, lease), REDLOCK_OK);
    servers_kill(&s.servers, 2);
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
    quorum_free_lease(&s, lease);
    quorum_close_empty(&s);
}

/* The lock must not be gone where only a right is missing. */
Test(shared, a_downgrade_that_fails_leaves_the_lock)
{
    struct quorum s;
    redlock_lease_options writer = quorum_quiet_options();
    quorum_open(&s, 3);
    redlock_lease *lease = quorum_hold(&s, KEY, &writer);
    char token[REDLOCK_TOKEN_MAX + 1];
    strcpy(token, redlock_token(lease));
    quorum_drain(&s);
    servers_do_first(&s.servers, 3, "ACL SETUSER default -zadd");
    cr_assert_neq(downgrade(&s, lease), REDLOCK_OK);
    cr_assert_eq(servers_with(&s.servers, KEY, token), 3);
    cr_assert_gt(redlock_valid_ms(lease), 0);
    servers_do_first(&s.servers, 3, "ACL SETUSER default +zadd");
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_OK);
    quorum_drain(&s);
    cr_assert_eq(count_readers(&s, 1), 3);
    quorum_free_lease(&s, lease);
    quorum_close_empty(&s);
}

/* A writer that is about to downgrade, and what is reported to it. */
struct writer {
    struct quorum s;
    redlock_lease *lease;
    struct reported lost, downgraded;
};

static void write_with(struct writer *writer, const redlock_lease_options *options)
{
    redlock_lease_options mine = *options;
    memset(writer, 0, sizeof(*writer));
    reported_on_lost(&mine, &writer->lost);
    quorum_open(&writer->s, 3);
    writer->lease = quorum_hold(&writer->s, KEY, &mine);
    quorum_drain(&writer->s);
}

static void ask(struct writer *writer)
{
    cr_assert_eq(redlock_downgrade(writer->lease, reported_note, &writer->downgraded),
                 REDLOCK_OK);
}

static void end_writer(struct writer *writer)
{
    redlock_lease_free(writer->lease);
    quorum_close(&writer->s);
}

Test(shared, a_downgrade_where_nothing_is_left)
{
    struct writer writer;
    redlock_lease_options options = quorum_quiet_options();
    write_with(&writer, &options);
    servers_do_first(&writer.s.servers, 3, "DEL " KEY);
    ask(&writer);
    EXPECT_REPORTED(&writer.s, &writer.downgraded, REDLOCK_GONE);
    end_writer(&writer);
}

Test(shared, a_downgrade_where_another_holds)
{
    struct writer writer;
    redlock_lease_options options = quorum_quiet_options();
    write_with(&writer, &options);
    servers_do_first(&writer.s.servers, 3, "SET " KEY " another");
    ask(&writer);
    EXPECT_REPORTED(&writer.s, &writer.downgraded, REDLOCK_TAKEN);
    end_writer(&writer);
}

Test(shared, a_downgrade_without_rights)
{
    struct writer writer;
    redlock_lease_options options = quorum_quiet_options();
    write_with(&writer, &options);
    servers_do_first(&writer.s.servers, 3, "ACL SETUSER default -eval -evalsha");
    ask(&writer);
    EXPECT_REPORTED(&writer.s, &writer.downgraded, REDLOCK_DENIED);
    cr_assert_gt(redlock_valid_ms(writer.lease), 0);
    end_writer(&writer);
}

Test(shared, a_downgrade_by_too_few_nodes)
{
    struct writer writer;
    redlock_lease_options options = quorum_quiet_options();
    write_with(&writer, &options);
    servers_kill_first(&writer.s.servers, 2);
    LOOP_UNTIL(writer.s.base, !quorum_is(writer.s.client, 0, "ready") &&
                                  !quorum_is(writer.s.client, 1, "ready"));
    ask(&writer);
    EXPECT_REPORTED(&writer.s, &writer.downgraded, REDLOCK_NO_QUORUM);
    end_writer(&writer);
}

Test(shared, a_downgrade_at_the_end_of_the_lease)
{
    struct writer writer;
    redlock_lease_options options = quorum_quiet_options();
    options.ttl_ms = 1000;
    write_with(&writer, &options);
    servers_stop_first(&writer.s.servers, 3);
    ask(&writer);
    EXPECT_REPORTED(&writer.s, &writer.downgraded, REDLOCK_EXPIRED);
    end_writer(&writer);
}

Test(shared, a_downgrade_at_the_end_of_the_longest_hold)
{
    struct writer writer;
    redlock_lease_options options = quorum_quiet_options();
    options.ttl_ms = 60000;
    options.max_hold_ms = 2000;
    write_with(&writer, &options);
    servers_stop_first(&writer.s.servers, 3);
    ask(&writer);
    EXPECT_REPORTED(&writer.s, &writer.downgraded, REDLOCK_MAX_HOLD);
    end_writer(&writer);
}

Test(shared, a_downgrade_that_a_release_replaces)
{
    struct writer writer;
    redlock_lease_options options = quorum_quiet_options();
    write_with(&writer, &options);
    ask(&writer);
    cr_assert_eq(redlock_downgrade(writer.lease, NULL, NULL), REDLOCK_BUSY);
    cr_assert_eq(redlock_release(writer.lease, NULL, NULL), REDLOCK_OK);
    cr_assert_eq(redlock_downgrade(writer.lease, NULL, NULL), REDLOCK_NOT_HELD);
    EXPECT_REPORTED(&writer.s, &writer.downgraded, REDLOCK_CANCELLED);
    quorum_expect_empty(&writer.s);
    end_writer(&writer);
}

/* Its TTL is longer than the nodes were admitted for. */
Test(shared, a_downgrade_of_a_token_with_too_long_a_ttl)
{
    struct quorum s;
    struct reported reported = {0};
    redlock_lease *adopted;
    redlock_lease_options options = quorum_quiet_fenced_options();
    quorum_open_fenced(&s, 3, NULL);
    redlock_lease *lease = quorum_hold_fenced(&s, KEY);
    options.ttl_ms = 3600000;
    options.fence = redlock_fence(lease);
    cr_assert_eq(redlock_adopt(s.client, KEY, strlen(KEY), redlock_token(lease), 1000,
                               &options, &adopted),
                 REDLOCK_OK);
    redlock_disown(lease);
    cr_assert_eq(redlock_downgrade(adopted, reported_note, &reported), REDLOCK_OK);
    EXPECT_REPORTED(&s, &reported, REDLOCK_BAD_TTL);
    redlock_lease_free(lease);
    redlock_lease_free(adopted);
    quorum_close(&s);
}
