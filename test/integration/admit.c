/* Admitting real servers: what is in the way is told, and then nothing was changed. */
#include <criterion/criterion.h>

#include "stage.h"

static void expect(struct stage *s, redlock_admission how, size_t node,
                   redlock_code expected, int expected_node, const char *text)
{
    struct admitted admitted;
    redlock_code code = stage_admit(s, how, node, &admitted);
    cr_assert_eq(code, expected, "%s, not %s", redlock_code_name(code),
                 redlock_code_name(expected));
    cr_assert_eq(admitted.result.node, expected_node, "%d", admitted.result.node);
    cr_assert_not_null(strstr(admitted.text, text), "%s", admitted.text);
}

static unsigned marked(struct stage *s)
{
    return s->servers.n - servers_with(&s->servers, "!marker", NULL);
}

Test(admit, at_once)
{
    struct stage s;
    stage_open_fresh(&s, 5);
    for (unsigned i = 0; i < 5; i++)
        cr_assert_eq(stage_standing(s.client, i)->remaining_ms, -1);
    stage_settle(&s);
    cr_assert(stage_stands(s.client, 0, "UNMARKED"));
    cr_assert_str_eq(stage_standing(s.client, 0)->verdict, "absent");
    expect(&s, REDLOCK_ADMIT_AT_ONCE, 0, REDLOCK_OK, -1, "");
    cr_assert_eq(marked(&s), 5);
    for (unsigned i = 0; i < 5; i++) {
        cr_assert_str_eq(stage_standing(s.client, i)->verdict, "sound");
        cr_assert(stage_stands(s.client, i, "NONE"));
        cr_assert_eq(servers_number(&s.servers, i, "TTL !marker"), -1, "for good");
    }
    stage_close(&s);
}

/* The client was made just before: the nodes are tried first. */
Test(admit, at_once_with_a_prefix)
{
    struct stage s;
    redlock_options options = stage_options();
    options.prefix = "a*[b]:";
    stage_open(&s, 3);
    redlock_client_free(s.client);
    for (unsigned i = 0; i < 3; i++) {
        servers_do(&s.servers, i, "SET axb:job value"); /* another prefix's */
        servers_do(&s.servers, i, "SET !marker value");
    }
    s.client = stage_client(&s, &options);
    expect(&s, REDLOCK_ADMIT_AT_ONCE, 0, REDLOCK_OK, -1, "");
    redlock_lease_options lease_options = stage_fenced_options();
    redlock_lease *lease = stage_hold(&s, "job", &lease_options);
    stage_drain(&s);
    cr_assert_eq(servers_with(&s.servers, "a*[b]:job", redlock_token(lease)), 3);
    cr_assert_eq(servers_with(&s.servers, "a*[b]:job!fence", NULL), 0);
    cr_assert_eq(servers_with(&s.servers, "a*[b]:!marker", NULL), 0);
    redlock_lease_free(lease);
    stage_close(&s);
}

Test(admit, of_used_nodes_is_refused)
{
    struct stage s;
    stage_open(&s, 3);
    servers_do(&s.servers, 1, "SET something value");
    expect(&s, REDLOCK_ADMIT_NEW, 0, REDLOCK_USED, 1, "something");
    expect(&s, REDLOCK_ADMIT_AT_ONCE, 0, REDLOCK_USED, 1, "something");
    cr_assert_eq(marked(&s), 0);
    servers_do(&s.servers, 1, "DEL something");
    expect(&s, REDLOCK_ADMIT_AT_ONCE, 0, REDLOCK_OK, -1, "");
    expect(&s, REDLOCK_ADMIT_NEW, 0, REDLOCK_USED, 0, "marker");
    expect(&s, REDLOCK_ADMIT_REPLACE, 2, REDLOCK_USED, 2, "marker");
    stage_close(&s);
}

