/* Inspecting a key, and breaking its lock. */
#include <criterion/criterion.h>

#include "quorum.h"

struct seen {
    unsigned times;
    redlock_inspection inspection;
    redlock_node node[REDLOCK_NODES_MAX];
};

static void note(redlock_client *client, const redlock_inspection *inspection, void *arg)
{
    struct seen *seen = arg;
    cr_assert_not_null(client);
    seen->times++;
    seen->inspection = *inspection;
    for (size_t i = 0; i < inspection->count; i++)
        seen->node[i] = *inspection->nodes[i];
}

static struct seen look(struct quorum *s, const char *key)
{
    struct seen seen = {0};
    cr_assert_eq(redlock_inspect(s->client, key, strlen(key), note, &seen), REDLOCK_OK);
    cr_assert_eq(seen.times, 0);
    LOOP_UNTIL(s->base, seen.times > 0);
    cr_assert_eq(seen.inspection.quorum, redlock_client_quorum(s->client));
    cr_assert_eq(seen.inspection.count, redlock_client_nodes(s->client));
    return seen;
}

static struct seen break_lock(struct quorum *s, const char *key)
{
    struct seen seen = {0};
    cr_assert_eq(redlock_break(s->client, key, strlen(key), note, &seen), REDLOCK_OK);
    LOOP_UNTIL(s->base, seen.times > 0);
    return seen;
}

Test(inspection, free_key)
{
    struct quorum s;
    quorum_open(&s, 5);
    struct seen seen = look(&s, "job");
    cr_assert_eq(seen.inspection.code, REDLOCK_OK);
    cr_assert_eq(seen.inspection.free, 5);
    cr_assert_eq(seen.inspection.held, 0);
    cr_assert_eq(seen.inspection.agreeing, 0);
    cr_assert_eq(seen.inspection.remaining_ms, 0);
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(seen.node[i].verdict, REDLOCK_VERDICT_GONE);
        cr_assert_str_eq(seen.node[i].uri, s.servers.uri[i]);
        cr_assert_geq(seen.node[i].latency_us, 0);
    }
    quorum_close(&s);
}

Test(inspection, held_key)
{
    struct quorum s;
    quorum_open(&s, 5);
    redlock_lease *lease = quorum_hold(&s, "job", NULL);
    quorum_drain(&s);
    struct seen seen = look(&s, "job");
    cr_assert_eq(seen.inspection.code, REDLOCK_OK);
    cr_assert_eq(seen.inspection.held, 5);
    cr_assert_eq(seen.inspection.agreeing, 5);
    cr_assert(seen.inspection.remaining_ms > 0 && seen.inspection.remaining_ms <= 60000);
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(seen.node[i].verdict, REDLOCK_VERDICT_HELD);
        cr_assert_str_eq(seen.node[i].holder, "quorum");
        cr_assert_str_eq(seen.node[i].value, redlock_token(lease));
        cr_assert(seen.node[i].remaining_us > 0 && seen.node[i].remaining_us <= 60000000);
    }
    cr_assert_eq(servers_with(&s.servers, "job", redlock_token(lease)), 5);
    redlock_lease_free(lease);
    quorum_close(&s);
}

Test(inspection, split_key)
{
    struct quorum s;
    quorum_open(&s, 5);
    servers_do(&s.servers, 0, "SET job a PX 90000");
    servers_do(&s.servers, 1, "SET job b PX 80000");
    servers_do(&s.servers, 2, "SET job b PX 70000");
    servers_do(&s.servers, 3, "SET job c");
    struct seen seen = look(&s, "job");
    cr_assert_eq(seen.inspection.code, REDLOCK_OK);
    cr_assert_eq(seen.inspection.held, 4);
    cr_assert_eq(seen.inspection.free, 1);
    cr_assert_eq(seen.inspection.agreeing, 2);
    cr_assert(seen.inspection.remaining_ms > 70000 &&
              seen.inspection.remaining_ms <= 80000);
    cr_assert_str_eq(seen.node[3].holder, "c");
    cr_assert_eq(seen.node[3].remaining_us, REDLOCK_UNKNOWN);
    quorum_close(&s);
}

