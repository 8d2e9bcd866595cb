/* The reason of each result, on real servers. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "quorum.h"

#define TTL_MS 3000 /* nothing expires because the machine is busy */

static void expect(const redlock_result *result, redlock_code code, redlock_reason reason)
{
    cr_assert(result->code == code && result->reason == reason, "%s %s, not %s %s",
              redlock_code_name(result->code), redlock_reason_name(result->reason),
              redlock_code_name(code), redlock_reason_name(reason));
}

#define EXPECT(result, code, reason)                                                       \
    expect(&(result), REDLOCK_##code, REDLOCK_REASON_##reason)

/* The client's own view of node 0: this state, or this fault. */
#define AWAIT_FAULT(s, name)                                                               \
    LOOP_UNTIL((s)->base,                                                                  \
               strcmp(redlock_fault_name(quorum_link((s)->client, 0)->fault), name) == 0)

static void meet_anew(struct quorum *s, const redlock_options *options)
{
    redlock_client_free(s->client);
    s->client = quorum_client(s, options);
}

static void expect_acquire(struct quorum *s, const redlock_lease_options *options,
                           redlock_code code, redlock_reason reason)
{
    struct reported reported = {0};
    redlock_lease *lease = quorum_acquire(s, "job", options, &reported);
    expect(&reported.result, code, reason);
    redlock_lease_free(lease);
}

#define EXPECT_ACQUIRE(s, options, code, reason)                                           \
    expect_acquire(s, options, REDLOCK_##code, REDLOCK_REASON_##reason)

/* --- what keeps nodes from granting --- */

Test(reasons, denied)
{
    struct quorum s;
    redlock_options options = quorum_options();
    quorum_open(&s, 1);
    EXPECT_ACQUIRE(&s, NULL, OK, NONE);
    servers_do(&s.servers, 0, "ACL SETUSER app on >secret ~other &* +@all");
    options.username = "app";
    options.password = "wrong";
    meet_anew(&s, &options);
    AWAIT_FAULT(&s, "wrongpass");
    EXPECT_ACQUIRE(&s, NULL, DENIED, PASSWORD);
    options.password = "secret";
    meet_anew(&s, &options);
    quorum_await_ready(&s);
    EXPECT_ACQUIRE(&s, NULL, DENIED, PERMISSION);
    quorum_close(&s);
}

Test(reasons, not_denied)
{
    struct quorum s;
    quorum_open(&s, 1);
    servers_do(&s.servers, 0, "CONFIG SET maxmemory 1");
    EXPECT_ACQUIRE(&s, NULL, NO_QUORUM, REFUSED);
    servers_do(&s.servers, 0, "CONFIG SET maxmemory 0");
    servers_restart(&s.servers, 0);
    AWAIT_FAULT(&s, "quarantine");
    EXPECT_ACQUIRE(&s, NULL, NO_QUORUM, QUARANTINED);
    servers_kill(&s.servers, 0);
    LOOP_UNTIL(s.base, !quorum_is(s.client, 0, "quarantined"));
    EXPECT_ACQUIRE(&s, NULL, NO_QUORUM, NOT_CONNECTED);
    quorum_close(&s);
}

Test(reasons, silent)
{
    struct quorum s;
    redlock_options options = quorum_options();
    redlock_lease_options lease_options = quorum_quiet_options();
    options.node_timeout_ms = 200;
    quorum_open_with(&s, 1, &options);
    servers_stop(&s.servers, 0);
    EXPECT_ACQUIRE(&s, &lease_options, NO_QUORUM, SILENT);
    servers_cont(&s.servers, 0);
    quorum_close(&s);
}

Test(reasons, not_admitted)
{
    struct quorum s;
    redlock_lease_options options = quorum_fenced_options();
    quorum_open(&s, 1);
    EXPECT_ACQUIRE(&s, &options, NO_QUORUM, NOT_ADMITTED);
    quorum_close(&s);
}

/* Four of five are needed: two that lost the key keep the lock from being extended. */
Test(reasons, missing)
{
    struct quorum s;
    struct reported reported = {0};
    redlock_options options = quorum_options();
    redlock_lease_options lease_options = quorum_quiet_options();
    options.quorum = 4;
    quorum_open_with(&s, 5, &options);
    redlock_lease *lease = quorum_hold(&s, "job", &lease_options);
    LOOP_UNTIL(s.base, quorum_count_votes(lease, "granted") == 5);
    servers_do_first(&s.servers, 2, "DEL job");
    cr_assert_eq(redlock_extend(lease, 0, reported_note, &reported), REDLOCK_OK);
    EXPECT_REPORTED(&s, &reported, REDLOCK_NO_QUORUM);
    EXPECT(reported.result, NO_QUORUM, MISSING);
    redlock_lease_free(lease);
    quorum_close(&s);
}

Test(reasons, unconfirmed)
{
    struct quorum s;
    struct reported reported = {0};
    redlock_lease_options options = quorum_quiet_options();
    quorum_open(&s, 1);
    redlock_lease *lease = quorum_hold(&s, "job", &options);
    servers_kill(&s.servers, 0);
    LOOP_UNTIL(s.base, !quorum_is(s.client, 0, "ready"));
    cr_assert_eq(redlock_release(lease, reported_note, &reported), REDLOCK_OK);
    EXPECT_REPORTED(&s, &reported, REDLOCK_UNCONFIRMED);
    EXPECT(reported.result, UNCONFIRMED, NOT_CONNECTED);
    redlock_lease_free(lease);
    quorum_close(&s);
}

/* Two nodes stand still until the deadline of the attempt has passed. */
static void expect_expired_attempt(bool grants, redlock_reason reason)
{
    struct quorum s;
    struct reported reported = {0};
    redlock_options options = quorum_options();
    redlock_lease_options lease_options = quorum_quiet_options();
    options.node_timeout_ms = grants ? LOOP_PATIENCE_MS : 2 * TTL_MS;
    lease_options.ttl_ms = TTL_MS;
    quorum_open_with(&s, 3, &options);
    servers_stop_first(&s.servers, 2);
    redlock_lease *lease = quorum_start(&s, "job", &lease_options, &reported);
    loop_run_for(s.base, TTL_MS);
    if (grants)
        servers_cont_first(&s.servers, 2);
    EXPECT_REPORTED(&s, &reported, REDLOCK_EXPIRED);
    expect(&reported.result, REDLOCK_EXPIRED, reason);
    redlock_lease_free(lease);
    if (!grants)
        servers_cont_first(&s.servers, 2);
    quorum_close(&s);
}

Test(reasons, grants_after_the_deadline)
{
    expect_expired_attempt(true, REDLOCK_REASON_LATE);
}

Test(reasons, no_reply_until_the_deadline)
{
    expect_expired_attempt(false, REDLOCK_REASON_SILENT);
}

/* --- the end of a lock --- */

static void expect_loss(struct quorum *s, redlock_lease_options options,
                        redlock_reason reason)
{
    struct reported lost = {0};
    reported_on_lost(&options, &lost);
    options.ttl_ms = TTL_MS;
    options.watchdog = false;
    redlock_lease *lease = quorum_hold(s, "job", &options);
    EXPECT_REPORTED(s, &lost, REDLOCK_EXPIRED);
    expect(&lost.result, REDLOCK_EXPIRED, reason);
    redlock_lease_free(lease);
    quorum_drain(s);
}

Test(reasons, of_a_lock_that_expires)
{
    struct quorum s;
    redlock_lease_options options = quorum_lease_options();
    quorum_open(&s, 1);
    expect_loss(&s, options, REDLOCK_REASON_DEADLINE);
    options.margin_ms = TTL_MS / 2;
    expect_loss(&s, options, REDLOCK_REASON_MARGIN);
    quorum_close(&s);
}

/* The node dies: the watchdog cannot extend the lock. */
Test(reasons, of_a_lock_that_could_not_be_extended)
{
    struct quorum s;
    struct reported lost = {0};
    redlock_lease_options options = quorum_lease_options();
    reported_on_lost(&options, &lost);
    options.ttl_ms = TTL_MS;
    options.watchdog = true;
    quorum_open(&s, 1);
    redlock_lease *lease = quorum_hold(&s, "job", &options);
    servers_kill(&s.servers, 0);
    EXPECT_REPORTED(&s, &lost, REDLOCK_EXPIRED);
    EXPECT(lost.result, EXPIRED, NOT_CONNECTED);
    redlock_lease_free(lease);
    quorum_close(&s);
}

/* --- what the caller does --- */

Test(reasons, cancelled)
{
    struct quorum s;
    struct reported reported = {0}, extended = {0};
    quorum_open(&s, 1);
    redlock_lease *lease = quorum_start(&s, "job", NULL, &reported);
    redlock_cancel(lease);
    EXPECT_REPORTED(&s, &reported, REDLOCK_CANCELLED);
    EXPECT(reported.result, CANCELLED, BY_CALLER);
    redlock_lease_free(lease);
    lease = quorum_hold(&s, "job", NULL);
    redlock_extend(lease, 0, reported_note, &extended);
    redlock_disown(lease);
    EXPECT_REPORTED(&s, &extended, REDLOCK_CANCELLED);
    EXPECT(extended.result, CANCELLED, DISOWNED);
    redlock_lease_free(lease);
    lease = quorum_hold(&s, "other", NULL);
    extended = (struct reported){0};
    redlock_extend(lease, 0, reported_note, &extended);
    redlock_release(lease, NULL, NULL);
    EXPECT_REPORTED(&s, &extended, REDLOCK_CANCELLED);
    EXPECT(extended.result, CANCELLED, RELEASED);
    redlock_lease_free(lease);
    lease = quorum_start(&s, "third", NULL, &reported);
    redlock_client_free(s.client);
    s.client = NULL;
    EXPECT(reported.result, CANCELLED, CLIENT_FREED);
    redlock_lease_free(lease);
    quorum_close(&s);
}

Test(reasons, an_acquire_that_failed)
{
    struct quorum s;
    struct reported reported = {0};
    quorum_open(&s, 1);
    servers_do(&s.servers, 0, "SET job other");
    redlock_lease *lease = quorum_acquire(&s, "job", NULL, &reported);
    EXPECT(reported.result, TAKEN, NONE);
    cr_assert_eq(redlock_extend(lease, 0, NULL, NULL), REDLOCK_NOT_HELD);
    cr_assert_eq(redlock_last_error()->reason, REDLOCK_REASON_NOT_ACQUIRED);
    redlock_lease_free(lease);
    quorum_close(&s);
}

/* --- arguments and options --- */

/* The bound is the least TTL that can be used. */
Test(reasons, the_least_ttl)
{
    struct quorum s;
    quorum_open(&s, 1);
    for (int64_t margin = 0; margin < 500; margin++) {
        redlock_lease *lease = NULL;
        redlock_lease_options options = quorum_quiet_options();
        options.margin_ms = margin;
        options.ttl_ms = 1;
        for (int i = 0; i < 3; i++) {
            redlock_code code =
                redlock_acquire(s.client, "job", 3, &options, NULL, NULL, &lease);
            cr_assert_eq(code, i == 2 ? REDLOCK_OK : REDLOCK_BAD_TTL);
            options.ttl_ms = redlock_last_error()->bound - (i == 0);
        }
        redlock_lease_free(lease);
    }
    quorum_close(&s);
}

Test(reasons, admitted_for_less)
{
    struct quorum s;
    redlock_options client_options = quorum_options();
    redlock_lease_options options = quorum_quiet_fenced_options();
    client_options.max_ttl_ms = 20000;
    quorum_open_fenced(&s, 1, &client_options);
    meet_anew(&s, NULL);
    options.ttl_ms = 20001;
    EXPECT_ACQUIRE(&s, &options, BAD_TTL, TTL_ADMITTED);
    quorum_close(&s);
}

static atomic_bool nothing_is_random;

/* Also for the library. */
ssize_t getrandom(void *bytes, size_t len, unsigned flags)
{
    if (nothing_is_random) {
        errno = ENOSYS;
        return -1;
    }
    return syscall(SYS_getrandom, bytes, len, flags);
}

Test(reasons, no_random_numbers)
{
    struct quorum s;
    quorum_open(&s, 1);
    nothing_is_random = true;
    EXPECT_ACQUIRE(&s, NULL, SYSTEM, RANDOM);
    nothing_is_random = false;
    quorum_close(&s);
}

/* --- names and texts --- */

Test(reasons, have_names_and_texts)
{
#define X(name, text)                                                                      \
    cr_assert_str_eq(redlock_reason_name(REDLOCK_REASON_##name), #name);                   \
    cr_assert_str_eq(redlock_reason_text(REDLOCK_REASON_##name), text);
    REDLOCK_REASONS(X)
#undef X
    cr_assert_str_eq(redlock_reason_name((redlock_reason)999), "?");
    cr_assert_not_null(redlock_reason_text((redlock_reason)999));
}
