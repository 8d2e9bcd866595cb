/*
 * Names, by a getaddrinfo(3), a pthread_create(3) and a clock that this program replaces:
 * each family answers, fails, or does not answer until the test says so; a host whose name
 * begins with "good" always answers.
 */
#include "io/resolver.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <event2/event.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#undef pthread_create /* the real one */
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                   void *arg);

#define PORT        6379
#define HOSTS       40
#define PATIENCE_MS 60000
#define PROMPT_MAX  16
#define RETRIES_MAX 8
#define THREADS_MAX 64
#define DELAY_NS    INT64_C(50000000)
#define SILENT_NS   INT64_C(1000000000)
#define PAUSE_NS    INT64_C(5000000000)

enum { V4, V6, FAMILIES };

/* Every lookup finds this. */
static struct zone {
    int error; /* EAI_... */
    bool is_silent;
    const char *address[10];
    unsigned asked, running;
} zone[FAMILIES];

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards it, and the next */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned most_running;
static pthread_cond_t *sleeps; /* a thread waits for it, or for a time */
static pthread_mutex_t *sleeps_with;
static int thread_error; /* of pthread_create(); 0: it works */
static atomic_uint threads_started;
static _Atomic int64_t clock_ns = 1000 * INT64_C(1000000000); /* stands still */

/* --- what the resolver calls --- */

static struct addrinfo *parse(int family, const char *text)
{
    struct addrinfo *info = calloc(1, sizeof(*info));
    struct sockaddr_storage *address = calloc(1, sizeof(*address));
    void *to = family == AF_INET ? (void *)&((struct sockaddr_in *)address)->sin_addr
                                 : (void *)&((struct sockaddr_in6 *)address)->sin6_addr;
    cr_assert_eq(inet_pton(family, text, to), 1, "%s", text);
    address->ss_family = (sa_family_t)family;
    info->ai_family = family;
    info->ai_addr = (struct sockaddr *)address;
    info->ai_addrlen =
        family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    return info;
}

void made_freeaddrinfo(struct addrinfo *list)
{
    while (list) {
        struct addrinfo *next = list->ai_next;
        free(list->ai_addr);
        free(list);
        list = next;
    }
}

static int answer(struct zone *from, int family, struct addrinfo **ret_list)
{
    struct addrinfo **end = ret_list;
    *ret_list = NULL;
    if (from->error != 0)
        return from->error;
    for (unsigned i = 0; from->address[i]; i++) {
        *end = parse(family, from->address[i]);
        end = &(*end)->ai_next;
    }
    return 0;
}

int made_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                     struct addrinfo **ret_list)
{
    struct zone *from = &zone[hints->ai_family == AF_INET ? V4 : V6];
    cr_assert_null(service);
    if (hints->ai_flags & AI_NUMERICHOST) {
        *ret_list = parse(strchr(host, ':') ? AF_INET6 : AF_INET, host);
        return 0;
    }
    pthread_mutex_lock(&mutex);
    from->asked++;
    from->running++;
    if (zone[V4].running + zone[V6].running > most_running)
        most_running = zone[V4].running + zone[V6].running;
    pthread_cond_broadcast(&changed);
    while (from->is_silent && strncmp(host, "good", 4) != 0)
        pthread_cond_wait(&changed, &mutex);
    int error = answer(from, hints->ai_family, ret_list);
    from->running--;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    return error;
}

int made_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                        void *arg)
{
    if (thread_error)
        return thread_error;
    threads_started++;
    return pthread_create(thread, attr, run, arg);
}

int made_clock_gettime(clockid_t id, struct timespec *at)
{
    int64_t ns = clock_ns;
    (void)id;
    *at = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    return 0;
}

/* See pass(). */
int made_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *with,
                        const struct timespec *until)
{
    pthread_mutex_lock(&mutex);
    sleeps = cond;
    sleeps_with = with;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    if (clock_ns >= until->tv_sec * INT64_C(1000000000) + until->tv_nsec)
        return ETIMEDOUT;
    return pthread_cond_wait(cond, with);
}

