/*
 * Health checks: how they start and report. test/cli/check.py has a case for each finding.
 */
#include <criterion/criterion.h>

#include "quorum.h"

struct seen {
    unsigned times;
    redlock_health_report report;
    redlock_node_health node[REDLOCK_NODES_MAX];
    char codes[REDLOCK_NODES_MAX][200]; /* "forgets has_replicas " */
};

static void note(redlock_client *client, const redlock_health_report *report, void *arg)
{
    struct seen *seen = arg;
    cr_assert_not_null(client);
    seen->times++;
    seen->report = *report;
    for (size_t i = 0; i < report->count; i++) {
        seen->node[i] = *report->nodes[i];
        for (size_t j = 0; j < report->nodes[i]->count; j++) {
            strcat(seen->codes[i], report->nodes[i]->findings[j]->code);
            strcat(seen->codes[i], " ");
        }
    }
}

static void check(struct quorum *s, unsigned how, struct seen *seen)
{
    memset(seen, 0, sizeof(*seen));
    cr_assert_eq(redlock_check(s->client, how, note, seen), REDLOCK_OK);
    cr_assert_eq(seen->times, 0);
    LOOP_UNTIL(s->base, seen->times > 0);
    cr_assert_eq(seen->report.code, REDLOCK_OK);
    cr_assert_eq(seen->report.quorum, redlock_client_quorum(s->client));
    cr_assert_eq(seen->report.count, redlock_client_nodes(s->client));
}

Test(check, of_a_new_client)
{
    struct quorum s;
    struct seen seen;
    quorum_open_fresh(&s, 5);
    check(&s, 0, &seen); /* before it connected to any node */
    cr_assert_eq(seen.report.health, REDLOCK_FIT_WITH_WARNINGS);
    cr_assert_eq(seen.report.fit, 5);
    for (unsigned i = 0; i < 5; i++) {
        cr_assert_str_eq(seen.codes[i], "forgets debug ");
        cr_assert_str_eq(seen.node[i].uri, s.servers.uri[i]);
        cr_assert_str_eq(seen.node[i].policy, "noeviction");
        cr_assert_str_eq(seen.node[i].fsync, "none");
        cr_assert_eq(seen.node[i].maxmemory, 0);
        cr_assert_eq(seen.node[i].replicas, 0);
        cr_assert_neq(seen.node[i].version[0], '\0');
        cr_assert_geq(seen.node[i].latency_us, 0);
        cr_assert(seen.node[i].timed && seen.node[i].fit);
    }
    cr_assert_eq(servers_keys(&s.servers), 0);
    check(&s, REDLOCK_CHECK_STRICT, &seen); /* and again, on the open connections */
    cr_assert_eq(seen.report.health, REDLOCK_UNFIT);
    cr_assert_eq(seen.report.fit, 0);
    quorum_close(&s);
}

/*
 * One server only: the servers of a quorum share the folder of their append-only files. The
 * only finding is that they accept DEBUG, which the tests need.
 */
Test(check, a_durable_node_is_fit)
{
    struct quorum s;
    struct seen seen;
    quorum_open(&s, 1);
    servers_do(&s.servers, 0, "CONFIG SET appendfsync always");
    servers_do(&s.servers, 0, "CONFIG SET appendonly yes");
    check(&s, 0, &seen);
    cr_assert_str_eq(seen.codes[0], "debug ");
    cr_assert_str_eq(seen.node[0].fsync, "always");
    cr_assert_eq(seen.report.health, REDLOCK_FIT_WITH_WARNINGS);
    quorum_close(&s);
}

/* The check writes no key, so a lock that is held stays as it was. */
Test(check, locks_are_left_alone)
{
    struct quorum s;
    struct seen seen;
    quorum_open(&s, 5);
    redlock_lease *lease = quorum_hold(&s, "job", NULL);
    quorum_drain(&s);
    servers_do_first(&s.servers, 5, "CONFIG RESETSTAT");
    check(&s, 0, &seen);
    cr_assert_eq(servers_with(&s.servers, "job", redlock_token(lease)), 5);
    cr_assert_eq(servers_keys(&s.servers), 5);
    for (unsigned i = 0; i < 5; i++)
        cr_assert_str_eq(servers_info(&s.servers, i, "stats", "expired_keys"), "0");
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    quorum_close(&s);
}

Test(check, a_dead_node_is_reported_at_once)
{
    struct quorum s;
    struct seen seen;
    quorum_open_fresh(&s, 5);
    servers_kill(&s.servers, 1);
    check(&s, 0, &seen);
    cr_assert_str_eq(seen.codes[1], "unreachable ");
    cr_assert_str_eq(seen.codes[2], "forgets debug ");
    cr_assert_eq(seen.node[1].latency_us, REDLOCK_UNKNOWN);
    cr_assert_eq(seen.report.fit, 4);
    cr_assert_eq(seen.report.health, REDLOCK_FIT_WITH_WARNINGS);
    quorum_close(&s);
}

