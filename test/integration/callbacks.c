/* Every operation that was started calls back once, whatever is freed, cancelled or lost.
 */
#include <criterion/criterion.h>

#include "stage.h"

#define MOMENTS 14 /* passes of the loop after which something is done to an operation */

static void run_passes(struct stage *s, int passes)
{
    for (int i = 0; i < passes; i++)
        loop_pass(s->base);
}

/* --- cancelling and freeing at each moment --- */

Test(callbacks, acquire_cancelled_at_each_moment)
{
    struct stage s;
    redlock_lease_options options = stage_lease_options();
    stage_open(&s, 5);
    redlock_client *fresh = NULL;
    unsigned cancelled = 0;
    for (int moment = 0; moment < 2 * MOMENTS; moment++) {
        bool connected = moment % 2;
        redlock_client *client = connected ? s.client : (fresh = stage_client(&s, NULL));
        struct told told = {0};
        redlock_lease *lease;
        cr_assert_eq(redlock_acquire(client, "job", 3, &options, told_note, &told, &lease),
                     REDLOCK_OK);
        run_passes(&s, moment / 2);
        redlock_cancel(lease);
        redlock_cancel(lease);
        LOOP_UNTIL(s.base, told.times > 0);
        cancelled += told.result.code == REDLOCK_CANCELLED;
        cr_assert(told.result.code == REDLOCK_CANCELLED || told.result.code == REDLOCK_OK);
        cr_assert_eq(redlock_valid_ms(lease) > 0, told.result.code == REDLOCK_OK);
        redlock_lease_free(lease);
        LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
        loop_run_for(s.base, 20);
        cr_assert_eq(servers_keys(&s.servers), 0);
        cr_assert_eq(told.times, 1);
        redlock_client_free(fresh);
        fresh = NULL;
    }
    cr_assert_gt(cancelled, 1);
    stage_close(&s);
}

Test(callbacks, lease_freed_at_each_moment)
{
    struct stage s;
    redlock_lease_options options = stage_lease_options();
    stage_open(&s, 5);
    for (int moment = 0; moment < MOMENTS; moment++) {
        struct told told = {0};
        redlock_lease *lease;
        cr_assert_eq(
            redlock_acquire(s.client, "job", 3, &options, told_note, &told, &lease),
            REDLOCK_OK);
        run_passes(&s, moment);
        unsigned times = told.times;
        redlock_lease_free(lease);
        stage_drain(&s);
        cr_assert_eq(servers_keys(&s.servers), 0);
        cr_assert_eq(told.times, times);
    }
    stage_close(&s);
}

/* What is set by an acquire that ends with its client is released, too. */
Test(callbacks, client_freed_at_each_moment)
{
    struct stage s;
    redlock_lease_options options = stage_lease_options();
    stage_open(&s, 5);
    for (int moment = 0; moment < MOMENTS; moment++) {
        struct told told = {0};
        redlock_lease *lease;
        redlock_client *client = stage_client(&s, NULL);
        cr_assert_eq(redlock_acquire(client, "job", 3, &options, told_note, &told, &lease),
                     REDLOCK_OK);
        run_passes(&s, moment);
        bool held = told.times > 0;
        servers_settle(&s.servers);
        redlock_client_free(client);
        cr_assert_eq(told.times, 1);
        cr_assert_eq(told.result.code, held ? REDLOCK_OK : REDLOCK_CANCELLED);
        cr_assert_eq(redlock_valid_ms(lease), 0);
        cr_assert_eq(redlock_release(lease, told_note, &told), REDLOCK_CLOSED);
        cr_assert_eq(redlock_extend(lease, 0, told_note, &told), REDLOCK_CLOSED);
        redlock_cancel(lease);
        redlock_disown(lease);
        redlock_lease_free(lease);
        if (held)
            for (unsigned i = 0; i < 5; i++)
                servers_do(&s.servers, i, "DEL job");
        else
            LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
    }
    stage_close(&s);
}

/* --- two operations that meet --- */

