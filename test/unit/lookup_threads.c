/* Which lookups run at a time, and in which threads, while others are not answered. */
#include "resolver_fixture.h"

#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define HOSTS       40
#define PROMPT_MAX  16
#define RETRIES_MAX 8
#define THREADS_MAX 64
#define USERS       3

TestSuite(lookup_threads, .timeout = PATIENCE_MS / 1000);

/* Names that are never answered, of both families. */
static struct outcome silent[HOSTS];

static void start_silent(unsigned count)
{
    static char host[HOSTS][8];
    for (unsigned family = 0; family < FAMILIES; family++) {
        zone_set(family, 0, family == V4 ? "10.0.0.1" : "fd00::1");
        zone_silence(family);
    }
    for (unsigned i = 0; i < count; i++) {
        snprintf(host[i], sizeof(host[i]), "node%u", i);
        silent[i].times = 0;
        if (!silent[i].request)
            outcome_prepare(&silent[i], host[i]);
        rl_resolve_start(silent[i].request);
    }
}

static void start_again(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        rl_resolve_cancel(silent[i].request);
        rl_resolve_start(silent[i].request);
    }
}

/* They end after all, with this error. */
static void end_silent(unsigned count, int error)
{
    zone_set(V4, error, "10.0.0.1");
    zone_set(V6, error, "fd00::1");
    for (unsigned i = 0; i < count; i++)
        outcome_await(&silent[i]);
    zone_await_running(0);
}

static void free_silent(unsigned count)
{
    for (unsigned i = 1; i < count; i++)
        rl_resolve_free(silent[i].request);
    outcome_end(&silent[0]);
}

static void expect_good(struct outcome *outcome, const char *host)
{
    outcome_prepare(outcome, host);
    outcome_resolve(outcome);
    outcome_expect_addresses(outcome, 2, outcome->text[0], outcome->text[1]);
    rl_resolve_free(outcome->request);
}

Test(lookup_threads, at_most_16_lookups_that_are_not_silent)
{
    start_silent(HOSTS);
    zone_await_running(PROMPT_MAX);
    zone_await_sleeper();
    end_silent(HOSTS, 0);
    cr_assert_eq(zone_most_running, PROMPT_MAX);
    free_silent(HOSTS);
}

/* On the first try, beside 16 names whose lookups are all ahead of it. */
Test(lookup_threads, silent_lookups_make_room_for_others)
{
    struct outcome good = {0};
    start_silent(PROMPT_MAX);
    zone_await_running(PROMPT_MAX);
    outcome_prepare(&good, "good");
    rl_resolve_start(good.request);
    cr_assert_str_eq(rl_resolve_silence(silent[0].request),
                     "the name server has not answered");
    cr_assert_str_eq(rl_resolve_silence(good.request),
                     "the lookup of the name waits for others to end");
    zone_await_sleeper();
    zone_pass(SILENT_NS);
    outcome_await(&good);
    zone_await_running(2 * PROMPT_MAX);
    rl_resolve_free(good.request);
    end_silent(PROMPT_MAX, 0);
    free_silent(PROMPT_MAX);
}

Test(lookup_threads, at_most_64_threads)
{
    start_silent(HOSTS);
    for (unsigned running = PROMPT_MAX; running < THREADS_MAX; running += PROMPT_MAX) {
        zone_await_running(running);
        zone_pass(SILENT_NS);
    }
    zone_await_running(THREADS_MAX);
    cr_assert_eq(zone_threads_started, THREADS_MAX);
    end_silent(HOSTS, 0);
    cr_assert_eq(zone_most_running, THREADS_MAX);
    free_silent(HOSTS);
}

Test(lookup_threads, at_most_8_lookups_that_were_silent_before)
{
    struct outcome good = {0};
    start_silent(PROMPT_MAX);
    zone_await_running(PROMPT_MAX);
    zone_pass(SILENT_NS);
    zone_await_running(2 * PROMPT_MAX);
    zone_pass(SILENT_NS);
    end_silent(PROMPT_MAX, EAI_AGAIN);
    zone_pass(PAUSE_NS);
    zone_most_running = 0;
    start_silent(PROMPT_MAX);
    zone_await_running(RETRIES_MAX);
    expect_good(&good, "good1");
    zone_pass(SILENT_NS);
    expect_good(&good, "good2");
    zone_await_running(RETRIES_MAX);
    unsigned threads = zone_threads_started;
    start_again(PROMPT_MAX);
    cr_assert_eq(zone_threads_started, threads, "there is nothing for a thread to do");
    end_silent(PROMPT_MAX, 0);
    cr_assert_leq(zone_most_running, RETRIES_MAX + FAMILIES, "%u", zone_most_running);
    free_silent(PROMPT_MAX);
}

