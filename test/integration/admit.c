/* Admission of real servers: the obstacle is reported, and then nothing was changed. */
#include <criterion/criterion.h>

#include "quorum.h"

static void expect(struct quorum *s, redlock_admission how, size_t node,
                   redlock_code expected, int expected_node, const char *text)
{
    struct admitted admitted;
    redlock_code code = quorum_admit(s, how, node, &admitted);
    cr_assert_eq(code, expected, "%s, not %s", redlock_code_name(code),
                 redlock_code_name(expected));
    cr_assert_eq(admitted.result.node, expected_node, "%d", admitted.result.node);
    cr_assert_not_null(strstr(admitted.text, text), "%s", admitted.text);
}

static unsigned marked(struct quorum *s)
{
    return s->servers.n - servers_with(&s->servers, "!marker", NULL);
}

Test(admit, new_nodes_vote_at_once)
{
    struct quorum s;
    quorum_open_fresh(&s, 5);
    for (unsigned i = 0; i < 5; i++)
        cr_assert_eq(quorum_member(s.client, i)->remaining_us, REDLOCK_UNKNOWN);
    quorum_await_ready(&s);
    cr_assert(quorum_member_is(s.client, 0, "unmarked"));
    cr_assert_eq(quorum_member(s.client, 0)->verdict, REDLOCK_VERDICT_ABSENT);
    expect(&s, REDLOCK_ADMIT_AT_ONCE, 0, REDLOCK_OK, REDLOCK_NO_NODE, "");
    cr_assert_eq(marked(&s), 5);
    for (unsigned i = 0; i < 5; i++) {
        cr_assert_eq(quorum_member(s.client, i)->verdict, REDLOCK_VERDICT_ACTIVE);
        cr_assert(quorum_member_is(s.client, i, "none"));
        cr_assert_eq(servers_number(&s.servers, i, "TTL !marker"), -1, "for good");
    }
    quorum_close(&s);
}

/* The TTLs that the client has used for plain locks do not count. */
Test(admit, limits_the_ttl_of_fenced_locks)
{
    struct quorum s;
    struct reported reported;
    quorum_open_fresh(&s, 3);
    redlock_lease_options options = quorum_fenced_options();
    options.fenced = false;
    options.ttl_ms = REDLOCK_QUARANTINE_FLOOR_MS + 1;
    redlock_lease *lease = quorum_hold(&s, "plain", &options);
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
    quorum_free_lease(&s, lease);
    expect(&s, REDLOCK_ADMIT_AT_ONCE, 0, REDLOCK_OK, REDLOCK_NO_NODE, "");
    options.fenced = true;
    lease = quorum_acquire(&s, "job", &options, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_BAD_TTL);
    redlock_lease_free(lease);
    options.ttl_ms = REDLOCK_QUARANTINE_FLOOR_MS;
    quorum_free_lease(&s, quorum_hold(&s, "job", &options));
    quorum_close(&s);
}

/* The client was created just before: it tries the nodes first. */
Test(admit, a_prefix_admits_keys_of_other_prefixes)
{
    struct quorum s;
    redlock_options options = quorum_options();
    options.prefix = "a*[b]:";
    quorum_open(&s, 3);
    redlock_client_free(s.client);
    for (unsigned i = 0; i < 3; i++) {
        servers_do(&s.servers, i, "SET axb:job value"); /* another prefix's */
        servers_do(&s.servers, i, "SET !marker value");
    }
    s.client = quorum_client(&s, &options);
    expect(&s, REDLOCK_ADMIT_AT_ONCE, 0, REDLOCK_OK, REDLOCK_NO_NODE, "");
    redlock_lease_options lease_options = quorum_fenced_options();
    redlock_lease *lease = quorum_hold(&s, "job", &lease_options);
    quorum_drain(&s);
    cr_assert_eq(servers_with(&s.servers, "a*[b]:job", redlock_token(lease)), 3);
    cr_assert_eq(servers_with(&s.servers, "a*[b]:job!fence", NULL), 0);
    cr_assert_eq(servers_with(&s.servers, "a*[b]:!marker", NULL), 0);
    redlock_lease_free(lease);
    quorum_close(&s);
}