/* A server that stores locks of others, or plain ones of ours, is not a new one. */
Test(admit, of_a_newcomer_with_keys_is_refused)
{
    struct stage s;
    redlock_options options = stage_options();
    options.prefix = "ours:";
    stage_open_with(&s, 3, &options);
    expect(&s, REDLOCK_ADMIT_AT_ONCE, 0, REDLOCK_OK, -1, "");
    servers_do(&s.servers, 2, "FLUSHALL");
    servers_do(&s.servers, 2, "SET ours:job value");
    servers_do(&s.servers, 2, "SET theirs:job value");
    redlock_client_free(s.client);
    s.client = stage_client(&s, &options);
    expect(&s, REDLOCK_ADMIT_REPLACE, 2, REDLOCK_USED, 2, "it has the key ours:job");
    cr_assert_eq(servers_with(&s.servers, "ours:!marker", NULL), 1);
    stage_close(&s);
}

/* Thousands of keys with another prefix are looked through, page by page. */
Test(admit, looks_at_all_keys)
{
    struct stage s;
    redlock_options options = stage_options();
    options.prefix = "ours:";
    stage_open(&s, 3);
    redlock_client_free(s.client);
    servers_do(&s.servers, 2, "EVAL %s 0",
               "for i = 1, 20000 do redis.call('SET', 'x' .. i, 1) end");
    servers_do(&s.servers, 2, "SET ours:job value");
    s.client = stage_client(&s, &options);
    expect(&s, REDLOCK_ADMIT_AT_ONCE, 0, REDLOCK_USED, 2, "it has the key ours:job");
    servers_do(&s.servers, 2, "DEL ours:job");
    expect(&s, REDLOCK_ADMIT_AT_ONCE, 0, REDLOCK_OK, -1, "");
    stage_close(&s);
}

Test(admit, needs_every_server)
{
    static const redlock_admission ways[] = {REDLOCK_ADMIT_NEW, REDLOCK_ADMIT_AT_ONCE,
                                             REDLOCK_ADMIT_WAIT, REDLOCK_ADMIT_REPLACE};
    struct stage s;
    stage_open(&s, 3);
    servers_kill(&s.servers, 1);
    LOOP_UNTIL(s.base, !stage_is(s.client, 1, "ready"));
    for (size_t i = 0; i < 4; i++)
        expect(&s, ways[i], 0, REDLOCK_UNREACHED, 1, "connection");
    servers_launch(&s.servers, 1);
    cr_assert_eq(marked(&s), 0);
    stage_close(&s);
}

Test(admit, of_nodes_of_no_deployment_cannot_wait)
{
    struct stage s;
    stage_open(&s, 3);
    expect(&s, REDLOCK_ADMIT_WAIT, 0, REDLOCK_UNADMITTED, 0, "never admitted");
    expect(&s, REDLOCK_ADMIT_REPLACE, 0, REDLOCK_UNADMITTED, 0, "never admitted");
    cr_assert_eq(marked(&s), 0);
    stage_close(&s);
}

/* Two deployments of three: a client of two of the one and one of the other. */
Test(admit, tells_who_belongs_elsewhere)
{
    struct stage s, other = {0};
    redlock_options options = stage_options();
    stage_open_fenced(&s, 6, NULL);
    other.base = s.base;
    for (unsigned i = 0; i < 6; i++)
        servers_do(&s.servers, i, "FLUSHALL");
    redlock_client_free(s.client);
    for (unsigned half = 0; half < 2; half++) {
        cr_assert_eq(redlock_client_new(s.base, s.servers.uri + 3 * half, 3, &options,
                                        &other.client, NULL),
                     REDLOCK_OK);
        cr_assert_eq(stage_admit(&other, REDLOCK_ADMIT_AT_ONCE, 0, NULL), REDLOCK_OK);
        redlock_client_free(other.client);
    }
    const char *mixed[] = {s.servers.uri[0], s.servers.uri[5], s.servers.uri[1]};
    cr_assert_eq(redlock_client_new(s.base, mixed, 3, &options, &s.client, NULL),
                 REDLOCK_OK);
    expect(&s, REDLOCK_ADMIT_WAIT, 0, REDLOCK_MEMBERS, 1, "other nodes");
    redlock_lease_options lease_options = stage_fenced_options();
    redlock_lease *lease = stage_hold(&s, "job", &lease_options);
    LOOP_UNTIL(s.base, stage_verdicts(lease, "waiting") == 0);
    cr_assert_str_eq(stage_node(lease, 1)->fault, "ELSEWHERE");
    redlock_lease_free(lease);
    stage_drain(&s);
    stage_close(&s);
}