Test(callbacks, released_while_it_extends)
{
    struct stage s;
    stage_open(&s, 5);
    for (int moment = 0; moment < 6; moment++) {
        struct told extended = {0}, released = {0};
        redlock_lease *lease = stage_hold(&s, "job", NULL);
        cr_assert_eq(redlock_extend(lease, 0, told_note, &extended), REDLOCK_OK);
        run_passes(&s, moment);
        cr_assert_eq(redlock_release(lease, told_note, &released), REDLOCK_OK);
        EXPECT_TOLD(&s, &released, REDLOCK_OK);
        cr_assert_eq(extended.times, 1);
        cr_assert(extended.result.code == REDLOCK_OK ||
                  extended.result.code == REDLOCK_CANCELLED);
        redlock_lease_free(lease);
        stage_drain(&s);
        cr_assert_eq(servers_keys(&s.servers), 0);
        cr_assert_eq(extended.times + released.times, 2);
    }
    stage_close(&s);
}

Test(callbacks, disowned_while_it_extends)
{
    struct stage s;
    stage_open(&s, 5);
    for (int moment = 0; moment < 6; moment++) {
        struct told extended = {0};
        redlock_lease *lease = stage_hold(&s, "job", NULL);
        cr_assert_eq(redlock_extend(lease, 0, told_note, &extended), REDLOCK_OK);
        run_passes(&s, moment);
        redlock_disown(lease);
        LOOP_UNTIL(s.base, extended.times > 0);
        cr_assert(extended.result.code == REDLOCK_OK ||
                  extended.result.code == REDLOCK_CANCELLED);
        redlock_lease_free(lease);
        loop_run_for(s.base, 20);
        cr_assert_eq(extended.times, 1);
        cr_assert_eq(servers_keys(&s.servers), 5);
        for (unsigned i = 0; i < 5; i++)
            servers_do(&s.servers, i, "FLUSHALL");
    }
    stage_close(&s);
}

/* A release that was asked for is not taken back. */
Test(callbacks, disowned_while_it_is_released)
{
    struct stage s;
    stage_open(&s, 5);
    for (int moment = 0; moment < 6; moment++) {
        struct told released = {0};
        redlock_lease *lease = stage_hold(&s, "job", NULL);
        cr_assert_eq(redlock_release(lease, told_note, &released), REDLOCK_OK);
        run_passes(&s, moment);
        redlock_disown(lease);
        EXPECT_TOLD(&s, &released, REDLOCK_OK);
        redlock_lease_free(lease);
        stage_drain(&s);
        cr_assert_eq(servers_keys(&s.servers), 0);
    }
    stage_close(&s);
}

/* --- freeing inside callbacks --- */

/* What a callback does, and how often each was called. */
struct guest {
    struct stage *stage;
    bool frees_lease, frees_client;
    redlock_lease *lease;
    unsigned told, lost, extended, other;
    redlock_code code;
};

static void leave(struct guest *guest)
{
    redlock_lease *lease = guest->lease;
    if (guest->frees_client)
        servers_settle(&guest->stage->servers);
    if (guest->frees_lease) {
        guest->lease = NULL;
        redlock_lease_free(lease);
    }
    if (guest->frees_client) {
        redlock_client *client = guest->stage->client;
        guest->stage->client = NULL;
        redlock_client_free(client);
    }
}

static void on_told(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct guest *guest = arg;
    guest->told++;
    guest->code = result->code;
    guest->lease = lease;
    leave(guest);
}

static void on_lost(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct guest *guest = arg;
    guest->lost++;
    guest->code = result->code;
    guest->lease = lease;
    leave(guest);
}

static void on_extended(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct guest *guest = arg;
    (void)result;
    guest->extended++;
    guest->lease = lease;
    leave(guest);
}

static void on_drained(redlock_client *client, bool clean, void *arg)
{
    struct guest *guest = arg;
    (void)client;
    (void)clean;
    guest->other++;
    leave(guest);
}

static void on_survey(redlock_client *client, const redlock_survey *survey, void *arg)
{
    struct guest *guest = arg;
    (void)client;
    guest->other++;
    guest->code = survey->code;
    leave(guest);
}

