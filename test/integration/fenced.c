/* Fenced locks on real servers: their tokens rise, whatever else may be. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>

#include "stage.h"

static redlock_lease_options quiet_options(void)
{
    redlock_lease_options options = stage_fenced_options();
    options.watchdog = false;
    return options;
}

static redlock_lease *hold(struct stage *s, const char *key)
{
    redlock_lease_options options = quiet_options();
    redlock_lease *lease = stage_hold(s, key, &options);
    cr_assert_gt(redlock_fence(lease), 0);
    return lease;
}

/* A client knows the nodes' time to half a round trip, however slow the machine is. */
#define SLACK_US 60000000

static int64_t stored_fence(struct stage *s, unsigned i, const char *key)
{
    redisReply *reply = servers_run(&s->servers, i, "GET %s!fence", key);
    cr_assert_eq(reply->type, REDIS_REPLY_STRING, "no fence on server %u", i);
    int64_t fence = strtoll(reply->str, NULL, 10);
    freeReplyObject(reply);
    return fence;
}

/* The server's time of day, us. */
static int64_t time_of(struct stage *s, unsigned i)
{
    redisReply *reply = servers_run(&s->servers, i, "TIME");
    cr_assert_eq(reply->elements, 2);
    int64_t time = strtoll(reply->element[0]->str, NULL, 10) * 1000000 +
                   strtoll(reply->element[1]->str, NULL, 10);
    freeReplyObject(reply);
    return time;
}

/* What stays is the marker and the fence of each key that was ever locked. */
static void expect_left(struct stage *s, unsigned keys)
{
    stage_settle(s);
    stage_drain(s);
    cr_assert_eq(servers_keys(&s->servers), (1 + keys) * s->servers.n);
}

/* --- what they do --- */

