/*
 * Every operation that was started calls back once, whatever is freed, cancelled or lost.
 */
#include <criterion/criterion.h>

#include "caller.h"

#define MOMENTS                                                                            \
    14 /* iterations of the loop after which something is done to an operation */

static void run_passes(struct quorum *s, int passes)
{
    for (int i = 0; i < passes; i++)
        loop_pass(s->base);
}

/* An acquired key is released, also if the acquire ends with its client. */
Test(callbacks, client_freed_at_each_moment)
{
    struct quorum s;
    redlock_lease_options options = quorum_lease_options();
    quorum_open(&s, 5);
    for (int moment = 0; moment < MOMENTS; moment++) {
        struct reported reported = {0};
        redlock_lease *lease;
        redlock_client *client = quorum_client(&s, NULL);
        cr_assert_eq(
            redlock_acquire(client, "job", 3, &options, reported_note, &reported, &lease),
            REDLOCK_OK);
        run_passes(&s, moment);
        bool held = reported.times > 0;
        servers_settle(&s.servers);
        redlock_client_free(client);
        cr_assert_eq(reported.times, 1);
        cr_assert_eq(reported.result.code, held ? REDLOCK_OK : REDLOCK_CANCELLED);
        cr_assert_eq(redlock_valid_ms(lease), 0);
        cr_assert_eq(redlock_release(lease, reported_note, &reported), REDLOCK_CLOSED);
        cr_assert_eq(redlock_extend(lease, 0, reported_note, &reported), REDLOCK_CLOSED);
        redlock_cancel(lease);
        redlock_disown(lease);
        redlock_lease_free(lease);
        if (held)
            servers_do_first(&s.servers, 5, "DEL job");
        else
            LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
    }
    quorum_close(&s);
}

/* --- two operations that overlap --- */

Test(callbacks, disowned_while_it_extends)
{
    struct quorum s;
    quorum_open(&s, 5);
    for (int moment = 0; moment < 6; moment++) {
        struct reported extended = {0};
        redlock_lease *lease = quorum_hold(&s, "job", NULL);
        cr_assert_eq(redlock_extend(lease, 0, reported_note, &extended), REDLOCK_OK);
        run_passes(&s, moment);
        redlock_disown(lease);
        LOOP_UNTIL(s.base, extended.times > 0);
        cr_assert(extended.result.code == REDLOCK_OK ||
                  extended.result.code == REDLOCK_CANCELLED);
        redlock_lease_free(lease);
        loop_run_for(s.base, 20);
        cr_assert_eq(extended.times, 1);
        cr_assert_eq(servers_keys(&s.servers), 5);
        servers_do_first(&s.servers, 5, "FLUSHALL");
    }
    quorum_close(&s);
}

/*
 * A lock of three nodes is taken over by its token, and so extended at once: by node 0, for
 * node 1 is stopped and node 2 killed before.
 */
static redlock_lease *adopt_own(struct quorum *s, struct reported *renewed)
{
    char token[REDLOCK_TOKEN_MAX + 1];
    redlock_lease_options options = quorum_quiet_options();
    options.ttl_ms = 30000;
    redlock_lease *lease = quorum_hold(s, "job", &options);
    strcpy(token, redlock_token(lease));
    redlock_disown(lease);
    redlock_lease_free(lease);
    quorum_drain(s);
    servers_stop(&s->servers, 1);
    servers_kill(&s->servers, 2);
    options.ttl_ms = 300000;
    options.watchdog = true;
    options.on_extended = reported_note;
    options.extended_arg = renewed;
    cr_assert_eq(redlock_adopt(s->client, "job", 3, token, 20000, &options, &lease),
                 REDLOCK_OK);
    return lease;
}

static void disown_at_once(redlock_lease *lease, const redlock_result *result, void *arg)
{
    reported_note(lease, result, arg);
    redlock_disown(lease);
}

/*
 * The watchdog's extension is granted by the last reply, and the caller's, which waits for
 * it, cannot begin any more: the callback of the second ends the hold, so none is called
 * for the first.
 */
Test(callbacks, disowned_when_an_extension_by_the_watchdog_succeeds)
{
    struct quorum s;
    struct reported renewed = {0}, extended = {0};
    quorum_open(&s, 3);
    redlock_lease *lease = adopt_own(&s, &renewed);
    LOOP_UNTIL(s.base, servers_number(&s.servers, 0, "PTTL job") > 30000);
    cr_assert_eq(redlock_extend(lease, 0, disown_at_once, &extended), REDLOCK_OK);
    servers_settle(&s.servers); /* node 0 has replied */
    servers_kill(&s.servers, 0);
    LOOP_UNTIL(s.base, !quorum_is(s.client, 0, "ready"));
    cr_assert_eq(extended.times + renewed.times, 0);
    servers_cont(&s.servers, 1);
    EXPECT_REPORTED(&s, &extended, REDLOCK_NO_QUORUM);
    loop_run_for(s.base, 20);
    cr_assert_eq(renewed.times, 0);
    cr_assert_eq(extended.times, 1);
    redlock_lease_free(lease);
    quorum_close(&s);
}