static void on_admitted(redlock_client *client, const redlock_admitted *result, void *arg)
{
    struct guest *guest = arg;
    (void)client;
    guest->other++;
    guest->code = result->code;
    leave(guest);
}

static int64_t on_retry(unsigned attempt, uint64_t random, void *arg)
{
    struct guest *guest = arg;
    (void)attempt;
    (void)random;
    guest->other++;
    leave(guest);
    return 1;
}

/* After it: the loop goes on, nothing is called again, and all can be freed. */
static void finish(struct stage *s, struct guest *guest, unsigned calls)
{
    loop_run_for(s->base, 100);
    cr_assert_eq(guest->told + guest->lost + guest->extended + guest->other, calls);
    redlock_lease_free(guest->lease);
    guest->lease = NULL;
    if (s->client) {
        stage_drain(s);
        redlock_client_free(s->client);
    }
    s->client = stage_client(s, NULL);
    for (unsigned i = 0; i < s->servers.n; i++)
        servers_do(&s->servers, i, "FLUSHALL");
}

#define EACH_WAY(guest, s)                                                                 \
    for (int way = 1; way <= 3; way++)                                                     \
        for (struct guest                                                                  \
                 guest = {.stage = &(s), .frees_lease = way & 1, .frees_client = way & 2}, \
                 *once = &guest;                                                           \
             once; once = NULL)

static redlock_lease *hold_quietly(struct stage *s, struct guest *guest,
                                   redlock_lease_options options)
{
    options.on_lost = on_lost;
    options.on_extended = on_extended;
    options.lost_arg = options.extended_arg = guest;
    return stage_hold(s, "job", &options);
}

Test(callbacks, freed_when_acquired)
{
    struct stage s;
    redlock_lease_options options = stage_lease_options();
    stage_open(&s, 5);
    EACH_WAY(guest, s)
    {
        cr_assert_eq(
            redlock_acquire(s.client, "job", 3, &options, on_told, &guest, &guest.lease),
            REDLOCK_OK);
        LOOP_UNTIL(s.base, guest.told);
        cr_assert_eq(guest.code, REDLOCK_OK);
        if (guest.frees_lease)
            LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
        finish(&s, &guest, 1);
    }
    stage_close(&s);
}

/* Two answers come in one piece: the first one's callback frees everything. */
Test(callbacks, freed_when_the_first_of_two_is_acquired)
{
    struct stage s;
    redlock_lease_options options = stage_lease_options();
    stage_open(&s, 5);
    EACH_WAY(guest, s)
    {
        struct told told = {0};
        redlock_lease *second;
        stage_settle(&s);
        cr_assert_eq(
            redlock_acquire(s.client, "job", 3, &options, on_told, &guest, &guest.lease),
            REDLOCK_OK);
        cr_assert_eq(
            redlock_acquire(s.client, "second", 6, &options, told_note, &told, &second),
            REDLOCK_OK);
        LOOP_UNTIL(s.base, guest.told && told.times);
        cr_assert_eq(guest.code, REDLOCK_OK);
        cr_assert_eq(told.result.code, guest.frees_client ? REDLOCK_CANCELLED : REDLOCK_OK);
        redlock_lease_free(second);
        if (guest.frees_lease)
            LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
        finish(&s, &guest, 1);
        cr_assert_eq(told.times, 1);
    }
    stage_close(&s);
}

Test(callbacks, freed_when_refused)
{
    struct stage s;
    redlock_lease_options options = stage_lease_options();
    stage_open(&s, 5);
    EACH_WAY(guest, s)
    {
        for (unsigned i = 0; i < 3; i++)
            servers_do(&s.servers, i, "SET job stranger");
        cr_assert_eq(
            redlock_acquire(s.client, "job", 3, &options, on_told, &guest, &guest.lease),
            REDLOCK_OK);
        LOOP_UNTIL(s.base, guest.told);
        cr_assert_eq(guest.code, REDLOCK_TAKEN);
        finish(&s, &guest, 1);
    }
    stage_close(&s);
}

