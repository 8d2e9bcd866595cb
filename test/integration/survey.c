/* Looking at a key, and breaking its lock. */
#include <criterion/criterion.h>

#include "stage.h"

struct seen {
    unsigned times;
    redlock_survey survey;
    redlock_node node[REDLOCK_NODES_MAX];
};

static void note(redlock_client *client, const redlock_survey *survey, void *arg)
{
    struct seen *seen = arg;
    cr_assert_not_null(client);
    seen->times++;
    seen->survey = *survey;
    for (size_t i = 0; i < survey->count; i++)
        seen->node[i] = survey->nodes[i];
}

static struct seen look(struct stage *s, const char *key)
{
    struct seen seen = {0};
    cr_assert_eq(redlock_inspect(s->client, key, strlen(key), note, &seen), REDLOCK_OK);
    cr_assert_eq(seen.times, 0);
    LOOP_UNTIL(s->base, seen.times > 0);
    cr_assert_eq(seen.survey.quorum, redlock_client_quorum(s->client));
    cr_assert_eq(seen.survey.count, redlock_client_nodes(s->client));
    return seen;
}

static struct seen break_lock(struct stage *s, const char *key)
{
    struct seen seen = {0};
    cr_assert_eq(redlock_break(s->client, key, strlen(key), note, &seen), REDLOCK_OK);
    LOOP_UNTIL(s->base, seen.times > 0);
    return seen;
}

Test(survey, free_key)
{
    struct stage s;
    stage_open(&s, 5);
    struct seen seen = look(&s, "job");
    cr_assert_eq(seen.survey.code, REDLOCK_OK);
    cr_assert_eq(seen.survey.free, 5);
    cr_assert_eq(seen.survey.held, 0);
    cr_assert_eq(seen.survey.agreeing, 0);
    cr_assert_eq(seen.survey.remaining_ms, 0);
    for (int i = 0; i < 5; i++) {
        cr_assert_str_eq(seen.node[i].verdict, "gone");
        cr_assert_str_eq(seen.node[i].uri, s.servers.uri[i]);
        cr_assert_geq(seen.node[i].latency_us, 0);
    }
    stage_close(&s);
}

Test(survey, held_key)
{
    struct stage s;
    stage_open(&s, 5);
    redlock_lease *lease = stage_hold(&s, "job", NULL);
    stage_drain(&s);
    struct seen seen = look(&s, "job");
    cr_assert_eq(seen.survey.code, REDLOCK_OK);
    cr_assert_eq(seen.survey.held, 5);
    cr_assert_eq(seen.survey.agreeing, 5);
    cr_assert(seen.survey.remaining_ms > 0 && seen.survey.remaining_ms <= 60000);
    for (int i = 0; i < 5; i++) {
        cr_assert_str_eq(seen.node[i].verdict, "held");
        cr_assert_str_eq(seen.node[i].holder, "stage");
        cr_assert_str_eq(seen.node[i].value, redlock_token(lease));
        cr_assert(seen.node[i].remaining_ms > 0 && seen.node[i].remaining_ms <= 60000);
    }
    cr_assert_eq(servers_with(&s.servers, "job", redlock_token(lease)), 5);
    redlock_lease_free(lease);
    stage_close(&s);
}

Test(survey, split_key)
{
    struct stage s;
    stage_open(&s, 5);
    servers_do(&s.servers, 0, "SET job a PX 90000");
    servers_do(&s.servers, 1, "SET job b PX 80000");
    servers_do(&s.servers, 2, "SET job b PX 70000");
    servers_do(&s.servers, 3, "SET job c");
    struct seen seen = look(&s, "job");
    cr_assert_eq(seen.survey.code, REDLOCK_OK);
    cr_assert_eq(seen.survey.held, 4);
    cr_assert_eq(seen.survey.free, 1);
    cr_assert_eq(seen.survey.agreeing, 2);
    cr_assert(seen.survey.remaining_ms > 70000 && seen.survey.remaining_ms <= 80000);
    cr_assert_str_eq(seen.node[3].holder, "c");
    cr_assert_eq(seen.node[3].remaining_ms, -1);
    stage_close(&s);
}

/* Keys of one holder that end one by one: at the end of the third of five a quorum is free.
 */
Test(survey, time_left_is_that_of_the_quorum_as_of_a_refused_acquire)
{
    struct stage s;
    struct told told;
    stage_open(&s, 5);
    for (int i = 0; i < 5; i++)
        servers_do(&s.servers, (unsigned)i, "SET job a PX %d", (i + 1) * 100000);
    struct seen seen = look(&s, "job");
    cr_assert_eq(seen.survey.agreeing, 5);
    cr_assert(seen.survey.remaining_ms > 200000 && seen.survey.remaining_ms <= 300000);
    redlock_lease *lease = stage_acquire(&s, "job", NULL, &told);
    cr_assert_eq(told.result.code, REDLOCK_TAKEN);
    cr_assert(told.result.remaining_ms > 200000 && told.result.remaining_ms <= 300000);
    redlock_lease_free(lease);
    servers_do(&s.servers, 0, "PERSIST job");
    servers_do(&s.servers, 1, "PERSIST job");
    servers_do(&s.servers, 2, "PERSIST job");
    cr_assert_eq(look(&s, "job").survey.remaining_ms, -1, "no quorum is free by itself");
    stage_close(&s);
}