Test(admit, refuses_what_makes_no_sense)
{
    struct stage s;
    struct admitted admitted = {0}, second = {0};
    stage_open(&s, 3);
    cr_assert_eq(redlock_admit(s.client, (redlock_admission)0, 0, admitted_note, &admitted),
                 REDLOCK_BAD_OPTION);
    cr_assert_eq(redlock_admit(s.client, (redlock_admission)5, 0, admitted_note, &admitted),
                 REDLOCK_BAD_OPTION);
    cr_assert_eq(
        redlock_admit(s.client, REDLOCK_ADMIT_REPLACE, 3, admitted_note, &admitted),
        REDLOCK_BAD_OPTION);
    cr_assert_eq(redlock_admit(s.client, REDLOCK_ADMIT_NEW, 0, admitted_note, &admitted),
                 REDLOCK_OK);
    cr_assert_eq(redlock_admit(s.client, REDLOCK_ADMIT_NEW, 0, admitted_note, &second),
                 REDLOCK_BUSY);
    redlock_client_free(s.client);
    s.client = NULL;
    cr_assert_eq(admitted.times, 1);
    cr_assert_eq(admitted.result.code, REDLOCK_CANCELLED);
    cr_assert_eq(second.times, 0);
    stage_close(&s);
}

/* Without fenced locks nobody is asked for a marker, and no lock is had. */
Test(admit, is_needed_for_a_fenced_lock)
{
    struct stage s;
    struct told told;
    redlock_lease_options options = stage_fenced_options();
    stage_open(&s, 3);
    redlock_lease *lease = stage_acquire(&s, "job", &options, &told);
    cr_assert_eq(told.result.code, REDLOCK_NO_QUORUM);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_str_eq(stage_node(lease, i)->fault, "UNMARKED");
    cr_assert_eq(servers_keys(&s.servers), 0);
    redlock_lease_free(lease);
    expect(&s, REDLOCK_ADMIT_AT_ONCE, 0, REDLOCK_OK, -1, "");
    lease = stage_hold(&s, "job", &options);
    redlock_lease_free(lease);
    stage_close(&s);
}

/* Two operators at once: one wins, or what both wrote is gone again. */
Test(admit, by_two_at_once)
{
    struct stage s;
    stage_open(&s, 5);
    redlock_client *first = s.client, *second = stage_client(&s, NULL);
    stage_settle(&s);
    s.client = second;
    stage_settle(&s);
    for (int turn = 0; turn < 10; turn++) {
        struct admitted a = {0}, b = {0};
        cr_assert_eq(redlock_admit(first, REDLOCK_ADMIT_AT_ONCE, 0, admitted_note, &a),
                     REDLOCK_OK);
        cr_assert_eq(redlock_admit(second, REDLOCK_ADMIT_AT_ONCE, 0, admitted_note, &b),
                     REDLOCK_OK);
        LOOP_UNTIL(s.base, a.times > 0 && b.times > 0);
        unsigned done = (a.result.code == REDLOCK_OK) + (b.result.code == REDLOCK_OK);
        cr_assert_leq(done, 1);
        cr_assert_eq(marked(&s), done ? 5 : 0);
        for (unsigned i = 0; i < 5; i++)
            servers_do(&s.servers, i, "FLUSHALL");
        redlock_client_free(first);
        redlock_client_free(second);
        first = stage_client(&s, NULL);
        s.client = second = stage_client(&s, NULL);
        stage_settle(&s);
    }
    redlock_client_free(first);
    stage_close(&s);
}