Test(callbacks, freed_when_cancelled)
{
    struct stage s;
    redlock_lease_options options = stage_lease_options();
    stage_open(&s, 5);
    EACH_WAY(guest, s)
    {
        stage_settle(&s);
        cr_assert_eq(
            redlock_acquire(s.client, "job", 3, &options, on_told, &guest, &guest.lease),
            REDLOCK_OK);
        redlock_cancel(guest.lease);
        LOOP_UNTIL(s.base, guest.told);
        cr_assert_eq(guest.code, REDLOCK_CANCELLED);
        finish(&s, &guest, 1);
    }
    stage_close(&s);
}

Test(callbacks, freed_when_extended)
{
    struct stage s;
    stage_open(&s, 5);
    EACH_WAY(guest, s)
    {
        redlock_lease *lease = hold_quietly(&s, &guest, stage_lease_options());
        cr_assert_eq(redlock_extend(lease, 0, on_told, &guest), REDLOCK_OK);
        LOOP_UNTIL(s.base, guest.told);
        cr_assert_eq(guest.code, REDLOCK_OK);
        finish(&s, &guest, 1);
    }
    stage_close(&s);
}

Test(callbacks, freed_when_released)
{
    struct stage s;
    stage_open(&s, 5);
    EACH_WAY(guest, s)
    {
        redlock_lease *lease = hold_quietly(&s, &guest, stage_lease_options());
        cr_assert_eq(redlock_release(lease, on_told, &guest), REDLOCK_OK);
        LOOP_UNTIL(s.base, guest.told);
        cr_assert_eq(guest.code, REDLOCK_OK);
        finish(&s, &guest, 1);
    }
    stage_close(&s);
}

Test(callbacks, freed_when_the_watchdog_extended)
{
    struct stage s;
    redlock_lease_options options = stage_lease_options();
    options.ttl_ms = 1500;
    stage_open(&s, 5);
    EACH_WAY(guest, s)
    {
        hold_quietly(&s, &guest, options);
        LOOP_UNTIL(s.base, guest.extended);
        finish(&s, &guest, 1);
    }
    stage_close(&s);
}

/* The loss is found by an extension that the caller asked for: both are to be told. */
Test(callbacks, freed_when_lost_while_it_extends)
{
    struct stage s;
    stage_open(&s, 5);
    EACH_WAY(guest, s)
    {
        struct told told = {0};
        redlock_lease *lease = hold_quietly(&s, &guest, stage_lease_options());
        stage_drain(&s);
        for (unsigned i = 0; i < 5; i++)
            servers_do(&s.servers, i, "DEL job");
        cr_assert_eq(redlock_extend(lease, 0, told_note, &told), REDLOCK_OK);
        LOOP_UNTIL(s.base, guest.lost);
        cr_assert_eq(guest.code, REDLOCK_GONE);
        finish(&s, &guest, 1);
        cr_assert_eq(told.times, guest.frees_lease ? 0 : 1);
    }
    stage_close(&s);
}

Test(callbacks, freed_when_expired)
{
    struct stage s;
    redlock_lease_options options = stage_lease_options();
    options.ttl_ms = 400;
    options.watchdog = false;
    stage_open(&s, 5);
    EACH_WAY(guest, s)
    {
        hold_quietly(&s, &guest, options);
        LOOP_UNTIL(s.base, guest.lost);
        cr_assert_eq(guest.code, REDLOCK_EXPIRED);
        finish(&s, &guest, 1);
    }
    stage_close(&s);
}

Test(callbacks, freed_when_drained)
{
    struct stage s;
    stage_open(&s, 5);
    EACH_WAY(guest, s)
    {
        guest.lease = hold_quietly(&s, &guest, stage_lease_options());
        cr_assert_eq(redlock_client_drain(s.client, -1, on_drained, &guest), REDLOCK_OK);
        cr_assert_eq(redlock_client_drain(s.client, -1, on_drained, &guest), REDLOCK_BUSY);
        LOOP_UNTIL(s.base, guest.other);
        finish(&s, &guest, 1);
    }
    stage_close(&s);
}

