/* Are these nodes fit: how it is asked and told. What is found has a test of the command.
 */
#include <criterion/criterion.h>

#include "stage.h"

struct seen {
    unsigned times;
    redlock_checkup checkup;
    redlock_fitness node[REDLOCK_NODES_MAX];
    char codes[REDLOCK_NODES_MAX][200]; /* "forgets has_replicas " */
};

static void note(redlock_client *client, const redlock_checkup *checkup, void *arg)
{
    struct seen *seen = arg;
    cr_assert_not_null(client);
    seen->times++;
    seen->checkup = *checkup;
    for (size_t i = 0; i < checkup->count; i++) {
        seen->node[i] = checkup->nodes[i];
        for (size_t j = 0; j < checkup->nodes[i].count; j++) {
            strcat(seen->codes[i], checkup->nodes[i].findings[j].code);
            strcat(seen->codes[i], " ");
        }
    }
}

static void check(struct stage *s, unsigned how, struct seen *seen)
{
    memset(seen, 0, sizeof(*seen));
    cr_assert_eq(redlock_check(s->client, how, note, seen), REDLOCK_OK);
    cr_assert_eq(seen->times, 0);
    LOOP_UNTIL(s->base, seen->times > 0);
    cr_assert_eq(seen->checkup.code, REDLOCK_OK);
    cr_assert_eq(seen->checkup.quorum, redlock_client_quorum(s->client));
    cr_assert_eq(seen->checkup.count, redlock_client_nodes(s->client));
}

Test(check, of_a_fresh_client)
{
    struct stage s;
    struct seen seen;
    stage_open_fresh(&s, 5);
    check(&s, 0, &seen); /* before any node was connected to */
    cr_assert_eq(seen.checkup.verdict, REDLOCK_FIT_WITH_WARNINGS);
    cr_assert_eq(seen.checkup.fit, 5);
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
    check(&s, REDLOCK_CHECK_STRICT, &seen); /* and again, with connections that stand */
    cr_assert_eq(seen.checkup.verdict, REDLOCK_UNFIT);
    cr_assert_eq(seen.checkup.fit, 0);
    stage_close(&s);
}

/* One server only: those of a stage share the folder of their append-only files. That they
 * take DEBUG, for the tests, is all that is found. */
Test(check, a_durable_node_is_fit)
{
    struct stage s;
    struct seen seen;
    stage_open(&s, 1);
    servers_do(&s.servers, 0, "CONFIG SET appendfsync always");
    servers_do(&s.servers, 0, "CONFIG SET appendonly yes");
    check(&s, 0, &seen);
    cr_assert_str_eq(seen.codes[0], "debug ");
    cr_assert_str_eq(seen.node[0].fsync, "always");
    cr_assert_eq(seen.checkup.verdict, REDLOCK_FIT_WITH_WARNINGS);
    stage_close(&s);
}

