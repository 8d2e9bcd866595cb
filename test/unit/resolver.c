/* The addresses of a name: which ones, when, and after which failures. */
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "resolver_fixture.h"

/* --- which addresses, and when --- */

TestSuite(resolver, .timeout = PATIENCE_MS / 1000);

Test(resolver, numeric_addresses_are_not_looked_up)
{
    struct outcome v4 = {0}, v6 = {0};
    outcome_prepare(&v4, "127.0.0.1");
    outcome_prepare(&v6, "fd00::1");
    outcome_resolve(&v4);
    outcome_resolve(&v6);
    outcome_expect_addresses(&v4, 1, "127.0.0.1", "127.0.0.1");
    outcome_expect_addresses(&v6, 1, "fd00::1", "fd00::1");
    cr_assert_eq(zone_asked(V4) + zone_asked(V6), 0);
    cr_assert_null(resolver.woken, "nor is a descriptor needed");
    rl_resolve_free(v6.request);
    outcome_end(&v4);
}

Test(resolver, only_one_family)
{
    struct outcome outcome = {0};
    zone_set(V4, EAI_NODATA, NULL);
    zone_set(V6, 0, "fd00::1");
    outcome_prepare(&outcome, "node");
    outcome_resolve(&outcome);
    outcome_expect_addresses(&outcome, 1, "fd00::1", "fd00::1");
    outcome_end(&outcome);
}

/* The second family is asked for, and never answers. */
static void expect_without(unsigned silent, const char *address)
{
    struct outcome outcome = {0};
    zone_silence(silent);
    zone_set(!silent, 0, address);
    outcome_prepare(&outcome, "node");
    outcome_resolve_late(&outcome);
    outcome_expect_addresses(&outcome, 1, address, address);
    cr_assert_eq(zone_asked(silent), 1);
    outcome_end(&outcome);
}

Test(resolver, ipv6_that_is_never_answered)
{
    expect_without(V6, "10.0.0.1");
}

Test(resolver, ipv4_that_is_never_answered)
{
    expect_without(V4, "fd00::1");
}

/* Waits for a lookup of the name to end. */
static void await_lookup(const struct rl_name_user *user)
{
    struct pollfd ready = {.fd = user->wake_fd, .events = POLLIN};
    uint64_t times;
    cr_assert_eq(poll(&ready, 1, PATIENCE_MS), 1);
    cr_assert_eq(read(user->wake_fd, &times, sizeof(times)), (ssize_t)sizeof(times));
}

static void expect_family(const struct rl_name_user *user, bool is_whole, unsigned first)
{
    struct rl_addresses known;
    rl_name_read(user, &known);
    cr_assert_eq(known.is_whole, is_whole);
    cr_assert_gt(known.count, 0);
    cr_assert_eq(known.address[0].addr.ss_family, first == V4 ? AF_INET : AF_INET6);
}

static void expect_first(unsigned first)
{
    static const char *const addresses[] = {"10.0.0.1", "fd00::1"};
    struct rl_name_user user;
    zone_silence(!first);
    zone_set(first, 0, addresses[first]);
    cr_assert(rl_name_use(&user, "node", eventfd(0, EFD_NONBLOCK)));
    rl_name_look_up(&user);
    await_lookup(&user);
    expect_family(&user, false, first);
    zone_set(!first, 0, addresses[!first]);
    await_lookup(&user);
    expect_family(&user, true, first);
    rl_name_leave(&user);
    close(user.wake_fd);
}

Test(resolver, the_family_that_answers_first_comes_first)
{
    expect_first(V6);
    expect_first(V4);
}

