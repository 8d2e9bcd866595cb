/* Fenced locks on real servers: their fencing tokens rise in every case. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>

#include "quorum.h"

static redlock_lease_options quiet_options(void)
{
    redlock_lease_options options = quorum_fenced_options();
    options.watchdog = false;
    return options;
}

static redlock_lease *hold(struct quorum *s, const char *key)
{
    redlock_lease_options options = quiet_options();
    redlock_lease *lease = quorum_hold(s, key, &options);
    cr_assert_gt(redlock_fence(lease), 0);
    return lease;
}

/* A client knows the nodes' time to half a round trip, however slow the machine is. */
#define SLACK_US 60000000

static int64_t stored_fence(struct quorum *s, unsigned i, const char *key)
{
    redisReply *reply = servers_run(&s->servers, i, "GET %s!fence", key);
    cr_assert_eq(reply->type, REDIS_REPLY_STRING, "no fence on server %u", i);
    int64_t fence = strtoll(reply->str, NULL, 10);
    freeReplyObject(reply);
    return fence;
}

/* The server's time of day, us. */
static int64_t time_of(struct quorum *s, unsigned i)
{
    redisReply *reply = servers_run(&s->servers, i, "TIME");
    cr_assert_eq(reply->elements, 2);
    int64_t time = strtoll(reply->element[0]->str, NULL, 10) * 1000000 +
                   strtoll(reply->element[1]->str, NULL, 10);
    freeReplyObject(reply);
    return time;
}

/* Only the marker and the fence of each key that was ever locked remain. */
static void expect_left(struct quorum *s, unsigned keys)
{
    quorum_await_ready(s);
    quorum_drain(s);
    cr_assert_eq(servers_keys(&s->servers), (1 + keys) * s->servers.n);
}

/* --- operations --- */

Test(fenced, acquired_extended_and_released)
{
    struct quorum s;
    quorum_open_fenced(&s, 5, NULL);
    redlock_lease *lease = hold(&s, "job");
    int64_t fence = redlock_fence(lease), now = time_of(&s, 0);
    cr_assert(fence > now - SLACK_US && fence < now + SLACK_US, "it is the nodes' time");
    cr_assert_eq(strncmp(redlock_token(lease), "f:", 2), 0);
    cr_assert_gt(redlock_valid_ms(lease), 50000);
    quorum_drain(&s);
    cr_assert_eq(servers_with(&s.servers, "job", redlock_token(lease)), 5);
    for (unsigned i = 0; i < 5; i++)
        cr_assert_eq(stored_fence(&s, i, "job"), fence);
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_OK);
    cr_assert_eq(redlock_fence(lease), fence, "it is the same hold");
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    expect_left(&s, 1);
    quorum_close(&s);
}

Test(fenced, rise_from_hold_to_hold_and_from_client_to_client)
{
    struct quorum s;
    quorum_open_fenced(&s, 3, NULL);
    redlock_client *client[] = {s.client, quorum_client(&s, NULL), quorum_client(&s, NULL)};
    int64_t last = 0;
    for (unsigned i = 0; i < 60; i++) {
        s.client = client[i * i % 3];
        redlock_lease *lease = hold(&s, "job");
        cr_assert_gt(redlock_fence(lease), last);
        last = redlock_fence(lease);
        redlock_lease_free(lease);
        quorum_drain(&s);
    }
    s.client = client[0];
    redlock_client_free(client[1]);
    redlock_client_free(client[2]);
    quorum_close(&s);
}

Test(fenced, excludes_as_any_lock_does)
{
    struct quorum s;
    struct reported reported;
    redlock_lease_options options = quiet_options();
    quorum_open_fenced(&s, 3, NULL);
    redlock_client *other = quorum_client(&s, NULL), *holder = s.client;
    redlock_lease *lease = hold(&s, "job");
    quorum_drain(&s);
    s.client = other;
    quorum_await_ready(&s);
    redlock_lease *refused = quorum_acquire(&s, "job", &options, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_TAKEN);
    cr_assert_eq(redlock_fence(refused), 0);
    cr_assert_str_eq(quorum_node(refused, 0)->holder, "quorum");
    redlock_lease_free(refused);
    options.fenced = false; /* a plain lock of the same key */
    refused = quorum_acquire(&s, "job", &options, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_TAKEN);
    redlock_lease_free(refused);
    s.client = holder;
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    redlock_client_free(other);
    quorum_close(&s);
}

