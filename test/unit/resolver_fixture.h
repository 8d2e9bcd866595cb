/*
 * Names, by a getaddrinfo(3), a pthread_create(3) and a clock that this fixture replaces:
 * each family answers, fails, or does not answer until the test says so; a host whose name
 * begins with "good" always answers.
 */
#ifndef RL_TEST_RESOLVER_FIXTURE_H
#define RL_TEST_RESOLVER_FIXTURE_H

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <event2/event.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "io/resolver.h"

#define PORT        6379
#define PATIENCE_MS 60000
#define DELAY_NS    INT64_C(50000000)
#define SILENT_NS   INT64_C(1000000000)
#define PAUSE_NS    INT64_C(5000000000)

/* --- what every lookup finds --- */

enum { V4, V6, FAMILIES };

extern struct zone {
    int error; /* EAI_... */
    bool is_silent;
    const char *address[10];
    unsigned asked, running;
} zone[FAMILIES];

extern unsigned zone_most_running;
extern int zone_thread_error; /* of pthread_create(); 0: it works */
extern atomic_uint zone_threads_started;
extern _Atomic int64_t zone_clock_ns; /* stands still */

void zone_set(unsigned family, int error, const char *address);
void zone_silence(unsigned family);
unsigned zone_asked(unsigned family);
void zone_await_asked(unsigned family, unsigned times);

/* So many lookups run. */
void zone_await_running(unsigned count);

/* A thread waits for a time. */
void zone_await_sleeper(void);
void zone_pass(int64_t ns);

/* In a forked child: the lookups of its parent do not run there. */
void zone_renew(void);

/* --- requests --- */

extern struct rl_resolver resolver;

struct outcome {
    unsigned times, count;
    char text[RL_ADDRESSES_MAX][INET6_ADDRSTRLEN];
    char reason[RL_LOOKUP_REASON];
    struct rl_resolve *request;
    bool closes; /* frees everything when it is called */
};

void outcome_prepare(struct outcome *outcome, const char *host);
void outcome_await(struct outcome *outcome);
void outcome_resolve(struct outcome *outcome);

/* Time passes meanwhile. */
void outcome_resolve_late(struct outcome *outcome);
void outcome_end(struct outcome *outcome);

void outcome_expect_addresses(const struct outcome *outcome, unsigned count,
                              const char *first, const char *last);
void outcome_expect_failure(const struct outcome *outcome, int error);

#endif