Test(admit, without_a_callback)
{
    struct quorum s;
    quorum_open(&s, 3);
    cr_assert_eq(redlock_admit(s.client, REDLOCK_ADMIT_AT_ONCE, 0, NULL, NULL), REDLOCK_OK);
    for (unsigned i = 0; i < 3; i++)
        LOOP_UNTIL(s.base, quorum_member(s.client, i)->verdict == REDLOCK_VERDICT_ACTIVE);
    quorum_close(&s);
}

Test(admit, of_nodes_in_use_is_refused)
{
    struct quorum s;
    quorum_open(&s, 3);
    servers_do(&s.servers, 1, "SET something value");
    expect(&s, REDLOCK_ADMIT_NEW, 0, REDLOCK_NOT_EMPTY, 1, "something");
    expect(&s, REDLOCK_ADMIT_AT_ONCE, 0, REDLOCK_NOT_EMPTY, 1, "something");
    cr_assert_eq(marked(&s), 0);
    servers_do(&s.servers, 1, "DEL something");
    expect(&s, REDLOCK_ADMIT_AT_ONCE, 0, REDLOCK_OK, REDLOCK_NO_NODE, "");
    expect(&s, REDLOCK_ADMIT_NEW, 0, REDLOCK_NOT_EMPTY, 0, "marker");
    expect(&s, REDLOCK_ADMIT_REPLACE, 2, REDLOCK_NOT_EMPTY, 2, "marker");
    quorum_close(&s);
}

/* A server that stores locks of others, or plain locks of ours, is not a new one. */
Test(admit, of_a_replacement_with_keys_is_refused)
{
    struct quorum s;
    redlock_options options = quorum_options();
    options.prefix = "ours:";
    quorum_open_with(&s, 3, &options);
    expect(&s, REDLOCK_ADMIT_AT_ONCE, 0, REDLOCK_OK, REDLOCK_NO_NODE, "");
    servers_do(&s.servers, 2, "FLUSHALL");
    servers_do(&s.servers, 2, "SET ours:job value");
    servers_do(&s.servers, 2, "SET theirs:job value");
    redlock_client_free(s.client);
    s.client = quorum_client(&s, &options);
    expect(&s, REDLOCK_ADMIT_REPLACE, 2, REDLOCK_NOT_EMPTY, 2, "it has the key ours:job");
    cr_assert_eq(servers_with(&s.servers, "ours:!marker", NULL), 1);
    quorum_close(&s);
}

/* Thousands of keys with another prefix are scanned, page by page. */
Test(admit, scans_all_keys)
{
    struct quorum s;
    redlock_options options = quorum_options();
    options.prefix = "ours:";
    quorum_open(&s, 3);
    redlock_client_free(s.client);
    servers_do(&s.servers, 2, "EVAL %s 0",
               "for i = 1, 20000 do redis.call('SET', 'x' .. i, 1) end");
    servers_do(&s.servers, 2, "SET ours:job value");
    s.client = quorum_client(&s, &options);
    expect(&s, REDLOCK_ADMIT_AT_ONCE, 0, REDLOCK_NOT_EMPTY, 2, "it has the key ours:job");
    servers_do(&s.servers, 2, "DEL ours:job");
    expect(&s, REDLOCK_ADMIT_AT_ONCE, 0, REDLOCK_OK, REDLOCK_NO_NODE, "");
    quorum_close(&s);
}

Test(admit, needs_every_server)
{
    static const redlock_admission ways[] = {REDLOCK_ADMIT_NEW, REDLOCK_ADMIT_AT_ONCE,
                                             REDLOCK_ADMIT_READMIT, REDLOCK_ADMIT_REPLACE};
    struct quorum s;
    quorum_open(&s, 3);
    servers_kill(&s.servers, 1);
    LOOP_UNTIL(s.base, !quorum_is(s.client, 1, "ready"));
    for (size_t i = 0; i < 4; i++)
        expect(&s, ways[i], 0, REDLOCK_UNREACHED, 1, "connect");
    servers_launch(&s.servers, 1);
    cr_assert_eq(marked(&s), 0);
    quorum_close(&s);
}