Test(fenced, watchdog_extends)
{
    struct quorum s;
    struct reported extended = {0};
    redlock_lease_options options = quorum_fenced_options();
    options.ttl_ms = 1500;
    options.on_extended = reported_note;
    options.extended_arg = &extended;
    quorum_open_fenced(&s, 3, NULL);
    redlock_lease *lease = quorum_hold(&s, "job", &options);
    int64_t fence = redlock_fence(lease);
    LOOP_UNTIL(s.base, extended.times >= 3);
    cr_assert_eq(redlock_fence(lease), fence);
    cr_assert_gt(redlock_valid_ms(lease), 0);
    redlock_lease_free(lease);
    expect_left(&s, 1);
    quorum_close(&s);
}

/* --- fences --- */

/* One node stores a later fence, as after a round that was lost: a quorum must store it. */
Test(fenced, raise_fence_when_one_node_stores_a_later_one)
{
    struct quorum s;
    quorum_open_fenced(&s, 3, NULL);
    int64_t later = time_of(&s, 0) + 2000000;
    servers_do(&s.servers, 0, "SET job!fence %" PRId64, later);
    servers_stop(&s.servers, 2); /* so that node 0 is needed */
    redlock_lease *lease = hold(&s, "job");
    cr_assert_eq(redlock_fence(lease), later + 1);
    cr_assert_eq(stored_fence(&s, 0, "job"), later + 1);
    cr_assert_eq(stored_fence(&s, 1, "job"), later + 1, "held before a quorum stores it");
    servers_cont(&s.servers, 2);
    quorum_drain(&s);
    redlock_lease_free(lease);
    quorum_drain(&s);
    lease = hold(&s, "job");
    cr_assert_gt(redlock_fence(lease), later + 1);
    redlock_lease_free(lease);
    quorum_close(&s);
}

/* Further ahead than any clock may be: that node has no vote on this key. */
Test(fenced, ahead_of_the_clock)
{
    struct quorum s;
    quorum_open_fenced(&s, 3, NULL);
    int64_t later = time_of(&s, 1) + SLACK_US;
    servers_do(&s.servers, 1, "SET job!fence %" PRId64, later);
    redlock_lease *lease = hold(&s, "job");
    LOOP_UNTIL(s.base, quorum_count_votes(lease, "waiting") == 0);
    cr_assert_eq(quorum_node(lease, 1)->verdict, REDLOCK_VERDICT_ERROR);
    cr_assert_eq(quorum_node(lease, 1)->fault, REDLOCK_FAULT_AHEAD);
    cr_assert_lt(redlock_fence(lease), later);
    redlock_lease_free(lease);
    quorum_close(&s);
}

/* It is kept for as long as the longest lock that was ever fenced with it. */
Test(fenced, fence_is_kept_for_a_day)
{
    struct quorum s;
    quorum_open_fenced(&s, 3, NULL);
    redlock_lease *lease = hold(&s, "job");
    quorum_drain(&s);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_gt(servers_number(&s.servers, i, "TTL job!fence"), 86400 - 60);
        servers_do(&s.servers, i, "PERSIST job!fence");
    }
    redlock_lease_free(lease);
    quorum_drain(&s);
    redlock_lease_free(hold(&s, "job"));
    quorum_drain(&s);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_gt(servers_number(&s.servers, i, "TTL job!fence"), 86400 - 60);
    quorum_close(&s);
}