/* Keys of one holder that expire one by one: after the third of five a quorum is free. */
Test(inspection, remaining_time_is_that_of_the_quorum_as_of_a_refused_acquire)
{
    struct quorum s;
    struct reported reported;
    quorum_open(&s, 5);
    for (int i = 0; i < 5; i++)
        servers_do(&s.servers, (unsigned)i, "SET job a PX %d", (i + 1) * 100000);
    struct seen seen = look(&s, "job");
    cr_assert_eq(seen.inspection.agreeing, 5);
    cr_assert(seen.inspection.remaining_ms > 200000 &&
              seen.inspection.remaining_ms <= 300000);
    redlock_lease *lease = quorum_acquire(&s, "job", NULL, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_TAKEN);
    cr_assert(reported.result.remaining_ms > 200000 &&
              reported.result.remaining_ms <= 300000);
    redlock_lease_free(lease);
    servers_do(&s.servers, 0, "PERSIST job");
    servers_do(&s.servers, 1, "PERSIST job");
    servers_do(&s.servers, 2, "PERSIST job");
    cr_assert_eq(look(&s, "job").inspection.remaining_ms, REDLOCK_UNKNOWN,
                 "no quorum expires by itself");
    quorum_close(&s);
}

/* The value may be anything: it is shown as one printable word. */
Test(inspection, foreign_values)
{
    struct quorum s;
    char long_value[301];
    memset(long_value, 'x', 300);
    long_value[300] = '\0';
    quorum_open(&s, 5);
    servers_do(&s.servers, 0, "SET job %b", "a\0b", (size_t)3);
    servers_do(&s.servers, 1, "SET job %b", "\033[2Jgone", (size_t)8);
    servers_do(&s.servers, 2, "SET job %s", long_value);
    servers_do(&s.servers, 3, "SET job %b", "", (size_t)0);
    servers_do(&s.servers, 4, "RPUSH job element");
    struct seen seen = look(&s, "job");
    cr_assert_eq(seen.inspection.code, REDLOCK_OK);
    cr_assert_eq(seen.inspection.held, 5);
    for (int i = 0; i < 5; i++)
        for (const char *c = seen.node[i].holder; *c; c++)
            cr_assert(*c >= ' ' && *c <= '~');
    cr_assert_str_empty(seen.node[0].value, "a value with a NUL is no text");
    cr_assert_str_empty(seen.node[1].value, "nor is one with an escape");
    cr_assert_eq(strlen(seen.node[2].holder), REDLOCK_TOKEN_MAX);
    cr_assert_eq(seen.node[3].verdict, REDLOCK_VERDICT_HELD);
    cr_assert_str_eq(seen.node[4].holder, "a list");
    quorum_close(&s);
}

/* Numbers that are none, or larger than any of ours. */
Test(inspection, foreign_numbers)
{
    static const char *const make[] = {
        "HSET job owner nan",         "HSET job owner -inf",
        "HSET job owner 1e99",        "SET job value PX 9000000000000000000",
        "ZADD job!queue -inf waiter", "ZADD job!queue -1e300 waiter",
    };
    struct quorum s;
    quorum_open(&s, 3);
    for (size_t i = 0; i < sizeof(make) / sizeof(make[0]); i++) {
        for (unsigned node = 0; node < 3; node++) {
            servers_do(&s.servers, node, "FLUSHALL");
            servers_do(&s.servers, node, "SET job value");
            if (i < 3)
                servers_do(&s.servers, node, "DEL job");
            servers_do(&s.servers, node, make[i]);
        }
        struct seen seen = look(&s, "job");
        cr_assert_eq(seen.inspection.code, REDLOCK_OK, "%s", make[i]);
        cr_assert_eq(seen.inspection.agreeing, 3, "%s", make[i]);
        cr_assert_eq(seen.inspection.depth, 0, "%s", make[i]);
    }
    quorum_close(&s);
}

Test(inspection, minority_is_no_quorum)
{
    struct quorum s;
    quorum_open(&s, 5);
    servers_kill_first(&s.servers, 3);
    for (unsigned i = 0; i < 3; i++)
        LOOP_UNTIL(s.base, !quorum_is(s.client, i, "ready"));
    struct seen seen = look(&s, "job");
    cr_assert_eq(seen.inspection.code, REDLOCK_NO_QUORUM);
    cr_assert_eq(seen.inspection.reason, REDLOCK_REASON_NOT_CONNECTED, "%d",
                 seen.inspection.reason);
    cr_assert_eq(seen.inspection.free, 2);
    cr_assert_eq(seen.node[0].verdict, REDLOCK_VERDICT_ABSENT);
    cr_assert_neq(seen.node[0].fault, REDLOCK_FAULT_NONE);
    cr_assert_eq(break_lock(&s, "job").inspection.code, REDLOCK_NO_QUORUM);
    quorum_close(&s);
}

