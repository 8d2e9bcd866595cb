#include "resolver_fixture.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#undef pthread_create /* the real one */
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                   void *arg);

struct zone zone[FAMILIES];
unsigned zone_most_running;
int zone_thread_error;
atomic_uint zone_threads_started;
_Atomic int64_t zone_clock_ns = 1000 * INT64_C(1000000000);
struct rl_resolver resolver;

static pthread_mutex_t mutex =
    PTHREAD_MUTEX_INITIALIZER; /* guards the zone, and the next */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_cond_t *sleeps; /* a thread waits for it, or for a time */
static pthread_mutex_t *sleeps_with;

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
    if (zone[V4].running + zone[V6].running > zone_most_running)
        zone_most_running = zone[V4].running + zone[V6].running;
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
    if (zone_thread_error)
        return zone_thread_error;
    zone_threads_started++;
    return pthread_create(thread, attr, run, arg);
}

int made_clock_gettime(clockid_t id, struct timespec *at)
{
    int64_t ns = zone_clock_ns;
    (void)id;
    *at = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    return 0;
}

/* See zone_pass(). */
int made_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *with,
                        const struct timespec *until)
{
    pthread_mutex_lock(&mutex);
    sleeps = cond;
    sleeps_with = with;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    if (zone_clock_ns >= until->tv_sec * INT64_C(1000000000) + until->tv_nsec)
        return ETIMEDOUT;
    return pthread_cond_wait(cond, with);
}

/* --- what the tests do --- */

/* A thread that waits for a time holds its mutex until it waits. */
void zone_pass(int64_t ns)
{
    zone_clock_ns += ns;
    pthread_mutex_lock(&mutex);
    pthread_cond_t *cond = sleeps;
    pthread_mutex_unlock(&mutex);
    if (!cond)
        return;
    pthread_mutex_lock(sleeps_with);
    pthread_cond_broadcast(cond);
    pthread_mutex_unlock(sleeps_with);
}

void zone_set(unsigned family, int error, const char *address)
{
    pthread_mutex_lock(&mutex);
    zone[family].is_silent = false;
    zone[family].error = error;
    zone[family].address[0] = address;
    zone[family].address[1] = NULL;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

void zone_silence(unsigned family)
{
    pthread_mutex_lock(&mutex);
    zone[family].is_silent = true;
    pthread_mutex_unlock(&mutex);
}

unsigned zone_asked(unsigned family)
{
    pthread_mutex_lock(&mutex);
    unsigned times = zone[family].asked;
    pthread_mutex_unlock(&mutex);
    return times;
}

void zone_await_asked(unsigned family, unsigned times)
{
    pthread_mutex_lock(&mutex);
    while (zone[family].asked < times)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

void zone_await_running(unsigned count)
{
    pthread_mutex_lock(&mutex);
    while (zone[V4].running + zone[V6].running != count)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

void zone_await_sleeper(void)
{
    pthread_mutex_lock(&mutex);
    while (!sleeps)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

void zone_renew(void)
{
    pthread_mutex_init(&mutex, NULL); /* the copy has a waiter that does not exist here */
    pthread_cond_init(&changed, NULL);
}

/* --- requests --- */

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

void outcome_prepare(struct outcome *outcome, const char *host)
{
    if (!resolver.base)
        resolver.base = event_base_new();
    outcome->request = rl_resolve_new(&resolver, host, PORT, on_done, outcome);
    cr_assert(outcome->request);
}

void outcome_await(struct outcome *outcome)
{
    while (outcome->times == 0)
        cr_assert_eq(event_base_loop(resolver.base, EVLOOP_ONCE), 0);
}

void outcome_resolve(struct outcome *outcome)
{
    outcome->times = 0;
    rl_resolve_start(outcome->request);
    outcome_await(outcome);
    cr_assert_eq(outcome->times, 1);
}

void outcome_resolve_late(struct outcome *outcome)
{
    outcome->times = 0;
    rl_resolve_start(outcome->request);
    while (outcome->times == 0) {
        cr_assert_eq(event_base_loop(resolver.base, EVLOOP_ONCE), 0);
        zone_clock_ns += DELAY_NS;
    }
    cr_assert_eq(outcome->times, 1);
}

void outcome_end(struct outcome *outcome)
{
    struct event_base *base = resolver.base;
    rl_resolve_free(outcome->request);
    rl_resolver_clear(&resolver);
    event_base_free(base);
    resolver = (struct rl_resolver){0};
}

void outcome_expect_addresses(const struct outcome *outcome, unsigned count,
                              const char *first, const char *last)
{
    cr_assert_eq(outcome->count, count, "%u: %s", outcome->count, outcome->reason);
    cr_assert_str_eq(outcome->text[0], first);
    cr_assert_str_eq(outcome->text[count - 1], last);
}

void outcome_expect_failure(const struct outcome *outcome, int error)
{
    cr_assert_eq(outcome->count, 0);
    cr_assert_str_eq(outcome->reason, gai_strerror(error));
}