static void fence_that_is(const char *text)
{
    struct quorum s;
    struct reported reported;
    redlock_lease_options options = quiet_options();
    quorum_open_fenced(&s, 3, NULL);
    servers_do(&s.servers, 1, "SET job!fence %s", text);
    redlock_lease *lease = hold(&s, "job");
    LOOP_UNTIL(s.base, quorum_count_votes(lease, "waiting") == 0);
    cr_assert_eq(quorum_node(lease, 1)->verdict, REDLOCK_VERDICT_ERROR, "%s", text);
    cr_assert_eq(quorum_node(lease, 1)->fault, REDLOCK_FAULT_FENCE, "%s", text);
    cr_assert_eq(servers_with(&s.servers, "job", redlock_token(lease)), 2);
    redlock_lease_free(lease);
    quorum_drain(&s);
    servers_do(&s.servers, 2, "SET job!fence %s", text);
    lease = quorum_acquire(&s, "job", &options, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_NO_QUORUM, "%s", text);
    redlock_lease_free(lease);
    quorum_drain(&s);
    for (unsigned i = 0; i < 3; i++)
        cr_assert(quorum_is(s.client, i, "ready"), "the others' locks are not its fault");
    redlock_lease_free(hold(&s, "other"));
    quorum_close(&s);
}

Test(fenced, fence_that_is_not_a_decimal)
{
    fence_that_is("abc");
}

/* Lua reads it as a number that is neither above nor below any other. */
Test(fenced, fence_that_is_nan)
{
    fence_that_is("nan");
}

static void stop_all(struct quorum *s)
{
    for (unsigned i = 0; i < s->servers.n; i++)
        servers_stop(&s->servers, i);
}

static void cont_all(struct quorum *s)
{
    for (unsigned i = 0; i < s->servers.n; i++)
        servers_cont(&s->servers, i);
}

/* The nodes execute what was sent to them now; their replies are not read yet. */
static void answer_unread(struct quorum *s)
{
    cont_all(s);
    while (servers_with(&s->servers, "job", NULL) > 0)
        ;
    servers_settle(&s->servers);
    stop_all(s);
}

/*
 * The grants of the acquire have different fences: the lease is held once a quorum stores
 * the largest. During that round, and if it fails, there is no fencing token.
 */
Test(fenced, has_no_fencing_token_before_it_is_held)
{
    struct quorum s;
    struct reported reported = {0};
    redlock_options client_options = quorum_options();
    redlock_lease_options options = quiet_options();
    redlock_lease *lease;
    client_options.node_timeout_ms = 1000;
    quorum_open_fenced(&s, 3, &client_options);
    for (unsigned i = 0; i < 3; i++)
        servers_do(&s.servers, i, "SET job!fence %lld PX 60000",
                   (long long)time_of(&s, i) + 1000000 * (i + 1));
    stop_all(&s);
    cr_assert_eq(
        redlock_acquire(s.client, "job", 3, &options, reported_note, &reported, &lease),
        REDLOCK_OK);
    cr_assert_eq(redlock_fence(lease), 0);
    event_base_loop(s.base, EVLOOP_NONBLOCK); /* the acquire is written */
    answer_unread(&s);
    LOOP_UNTIL(s.base, reported.times > 0 || redlock_fence(lease) > 0);
    cr_assert_eq(reported.times, 1, "it has a fence while the largest is being stored");
    cr_assert_eq(reported.result.code, REDLOCK_NO_QUORUM);
    cr_assert_eq(redlock_fence(lease), 0, "after that failed");
    cont_all(&s);
    redlock_lease_free(lease);
    expect_left(&s, 1);
    quorum_close(&s);
}

/* --- adopted tokens --- */

/* Leaves a fenced lock on the nodes, with a new client. */
static int64_t leave_behind(struct quorum *s, char token[REDLOCK_TOKEN_MAX + 1])
{
    redlock_lease *lease = hold(s, "job");
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
    redlock_lease_options options = quiet_options();
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
    expect_left(&s, 1);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(stored_fence(&s, i, "job"), fence);
    quorum_close(&s);
}

Test(fenced, adopted_with_its_fence)
{
    adopt(true, 30000);
}

Test(fenced, adopted_without_its_fence)
{
    adopt(false, 30000);
}

Test(fenced, adopted_with_an_unknown_deadline)
{
    adopt(true, 0);
}

/* A fence of no clock of ours: it is neither used in an extension nor stored. */
Test(fenced, adopted_with_a_fence_that_is_ahead)
{
    struct quorum s;
    char token[REDLOCK_TOKEN_MAX + 1];
    redlock_lease_options options = quiet_options();
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
    redlock_lease_free(lease);
    quorum_drain(&s);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(stored_fence(&s, i, "job"), fence);
    quorum_close(&s);
}

