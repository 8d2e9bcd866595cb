/*
 * Nodes of fenced locks that lose their memory: they lose their vote, for every client.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "quorum.h"

/* A new client has the others' votes alone. */
static void expect_no_vote_for_a_fresh_client(struct quorum *s, unsigned forgot)
{
    redlock_lease_options options = quorum_quiet_fenced_options();
    redlock_client *old = s->client;
    options.wait_ms = LOOP_PATIENCE_MS; /* every one of the others is needed */
    s->client = quorum_client(s, NULL);
    redlock_lease *lease = quorum_hold(s, "fresh", &options);
    quorum_drain(s);
    cr_assert_eq(quorum_count_votes(lease, "granted"), s->servers.n - 1);
    cr_assert_eq(quorum_node(lease, forgot)->verdict, REDLOCK_VERDICT_ABSENT);
    cr_assert(servers_text(&s->servers, forgot, NULL, "GET fresh"));
    cr_assert_neq(quorum_member(s->client, forgot)->verdict, REDLOCK_VERDICT_ACTIVE);
    quorum_free_lease(s, lease);
    redlock_client_free(s->client);
    s->client = old;
}

static redlock_lease *open_held(struct quorum *s, struct reported *lost)
{
    redlock_lease_options options = quorum_quiet_fenced_options();
    *lost = (struct reported){0};
    options.on_lost = reported_note;
    options.lost_arg = lost;
    quorum_open_fenced(s, 3, NULL);
    redlock_lease *lease = quorum_hold(s, "job", &options);
    quorum_drain(s);
    cr_assert_eq(quorum_count_votes(lease, "granted"), 3);
    return lease;
}

Test(forgetful, flushed)
{
    struct quorum s;
    struct reported lost, reported = {0};
    redlock_lease *lease = open_held(&s, &lost);
    servers_do(&s.servers, 0, "FLUSHALL");
    cr_assert_eq(redlock_extend(lease, 0, reported_note, &reported), REDLOCK_OK);
    EXPECT_REPORTED(&s, &reported, REDLOCK_OK);
    LOOP_UNTIL(s.base, quorum_count_votes(lease, "waiting") == 0);
    cr_assert_eq(quorum_node(lease, 0)->fault, REDLOCK_FAULT_MARKER);
    cr_assert_eq(lost.times, 0);
    redlock_lease_free(lease);
    quorum_close(&s);
}

/* Its data are older: it has the marker of another process. */
Test(forgetful, restarted_with_a_snapshot)
{
    struct quorum s;
    quorum_open_fenced(&s, 3, NULL);
    servers_do(&s.servers, 0, "SAVE");
    redlock_client_free(s.client);
    servers_restart(&s.servers, 0);
    cr_assert_eq(servers_with(&s.servers, "!marker", NULL), 0);
    s.client = quorum_client(&s, NULL);
    quorum_await_ready(&s);
    LOOP_UNTIL(s.base, quorum_member_is(s.client, 0, "other_process"));
    redlock_lease_options options = quorum_quiet_fenced_options();
    redlock_lease *lease = quorum_hold(&s, "job", &options);
    quorum_drain(&s);
    cr_assert_eq(quorum_count_votes(lease, "granted"), 2);
    loop_run_for(s.base, 600);
    cr_assert(quorum_member_is(s.client, 0, "other_process"), "it may be any server");
    redlock_lease_free(lease);
    quorum_close(&s);
}

/*
 * A failover behind an open connection: the process is the same, the history of its data is
 * not. The client reads the history every 10 s.
 */
Test(forgetful, became_a_master_again_on_an_open_connection)
{
    struct quorum s;
    quorum_open_fenced(&s, 3, NULL);
    servers_do(&s.servers, 0, "REPLICAOF 127.0.0.1 1");
    servers_do(&s.servers, 0, "REPLICAOF NO ONE");
    LOOP_UNTIL(s.base, quorum_member(s.client, 0)->verdict != REDLOCK_VERDICT_ACTIVE);
    LOOP_UNTIL(s.base, quorum_member_is(s.client, 0, "member_quarantine"));
    cr_assert_eq(quorum_member(s.client, 1)->verdict, REDLOCK_VERDICT_ACTIVE);
    cr_assert_eq(quorum_member(s.client, 2)->verdict, REDLOCK_VERDICT_ACTIVE);
    quorum_close(&s);
}

/* The same process and the same marker, but the data may be those of another server. */
Test(forgetful, failed_over_and_back)
{
    struct quorum s;
    quorum_open_fenced(&s, 3, NULL);
    redlock_client_free(s.client);
    servers_do(&s.servers, 0, "REPLICAOF 127.0.0.1 1");
    servers_do(&s.servers, 0, "REPLICAOF NO ONE");
    s.client = quorum_client(&s, NULL);
    quorum_await_ready(&s);
    redlock_lease_options options = quorum_quiet_fenced_options();
    redlock_lease *lease = quorum_hold(&s, "job", &options);
    LOOP_UNTIL(s.base, quorum_member_is(s.client, 0, "other_history"));
    redlock_lease_free(lease);
    quorum_close(&s);
}