Test(resolver, many_addresses_leave_room_for_the_other_family)
{
    struct outcome outcome = {0};
    static char text[10][INET6_ADDRSTRLEN];
    for (unsigned i = 0; i < 9; i++) {
        snprintf(text[i], sizeof(text[i]), "10.0.0.%u", i + 1);
        zone[V4].address[i] = text[i];
    }
    zone[V6].address[0] = "fd00::1";
    outcome_prepare(&outcome, "node");
    outcome_resolve(&outcome);
    cr_assert_eq(outcome.count, RL_ADDRESSES_MAX);
    cr_assert(!strcmp(outcome.text[0], "fd00::1") ||
              !strcmp(outcome.text[RL_ADDRESSES_MAX - 1], "fd00::1"));
    outcome_end(&outcome);
}

/* --- failures --- */

Test(resolver, a_name_that_fails_is_asked_once_in_5_s)
{
    struct outcome outcome = {0};
    zone_set(V4, EAI_AGAIN, NULL);
    zone_set(V6, EAI_AGAIN, NULL);
    outcome_prepare(&outcome, "node");
    for (int i = 0; i < 100; i++) {
        outcome_resolve(&outcome);
        outcome_expect_failure(&outcome, EAI_AGAIN);
    }
    cr_assert(zone_asked(V4) == 1 && zone_asked(V6) == 1, "%u, %u", zone_asked(V4),
              zone_asked(V6));
    zone_clock_ns += PAUSE_NS - 1;
    outcome_resolve(&outcome);
    cr_assert(zone_asked(V4) == 1 && zone_asked(V6) == 1, "%u, %u", zone_asked(V4),
              zone_asked(V6));
    zone_set(V4, 0, "10.0.0.1");
    zone_clock_ns += 1;
    outcome_resolve(&outcome);
    outcome_expect_addresses(&outcome, 1, "10.0.0.1", "10.0.0.1");
    cr_assert(zone_asked(V4) == 2 && zone_asked(V6) == 2, "%u, %u", zone_asked(V4),
              zone_asked(V6));
    outcome_end(&outcome);
}

/* Another client, and one that begins after the first has gone. */
Test(resolver, all_clients_ask_together)
{
    struct outcome first = {0}, second = {0};
    zone_set(V4, EAI_AGAIN, NULL);
    zone_set(V6, EAI_AGAIN, NULL);
    outcome_prepare(&first, "node");
    outcome_resolve(&first);
    outcome_end(&first);
    outcome_prepare(&second, "NODE");
    outcome_resolve(&second);
    outcome_expect_failure(&second, EAI_AGAIN);
    cr_assert(zone_asked(V4) == 1 && zone_asked(V6) == 1, "%u, %u", zone_asked(V4),
              zone_asked(V6));
    outcome_end(&second);
}

/* "It has no address of this family" is not why it fails. */
Test(resolver, the_reason_is_of_the_family_that_failed)
{
    struct outcome outcome = {0};
    zone_set(V4, EAI_NODATA, NULL);
    zone_set(V6, EAI_AGAIN, NULL);
    outcome_prepare(&outcome, "node");
    outcome_resolve(&outcome);
    outcome_expect_failure(&outcome, EAI_AGAIN);
    outcome_end(&outcome);
}

/* The next try joins a lookup that the one before began. */
Test(resolver, a_lookup_goes_on_after_the_request)
{
    struct outcome outcome = {0};
    zone_silence(V4);
    zone_silence(V6);
    outcome_prepare(&outcome, "node");
    for (int i = 0; i < 10; i++) {
        rl_resolve_start(outcome.request);
        event_base_loop(resolver.base, EVLOOP_NONBLOCK);
        rl_resolve_cancel(outcome.request);
    }
    cr_assert_eq(outcome.times, 0);
    rl_resolve_start(outcome.request);
    zone_set(V4, 0, "10.0.0.1");
    zone_set(V6, EAI_NODATA, NULL);
    outcome_await(&outcome);
    outcome_expect_addresses(&outcome, 1, "10.0.0.1", "10.0.0.1");
    cr_assert(zone_asked(V4) == 1 && zone_asked(V6) == 1, "%u, %u", zone_asked(V4),
              zone_asked(V6));
    outcome_end(&outcome);
}