/* --- what the tests do --- */

/* A thread that waits for a time holds its mutex until it waits. */
static void pass(int64_t ns)
{
    clock_ns += ns;
    pthread_mutex_lock(&mutex);
    pthread_cond_t *cond = sleeps;
    pthread_mutex_unlock(&mutex);
    if (!cond)
        return;
    pthread_mutex_lock(sleeps_with);
    pthread_cond_broadcast(cond);
    pthread_mutex_unlock(sleeps_with);
}

static void set_zone(unsigned family, int error, const char *address)
{
    pthread_mutex_lock(&mutex);
    zone[family].is_silent = false;
    zone[family].error = error;
    zone[family].address[0] = address;
    zone[family].address[1] = NULL;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static void silence(unsigned family)
{
    pthread_mutex_lock(&mutex);
    zone[family].is_silent = true;
    pthread_mutex_unlock(&mutex);
}

static unsigned asked(unsigned family)
{
    pthread_mutex_lock(&mutex);
    unsigned times = zone[family].asked;
    pthread_mutex_unlock(&mutex);
    return times;
}

static void await_asked(unsigned family, unsigned times)
{
    pthread_mutex_lock(&mutex);
    while (zone[family].asked < times)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

static void await_running(unsigned count)
{
    pthread_mutex_lock(&mutex);
    while (zone[V4].running + zone[V6].running != count)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

static void await_sleeper(void)
{
    pthread_mutex_lock(&mutex);
    while (!sleeps)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

/* --- requests --- */

static struct rl_resolver resolver;

struct outcome {
    unsigned times, count;
    char text[RL_ADDRESSES_MAX][INET6_ADDRSTRLEN];
    char reason[RL_LOOKUP_REASON];
    struct rl_resolve *request;
    bool closes; /* frees everything when it is called */
};

static const char *text_of(const struct rl_address *address, char *text)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address->addr;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address->addr;
    bool is_v4 = address->addr.ss_family == AF_INET;
    cr_assert_eq(ntohs(is_v4 ? v4->sin_port : v6->sin6_port), PORT);
    return inet_ntop(address->addr.ss_family,
                     is_v4 ? (const void *)&v4->sin_addr : (const void *)&v6->sin6_addr,
                     text, INET6_ADDRSTRLEN);
}

static void on_done(const struct rl_address *addresses, unsigned count, const char *reason,
                    void *arg)
{
    struct outcome *outcome = arg;
    outcome->times++;
    outcome->count = count;
    cr_assert_leq(count, RL_ADDRESSES_MAX);
    for (unsigned i = 0; i < count; i++)
        cr_assert(text_of(&addresses[i], outcome->text[i]));
    snprintf(outcome->reason, sizeof(outcome->reason), "%s", reason);
    if (outcome->closes) {
        rl_resolve_free(outcome->request);
        rl_resolver_clear(&resolver);
        memset(&resolver, 0xff, sizeof(resolver)); /* as if the client's memory was freed */
    }
}

static void prepare(struct outcome *outcome, const char *host)
{
    if (!resolver.base)
        resolver.base = event_base_new();
    outcome->request = rl_resolve_new(&resolver, host, PORT, on_done, outcome);
    cr_assert(outcome->request);
}

static void await(struct outcome *outcome)
{
    while (outcome->times == 0)
        cr_assert_eq(event_base_loop(resolver.base, EVLOOP_ONCE), 0);
}

static void resolve(struct outcome *outcome)
{
    outcome->times = 0;
    rl_resolve_start(outcome->request);
    await(outcome);
    cr_assert_eq(outcome->times, 1);
}

/* Time passes meanwhile. */
static void resolve_late(struct outcome *outcome)
{
    outcome->times = 0;
    rl_resolve_start(outcome->request);
    while (outcome->times == 0) {
        cr_assert_eq(event_base_loop(resolver.base, EVLOOP_ONCE), 0);
        clock_ns += DELAY_NS;
    }
    cr_assert_eq(outcome->times, 1);
}

static void end(struct outcome *outcome)
{
    struct event_base *base = resolver.base;
    rl_resolve_free(outcome->request);
    rl_resolver_clear(&resolver);
    event_base_free(base);
    resolver = (struct rl_resolver){0};
}

static void expect_addresses(const struct outcome *outcome, unsigned count,
                             const char *first, const char *last)
{
    cr_assert_eq(outcome->count, count, "%u: %s", outcome->count, outcome->reason);
    cr_assert_str_eq(outcome->text[0], first);
    cr_assert_str_eq(outcome->text[count - 1], last);
}

static void expect_failure(const struct outcome *outcome, int error)
{
    cr_assert_eq(outcome->count, 0);
    cr_assert_str_eq(outcome->reason, gai_strerror(error));
}

/* --- which addresses, and when --- */

TestSuite(resolver, .timeout = PATIENCE_MS / 1000);

Test(resolver, numeric_addresses_are_not_looked_up)
{
    struct outcome v4 = {0}, v6 = {0};
    prepare(&v4, "127.0.0.1");
    prepare(&v6, "fd00::1");
    resolve(&v4);
    resolve(&v6);
    expect_addresses(&v4, 1, "127.0.0.1", "127.0.0.1");
    expect_addresses(&v6, 1, "fd00::1", "fd00::1");
    cr_assert_eq(asked(V4) + asked(V6), 0);
    cr_assert_null(resolver.woken, "nor is a descriptor needed");
    rl_resolve_free(v6.request);
    end(&v4);
}

Test(resolver, only_one_family)
{
    struct outcome outcome = {0};
    set_zone(V4, EAI_NODATA, NULL);
    set_zone(V6, 0, "fd00::1");
    prepare(&outcome, "node");
    resolve(&outcome);
    expect_addresses(&outcome, 1, "fd00::1", "fd00::1");
    end(&outcome);
}

/* The second family is asked for, and never answers. */
static void expect_without(unsigned silent, const char *address)
{
    struct outcome outcome = {0};
    silence(silent);
    set_zone(!silent, 0, address);
    prepare(&outcome, "node");
    resolve_late(&outcome);
    expect_addresses(&outcome, 1, address, address);
    cr_assert_eq(asked(silent), 1);
    end(&outcome);
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
    silence(!first);
    set_zone(first, 0, addresses[first]);
    cr_assert(rl_name_use(&user, "node", eventfd(0, EFD_NONBLOCK)));
    rl_name_look_up(&user);
    await_lookup(&user);
    expect_family(&user, false, first);
    set_zone(!first, 0, addresses[!first]);
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
    prepare(&outcome, "node");
    resolve(&outcome);
    cr_assert_eq(outcome.count, RL_ADDRESSES_MAX);
    cr_assert(!strcmp(outcome.text[0], "fd00::1") ||
              !strcmp(outcome.text[RL_ADDRESSES_MAX - 1], "fd00::1"));
    end(&outcome);
}

/* --- failures --- */

Test(resolver, a_name_that_fails_is_asked_once_in_5_s)
{
    struct outcome outcome = {0};
    set_zone(V4, EAI_AGAIN, NULL);
    set_zone(V6, EAI_AGAIN, NULL);
    prepare(&outcome, "node");
    for (int i = 0; i < 100; i++) {
        resolve(&outcome);
        expect_failure(&outcome, EAI_AGAIN);
    }
    cr_assert(asked(V4) == 1 && asked(V6) == 1, "%u, %u", asked(V4), asked(V6));
    clock_ns += PAUSE_NS - 1;
    resolve(&outcome);
    cr_assert(asked(V4) == 1 && asked(V6) == 1, "%u, %u", asked(V4), asked(V6));
    set_zone(V4, 0, "10.0.0.1");
    clock_ns += 1;
    resolve(&outcome);
    expect_addresses(&outcome, 1, "10.0.0.1", "10.0.0.1");
    cr_assert(asked(V4) == 2 && asked(V6) == 2, "%u, %u", asked(V4), asked(V6));
    end(&outcome);
}

/* Another client, and one that begins after the first has gone. */
Test(resolver, all_clients_ask_together)
{
    struct outcome first = {0}, second = {0};
    set_zone(V4, EAI_AGAIN, NULL);
    set_zone(V6, EAI_AGAIN, NULL);
    prepare(&first, "node");
    resolve(&first);
    end(&first);
    prepare(&second, "NODE");
    resolve(&second);
    expect_failure(&second, EAI_AGAIN);
    cr_assert(asked(V4) == 1 && asked(V6) == 1, "%u, %u", asked(V4), asked(V6));
    end(&second);
}

/* "It has no address of this family" is not why it fails. */
Test(resolver, the_reason_is_of_the_family_that_failed)
{
    struct outcome outcome = {0};
    set_zone(V4, EAI_NODATA, NULL);
    set_zone(V6, EAI_AGAIN, NULL);
    prepare(&outcome, "node");
    resolve(&outcome);
    expect_failure(&outcome, EAI_AGAIN);
    end(&outcome);
}

/* The next try joins a lookup that the one before began. */
Test(resolver, a_lookup_goes_on_after_the_request)
{
    struct outcome outcome = {0};
    silence(V4);
    silence(V6);
    prepare(&outcome, "node");
    for (int i = 0; i < 10; i++) {
        rl_resolve_start(outcome.request);
        event_base_loop(resolver.base, EVLOOP_NONBLOCK);
        rl_resolve_cancel(outcome.request);
    }
    cr_assert_eq(outcome.times, 0);
    rl_resolve_start(outcome.request);
    set_zone(V4, 0, "10.0.0.1");
    set_zone(V6, EAI_NODATA, NULL);
    await(&outcome);
    expect_addresses(&outcome, 1, "10.0.0.1", "10.0.0.1");
    cr_assert(asked(V4) == 1 && asked(V6) == 1, "%u, %u", asked(V4), asked(V6));
    end(&outcome);
}

/* An outage of the name server does not take what was known; an answer does. */
Test(resolver, the_last_addresses_are_used_while_a_lookup_fails_or_is_late)
{
    struct outcome outcome = {0};
    set_zone(V4, 0, "10.0.0.1");
    set_zone(V6, 0, "fd00::1");
    prepare(&outcome, "node");
    resolve(&outcome);
    cr_assert_eq(outcome.count, 2);
    set_zone(V4, EAI_AGAIN, NULL);
    resolve(&outcome);
    expect_addresses(&outcome, 2, "fd00::1", "10.0.0.1");
    clock_ns += PAUSE_NS;
    silence(V4);
    silence(V6);
    resolve_late(&outcome);
    cr_assert_eq(outcome.count, 2);
    set_zone(V4, EAI_NONAME, NULL);
    set_zone(V6, EAI_NODATA, NULL);
    resolve(&outcome);
    expect_failure(&outcome, EAI_NONAME);
    end(&outcome);
}

/* --- threads --- */

/* Names that are never answered, of both families. */
static struct outcome silent[HOSTS];

static void start_silent(unsigned count)
{
    static char host[HOSTS][8];
    for (unsigned family = 0; family < FAMILIES; family++) {
        set_zone(family, 0, family == V4 ? "10.0.0.1" : "fd00::1");
        silence(family);
    }
    for (unsigned i = 0; i < count; i++) {
        snprintf(host[i], sizeof(host[i]), "node%u", i);
        silent[i].times = 0;
        if (!silent[i].request)
            prepare(&silent[i], host[i]);
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
    set_zone(V4, error, "10.0.0.1");
    set_zone(V6, error, "fd00::1");
    for (unsigned i = 0; i < count; i++)
        await(&silent[i]);
    await_running(0);
}

static void free_silent(unsigned count)
{
    for (unsigned i = 1; i < count; i++)
        rl_resolve_free(silent[i].request);
    end(&silent[0]);
}

static void expect_good(struct outcome *outcome, const char *host)
{
    prepare(outcome, host);
    resolve(outcome);
    expect_addresses(outcome, 2, outcome->text[0], outcome->text[1]);
    rl_resolve_free(outcome->request);
}

Test(resolver, at_most_16_lookups_that_are_not_silent)
{
    start_silent(HOSTS);
    await_running(PROMPT_MAX);
    await_sleeper();
    end_silent(HOSTS, 0);
    cr_assert_eq(most_running, PROMPT_MAX);
    free_silent(HOSTS);
}

/* On the first try, beside 16 names whose lookups are all ahead of it. */
Test(resolver, silent_lookups_make_room_for_others)
{
    struct outcome good = {0};
    start_silent(PROMPT_MAX);
    await_running(PROMPT_MAX);
    prepare(&good, "good");
    rl_resolve_start(good.request);
    cr_assert_str_eq(rl_resolve_silence(silent[0].request),
                     "the name server has not answered");
    cr_assert_str_eq(rl_resolve_silence(good.request),
                     "the lookup of the name waits for others to end");
    await_sleeper();
    pass(SILENT_NS);
    await(&good);
    await_running(2 * PROMPT_MAX);
    rl_resolve_free(good.request);
    end_silent(PROMPT_MAX, 0);
    free_silent(PROMPT_MAX);
}

Test(resolver, at_most_64_threads)
{
    start_silent(HOSTS);
    for (unsigned running = PROMPT_MAX; running < THREADS_MAX; running += PROMPT_MAX) {
        await_running(running);
        pass(SILENT_NS);
    }
    await_running(THREADS_MAX);
    cr_assert_eq(threads_started, THREADS_MAX);
    end_silent(HOSTS, 0);
    cr_assert_eq(most_running, THREADS_MAX);
    free_silent(HOSTS);
}

Test(resolver, at_most_8_lookups_that_were_silent_before)
{
    struct outcome good = {0};
    start_silent(PROMPT_MAX);
    await_running(PROMPT_MAX);
    pass(SILENT_NS);
    await_running(2 * PROMPT_MAX);
    pass(SILENT_NS);
    end_silent(PROMPT_MAX, EAI_AGAIN);
    pass(PAUSE_NS);
    most_running = 0;
    start_silent(PROMPT_MAX);
    await_running(RETRIES_MAX);
    expect_good(&good, "good1");
    pass(SILENT_NS);
    expect_good(&good, "good2");
    await_running(RETRIES_MAX);
    unsigned threads = threads_started;
    start_again(PROMPT_MAX);
    cr_assert_eq(threads_started, threads, "there is nothing for a thread to do");
    end_silent(PROMPT_MAX, 0);
    cr_assert_leq(most_running, RETRIES_MAX + FAMILIES, "%u", most_running);
    free_silent(PROMPT_MAX);
}

/* A thread that waits for room in the queue takes what comes into an empty one, too. */
Test(resolver, a_thread_that_waits_looks_up_at_once)
{
    struct outcome good = {0};
    start_silent(PROMPT_MAX);
    await_running(PROMPT_MAX);
    await_sleeper();
    end_silent(PROMPT_MAX, 0);
    expect_good(&good, "good");
    free_silent(PROMPT_MAX);
}

Test(resolver, no_thread_is_a_fault_of_that_try)
{
    struct outcome outcome = {0};
    set_zone(V4, 0, "10.0.0.1");
    set_zone(V6, EAI_NODATA, NULL);
    thread_error = EAGAIN;
    prepare(&outcome, "node");
    resolve(&outcome);
    cr_assert_eq(outcome.count, 0);
    cr_assert_str_eq(outcome.reason, strerror(EAGAIN));
    thread_error = 0;
    resolve(&outcome);
    expect_addresses(&outcome, 1, "10.0.0.1", "10.0.0.1");
    thread_error = EAGAIN;
    resolve(&outcome);
    expect_addresses(&outcome, 1, "10.0.0.1", "10.0.0.1");
    end(&outcome);
}

/* The lookups that it would have run are neither lost nor a fault: another thread lives. */
Test(resolver, a_further_thread_that_does_not_start)
{
    struct outcome good = {0};
    start_silent(PROMPT_MAX);
    await_running(PROMPT_MAX);
    await_sleeper();
    thread_error = EAGAIN;
    pass(SILENT_NS);
    await_running(PROMPT_MAX + 1);
    prepare(&good, "good");
    rl_resolve_start(good.request);
    cr_assert_eq(good.times, 0);
    thread_error = 0;
    rl_resolve_cancel(good.request);
    resolve(&good);
    await_running(2 * PROMPT_MAX);
    rl_resolve_free(good.request);
    end_silent(PROMPT_MAX, 0);
    free_silent(PROMPT_MAX);
}

Test(resolver, a_client_that_ends_during_its_lookup)
{
    struct outcome outcome = {0};
    silence(V4);
    silence(V6);
    prepare(&outcome, "node");
    rl_resolve_start(outcome.request);
    await_asked(V4, 1);
    end(&outcome);
    set_zone(V4, 0, "10.0.0.1");
    set_zone(V6, 0, "fd00::1");
    prepare(&outcome, "node");
    resolve(&outcome);
    cr_assert_gt(outcome.count, 0);
    end(&outcome);
}

Test(resolver, a_client_that_is_freed_by_its_callback)
{
    struct outcome outcome = {.closes = true}, other = {0};
    set_zone(V4, 0, "10.0.0.1");
    set_zone(V6, EAI_NODATA, NULL);
    prepare(&outcome, "node");
    prepare(&other, "node");
    struct event_base *base = resolver.base;
    rl_resolve_free(other.request);
    rl_resolve_start(outcome.request);
    while (outcome.times == 0)
        event_base_loop(base, EVLOOP_ONCE);
    event_base_loop(base, EVLOOP_NONBLOCK);
    cr_assert_eq(outcome.times, 1);
    event_base_free(base);
}

/* --- forks --- */

static void look_up_in_the_child(struct outcome *inherited)
{
    struct outcome outcome = {0};
    alarm(PATIENCE_MS / 1000);
    rl_resolve_free(inherited->request);
    rl_resolver_clear(&resolver);
    resolver.base = NULL;
    pthread_mutex_init(&mutex, NULL); /* the copy has a waiter that does not exist here */
    pthread_cond_init(&changed, NULL);
    set_zone(V4, 0, "10.0.0.2");
    set_zone(V6, EAI_NODATA, NULL);
    prepare(&outcome, "node");
    resolve(&outcome);
    _exit(outcome.count == 1 && strcmp(outcome.text[0], "10.0.0.2") == 0 ? 0 : 1);
}

/* The child begins anew, and the lookup of its parent goes on. */
Test(resolver, a_fork_during_a_lookup)
{
    struct outcome outcome = {0};
    int status;
    silence(V4);
    silence(V6);
    prepare(&outcome, "node");
    rl_resolve_start(outcome.request);
    await_asked(V4, 1);
    await_asked(V6, 1);
    pid_t child = fork();
    if (child == 0)
        look_up_in_the_child(&outcome);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
    set_zone(V4, 0, "10.0.0.1");
    set_zone(V6, EAI_NODATA, NULL);
    await(&outcome);
    expect_addresses(&outcome, 1, "10.0.0.1", "10.0.0.1");
    end(&outcome);
}