/* The address of the replaced server may lead elsewhere. */
Test(admit, retires_only_a_replaced_server)
{
    struct quorum s;
    quorum_open_fresh(&s, 3);
    expect(&s, REDLOCK_ADMIT_AT_ONCE, 0, REDLOCK_OK, REDLOCK_NO_NODE, "");
    expect(&s, REDLOCK_ADMIT_RETIRE, 1, REDLOCK_UNADMITTED, 1, "");
    servers_kill(&s.servers, 1);
    LOOP_UNTIL(s.base, !quorum_is(s.client, 1, "ready"));
    expect(&s, REDLOCK_ADMIT_RETIRE, 1, REDLOCK_UNREACHED, 1, "connect");
    quorum_close(&s);
}

Test(admit, of_nodes_without_a_deployment_cannot_wait)
{
    struct quorum s;
    quorum_open(&s, 3);
    expect(&s, REDLOCK_ADMIT_READMIT, 0, REDLOCK_UNADMITTED, 0, "not admitted");
    expect(&s, REDLOCK_ADMIT_REPLACE, 0, REDLOCK_UNADMITTED, 0, "not admitted");
    cr_assert_eq(marked(&s), 0);
    quorum_close(&s);
}

/*
 * Two deployments of three nodes: a client of two nodes of one and one node of the other.
 */
Test(admit, names_the_nodes_of_another_deployment)
{
    struct quorum s, other = {0};
    redlock_options options = quorum_options();
    quorum_open_fenced(&s, 6, NULL);
    other.base = s.base;
    servers_do_first(&s.servers, 6, "FLUSHALL");
    redlock_client_free(s.client);
    for (unsigned half = 0; half < 2; half++) {
        cr_assert_eq(redlock_client_new(s.base, s.servers.uri + 3 * half, 3, &options,
                                        &other.client),
                     REDLOCK_OK);
        cr_assert_eq(quorum_admit(&other, REDLOCK_ADMIT_AT_ONCE, 0, NULL), REDLOCK_OK);
        redlock_client_free(other.client);
    }
    const char *mixed[] = {s.servers.uri[0], s.servers.uri[5], s.servers.uri[1]};
    cr_assert_eq(redlock_client_new(s.base, mixed, 3, &options, &s.client), REDLOCK_OK);
    expect(&s, REDLOCK_ADMIT_READMIT, 0, REDLOCK_WRONG_DEPLOYMENT, 1, "another deployment");
    redlock_lease_options lease_options = quorum_fenced_options();
    redlock_lease *lease = quorum_hold(&s, "job", &lease_options);
    LOOP_UNTIL(s.base, quorum_count_votes(lease, "waiting") == 0);
    cr_assert_eq(quorum_node(lease, 1)->fault, REDLOCK_FAULT_OTHER_DEPLOYMENT);
    quorum_free_lease(&s, lease);
    quorum_close(&s);
}

Test(admit, sets_promises_while_all_vote)
{
    struct quorum s;
    quorum_open_fenced(&s, 3, NULL);
    servers_do(&s.servers, 2, "FLUSHALL");
    redlock_client_free(s.client);
    s.client = quorum_client(&s, NULL);
    redlock_admission how = REDLOCK_ADMIT_READMIT | REDLOCK_PROMISE_SOLE;
    expect(&s, how, 0, REDLOCK_MEMBER_INACTIVE, 2, "");
    quorum_close(&s);
}

Test(admit, replaces_while_all_others_vote)
{
    struct quorum s;
    quorum_open_fenced(&s, 5, NULL);
    servers_do(&s.servers, 3, "FLUSHALL");
    servers_do(&s.servers, 4, "FLUSHALL");
    redlock_client_free(s.client);
    s.client = quorum_client(&s, NULL);
    expect(&s, REDLOCK_ADMIT_REPLACE, 4, REDLOCK_MEMBER_INACTIVE, 3,
           "other nodes have one");
    quorum_close(&s);
}