Test(callbacks, freed_when_surveyed)
{
    struct stage s;
    stage_open(&s, 5);
    EACH_WAY(guest, s)
    {
        guest.lease = hold_quietly(&s, &guest, stage_lease_options());
        cr_assert_eq(redlock_inspect(s.client, "job", 3, on_survey, &guest), REDLOCK_OK);
        LOOP_UNTIL(s.base, guest.other);
        cr_assert_eq(guest.code, REDLOCK_OK);
        finish(&s, &guest, 1);
    }
    EACH_WAY(guest, s)
    {
        guest.lease = hold_quietly(&s, &guest, stage_lease_options());
        cr_assert_eq(redlock_break(s.client, "job", 3, on_survey, &guest), REDLOCK_OK);
        LOOP_UNTIL(s.base, guest.other);
        cr_assert_eq(guest.code, REDLOCK_OK);
        finish(&s, &guest, 1);
    }
    stage_close(&s);
}

/* Admitted, and then refused in each way that it can be: before it began, and after. */
Test(callbacks, freed_when_admitted)
{
    struct stage s;
    stage_open(&s, 5);
    EACH_WAY(guest, s)
    {
        guest.lease = hold_quietly(&s, &guest, stage_lease_options());
        redlock_disown(guest.lease);
        stage_drain(&s);
        for (unsigned i = 0; i < 5; i++)
            servers_do(&s.servers, i, "FLUSHALL");
        cr_assert_eq(redlock_admit(s.client, REDLOCK_ADMIT_AT_ONCE, 0, on_admitted, &guest),
                     REDLOCK_OK);
        LOOP_UNTIL(s.base, guest.other);
        cr_assert_eq(guest.code, REDLOCK_OK);
        finish(&s, &guest, 1);
    }
    EACH_WAY(guest, s)
    {
        guest.lease = hold_quietly(&s, &guest, stage_lease_options());
        cr_assert_eq(redlock_admit(s.client, REDLOCK_ADMIT_NEW, 0, on_admitted, &guest),
                     REDLOCK_OK);
        LOOP_UNTIL(s.base, guest.other);
        cr_assert_eq(guest.code, REDLOCK_USED, "it has a key");
        finish(&s, &guest, 1);
    }
    EACH_WAY(guest, s)
    {
        guest.lease = hold_quietly(&s, &guest, stage_lease_options());
        cr_assert_eq(redlock_admit(s.client, REDLOCK_ADMIT_WAIT, 0, on_admitted, &guest),
                     REDLOCK_OK);
        LOOP_UNTIL(s.base, guest.other);
        cr_assert_eq(guest.code, REDLOCK_UNADMITTED);
        finish(&s, &guest, 1);
    }
    stage_close(&s);
}

/* An admission that ends with its client is told so once, wherever it is. */
Test(callbacks, client_freed_at_each_moment_of_an_admission)
{
    struct stage s;
    unsigned cancelled = 0;
    stage_open(&s, 5);
    for (int moment = 0; moment < 2 * MOMENTS; moment++) {
        struct admitted admitted = {0};
        redlock_client *client = stage_client(&s, NULL);
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
        for (unsigned i = 0; i < 5; i++)
            servers_do(&s.servers, i, "FLUSHALL");
    }
    cr_assert_geq(cancelled, MOMENTS, "NEW waits for a quarantine");
    stage_close(&s);
}

/* A fenced acquire, at each moment. */
Test(callbacks, fenced_lease_freed_at_each_moment)
{
    struct stage s;
    redlock_lease_options options = stage_fenced_options();
    stage_open_fenced(&s, 5, NULL);
    for (int moment = 0; moment < MOMENTS; moment++) {
        struct told told = {0};
        redlock_lease *lease;
        cr_assert_eq(
            redlock_acquire(s.client, "job", 3, &options, told_note, &told, &lease),
            REDLOCK_OK);
        run_passes(&s, moment);
        unsigned times = told.times;
        redlock_lease_free(lease);
        stage_drain(&s);
        cr_assert_eq(servers_with(&s.servers, "job", NULL), 5);
        cr_assert_eq(told.times, times);
    }
    stage_close(&s);
}