Test(inspection, keys_that_a_user_may_not_touch)
{
    struct quorum s;
    redlock_options options = quorum_options();
    options.username = "app";
    options.password = "secret";
    quorum_open(&s, 3);
    servers_do_first(&s.servers, 3, "ACL SETUSER app on >secret ~other &* +@all");
    redlock_client_free(s.client);
    s.client = quorum_client(&s, &options);
    quorum_await_ready(&s);
    struct seen seen = look(&s, "job");
    cr_assert_eq(seen.inspection.code, REDLOCK_DENIED);
    cr_assert_eq(seen.inspection.reason, REDLOCK_REASON_PERMISSION, "%d",
                 seen.inspection.reason);
    cr_assert_eq(break_lock(&s, "job").inspection.code, REDLOCK_DENIED);
    quorum_close(&s);
}

Test(inspection, client_freed_meanwhile)
{
    struct quorum s;
    struct seen read = {0}, broken = {0};
    quorum_open(&s, 3);
    cr_assert_eq(redlock_inspect(s.client, "job", 3, note, &read), REDLOCK_OK);
    cr_assert_eq(redlock_break(s.client, "job", 3, note, &broken), REDLOCK_OK);
    redlock_client_free(s.client);
    s.client = NULL;
    cr_assert_eq(read.times, 1);
    cr_assert_eq(read.inspection.code, REDLOCK_CANCELLED);
    cr_assert_eq(broken.times, 1);
    cr_assert_eq(broken.inspection.code, REDLOCK_CANCELLED);
    quorum_close(&s);
}

Test(inspection, a_silent_node_is_waited_for_once)
{
    redlock_options options = quorum_options();
    options.node_timeout_ms = 300;
    struct quorum s;
    quorum_open_with(&s, 5, &options);
    servers_stop(&s.servers, 2);
    struct seen seen = look(&s, "job");
    cr_assert_eq(seen.inspection.code, REDLOCK_OK);
    cr_assert_eq(seen.inspection.free, 4);
    cr_assert_eq(seen.node[2].verdict, REDLOCK_VERDICT_SILENT);
    cr_assert_eq(seen.node[2].fault, REDLOCK_FAULT_TIMEOUT);
    servers_cont(&s.servers, 2);
    quorum_close(&s);
}

Test(inspection, of_a_new_client)
{
    struct quorum s;
    quorum_open_fresh(&s, 5);
    struct seen seen = look(&s, "job"); /* before it connected to any node */
    unsigned absent = 0;
    cr_assert_geq(seen.inspection.free, 3);
    for (int i = 0; i < 5; i++) /* nodes that greet late are not waited for */
        absent += seen.node[i].verdict == REDLOCK_VERDICT_ABSENT;
    cr_assert_eq(seen.inspection.free + absent, 5);
    quorum_close(&s);
}

Test(inspection, broken_lock)
{
    struct quorum s;
    struct reported lost = {0}, reported = {0};
    redlock_lease_options options = quorum_quiet_options();
    reported_on_lost(&options, &lost);
    quorum_open(&s, 5);
    redlock_lease *lease = quorum_hold(&s, "job", &options);
    quorum_drain(&s);
    struct seen seen = break_lock(&s, "job");
    cr_assert_eq(seen.inspection.code, REDLOCK_OK);
    cr_assert_eq(seen.inspection.held, 5);
    cr_assert_eq(seen.inspection.agreeing, 5);
    cr_assert_str_eq(seen.node[0].holder, "quorum");
    cr_assert_str_eq(seen.node[0].value, redlock_token(lease));
    cr_assert_eq(servers_keys(&s.servers), 0);
    cr_assert_gt(redlock_valid_ms(lease), 0, "it cannot know yet");
    cr_assert_eq(redlock_extend(lease, 0, reported_note, &reported), REDLOCK_OK);
    EXPECT_REPORTED(&s, &reported, REDLOCK_GONE);
    cr_assert_eq(lost.times, 1);
    redlock_lease_free(lease);
    quorum_close_empty(&s);
}

Test(inspection, break_without_a_callback)
{
    struct quorum s;
    quorum_open(&s, 3);
    redlock_lease *lease = quorum_hold(&s, "job", NULL);
    cr_assert_eq(redlock_break(s.client, "job", 3, NULL, NULL), REDLOCK_OK);
    LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_GONE);
    redlock_lease_free(lease);
    quorum_close(&s);
}

Test(inspection, nothing_to_break)
{
    struct quorum s;
    quorum_open(&s, 3);
    struct seen seen = break_lock(&s, "job");
    cr_assert_eq(seen.inspection.code, REDLOCK_OK);
    cr_assert_eq(seen.inspection.free, 3);
    cr_assert_eq(seen.inspection.held, 0);
    quorum_close(&s);
}