/* A release that was started cannot be undone. */
Test(callbacks, disowned_while_it_is_released)
{
    struct quorum s;
    quorum_open(&s, 5);
    for (int moment = 0; moment < 6; moment++) {
        struct reported released = {0};
        redlock_lease *lease = quorum_hold(&s, "job", NULL);
        cr_assert_eq(redlock_release(lease, reported_note, &released), REDLOCK_OK);
        run_passes(&s, moment);
        redlock_disown(lease);
        EXPECT_REPORTED(&s, &released, REDLOCK_OK);
        redlock_lease_free(lease);
        quorum_expect_empty(&s);
    }
    quorum_close(&s);
}

/* An admission that ends with its client is reported once, at any stage. */
Test(callbacks, client_freed_at_each_moment_of_an_admission)
{
    struct quorum s;
    unsigned cancelled = 0;
    quorum_open(&s, 5);
    for (int moment = 0; moment < 2 * MOMENTS; moment++) {
        struct admitted admitted = {0};
        redlock_client *client = quorum_client(&s, NULL);
        cr_assert_eq(redlock_admit(client,
                                   moment % 2 ? REDLOCK_ADMIT_NEW : REDLOCK_ADMIT_AT_ONCE,
                                   0, admitted_note, &admitted),
                     REDLOCK_OK);
        run_passes(&s, moment / 2 * 2);
        bool ended = admitted.times > 0;
        redlock_client_free(client);
        cr_assert_eq(admitted.times, 1);
        cr_assert_eq(admitted.result.code, ended ? REDLOCK_OK : REDLOCK_CANCELLED);
        cancelled += !ended;
        servers_settle(&s.servers);
        servers_do_first(&s.servers, 5, "FLUSHALL");
    }
    cr_assert_geq(cancelled, MOMENTS, "NEW waits for a quarantine");
    quorum_close(&s);
}

/* --- calls inside a callback --- */

static void release_at_once(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct caller *caller = arg;
    caller->reported++;
    caller->code = result->code;
    if (result->code == REDLOCK_OK)
        cr_assert_eq(redlock_release(lease, caller_on_reported, caller), REDLOCK_OK);
}

Test(callbacks, released_when_acquired)
{
    struct quorum s;
    redlock_lease_options options = quorum_lease_options();
    quorum_open(&s, 5);
    struct caller caller = {.quorum = &s};
    cr_assert_eq(redlock_acquire(s.client, "job", 3, &options, release_at_once, &caller,
                                 &caller.lease),
                 REDLOCK_OK);
    LOOP_UNTIL(s.base, caller.reported == 2);
    cr_assert_eq(caller.code, REDLOCK_OK);
    caller_finish(&s, &caller, 2);
    quorum_close(&s);
}

struct chain {
    struct quorum *quorum;
    redlock_lease *lease;
    unsigned links;
};

static void next_link(redlock_lease *lease, const redlock_result *result, void *arg);

static void acquire_next(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct chain *chain = arg;
    redlock_lease_options options = quorum_lease_options();
    cr_assert_eq(result->code, REDLOCK_OK);
    redlock_lease_free(lease);
    chain->lease = NULL;
    if (chain->links < 50)
        cr_assert_eq(redlock_acquire(chain->quorum->client, "job", 3, &options, next_link,
                                     chain, &chain->lease),
                     REDLOCK_OK);
}

static void next_link(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct chain *chain = arg;
    cr_assert_eq(result->code, REDLOCK_OK);
    chain->links++;
    cr_assert_eq(redlock_release(lease, acquire_next, chain), REDLOCK_OK);
}

/* The next acquire may meet a key that is being released: each stream keeps the order. */
Test(callbacks, a_chain_of_callbacks)
{
    struct quorum s;
    redlock_lease_options options = quorum_lease_options();
    quorum_open(&s, 5);
    struct chain chain = {.quorum = &s};
    cr_assert_eq(
        redlock_acquire(s.client, "job", 3, &options, next_link, &chain, &chain.lease),
        REDLOCK_OK);
    LOOP_UNTIL(s.base, chain.links == 50 && !chain.lease);
    quorum_close_empty(&s);
}