static void check_with_a_stopped_node(bool connected)
{
    redlock_options options = quorum_options();
    options.node_timeout_ms = 300;
    options.connect_timeout_ms = 300;
    struct quorum s;
    struct seen seen;
    if (connected)
        quorum_open_with(&s, 5, &options);
    else
        quorum_open_fresh_with(&s, 5, &options);
    servers_stop(&s.servers, 2);
    check(&s, 0, &seen);
    cr_assert_str_eq(seen.codes[2], "unreachable ");
    cr_assert(!seen.node[2].fit);
    servers_cont(&s.servers, 2);
    quorum_close(&s);
}

Test(check, a_node_that_hangs_is_reported_after_its_timeout)
{
    check_with_a_stopped_node(false);
    check_with_a_stopped_node(true);
}

/* --- once in every case --- */

#define MOMENTS 14

Test(check, client_freed_at_each_moment)
{
    struct quorum s;
    unsigned cancelled = 0, done = 0;
    quorum_open(&s, 5);
    for (int moment = 0; moment < 2 * MOMENTS; moment++) {
        bool connected = moment % 2;
        struct seen seen = {0};
        redlock_client *client = quorum_client(&s, NULL);
        if (connected)
            LOOP_UNTIL(s.base, quorum_is(client, 4, "ready"));
        cr_assert_eq(redlock_check(client, 0, note, &seen), REDLOCK_OK);
        for (int i = 0; i < moment / 2; i++)
            loop_pass(s.base);
        redlock_client_free(client);
        cr_assert_eq(seen.times, 1);
        cancelled += seen.report.code == REDLOCK_CANCELLED;
        done += seen.report.code == REDLOCK_OK;
        cr_assert_eq(seen.report.health == REDLOCK_NOT_CHECKED,
                     seen.report.code == REDLOCK_CANCELLED);
    }
    cr_assert_gt(cancelled, 0);
    cr_assert_eq(cancelled + done, 2 * MOMENTS);
    quorum_close(&s);
}

static void free_client(redlock_client *client, const redlock_health_report *report,
                        void *arg)
{
    struct quorum *s = arg;
    cr_assert_eq(client, s->client);
    redlock_client_free(client);
    s->client = NULL;
    /* The report's arguments are valid until here. */
    cr_assert_str_eq(report->nodes[4]->findings[0]->code, "forgets");
}

Test(check, client_freed_inside_the_callback)
{
    struct quorum s;
    quorum_open(&s, 5);
    cr_assert_eq(redlock_check(s.client, 0, free_client, &s), REDLOCK_OK);
    LOOP_UNTIL(s.base, !s.client);
    quorum_close(&s);
}

Test(check, client_freed_while_a_node_hangs)
{
    struct quorum s;
    struct seen seen = {0};
    quorum_open(&s, 3);
    servers_stop(&s.servers, 0);
    cr_assert_eq(redlock_check(s.client, 0, note, &seen), REDLOCK_OK);
    for (int i = 0; i < MOMENTS; i++)
        loop_pass(s.base);
    redlock_client_free(s.client);
    s.client = NULL;
    cr_assert_eq(seen.times, 1);
    cr_assert_eq(seen.report.code, REDLOCK_CANCELLED);
    servers_cont(&s.servers, 0);
    quorum_close(&s);
}

Test(check, two_at_once)
{
    struct quorum s;
    struct seen one = {0}, other = {0};
    quorum_open(&s, 3);
    cr_assert_eq(redlock_check(s.client, 0, note, &one), REDLOCK_OK);
    cr_assert_eq(redlock_check(s.client, REDLOCK_CHECK_STRICT, note, &other), REDLOCK_OK);
    LOOP_UNTIL(s.base, one.times > 0 && other.times > 0);
    cr_assert_eq(one.report.health, REDLOCK_FIT_WITH_WARNINGS);
    cr_assert_eq(other.report.health, REDLOCK_UNFIT);
    quorum_close(&s);
}

Test(check, the_acl_rule_has_the_clients_prefix)
{
    redlock_options options = quorum_options();
    options.prefix = "lock:";
    options.username = "app";
    struct quorum s;
    char text[400], shorter[4];
    quorum_open_fresh_with(&s, 3, &options);
    size_t len = redlock_client_acl(s.client, 0, text, sizeof(text));
    cr_assert_eq(len, strlen(text));
    cr_assert_not_null(strstr(text, "ACL SETUSER app reset on >SECRET ~lock:* "));
    cr_assert_eq(redlock_client_acl(s.client, 0, shorter, sizeof(shorter)), len);
    cr_assert_str_eq(shorter, "ACL");
    quorum_close(&s);
}