Test(admit, of_a_user_without_scan)
{
    static const redlock_admission ways[] = {REDLOCK_ADMIT_NEW, REDLOCK_ADMIT_AT_ONCE,
                                             REDLOCK_ADMIT_REPLACE};
    struct quorum s;
    redlock_options options = quorum_options();
    options.username = "app";
    options.password = "secret";
    quorum_open(&s, 3);
    servers_do_first(&s.servers, 3, "ACL SETUSER app on >secret ~* &* +@all -scan");
    redlock_client_free(s.client);
    s.client = quorum_client(&s, &options);
    quorum_await_ready(&s);
    for (size_t i = 0; i < 3; i++) {
        struct admitted admitted;
        cr_assert_eq(quorum_admit(&s, ways[i], 0, &admitted), REDLOCK_DENIED);
        cr_assert_not_null(strstr(admitted.text, "ACL"), "%s", admitted.text);
    }
    cr_assert_eq(marked(&s), 0);
    quorum_close(&s);
}

/* It would not end by itself. */
Test(admit, of_a_user_without_the_marker)
{
    struct quorum s;
    redlock_options options = quorum_options();
    options.username = "app";
    options.password = "secret";
    quorum_open(&s, 3);
    servers_do(&s.servers, 1, "ACL SETUSER app on >secret ~* &* +@all -set");
    servers_do(&s.servers, 0, "ACL SETUSER app on >secret ~* &* +@all");
    servers_do(&s.servers, 2, "ACL SETUSER app on >secret ~* &* +@all");
    redlock_client_free(s.client);
    s.client = quorum_client(&s, &options);
    quorum_await_ready(&s);
    struct admitted admitted;
    cr_assert_eq(quorum_admit(&s, REDLOCK_ADMIT_NEW, 0, &admitted), REDLOCK_DENIED);
    cr_assert_eq(admitted.result.node, 1);
    cr_assert_not_null(strstr(admitted.text, "ACL"), "%s", admitted.text);
    quorum_close(&s);
}

static redlock_client *client_of_nodes(struct quorum *s, unsigned first, unsigned second,
                                       unsigned third)
{
    const char *const uris[] = {s->servers.uri[first], s->servers.uri[second],
                                s->servers.uri[third]};
    redlock_options options = quorum_options();
    redlock_client *client = NULL;
    cr_assert_eq(redlock_client_new(s->base, uris, 3, &options, &client), REDLOCK_OK);
    return client;
}

static redlock_client *client_of(struct quorum *s, unsigned third)
{
    return client_of_nodes(s, 0, 1, third);
}

/* Its list has the node that the other operator replaces. */
static void expect_other(const struct admitted *admitted, int node)
{
    cr_assert_eq(admitted->result.code, REDLOCK_MEMBER_INACTIVE, "%s: %s",
                 redlock_code_name(admitted->result.code), admitted->text);
    cr_assert_eq(admitted->result.node, node);
    cr_assert_not_null(strstr(admitted->text, "assigned again"), "%s", admitted->text);
}

/*
 * Two operators replace two nodes of one deployment. Who sees that ends, and names the node
 * that the other one has replaced. Both new servers can be admitted together.
 */