/* --- everything in flight --- */

#define LEASES 8

struct crowd {
    redlock_lease *lease[LEASES];
    struct reported reported[LEASES], lost;
    struct caller drain, inspect, breaking;
};

/* Holds some leases, and starts one operation of each type. */
static void start_everything(struct quorum *s, struct crowd *crowd)
{
    redlock_lease_options options = quorum_lease_options();
    reported_on_lost(&options, &crowd->lost);
    for (int i = 0; i < 4; i++) {
        char key[] = {'k', (char)('0' + i), '\0'};
        crowd->lease[i] = quorum_hold(s, key, &options);
    }
    cr_assert_eq(redlock_extend(crowd->lease[1], 0, reported_note, &crowd->reported[1]),
                 REDLOCK_OK);
    cr_assert_eq(redlock_release(crowd->lease[2], reported_note, &crowd->reported[2]),
                 REDLOCK_OK);
    redlock_lease_free(crowd->lease[3]);
    crowd->lease[3] = NULL;
    for (int i = 4; i < LEASES; i++) {
        options.wait_ms = i == 5 ? -1 : 0;
        const char *key = i == 5 ? "k0" : "k9";
        cr_assert_eq(redlock_acquire(s->client, key, 2, &options, reported_note,
                                     &crowd->reported[i], &crowd->lease[i]),
                     REDLOCK_OK);
    }
    redlock_cancel(crowd->lease[6]);
    redlock_lease_free(crowd->lease[7]);
    crowd->lease[7] = NULL;
    cr_assert_eq(redlock_client_drain(s->client, 5000, caller_on_drained, &crowd->drain),
                 REDLOCK_OK);
    cr_assert_eq(redlock_inspect(s->client, "k0", 2, caller_on_inspection, &crowd->inspect),
                 REDLOCK_OK);
    cr_assert_eq(redlock_break(s->client, "kb", 2, caller_on_inspection, &crowd->breaking),
                 REDLOCK_OK);
}

static void expect_once(const struct crowd *crowd)
{
    static const unsigned once[LEASES] = {0, 1, 1, 0, 1, 1, 1, 0};
    for (int i = 0; i < LEASES; i++)
        cr_assert_eq(crowd->reported[i].times, once[i], "lease %d had %u callbacks", i,
                     crowd->reported[i].times);
    cr_assert_eq(crowd->drain.other, 1);
    cr_assert_eq(crowd->inspect.other, 1);
    cr_assert_eq(crowd->breaking.other, 1);
    cr_assert_eq(crowd->lost.times, 0);
}

Test(callbacks, client_freed_with_everything_in_flight)
{
    struct quorum s;
    quorum_open(&s, 5);
    for (int moment = 0; moment < MOMENTS; moment++) {
        struct crowd crowd = {0};
        start_everything(&s, &crowd);
        run_passes(&s, moment);
        redlock_client_free(s.client);
        expect_once(&crowd);
        for (int i = 0; i < LEASES; i++)
            redlock_lease_free(crowd.lease[i]);
        loop_run_for(s.base, 10);
        expect_once(&crowd);
        s.client = quorum_client(&s, NULL);
        servers_do_first(&s.servers, 5, "FLUSHALL");
    }
    quorum_close(&s);
}

/* Callbacks that end with the client may free their leases, and the client again. */
static void free_both(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct caller *caller = arg;
    caller->reported++;
    caller->code = result->code;
    servers_settle(&caller->quorum->servers);
    redlock_client_free(caller->quorum->client);
    redlock_lease_free(lease);
}

Test(callbacks, freed_while_the_client_is_freed)
{
    struct quorum s;
    redlock_lease_options options = quorum_lease_options();
    quorum_open_fresh(&s, 5);
    for (int moment = 0; moment < 6; moment++) {
        struct caller caller[3] = {{.quorum = &s}, {.quorum = &s}, {.quorum = &s}};
        for (int i = 0; i < 3; i++)
            cr_assert_eq(redlock_acquire(s.client, "job", 3, &options, free_both,
                                         &caller[i], &caller[i].lease),
                         REDLOCK_OK);
        if (moment > 0)
            LOOP_UNTIL(s.base, servers_keys(&s.servers) > 0 || caller[0].reported);
        servers_settle(&s.servers);
        if (!caller[0].reported && !caller[1].reported && !caller[2].reported)
            redlock_client_free(s.client);
        for (int i = 0; i < 3; i++)
            cr_assert_eq(caller[i].reported, 1);
        s.client = quorum_client(&s, NULL);
        LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
    }
    quorum_close(&s);
}