Test(fenced, acquired_extended_and_released)
{
    struct stage s;
    stage_open_fenced(&s, 5, NULL);
    redlock_lease *lease = hold(&s, "job");
    int64_t fence = redlock_fence(lease), now = time_of(&s, 0);
    cr_assert(fence > now - SLACK_US && fence < now + SLACK_US, "it is the nodes' time");
    cr_assert_eq(strncmp(redlock_token(lease), "f:", 2), 0);
    cr_assert_gt(redlock_valid_ms(lease), 50000);
    stage_drain(&s);
    cr_assert_eq(servers_with(&s.servers, "job", redlock_token(lease)), 5);
    for (unsigned i = 0; i < 5; i++)
        cr_assert_eq(stored_fence(&s, i, "job"), fence);
    cr_assert_eq(stage_extend(&s, lease, 0), REDLOCK_OK);
    cr_assert_eq(redlock_fence(lease), fence, "it is the same hold");
    cr_assert_eq(stage_release(&s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    expect_left(&s, 1);
    stage_close(&s);
}

Test(fenced, rise_from_hold_to_hold_and_from_client_to_client)
{
    struct stage s;
    stage_open_fenced(&s, 3, NULL);
    redlock_client *client[] = {s.client, stage_client(&s, NULL), stage_client(&s, NULL)};
    int64_t last = 0;
    for (unsigned i = 0; i < 60; i++) {
        s.client = client[i * i % 3];
        redlock_lease *lease = hold(&s, "job");
        cr_assert_gt(redlock_fence(lease), last);
        last = redlock_fence(lease);
        redlock_lease_free(lease);
        stage_drain(&s);
    }
    s.client = client[0];
    redlock_client_free(client[1]);
    redlock_client_free(client[2]);
    stage_close(&s);
}

Test(fenced, excludes_as_any_lock_does)
{
    struct stage s;
    struct told told;
    redlock_lease_options options = quiet_options();
    stage_open_fenced(&s, 3, NULL);
    redlock_client *other = stage_client(&s, NULL), *holder = s.client;
    redlock_lease *lease = hold(&s, "job");
    stage_drain(&s);
    s.client = other;
    stage_settle(&s);
    redlock_lease *refused = stage_acquire(&s, "job", &options, &told);
    cr_assert_eq(told.result.code, REDLOCK_TAKEN);
    cr_assert_eq(redlock_fence(refused), 0);
    cr_assert_str_eq(stage_node(refused, 0)->holder, "stage");
    redlock_lease_free(refused);
    options.fenced = false; /* a plain lock of the same key */
    refused = stage_acquire(&s, "job", &options, &told);
    cr_assert_eq(told.result.code, REDLOCK_TAKEN);
    redlock_lease_free(refused);
    s.client = holder;
    cr_assert_eq(stage_release(&s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    redlock_client_free(other);
    stage_close(&s);
}

Test(fenced, watchdog_extends)
{
    struct stage s;
    struct told extended = {0};
    redlock_lease_options options = stage_fenced_options();
    options.ttl_ms = 1500;
    options.on_extended = told_note;
    options.extended_arg = &extended;
    stage_open_fenced(&s, 3, NULL);
    redlock_lease *lease = stage_hold(&s, "job", &options);
    int64_t fence = redlock_fence(lease);
    LOOP_UNTIL(s.base, extended.times >= 3);
    cr_assert_eq(redlock_fence(lease), fence);
    cr_assert_gt(redlock_valid_ms(lease), 0);
    redlock_lease_free(lease);
    expect_left(&s, 1);
    stage_close(&s);
}

/* --- fences --- */

/* One node knows a later fence, as after a round that was lost: all learn of it. */
Test(fenced, settle_what_one_node_knows_alone)
{
    struct stage s;
    stage_open_fenced(&s, 3, NULL);
    int64_t later = time_of(&s, 0) + 2000000;
    servers_do(&s.servers, 0, "SET job!fence %" PRId64, later);
    servers_stop(&s.servers, 2); /* so that node 0 is needed */
    redlock_lease *lease = hold(&s, "job");
    cr_assert_eq(redlock_fence(lease), later + 1);
    cr_assert_eq(stored_fence(&s, 0, "job"), later + 1);
    cr_assert_eq(stored_fence(&s, 1, "job"), later + 1, "held before a quorum knows it");
    servers_cont(&s.servers, 2);
    stage_drain(&s);
    redlock_lease_free(lease);
    stage_drain(&s);
    lease = hold(&s, "job");
    cr_assert_gt(redlock_fence(lease), later + 1);
    redlock_lease_free(lease);
    stage_close(&s);
}

/* Further ahead than any clock may be: that node has no vote on this key. */
Test(fenced, ahead_of_the_clock)
{
    struct stage s;
    stage_open_fenced(&s, 3, NULL);
    int64_t later = time_of(&s, 1) + SLACK_US;
    servers_do(&s.servers, 1, "SET job!fence %" PRId64, later);
    redlock_lease *lease = hold(&s, "job");
    LOOP_UNTIL(s.base, stage_verdicts(lease, "waiting") == 0);
    cr_assert_str_eq(stage_node(lease, 1)->verdict, "error");
    cr_assert_str_eq(stage_node(lease, 1)->fault, "AHEAD");
    cr_assert_lt(redlock_fence(lease), later);
    redlock_lease_free(lease);
    stage_close(&s);
}

/* It is kept for as long as any lock may be that was ever fenced with it. */
Test(fenced, fence_is_kept_for_a_day)
{
    struct stage s;
    stage_open_fenced(&s, 3, NULL);
    redlock_lease *lease = hold(&s, "job");
    stage_drain(&s);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_gt(servers_number(&s.servers, i, "TTL job!fence"), 86400 - 60);
        servers_do(&s.servers, i, "PERSIST job!fence");
    }
    redlock_lease_free(lease);
    stage_drain(&s);
    redlock_lease_free(hold(&s, "job"));
    stage_drain(&s);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_gt(servers_number(&s.servers, i, "TTL job!fence"), 86400 - 60);
    stage_close(&s);
}

static void fence_that_is(const char *text)
{
    struct stage s;
    struct told told;
    redlock_lease_options options = quiet_options();
    stage_open_fenced(&s, 3, NULL);
    servers_do(&s.servers, 1, "SET job!fence %s", text);
    redlock_lease *lease = hold(&s, "job");
    LOOP_UNTIL(s.base, stage_verdicts(lease, "waiting") == 0);
    cr_assert_str_eq(stage_node(lease, 1)->verdict, "error", "%s", text);
    cr_assert_str_eq(stage_node(lease, 1)->fault, "FENCE", "%s", text);
    cr_assert_eq(servers_with(&s.servers, "job", redlock_token(lease)), 2);
    redlock_lease_free(lease);
    stage_drain(&s);
    servers_do(&s.servers, 2, "SET job!fence %s", text);
    lease = stage_acquire(&s, "job", &options, &told);
    cr_assert_eq(told.result.code, REDLOCK_NO_QUORUM, "%s", text);
    redlock_lease_free(lease);
    stage_drain(&s);
    for (unsigned i = 0; i < 3; i++)
        cr_assert(stage_is(s.client, i, "ready"), "the others' locks are not its fault");
    redlock_lease_free(hold(&s, "other"));
    stage_close(&s);
}

Test(fenced, fence_that_is_no_number)
{
    fence_that_is("abc");
}

/* Lua would take it for one, that is neither more nor less than any other. */
Test(fenced, fence_that_is_not_a_number)
{
    fence_that_is("nan");
}

static void stop_all(struct stage *s)
{
    for (unsigned i = 0; i < s->servers.n; i++)
        servers_stop(&s->servers, i);
}

static void cont_all(struct stage *s)
{
    for (unsigned i = 0; i < s->servers.n; i++)
        servers_cont(&s->servers, i);
}

/* They execute what is sent to them now; their replies are not read yet. */
static void answer_unread(struct stage *s)
{
    cont_all(s);
    while (servers_with(&s->servers, "job", NULL) > 0)
        ;
    servers_settle(&s->servers);
    stop_all(s);
}

/*
 * The acquire was granted under fences that differ: the lease is held once a quorum stores
 * the largest. While that is asked for, and if it fails, there is no fencing token.
 */
Test(fenced, tells_no_fence_before_it_is_held)
{
    struct stage s;
    struct told told = {0};
    redlock_options client_options = stage_options();
    redlock_lease_options options = quiet_options();
    redlock_lease *lease;
    client_options.node_timeout_ms = 1000;
    stage_open_fenced(&s, 3, &client_options);
    for (unsigned i = 0; i < 3; i++)
        servers_do(&s.servers, i, "SET job!fence %lld PX 60000",
                   (long long)time_of(&s, i) + 1000000 * (i + 1));
    stop_all(&s);
    cr_assert_eq(redlock_acquire(s.client, "job", 3, &options, told_note, &told, &lease),
                 REDLOCK_OK);
    cr_assert_eq(redlock_fence(lease), 0);
    event_base_loop(s.base, EVLOOP_NONBLOCK); /* the acquire is written */
    answer_unread(&s);
    LOOP_UNTIL(s.base, told.times > 0 || redlock_fence(lease) > 0);
    cr_assert_eq(told.times, 1, "it has a fence while the largest is being stored");
    cr_assert_eq(told.result.code, REDLOCK_NO_QUORUM);
    cr_assert_eq(redlock_fence(lease), 0, "after that failed");
    cont_all(&s);
    redlock_lease_free(lease);
    expect_left(&s, 1);
    stage_close(&s);
}

/* --- tokens --- */

/* Leaves a fenced lock behind, with a fresh client. */
static int64_t leave_behind(struct stage *s, char token[REDLOCK_TOKEN_MAX + 1])
{
    redlock_lease *lease = hold(s, "job");
    stage_drain(s);
    int64_t fence = redlock_fence(lease);
    strcpy(token, redlock_token(lease));
    redlock_disown(lease);
    redlock_lease_free(lease);
    redlock_client_free(s->client);
    s->client = stage_client(s, NULL);
    return fence;
}

static void adopt(bool tells_fence, int64_t valid_ms)
{
    struct stage s;
    char token[REDLOCK_TOKEN_MAX + 1];
    redlock_lease_options options = quiet_options();
    redlock_lease *lease;
    stage_open_fenced(&s, 3, NULL);
    int64_t fence = leave_behind(&s, token);
    options.fenced = false; /* the token tells */
    options.fence = tells_fence ? fence : 0;
    cr_assert_eq(redlock_adopt(s.client, "job", 3, token, valid_ms, &options, &lease),
                 REDLOCK_OK);
    cr_assert_eq(redlock_fence(lease), tells_fence ? fence : 0);
    cr_assert_eq(redlock_valid_ms(lease) > 0, valid_ms > 0);
    cr_assert_eq(stage_extend(&s, lease, 0), REDLOCK_OK);
    cr_assert_gt(redlock_valid_ms(lease), 50000);
    cr_assert_eq(redlock_fence(lease), tells_fence ? fence : 0);
    cr_assert_eq(stage_release(&s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    expect_left(&s, 1);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(stored_fence(&s, i, "job"), fence);
    stage_close(&s);
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

/* A fence of no clock of ours: it is neither extended by, nor stored. */
Test(fenced, adopted_with_a_fence_that_is_ahead)
{
    struct stage s;
    char token[REDLOCK_TOKEN_MAX + 1];
    redlock_lease_options options = quiet_options();
    redlock_lease *lease;
    stage_open_fenced(&s, 3, NULL);
    int64_t fence = leave_behind(&s, token);
    options.fence = fence + 60000000;
    cr_assert_eq(redlock_adopt(s.client, "job", 3, token, 30000, &options, &lease),
                 REDLOCK_OK);
    stage_settle(&s);
    cr_assert_eq(stage_extend(&s, lease, 0), REDLOCK_NO_QUORUM);
    stage_drain(&s);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_str_eq(stage_node(lease, i)->fault, "AHEAD");
    cr_assert_eq(stage_release(&s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    stage_drain(&s);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(stored_fence(&s, i, "job"), fence);
    stage_close(&s);
}

/* --- how long --- */

/* What the servers were admitted for counts, also for clients that did not know it. */
Test(fenced, not_for_longer_than_they_were_admitted_for)
{
    struct stage s;
    struct told told;
    redlock_options client_options = stage_options();
    redlock_lease_options options = quiet_options();
    client_options.max_ttl_ms = 20000;
    stage_open_fenced(&s, 3, &client_options);
    redlock_client_free(s.client);
    s.client = stage_client(&s, NULL);
    options.ttl_ms = 20001;
    redlock_lease *lease = stage_acquire(&s, "job", &options, &told);
    cr_assert_eq(told.result.code, REDLOCK_BAD_TTL);
    cr_assert_eq(redlock_fence(lease), 0);
    redlock_lease_free(lease);
    options.ttl_ms = 20000;
    stage_settle(&s);
    lease = stage_hold(&s, "job", &options);
    cr_assert_eq(stage_extend(&s, lease, 20001), REDLOCK_BAD_TTL);
    cr_assert_eq(stage_extend(&s, lease, 20000), REDLOCK_OK);
    redlock_lease_free(lease);
    options.fenced = false; /* others' maximum is none of a plain lock's */
    options.ttl_ms = 60000;
    lease = stage_hold(&s, "plain", &options);
    redlock_lease_free(lease);
    expect_left(&s, 1);
    stage_close(&s);
}

static bool is_nowhere_longer(struct stage *s, const char *key, int64_t ms)
{
    for (unsigned i = 0; i < s->servers.n; i++)
        if (servers_number(&s->servers, i, "PTTL %s", key) > ms)
            return false;
    return true;
}

/* A lock of 5 s on nodes that bear no longer one, and another client that adopts it. */
struct handover {
    struct stage s;
    redlock_lease *lease, *adopted;
    redlock_client *heir;
};

static void hand_over(struct handover *h, int64_t valid_ms,
                      const redlock_lease_options *options)
{
    redlock_options client_options = stage_options();
    redlock_lease_options mine = quiet_options();
    client_options.max_ttl_ms = mine.ttl_ms = 5000;
    stage_open_fenced(&h->s, 3, &client_options);
    h->lease = stage_hold(&h->s, "job", &mine);
    h->heir = stage_client(&h->s, NULL);
    cr_assert_eq(redlock_adopt(h->heir, "job", 3, redlock_token(h->lease), valid_ms,
                               options, &h->adopted),
                 REDLOCK_OK);
}

static void end_handover(struct handover *h)
{
    cr_assert(is_nowhere_longer(&h->s, "job", 5000));
    redlock_disown(h->adopted);
    redlock_lease_free(h->adopted);
    redlock_client_free(h->heir);
    redlock_lease_free(h->lease);
    stage_close(&h->s);
}

/* Whoever adopts it has not seen the nodes yet, and cannot know. */
Test(fenced, adopted_and_not_extended_for_longer_either)
{
    struct handover h;
    struct told told = {0};
    redlock_lease_options options = quiet_options();
    options.ttl_ms = 50000;
    hand_over(&h, 0, &options);
    cr_assert_eq(redlock_extend(h.adopted, 0, told_note, &told), REDLOCK_OK);
    EXPECT_TOLD(&h.s, &told, REDLOCK_BAD_TTL);
    cr_assert_eq(redlock_valid_ms(h.adopted), 0);
    cr_assert(is_nowhere_longer(&h.s, "job", 5000));
    cr_assert_eq(stage_extend(&h.s, h.adopted, 5000), REDLOCK_OK);
    cr_assert_gt(redlock_valid_ms(h.adopted), 0);
    end_handover(&h);
}

Test(fenced, adopted_and_not_extended_for_longer_by_its_watchdog)
{
    struct handover h;
    struct told lost = {0}, extended = {0};
    redlock_lease_options options = stage_fenced_options();
    options.ttl_ms = 10000;
    options.on_lost = options.on_extended = told_note;
    options.lost_arg = &lost;
    options.extended_arg = &extended;
    hand_over(&h, 1000, &options);
    LOOP_UNTIL(h.s.base, lost.times > 0);
    cr_assert_eq(lost.result.code, REDLOCK_EXPIRED);
    cr_assert_eq(extended.times, 0);
    end_handover(&h);
}

/* --- what they cost --- */

static long calls_of(struct stage *s, unsigned i, const char *command)
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
    struct stage s;
    redlock_lease *lease[LOCKS];
    stage_open_fenced(&s, 5, NULL);
    for (unsigned i = 0; i < 5; i++)
        servers_do(&s.servers, i, "CONFIG RESETSTAT");
    for (int i = 0; i < LOCKS; i++) {
        char key[16];
        snprintf(key, sizeof(key), "key:%d", i);
        lease[i] = hold(&s, key);
    }
    stage_drain(&s);
    for (unsigned i = 0; i < 5; i++) {
        long scripts = calls_of(&s, i, "cmdstat_eval") + calls_of(&s, i, "cmdstat_evalsha");
        cr_assert(scripts >= LOCKS && scripts <= LOCKS + LOCKS / 100, "%ld on server %u",
                  scripts, i);
        cr_assert_leq(calls_of(&s, i, "cmdstat_eval"), 1);
    }
    for (int i = 0; i < LOCKS; i++)
        redlock_lease_free(lease[i]);
    expect_left(&s, LOCKS);
    stage_close(&s);
}

/* --- scripts and orphans --- */

static void flush_scripts(struct stage *s)
{
    for (unsigned i = 0; i < s->servers.n; i++)
        servers_do(&s->servers, i, "SCRIPT FLUSH");
}

Test(fenced, whose_scripts_are_forgotten_at_any_time)
{
    struct stage s;
    stage_open_fenced(&s, 3, NULL);
    int64_t last = 0;
    for (int i = 0; i < 5; i++) {
        flush_scripts(&s);
        redlock_lease *lease = hold(&s, "job");
        stage_drain(&s);
        cr_assert_gt(redlock_fence(lease), last);
        last = redlock_fence(lease);
        flush_scripts(&s);
        cr_assert_eq(stage_extend(&s, lease, 0), REDLOCK_OK);
        stage_drain(&s);
        cr_assert_eq(stage_verdicts(lease, "granted"), 3);
        flush_scripts(&s);
        cr_assert_eq(stage_release(&s, lease), REDLOCK_OK);
        redlock_lease_free(lease);
        expect_left(&s, 1);
    }
    for (unsigned i = 0; i < 3; i++)
        cr_assert(stage_is(s.client, i, "ready"), "NOSCRIPT is no fault of a node");
    stage_close(&s);
}

/* A server that hung while the lock was acquired: what reaches it late locks nothing. */
static void acquire_while_it_hangs(bool knows_the_script)
{
    struct stage s;
    stage_open_fenced(&s, 3, NULL);
    redlock_lease_free(hold(&s, "first"));
    stage_drain(&s);
    if (!knows_the_script) /* then it is said again when it is known to be late */
        servers_do(&s.servers, 2, "SCRIPT FLUSH");
    servers_stop(&s.servers, 2);
    redlock_lease *lease = hold(&s, "job");
    int64_t late = redlock_fence(lease) + 1100000;
    LOOP_UNTIL(s.base, time_of(&s, 0) > late);
    servers_cont(&s.servers, 2);
    LOOP_UNTIL(s.base, stage_verdicts(lease, "error") == 1);
    cr_assert_str_eq(stage_node(lease, 2)->fault, "LATE");
    cr_assert(servers_text(&s.servers, 2, NULL, "GET job"));
    cr_assert_eq(servers_with(&s.servers, "job", redlock_token(lease)), 2);
    redlock_lease_free(lease);
    stage_close(&s);
}

Test(fenced, does_not_lock_what_hung_for_longer_than_a_second)
{
    acquire_while_it_hangs(true);
}

Test(fenced, does_not_lock_what_has_to_be_told_again_after_a_second)
{
    acquire_while_it_hangs(false);
}

/* --- others --- */

/* A client of plain locks does not care who was admitted, or was not, or forgot it. */
Test(fenced, leaves_plain_clients_alone)
{
    struct stage s;
    struct told lost = {0};
    redlock_lease_options options = stage_lease_options();
    options.on_lost = told_note;
    options.lost_arg = &lost;
    stage_open(&s, 3);
    redlock_client *plain = s.client, *fenced = stage_client(&s, NULL);
    redlock_lease *job = NULL;
    s.client = fenced;
    cr_assert_eq(stage_admit(&s, REDLOCK_ADMIT_AT_ONCE, 0, NULL), REDLOCK_OK);
    s.client = plain;
    redlock_lease *lease = stage_hold(&s, "plain", &options);
    s.client = fenced;
    job = hold(&s, "job");
    stage_drain(&s);
    servers_do(&s.servers, 0, "DEL !marker");
    cr_assert_eq(stage_extend(&s, job, 0), REDLOCK_OK);
    LOOP_UNTIL(s.base, stage_stands(fenced, 0, "BARRED"));
    s.client = plain;
    stage_drain(&s);
    cr_assert_eq(stage_extend(&s, lease, 0), REDLOCK_OK);
    stage_drain(&s);
    cr_assert_eq(stage_verdicts(lease, "granted"), 3);
    cr_assert_eq(lost.times, 0);
    for (unsigned i = 0; i < 3; i++)
        cr_assert(stage_is(plain, i, "ready"));
    redlock_lease_free(job);
    redlock_client_free(fenced);
    for (unsigned i = 0; i < 3; i++)
        servers_do(&s.servers, i, "DEL !marker");
    redlock_lease_free(stage_hold(&s, "another", &options));
    loop_run_for(s.base, 600);
    cr_assert_eq(servers_with(&s.servers, "!marker", NULL), 3, "it marks nobody");
    redlock_lease_free(lease);
    stage_close(&s);
}