/* --- what a client finds that knew nothing of the nodes --- */

static void do_nothing(struct quorum *s)
{
    (void)s;
}

static void forget_one(struct quorum *s)
{
    servers_do(&s->servers, 0, "FLUSHALL");
}

static void forget_two(struct quorum *s)
{
    servers_do_first(&s->servers, 2, "FLUSHALL");
}

static void forget_all(struct quorum *s)
{
    servers_do_first(&s->servers, 3, "FLUSHALL");
}

static void kill_two(struct quorum *s)
{
    servers_kill_first(&s->servers, 2);
}

/* The client that saw it before assigns its index again, which the others learn. */
static void come_back_with_older_data(struct quorum *s)
{
    servers_do(&s->servers, 0, "SAVE");
    servers_do(&s->servers, 0, "FLUSHALL");
    LOOP_UNTIL(s->base, quorum_member_is(s->client, 0, "member_quarantine") &&
                            quorum_member(s->client, 0)->remaining_us >= 0);
    redlock_client_free(s->client);
    s->client = NULL; /* it would assign the index once more */
    servers_restart(&s->servers, 0);
}

/* By the spare server, which is not in the list of the next client. */
static void replace_one(struct quorum *s)
{
    const char *first = s->servers.uri[0];
    redlock_client_free(s->client);
    s->servers.uri[0] = s->servers.uri[3];
    s->client = quorum_client(s, NULL);
    s->servers.uri[0] = first;
    cr_assert_eq(redlock_admit(s->client, REDLOCK_ADMIT_REPLACE, 0, NULL, NULL),
                 REDLOCK_OK);
    LOOP_UNTIL(s->base, quorum_member_is(s->client, 0, "member_quarantine") &&
                            quorum_member(s->client, 0)->remaining_us >= 0);
}

#define F(name) REDLOCK_FAULT_##name

/* Three nodes and a spare server, and the reason of an acquire that does not get the lock.
 */
static const struct {
    const char *name;
    void (*happens)(struct quorum *s);
    redlock_fault fault[3];
    redlock_reason reason;
} situations[] = {
    {"nothing", do_nothing, {F(NONE), F(NONE), F(NONE)}, 0},
    {"forget_one", forget_one, {F(MARKER_LOST), F(NONE), F(NONE)}, 0},
    {"forget_two",
     forget_two,
     {F(MARKER_LOST), F(MARKER_LOST), F(NO_MAJORITY)},
     REDLOCK_REASON_NOT_ADMITTED},
    {"forget_all",
     forget_all,
     {F(UNMARKED), F(UNMARKED), F(UNMARKED)},
     REDLOCK_REASON_NOT_ADMITTED},
    {"kill_two",
     kill_two,
     {F(CONNECT), F(CONNECT), F(NO_MAJORITY)},
     REDLOCK_REASON_NOT_ADMITTED},
    {"older_data", come_back_with_older_data, {F(REPLACED), F(NONE), F(NONE)}, 0},
    {"replace_one", replace_one, {F(REPLACED), F(NONE), F(NONE)}, 0},
};

Test(forgetful, what_a_new_client_finds)
{
    for (size_t i = 0; i < sizeof(situations) / sizeof(situations[0]); i++) {
        struct quorum s;
        struct reported reported;
        redlock_lease_options options = quorum_quiet_fenced_options();
        quorum_open_fresh(&s, 4);
        redlock_client_free(s.client);
        s.servers.n = 3;
        s.client = quorum_client(&s, NULL);
        cr_assert_eq(quorum_admit(&s, REDLOCK_ADMIT_AT_ONCE, 0, NULL), REDLOCK_OK);
        situations[i].happens(&s);
        redlock_client_free(s.client);
        s.client = quorum_client(&s, NULL);
        for (unsigned node = 0; node < 3; node++) {
            redlock_fault fault = situations[i].fault[node];
            LOOP_UNTIL(s.base, quorum_member(s.client, node)->fault == fault);
            const char *text = redlock_fault_text(fault); /* words of the system follow */
            cr_assert_eq(strncmp(quorum_member(s.client, node)->text, text, strlen(text)),
                         0, "%s: %u", situations[i].name, node);
        }
        redlock_lease *lease = quorum_acquire(&s, "job", &options, &reported);
        cr_assert_eq(reported.result.reason, situations[i].reason, "%s: %s",
                     situations[i].name, redlock_reason_name(reported.result.reason));
        for (unsigned node = 0; node < 3; node++)
            if (situations[i].fault[node] != REDLOCK_FAULT_NONE)
                cr_assert_eq(quorum_node(lease, node)->fault, situations[i].fault[node],
                             "%s: %u", situations[i].name, node);
        redlock_lease_free(lease);
        s.servers.n = 4;
        quorum_close(&s);
    }
}