/* What is there may be anything: it is shown as one printable word. */
Test(survey, strange_values)
{
    struct stage s;
    char long_value[301];
    memset(long_value, 'x', 300);
    long_value[300] = '\0';
    stage_open(&s, 5);
    servers_do(&s.servers, 0, "SET job %b", "a\0b", (size_t)3);
    servers_do(&s.servers, 1, "SET job %b", "\033[2Jgone", (size_t)8);
    servers_do(&s.servers, 2, "SET job %s", long_value);
    servers_do(&s.servers, 3, "SET job %b", "", (size_t)0);
    servers_do(&s.servers, 4, "RPUSH job element");
    struct seen seen = look(&s, "job");
    cr_assert_eq(seen.survey.code, REDLOCK_OK);
    cr_assert_eq(seen.survey.held, 5);
    for (int i = 0; i < 5; i++)
        for (const char *c = seen.node[i].holder; *c; c++)
            cr_assert(*c >= ' ' && *c <= '~');
    cr_assert_str_empty(seen.node[0].value, "a value with a NUL is no text");
    cr_assert_str_empty(seen.node[1].value, "nor is one with an escape");
    cr_assert_eq(strlen(seen.node[2].holder), REDLOCK_TOKEN_MAX);
    cr_assert_str_eq(seen.node[3].verdict, "held");
    cr_assert_str_eq(seen.node[4].fault, "WRONGTYPE");
    stage_close(&s);
}

Test(survey, minority_is_no_quorum)
{
    struct stage s;
    stage_open(&s, 5);
    for (unsigned i = 0; i < 3; i++)
        servers_kill(&s.servers, i);
    for (unsigned i = 0; i < 3; i++)
        LOOP_UNTIL(s.base, !stage_is(s.client, i, "ready"));
    struct seen seen = look(&s, "job");
    cr_assert_eq(seen.survey.code, REDLOCK_NO_QUORUM);
    cr_assert_eq(seen.survey.free, 2);
    cr_assert_str_eq(seen.node[0].verdict, "absent");
    cr_assert_str_neq(seen.node[0].fault, "NONE");
    stage_close(&s);
}

Test(survey, a_silent_node_is_waited_for_once)
{
    redlock_options options = stage_options();
    options.node_timeout_ms = 300;
    struct stage s;
    stage_open_with(&s, 5, &options);
    servers_stop(&s.servers, 2);
    struct seen seen = look(&s, "job");
    cr_assert_eq(seen.survey.code, REDLOCK_OK);
    cr_assert_eq(seen.survey.free, 4);
    cr_assert_str_eq(seen.node[2].verdict, "silent");
    cr_assert_str_eq(seen.node[2].fault, "TIMEOUT");
    servers_cont(&s.servers, 2);
    stage_close(&s);
}

Test(survey, of_a_fresh_client)
{
    struct stage s;
    stage_open_fresh(&s, 5);
    struct seen seen = look(&s, "job"); /* before any node was connected to */
    unsigned absent = 0;
    cr_assert_geq(seen.survey.free, 3);
    for (int i = 0; i < 5; i++) /* those that greet late are not waited for */
        absent += strcmp(seen.node[i].verdict, "absent") == 0;
    cr_assert_eq(seen.survey.free + absent, 5);
    stage_close(&s);
}

Test(survey, broken_lock)
{
    struct stage s;
    struct told lost = {0}, told = {0};
    redlock_lease_options options = stage_lease_options();
    options.on_lost = told_note;
    options.lost_arg = &lost;
    options.watchdog = false;
    stage_open(&s, 5);
    redlock_lease *lease = stage_hold(&s, "job", &options);
    stage_drain(&s);
    struct seen seen = break_lock(&s, "job");
    cr_assert_eq(seen.survey.code, REDLOCK_OK);
    cr_assert_eq(seen.survey.held, 5);
    cr_assert_eq(seen.survey.agreeing, 5);
    cr_assert_str_eq(seen.node[0].holder, "stage");
    cr_assert_str_eq(seen.node[0].value, redlock_token(lease));
    cr_assert_eq(servers_keys(&s.servers), 0);
    cr_assert_gt(redlock_valid_ms(lease), 0, "it cannot know yet");
    cr_assert_eq(redlock_extend(lease, 0, told_note, &told), REDLOCK_OK);
    EXPECT_TOLD(&s, &told, REDLOCK_GONE);
    cr_assert_eq(lost.times, 1);
    redlock_lease_free(lease);
    stage_drain(&s);
    cr_assert_eq(servers_keys(&s.servers), 0);
    stage_close(&s);
}

Test(survey, nothing_to_break)
{
    struct stage s;
    stage_open(&s, 3);
    struct seen seen = break_lock(&s, "job");
    cr_assert_eq(seen.survey.code, REDLOCK_OK);
    cr_assert_eq(seen.survey.free, 3);
    cr_assert_eq(seen.survey.held, 0);
    stage_close(&s);
}

Test(survey, bad_keys)
{
    struct stage s;
    char key[REDLOCK_KEY_MAX + 1] = {0};
    struct seen seen = {0};
    stage_open(&s, 1);
    cr_assert_eq(redlock_inspect(s.client, key, 0, note, &seen), REDLOCK_BAD_KEY);
    cr_assert_eq(redlock_break(s.client, key, sizeof(key), note, &seen), REDLOCK_BAD_KEY);
    stage_drain(&s);
    cr_assert_eq(seen.times, 0);
    stage_close(&s);
}