/* A thread that waits for room in the queue takes what comes into an empty one, too. */
Test(lookup_threads, a_thread_that_waits_looks_up_at_once)
{
    struct outcome good = {0};
    start_silent(PROMPT_MAX);
    zone_await_running(PROMPT_MAX);
    zone_await_sleeper();
    end_silent(PROMPT_MAX, 0);
    expect_good(&good, "good");
    free_silent(PROMPT_MAX);
}

/* A thread that has ended makes room for another one. */
Test(lookup_threads, lookups_one_after_another_never_run_out_of_threads)
{
    struct outcome good = {0};
    char host[16];
    zone_set(V4, 0, "10.0.0.1");
    zone_set(V6, 0, "fd00::1");
    for (unsigned i = 0; zone_threads_started < 3 * THREADS_MAX; i++) {
        snprintf(host, sizeof(host), "good%u", i);
        good.times = 0;
        expect_good(&good, host);
        zone_await_running(0);
    }
    outcome_prepare(&good, "good");
    outcome_end(&good);
}

/* As clients of one process that wait for one name: each has a descriptor of its own. */
Test(lookup_threads, each_user_of_a_name_is_woken)
{
    struct rl_name_user user[USERS];
    struct rl_addresses found;
    zone_set(V4, 0, "10.0.0.1");
    zone_set(V6, 0, "fd00::1");
    zone_silence(V4);
    zone_silence(V6);
    for (unsigned i = 0; i < USERS; i++)
        cr_assert(rl_name_use(&user[i], "node", eventfd(0, EFD_CLOEXEC)));
    rl_name_look_up(&user[0]);
    zone_await_running(FAMILIES);
    zone_set(V4, 0, "10.0.0.1");
    zone_set(V6, 0, "fd00::1");
    for (unsigned i = 0; i < USERS; i++) {
        uint64_t woken = 0;
        for (uint64_t times = 0; woken < FAMILIES; woken += times)
            cr_assert_eq(read(user[i].wake_fd, &times, sizeof(times)), sizeof(times));
        rl_name_read(&user[i], &found);
        cr_assert(found.is_whole && found.count == FAMILIES);
    }
    for (unsigned i = 0; i < USERS; i++) {
        rl_name_leave(&user[i]);
        close(user[i].wake_fd);
    }
}

Test(lookup_threads, no_thread_is_a_fault_of_that_try)
{
    struct outcome outcome = {0};
    zone_set(V4, 0, "10.0.0.1");
    zone_set(V6, EAI_NODATA, NULL);
    zone_thread_error = EAGAIN;
    outcome_prepare(&outcome, "node");
    outcome_resolve(&outcome);
    cr_assert_eq(outcome.count, 0);
    cr_assert_str_eq(outcome.reason, strerror(EAGAIN));
    zone_thread_error = 0;
    outcome_resolve(&outcome);
    outcome_expect_addresses(&outcome, 1, "10.0.0.1", "10.0.0.1");
    zone_thread_error = EAGAIN;
    outcome_resolve(&outcome);
    outcome_expect_addresses(&outcome, 1, "10.0.0.1", "10.0.0.1");
    outcome_end(&outcome);
}

/* The lookups that it would have run are neither lost nor a fault: another thread lives. */
Test(lookup_threads, a_further_thread_that_does_not_start)
{
    struct outcome good = {0};
    start_silent(PROMPT_MAX);
    zone_await_running(PROMPT_MAX);
    zone_await_sleeper();
    zone_thread_error = EAGAIN;
    zone_pass(SILENT_NS);
    zone_await_running(PROMPT_MAX + 1);
    outcome_prepare(&good, "good");
    rl_resolve_start(good.request);
    cr_assert_eq(good.times, 0);
    zone_thread_error = 0;
    rl_resolve_cancel(good.request);
    outcome_resolve(&good);
    zone_await_running(2 * PROMPT_MAX);
    rl_resolve_free(good.request);
    end_silent(PROMPT_MAX, 0);
    free_silent(PROMPT_MAX);
}