/* --- the longest TTL --- */

/* The longest TTL of the admission applies, also to clients that did not know it. */
Test(fenced, not_for_longer_than_the_admitted_ttl)
{
    struct quorum s;
    struct reported reported;
    redlock_options client_options = quorum_options();
    redlock_lease_options options = quiet_options();
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
        "the TTL is 20001 ms, and the nodes were admitted for at most 20000 ms");
    cr_assert_eq(quorum_extend(&s, lease, 20000), REDLOCK_OK);
    redlock_lease_free(lease);
    options.fenced = false; /* the admitted TTL does not limit a plain lock */
    options.ttl_ms = 60000;
    lease = quorum_hold(&s, "plain", &options);
    redlock_lease_free(lease);
    expect_left(&s, 1);
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

static void worker_over(struct handover *h, int64_t valid_ms,
                        const redlock_lease_options *options)
{
    redlock_options client_options = quorum_options();
    redlock_lease_options mine = quiet_options();
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
Test(fenced, adopted_and_not_extended_for_longer_either)
{
    struct handover h;
    struct reported reported = {0};
    redlock_lease_options options = quiet_options();
    options.ttl_ms = 50000;
    worker_over(&h, 0, &options);
    cr_assert_eq(redlock_extend(h.adopted, 0, reported_note, &reported), REDLOCK_OK);
    EXPECT_REPORTED(&h.s, &reported, REDLOCK_BAD_TTL);
    cr_assert_eq(redlock_valid_ms(h.adopted), 0);
    cr_assert(is_nowhere_longer(&h.s, "job", 5000));
    cr_assert_eq(quorum_extend(&h.s, h.adopted, 5000), REDLOCK_OK);
    cr_assert_gt(redlock_valid_ms(h.adopted), 0);
    end_handover(&h);
}

Test(fenced, adopted_and_not_extended_for_longer_by_its_watchdog)
{
    struct handover h;
    struct reported lost = {0}, extended = {0};
    redlock_lease_options options = quorum_fenced_options();
    options.ttl_ms = 10000;
    options.on_lost = options.on_extended = reported_note;
    options.lost_arg = &lost;
    options.extended_arg = &extended;
    worker_over(&h, 1000, &options);
    LOOP_UNTIL(h.s.base, lost.times > 0);
    cr_assert_eq(lost.result.code, REDLOCK_EXPIRED);
    cr_assert_eq(extended.times, 0);
    end_handover(&h);
}

/* --- cost --- */

static long calls_of(struct quorum *s, unsigned i, const char *command)
{
    const char *stat = servers_info(&s->servers, i, "commandstats", command);
    long calls = 0;
    if (stat)
        sscanf(stat, "calls=%ld", &calls);
    return calls;
}

#define LOCKS 100

Test(fenced, costs_one_script_per_node_and_acquire)
{
    struct quorum s;
    redlock_lease *lease[LOCKS];
    quorum_open_fenced(&s, 5, NULL);
    for (unsigned i = 0; i < 5; i++)
        servers_do(&s.servers, i, "CONFIG RESETSTAT");
    for (int i = 0; i < LOCKS; i++) {
        char key[16];
        snprintf(key, sizeof(key), "key:%d", i);
        lease[i] = hold(&s, key);
    }
    quorum_drain(&s);
    for (unsigned i = 0; i < 5; i++) {
        long scripts = calls_of(&s, i, "cmdstat_eval") + calls_of(&s, i, "cmdstat_evalsha");
        cr_assert(scripts >= LOCKS && scripts <= LOCKS + LOCKS / 100, "%ld on server %u",
                  scripts, i);
        cr_assert_leq(calls_of(&s, i, "cmdstat_eval"), 1);
    }
    for (int i = 0; i < LOCKS; i++)
        redlock_lease_free(lease[i]);
    expect_left(&s, LOCKS);
    quorum_close(&s);
}

/* --- scripts and late commands --- */

static void flush_scripts(struct quorum *s)
{
    for (unsigned i = 0; i < s->servers.n; i++)
        servers_do(&s->servers, i, "SCRIPT FLUSH");
}

Test(fenced, scripts_may_be_flushed_at_any_time)
{
    struct quorum s;
    quorum_open_fenced(&s, 3, NULL);
    int64_t last = 0;
    for (int i = 0; i < 5; i++) {
        flush_scripts(&s);
        redlock_lease *lease = hold(&s, "job");
        quorum_drain(&s);
        cr_assert_gt(redlock_fence(lease), last);
        last = redlock_fence(lease);
        flush_scripts(&s);
        cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_OK);
        quorum_drain(&s);
        cr_assert_eq(quorum_count_votes(lease, "granted"), 3);
        flush_scripts(&s);
        cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
        redlock_lease_free(lease);
        expect_left(&s, 1);
    }
    for (unsigned i = 0; i < 3; i++)
        cr_assert(quorum_is(s.client, i, "ready"), "NOSCRIPT is no fault of a node");
    quorum_close(&s);
}