static redlock_lease_options waiting_options(struct guest *guest)
{
    redlock_lease_options options = stage_lease_options();
    options.wait_ms = -1;
    options.retry = REDLOCK_RETRY_CUSTOM;
    options.retry_fn = on_retry;
    options.retry_arg = guest;
    return options;
}

Test(callbacks, freed_when_asked_for_a_delay)
{
    struct stage s;
    stage_open(&s, 5);
    EACH_WAY(guest, s)
    {
        struct told told = {0};
        redlock_lease_options options = waiting_options(&guest);
        for (unsigned i = 0; i < 3; i++)
            servers_do(&s.servers, i, "SET job stranger");
        cr_assert_eq(
            redlock_acquire(s.client, "job", 3, &options, told_note, &told, &guest.lease),
            REDLOCK_OK);
        LOOP_UNTIL(s.base, guest.other);
        finish(&s, &guest, 1);
        cr_assert_eq(told.times, guest.frees_lease ? 0 : 1);
    }
    stage_close(&s);
}

static int64_t cancel_instead(unsigned attempt, uint64_t random, void *arg)
{
    struct guest *guest = arg;
    (void)attempt;
    (void)random;
    guest->other++;
    redlock_cancel(guest->lease);
    return 1;
}

Test(callbacks, cancelled_when_asked_for_a_delay)
{
    struct stage s;
    struct guest guest = {.stage = &s};
    struct told told = {0};
    redlock_lease_options options = waiting_options(&guest);
    options.retry_fn = cancel_instead;
    stage_open(&s, 5);
    for (unsigned i = 0; i < 3; i++)
        servers_do(&s.servers, i, "SET job stranger");
    cr_assert_eq(
        redlock_acquire(s.client, "job", 3, &options, told_note, &told, &guest.lease),
        REDLOCK_OK);
    LOOP_UNTIL(s.base, guest.other);
    for (unsigned i = 0; i < 3; i++)
        servers_do(&s.servers, i, "DEL job");
    EXPECT_TOLD(&s, &told, REDLOCK_CANCELLED);
    redlock_lease_free(guest.lease);
    stage_drain(&s);
    cr_assert_eq(servers_keys(&s.servers), 0);
    stage_close(&s);
}

/* --- calling from inside --- */

static void release_at_once(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct guest *guest = arg;
    guest->told++;
    guest->code = result->code;
    if (result->code == REDLOCK_OK)
        cr_assert_eq(redlock_release(lease, on_told, guest), REDLOCK_OK);
}

Test(callbacks, released_when_acquired)
{
    struct stage s;
    redlock_lease_options options = stage_lease_options();
    stage_open(&s, 5);
    struct guest guest = {.stage = &s};
    cr_assert_eq(redlock_acquire(s.client, "job", 3, &options, release_at_once, &guest,
                                 &guest.lease),
                 REDLOCK_OK);
    LOOP_UNTIL(s.base, guest.told == 2);
    cr_assert_eq(guest.code, REDLOCK_OK);
    finish(&s, &guest, 2);
    stage_close(&s);
}

struct chain {
    struct stage *stage;
    redlock_lease *lease;
    unsigned links;
};

static void next_link(redlock_lease *lease, const redlock_result *result, void *arg);