Test(admit, replaces_two_nodes_at_once)
{
    struct quorum s;
    struct admitted of[2] = {0};
    redlock_client *client[2];
    quorum_open_fresh(&s, 5);
    redlock_client_free(s.client);
    s.client = client_of(&s, 2);
    expect(&s, REDLOCK_ADMIT_AT_ONCE, 0, REDLOCK_OK, REDLOCK_NO_NODE, "");
    redlock_client_free(s.client);
    client[0] = client_of_nodes(&s, 3, 1, 2);
    client[1] = client_of_nodes(&s, 0, 4, 2);
    for (unsigned i = 0; i < 2; i++)
        cr_assert_eq(
            redlock_admit(client[i], REDLOCK_ADMIT_REPLACE, i, admitted_note, &of[i]),
            REDLOCK_OK);
    for (unsigned i = 0; i < 2; i++) {
        LOOP_UNTIL(s.base, of[i].times > 0);
        expect_other(&of[i], i == 0 ? 1 : 0);
        redlock_client_free(client[i]);
    }
    s.client = client_of_nodes(&s, 3, 4, 2);
    cr_assert_eq(redlock_admit(s.client, REDLOCK_ADMIT_READMIT, 0, admitted_note, &of[0]),
                 REDLOCK_OK);
    for (unsigned i = 0; i < 2; i++) /* it only waits for the quarantines, of a minute */
        LOOP_UNTIL(s.base, quorum_member_is(s.client, i, "member_quarantine") &&
                               quorum_member(s.client, i)->remaining_us > 0);
    quorum_close(&s);
}

/* Two operators replace one node by different servers: who loses is told. */
Test(admit, replaces_by_two_at_once)
{
    struct quorum s;
    struct admitted of[2] = {0};
    redlock_client *client[2];
    quorum_open_fresh(&s, 5);
    redlock_client_free(s.client);
    s.client = client_of(&s, 2);
    expect(&s, REDLOCK_ADMIT_AT_ONCE, 0, REDLOCK_OK, REDLOCK_NO_NODE, "");
    redlock_client_free(s.client);
    s.client = NULL;
    servers_kill(&s.servers, 2);
    for (unsigned i = 0; i < 2; i++) {
        client[i] = client_of(&s, 3 + i);
        cr_assert_eq(
            redlock_admit(client[i], REDLOCK_ADMIT_REPLACE, 2, admitted_note, &of[i]),
            REDLOCK_OK);
    }
    LOOP_UNTIL(s.base, of[0].times + of[1].times > 0);
    const struct admitted *loser = &of[of[0].times == 0];
    cr_assert_eq(loser->result.code, REDLOCK_NOT_EMPTY, "%s: %s",
                 redlock_code_name(loser->result.code), loser->text);
    cr_assert_not_null(strstr(loser->text, "got its member index"), "%s", loser->text);
    redlock_client_free(client[0]);
    redlock_client_free(client[1]);
    quorum_close(&s);
}

Test(admit, one_at_a_time)
{
    struct quorum s;
    struct admitted admitted = {0}, second = {0};
    quorum_open(&s, 3);
    cr_assert_eq(redlock_admit(s.client, REDLOCK_ADMIT_NEW, 0, admitted_note, &admitted),
                 REDLOCK_OK);
    cr_assert_eq(redlock_admit(s.client, REDLOCK_ADMIT_NEW, 0, admitted_note, &second),
                 REDLOCK_BUSY);
    redlock_client_free(s.client);
    s.client = NULL;
    cr_assert_eq(admitted.times, 1);
    cr_assert_eq(admitted.result.code, REDLOCK_CANCELLED);
    cr_assert_eq(second.times, 0);
    quorum_close(&s);
}

/* Without fenced locks no node is asked for a marker, and no fenced lock can be held. */
Test(admit, is_needed_for_a_fenced_lock)
{
    struct quorum s;
    struct reported reported;
    redlock_lease_options options = quorum_fenced_options();
    quorum_open(&s, 3);
    redlock_lease *lease = quorum_acquire(&s, "job", &options, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_NO_QUORUM);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(quorum_node(lease, i)->fault, REDLOCK_FAULT_UNMARKED);
    cr_assert_eq(servers_keys(&s.servers), 0);
    redlock_lease_free(lease);
    expect(&s, REDLOCK_ADMIT_AT_ONCE, 0, REDLOCK_OK, REDLOCK_NO_NODE, "");
    lease = quorum_hold(&s, "job", &options);
    redlock_lease_free(lease);
    quorum_close(&s);
}