/* A server that hung during the acquire: a command that it reads late locks nothing. */
static void acquire_while_it_hangs(bool knows_the_script)
{
    struct quorum s;
    quorum_open_fenced(&s, 3, NULL);
    redlock_lease_free(hold(&s, "first"));
    quorum_drain(&s);
    if (!knows_the_script) /* then it is sent again when it is known to be late */
        servers_do(&s.servers, 2, "SCRIPT FLUSH");
    servers_stop(&s.servers, 2);
    redlock_lease *lease = hold(&s, "job");
    int64_t late = redlock_fence(lease) + 1100000;
    LOOP_UNTIL(s.base, time_of(&s, 0) > late);
    servers_cont(&s.servers, 2);
    LOOP_UNTIL(s.base, quorum_count_votes(lease, "error") == 1);
    cr_assert_eq(quorum_node(lease, 2)->fault, REDLOCK_FAULT_LATE);
    cr_assert(servers_text(&s.servers, 2, NULL, "GET job"));
    cr_assert_eq(servers_with(&s.servers, "job", redlock_token(lease)), 2);
    redlock_lease_free(lease);
    quorum_close(&s);
}

Test(fenced, does_not_lock_on_a_node_that_hung_for_longer_than_a_second)
{
    acquire_while_it_hangs(true);
}

Test(fenced, does_not_lock_with_a_script_that_is_resent_after_a_second)
{
    acquire_while_it_hangs(false);
}

/* --- plain locks --- */

/*
 * A client of plain locks works on nodes that are admitted, are not, or lost their marker.
 */
Test(fenced, plain_clients_are_not_affected)
{
    struct quorum s;
    struct reported lost = {0};
    redlock_lease_options options = quorum_lease_options();
    options.on_lost = reported_note;
    options.lost_arg = &lost;
    quorum_open(&s, 3);
    redlock_client *plain = s.client, *fenced = quorum_client(&s, NULL);
    redlock_lease *job = NULL;
    s.client = fenced;
    cr_assert_eq(quorum_admit(&s, REDLOCK_ADMIT_AT_ONCE, 0, NULL), REDLOCK_OK);
    s.client = plain;
    redlock_lease *lease = quorum_hold(&s, "plain", &options);
    s.client = fenced;
    job = hold(&s, "job");
    quorum_drain(&s);
    servers_do(&s.servers, 0, "DEL !marker");
    cr_assert_eq(quorum_extend(&s, job, 0), REDLOCK_OK);
    LOOP_UNTIL(s.base, quorum_member_is(fenced, 0, "MEMBER_QUARANTINE"));
    s.client = plain;
    quorum_drain(&s);
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_OK);
    quorum_drain(&s);
    cr_assert_eq(quorum_count_votes(lease, "granted"), 3);
    cr_assert_eq(lost.times, 0);
    for (unsigned i = 0; i < 3; i++)
        cr_assert(quorum_is(plain, i, "ready"));
    redlock_lease_free(job);
    redlock_client_free(fenced);
    for (unsigned i = 0; i < 3; i++)
        servers_do(&s.servers, i, "DEL !marker");
    redlock_lease_free(quorum_hold(&s, "another", &options));
    loop_run_for(s.base, 600);
    cr_assert_eq(servers_with(&s.servers, "!marker", NULL), 3, "it marks no node");
    redlock_lease_free(lease);
    quorum_close(&s);
}