static void acquire_next(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct chain *chain = arg;
    redlock_lease_options options = stage_lease_options();
    cr_assert_eq(result->code, REDLOCK_OK);
    redlock_lease_free(lease);
    chain->lease = NULL;
    if (chain->links < 50)
        cr_assert_eq(redlock_acquire(chain->stage->client, "job", 3, &options, next_link,
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

/* The next acquire may find a key that is being released: it is in order on each stream. */
Test(callbacks, a_chain_of_callbacks)
{
    struct stage s;
    redlock_lease_options options = stage_lease_options();
    stage_open(&s, 5);
    struct chain chain = {.stage = &s};
    cr_assert_eq(
        redlock_acquire(s.client, "job", 3, &options, next_link, &chain, &chain.lease),
        REDLOCK_OK);
    LOOP_UNTIL(s.base, chain.links == 50 && !chain.lease);
    stage_drain(&s);
    cr_assert_eq(servers_keys(&s.servers), 0);
    stage_close(&s);
}

/* --- everything in flight --- */

#define LEASES 8

struct crowd {
    redlock_lease *lease[LEASES];
    struct told told[LEASES], lost;
    struct guest drain, inspect, breaking;
};

/* Holds some, and starts one of everything that there is. */
static void start_everything(struct stage *s, struct crowd *crowd)
{
    redlock_lease_options options = stage_lease_options();
    options.on_lost = told_note;
    options.lost_arg = &crowd->lost;
    for (int i = 0; i < 4; i++) {
        char key[] = {'k', (char)('0' + i), '\0'};
        crowd->lease[i] = stage_hold(s, key, &options);
    }
    cr_assert_eq(redlock_extend(crowd->lease[1], 0, told_note, &crowd->told[1]),
                 REDLOCK_OK);
    cr_assert_eq(redlock_release(crowd->lease[2], told_note, &crowd->told[2]), REDLOCK_OK);
    redlock_lease_free(crowd->lease[3]);
    crowd->lease[3] = NULL;
    for (int i = 4; i < LEASES; i++) {
        options.wait_ms = i == 5 ? -1 : 0;
        const char *key = i == 5 ? "k0" : "k9";
        cr_assert_eq(redlock_acquire(s->client, key, 2, &options, told_note,
                                     &crowd->told[i], &crowd->lease[i]),
                     REDLOCK_OK);
    }
    redlock_cancel(crowd->lease[6]);
    redlock_lease_free(crowd->lease[7]);
    crowd->lease[7] = NULL;
    cr_assert_eq(redlock_client_drain(s->client, 5000, on_drained, &crowd->drain),
                 REDLOCK_OK);
    cr_assert_eq(redlock_inspect(s->client, "k0", 2, on_survey, &crowd->inspect),
                 REDLOCK_OK);
    cr_assert_eq(redlock_break(s->client, "kb", 2, on_survey, &crowd->breaking),
                 REDLOCK_OK);
}

static void expect_once(const struct crowd *crowd)
{
    static const unsigned once[LEASES] = {0, 1, 1, 0, 1, 1, 1, 0};
    for (int i = 0; i < LEASES; i++)
        cr_assert_eq(crowd->told[i].times, once[i], "lease %d was told %u times", i,
                     crowd->told[i].times);
    cr_assert_eq(crowd->drain.other, 1);
    cr_assert_eq(crowd->inspect.other, 1);
    cr_assert_eq(crowd->breaking.other, 1);
    cr_assert_eq(crowd->lost.times, 0);
}

Test(callbacks, client_freed_with_everything_in_flight)
{
    struct stage s;
    stage_open(&s, 5);
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
        s.client = stage_client(&s, NULL);
        for (unsigned i = 0; i < 5; i++)
            servers_do(&s.servers, i, "FLUSHALL");
    }
    stage_close(&s);
}

/* Those that end with the client may free their leases, and the client again. */
static void free_both(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct guest *guest = arg;
    guest->told++;
    guest->code = result->code;
    servers_settle(&guest->stage->servers);
    redlock_client_free(guest->stage->client);
    redlock_lease_free(lease);
}

Test(callbacks, freed_while_the_client_is_freed)
{
    struct stage s;
    redlock_lease_options options = stage_lease_options();
    stage_open_fresh(&s, 5);
    for (int moment = 0; moment < 6; moment++) {
        struct guest guest[3] = {{.stage = &s}, {.stage = &s}, {.stage = &s}};
        for (int i = 0; i < 3; i++)
            cr_assert_eq(redlock_acquire(s.client, "job", 3, &options, free_both, &guest[i],
                                         &guest[i].lease),
                         REDLOCK_OK);
        if (moment > 0)
            LOOP_UNTIL(s.base, servers_keys(&s.servers) > 0 || guest[0].told);
        servers_settle(&s.servers);
        if (!guest[0].told && !guest[1].told && !guest[2].told)
            redlock_client_free(s.client);
        for (int i = 0; i < 3; i++)
            cr_assert_eq(guest[i].told, 1);
        s.client = stage_client(&s, NULL);
        LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
    }
    stage_close(&s);
}