/* An outage of the name server does not take what was known; an answer does. */
Test(resolver, the_last_addresses_are_used_while_a_lookup_fails_or_is_late)
{
    struct outcome outcome = {0};
    zone_set(V4, 0, "10.0.0.1");
    zone_set(V6, 0, "fd00::1");
    outcome_prepare(&outcome, "node");
    outcome_resolve(&outcome);
    cr_assert_eq(outcome.count, 2);
    zone_set(V4, EAI_AGAIN, NULL);
    outcome_resolve(&outcome);
    outcome_expect_addresses(&outcome, 2, "fd00::1", "10.0.0.1");
    zone_clock_ns += PAUSE_NS;
    zone_silence(V4);
    zone_silence(V6);
    outcome_resolve_late(&outcome);
    cr_assert_eq(outcome.count, 2);
    zone_set(V4, EAI_NONAME, NULL);
    zone_set(V6, EAI_NODATA, NULL);
    outcome_resolve(&outcome);
    outcome_expect_failure(&outcome, EAI_NONAME);
    outcome_end(&outcome);
}

/* --- clients that end, and forks --- */

Test(resolver, a_client_that_ends_during_its_lookup)
{
    struct outcome outcome = {0};
    zone_silence(V4);
    zone_silence(V6);
    outcome_prepare(&outcome, "node");
    rl_resolve_start(outcome.request);
    zone_await_asked(V4, 1);
    outcome_end(&outcome);
    zone_set(V4, 0, "10.0.0.1");
    zone_set(V6, 0, "fd00::1");
    outcome_prepare(&outcome, "node");
    outcome_resolve(&outcome);
    cr_assert_gt(outcome.count, 0);
    outcome_end(&outcome);
}

Test(resolver, a_client_that_is_freed_by_its_callback)
{
    struct outcome outcome = {.closes = true}, other = {0};
    zone_set(V4, 0, "10.0.0.1");
    zone_set(V6, EAI_NODATA, NULL);
    outcome_prepare(&outcome, "node");
    outcome_prepare(&other, "node");
    struct event_base *base = resolver.base;
    rl_resolve_free(other.request);
    rl_resolve_start(outcome.request);
    while (outcome.times == 0)
        event_base_loop(base, EVLOOP_ONCE);
    event_base_loop(base, EVLOOP_NONBLOCK);
    cr_assert_eq(outcome.times, 1);
    event_base_free(base);
}

static void look_up_in_the_child(struct outcome *inherited)
{
    struct outcome outcome = {0};
    alarm(PATIENCE_MS / 1000);
    rl_resolve_free(inherited->request);
    rl_resolver_clear(&resolver);
    resolver.base = NULL;
    zone_renew();
    zone_set(V4, 0, "10.0.0.2");
    zone_set(V6, EAI_NODATA, NULL);
    outcome_prepare(&outcome, "node");
    outcome_resolve(&outcome);
    _exit(outcome.count == 1 && strcmp(outcome.text[0], "10.0.0.2") == 0 ? 0 : 1);
}

/* The child begins anew, and the lookup of its parent goes on. */
Test(resolver, a_fork_during_a_lookup)
{
    struct outcome outcome = {0};
    int status;
    zone_silence(V4);
    zone_silence(V6);
    outcome_prepare(&outcome, "node");
    rl_resolve_start(outcome.request);
    zone_await_asked(V4, 1);
    zone_await_asked(V6, 1);
    pid_t child = fork();
    if (child == 0)
        look_up_in_the_child(&outcome);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
    zone_set(V4, 0, "10.0.0.1");
    zone_set(V6, EAI_NODATA, NULL);
    outcome_await(&outcome);
    outcome_expect_addresses(&outcome, 1, "10.0.0.1", "10.0.0.1");
    outcome_end(&outcome);
}