/* No key is written, so a lock that is held is as it was. */
Test(check, locks_are_left_alone)
{
    struct stage s;
    struct seen seen;
    stage_open(&s, 5);
    redlock_lease *lease = stage_hold(&s, "job", NULL);
    stage_drain(&s);
    for (unsigned i = 0; i < 5; i++)
        servers_do(&s.servers, i, "CONFIG RESETSTAT");
    check(&s, 0, &seen);
    cr_assert_eq(servers_with(&s.servers, "job", redlock_token(lease)), 5);
    cr_assert_eq(servers_keys(&s.servers), 5);
    for (unsigned i = 0; i < 5; i++)
        cr_assert_str_eq(servers_info(&s.servers, i, "stats", "expired_keys"), "0");
    cr_assert_eq(stage_release(&s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    stage_close(&s);
}

Test(check, a_dead_node_is_told_at_once)
{
    struct stage s;
    struct seen seen;
    stage_open_fresh(&s, 5);
    servers_kill(&s.servers, 1);
    check(&s, 0, &seen);
    cr_assert_str_eq(seen.codes[1], "unreachable ");
    cr_assert_str_eq(seen.codes[2], "forgets debug ");
    cr_assert_eq(seen.node[1].latency_us, -1);
    cr_assert_eq(seen.checkup.fit, 4);
    cr_assert_eq(seen.checkup.verdict, REDLOCK_FIT_WITH_WARNINGS);
    stage_close(&s);
}

static void check_with_a_stopped_node(bool connected)
{
    redlock_options options = stage_options();
    options.node_timeout_ms = 300;
    options.connect_timeout_ms = 300;
    struct stage s;
    struct seen seen;
    if (connected)
        stage_open_with(&s, 5, &options);
    else
        stage_open_fresh_with(&s, 5, &options);
    servers_stop(&s.servers, 2);
    check(&s, 0, &seen);
    cr_assert_str_eq(seen.codes[2], "unreachable ");
    cr_assert(!seen.node[2].fit);
    servers_cont(&s.servers, 2);
    stage_close(&s);
}

Test(check, a_node_that_hangs)
{
    check_with_a_stopped_node(false);
    check_with_a_stopped_node(true);
}

/* --- once, whatever happens --- */

#define MOMENTS 14

Test(check, client_freed_at_each_moment)
{
    struct stage s;
    unsigned cancelled = 0, done = 0;
    stage_open(&s, 5);
    for (int moment = 0; moment < 2 * MOMENTS; moment++) {
        bool connected = moment % 2;
        struct seen seen = {0};
        redlock_client *client = stage_client(&s, NULL);
        if (connected)
            LOOP_UNTIL(s.base, stage_is(client, 4, "ready"));
        cr_assert_eq(redlock_check(client, 0, note, &seen), REDLOCK_OK);
        for (int i = 0; i < moment / 2; i++)
            loop_pass(s.base);
        redlock_client_free(client);
        cr_assert_eq(seen.times, 1);
        cancelled += seen.checkup.code == REDLOCK_CANCELLED;
        done += seen.checkup.code == REDLOCK_OK;
        cr_assert_eq(seen.checkup.verdict == REDLOCK_UNTRIED,
                     seen.checkup.code == REDLOCK_CANCELLED);
    }
    cr_assert_gt(cancelled, 0);
    cr_assert_eq(cancelled + done, 2 * MOMENTS);
    stage_close(&s);
}

static void free_client(redlock_client *client, const redlock_checkup *checkup, void *arg)
{
    struct stage *s = arg;
    cr_assert_eq(client, s->client);
    redlock_client_free(client);
    s->client = NULL;
    /* What was handed over lives until here. */
    cr_assert_str_eq(checkup->nodes[4].findings[0].code, "forgets");
}

Test(check, client_freed_inside_the_callback)
{
    struct stage s;
    stage_open(&s, 5);
    cr_assert_eq(redlock_check(s.client, 0, free_client, &s), REDLOCK_OK);
    LOOP_UNTIL(s.base, !s.client);
    stage_close(&s);
}

Test(check, client_freed_while_a_node_hangs)
{
    struct stage s;
    struct seen seen = {0};
    stage_open(&s, 3);
    servers_stop(&s.servers, 0);
    cr_assert_eq(redlock_check(s.client, 0, note, &seen), REDLOCK_OK);
    for (int i = 0; i < MOMENTS; i++)
        loop_pass(s.base);
    redlock_client_free(s.client);
    s.client = NULL;
    cr_assert_eq(seen.times, 1);
    cr_assert_eq(seen.checkup.code, REDLOCK_CANCELLED);
    servers_cont(&s.servers, 0);
    stage_close(&s);
}

Test(check, two_at_once)
{
    struct stage s;
    struct seen one = {0}, other = {0};
    stage_open(&s, 3);
    cr_assert_eq(redlock_check(s.client, 0, note, &one), REDLOCK_OK);
    cr_assert_eq(redlock_check(s.client, REDLOCK_CHECK_STRICT, note, &other), REDLOCK_OK);
    LOOP_UNTIL(s.base, one.times > 0 && other.times > 0);
    cr_assert_eq(one.checkup.verdict, REDLOCK_FIT_WITH_WARNINGS);
    cr_assert_eq(other.checkup.verdict, REDLOCK_UNFIT);
    stage_close(&s);
}

Test(check, the_rule_is_of_the_client)
{
    redlock_options options = stage_options();
    options.prefix = "lock:";
    options.username = "app";
    struct stage s;
    char text[400], shorter[4];
    stage_open_fresh_with(&s, 3, &options);
    size_t len = redlock_client_acl(s.client, text, sizeof(text));
    cr_assert_eq(len, strlen(text));
    cr_assert_not_null(strstr(text, "ACL SETUSER app reset on >SECRET ~lock:* "));
    cr_assert_eq(redlock_client_acl(s.client, shorter, sizeof(shorter)), len);
    cr_assert_str_eq(shorter, "ACL");
    stage_close(&s);
}