/* The value at the marker's key is no marker. */
Test(forgetful, with_a_list_for_a_marker)
{
    struct quorum s;
    struct reported lost;
    redlock_lease *lease = open_held(&s, &lost);
    servers_do(&s.servers, 0, "DEL !marker");
    servers_do(&s.servers, 0, "RPUSH !marker x");
    expect_no_vote_for_a_fresh_client(&s, 0);
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_OK);
    quorum_drain(&s);
    cr_assert_eq(quorum_count_votes(lease, "granted"), 2);
    cr_assert_eq(lost.times, 0);
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    servers_do(&s.servers, 1, "DEL !marker");
    servers_do(&s.servers, 1, "RPUSH !marker x");
    struct reported reported;
    redlock_lease_options options = quorum_quiet_fenced_options();
    lease = quorum_acquire(&s, "other", &options, &reported);
    cr_assert_neq(reported.result.code, REDLOCK_OK);
    redlock_lease_free(lease);
    quorum_close(&s);
}

/*
 * All nodes lose their memory, also the fences. The operator recovers them: every earlier
 * lock has ended by then, and fences go on rising. This is the only test that waits for a
 * quarantine.
 */
Test(forgetful, all_are_recovered_by_an_operator)
{
    struct quorum s;
    struct reported reported;
    redlock_options client_options = quorum_options();
    redlock_lease_options options = quorum_quiet_fenced_options();
    client_options.max_ttl_ms = options.ttl_ms = 1000;
    quorum_open_fenced(&s, 3, &client_options);
    redlock_lease *lease = quorum_hold(&s, "job", &options);
    int64_t fence = redlock_fence(lease);
    redlock_disown(lease);
    quorum_free_lease(&s, lease);
    int64_t before = loop_clock_ms();
    servers_do_first(&s.servers, 3, "FLUSHALL");
    lease = quorum_acquire(&s, "job", &options, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_NO_QUORUM);
    redlock_lease_free(lease);
    quorum_await_ready(&s);
    redlock_code code = quorum_admit(&s, REDLOCK_ADMIT_READMIT, 0, NULL);
    cr_assert_eq(code, REDLOCK_OK, "%s", redlock_code_name(code));
    cr_assert_geq(loop_clock_ms() - before, 12100);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(quorum_member(s.client, i)->verdict, REDLOCK_VERDICT_ACTIVE);
    lease = quorum_hold(&s, "job", &options);
    quorum_drain(&s);
    cr_assert_gt(redlock_fence(lease), fence);
    cr_assert_eq(quorum_count_votes(lease, "granted"), 3);
    redlock_lease_free(lease);
    quorum_close(&s);
}

/* --- the cost of a registration for other clients --- */

static long connections(struct quorum *s)
{
    long sum = 0;
    for (unsigned i = 0; i < s->servers.n; i++)
        sum += atol(servers_info(&s->servers, i, "stats", "total_connections_received"));
    return sum;
}

static unsigned active(const redlock_client *client)
{
    unsigned count = 0;
    for (unsigned i = 0; i < redlock_client_nodes(client); i++)
        count += quorum_member(client, i)->verdict == REDLOCK_VERDICT_ACTIVE;
    return count;
}

/* The incarnation that was assigned to node 4 again is in the markers of all others. */
static bool all_know_node_4(struct quorum *s)
{
    unsigned count = 0;
    for (unsigned i = 0; i < 4; i++) {
        redisReply *marker = servers_run(&s->servers, i, "GET !marker");
        count += marker->type == REDIS_REPLY_STRING && strstr(marker->str, " 2.") != NULL;
        freeReplyObject(marker);
    }
    return count == 4;
}

/*
 * Node 4 loses its memory, and only the first client notices. It assigns the index again,
 * and registers the new incarnation on the others. The second client's next round is
 * refused. It reads the markers again over its open connections.
 */
Test(forgetful, registration_by_one_client_costs_the_other_no_connection)
{
    struct quorum s;
    redlock_lease_options options = quorum_quiet_fenced_options();
    quorum_open_fenced(&s, 5, NULL);
    redlock_client *first = s.client;
    redlock_lease *noticed = quorum_hold(&s, "noticed", &options);
    s.client = quorum_client(&s, NULL);
    redlock_lease *lease = quorum_hold(&s, "job", &options);
    quorum_drain(&s);
    long before = connections(&s);
    servers_do(&s.servers, 4, "FLUSHALL");
    redlock_client *second = s.client;
    s.client = first;
    cr_assert_eq(quorum_extend(&s, noticed, 0), REDLOCK_OK);
    LOOP_UNTIL(s.base, quorum_member_is(first, 4, "member_quarantine"));
    LOOP_UNTIL(s.base, all_know_node_4(&s));
    s.client = second;
    unsigned refused = 0;
    while (quorum_extend(&s, lease, 0) != REDLOCK_OK) {
        refused++;
        quorum_drain(&s); /* late replies tell of their markers, too */
        LOOP_UNTIL(s.base, active(second) == 4);
    }
    LOOP_UNTIL(s.base, active(second) == 4); /* one may have lost the round that was won */
    long dropped = connections(&s) - before;
    cr_assert_eq(dropped, 0, "%ld connections were made again", dropped);
    cr_assert_leq(refused, 1, "%u rounds were lost", refused);
    redlock_lease_free(lease);
    redlock_lease_free(noticed);
    redlock_client_free(first);
    quorum_close(&s);
}
