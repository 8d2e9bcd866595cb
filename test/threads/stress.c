/*
 * Many threads run all operations on a few locks, on five private servers, while one of
 * these dies and comes back and keys are deleted: stress [SECONDS [THREADS [SEED]]]
 *
 * Two threads never hold a key at once, no increment of a guarded counter is lost, every
 * call returns an allowed code, nothing hangs. A plain program, so that tools for threads
 * can run it.
 */
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../support/servers.h"
#include "operations.h"
#include "oracle.h"
#include "redlock/admin.h"

#define THREADS      64
#define SECONDS      5
#define LONGER_S     120 /* more at most, until each operation was done */
#define PATIENCE_S   120 /* for all that must end then */
#define ROBBERY_MS   150
#define SPELL        6 /* deletions: until all work in flight is done takes most of it */
#define BAND         4 /* threads; the last one of each has the second client */
#define REST_US      500
#define CLIENTS      2    /* the second one is as another process */
#define NODE_TIME_MS 2000 /* late replies on a busy machine do not change the result */
#define LAST_WAITERS 4
#define LAST_TTL_MS  1000

static struct servers servers;
static redlock_sync *sync_of[CLIENTS];
static struct actor actors[ORACLE_SLOTS / 2];
static unsigned threads = THREADS;
static bool does_all; /* it is long enough for each operation */
static atomic_bool ends;
static atomic_uint lone; /* the group of threads that runs alone; 0: all run */

/* Ends the process that starts the servers. */
_Noreturn void plain_fail(void)
{
    oracle_fail();
}

static int64_t now_ms(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * INT64_C(1000) + at.tv_nsec / 1000000;
}

static void expect_right(bool right, const char *what)
{
    if (right)
        return;
    fprintf(stderr, "stress: %s\n", what);
    oracle_fail();
}

/* It reads what a thread has given with a lock that it may have handed on since then. */
static void note_span(const redlock_span *span, void *arg)
{
    const struct actor *actor = span->user;
    (void)arg;
    expect_right(!actor || (actor >= actors && actor < actors + threads),
                 "a span has the user of a lock");
}

static redlock_sync *open_client(void)
{
    redlock_sync *sync;
    redlock_options options;
    redlock_options_init(&options);
    options.node_timeout_ms = NODE_TIME_MS;
    options.trace = note_span;
    if (redlock_sync_new(servers.uri, 5, &options, &sync) != REDLOCK_OK) {
        fprintf(stderr, "stress: %s\n", redlock_last_error()->text);
        oracle_fail();
    }
    return sync;
}

/* --- fenced locks --- */

static void on_admitted(redlock_client *client, const redlock_admitted *result, void *arg)
{
    (void)client;
    *(redlock_code *)arg = result->code;
}

/* Threads have no function for it: done once, on a loop of its own. */
static void admit(void)
{
    struct event_base *base = event_base_new();
    redlock_client *client;
    redlock_code code = REDLOCK_BUSY;
    if (!base || redlock_client_new(base, servers.uri, 5, NULL, &client) != REDLOCK_OK ||
        redlock_admit(client, REDLOCK_ADMIT_AT_ONCE, 0, on_admitted, &code) != REDLOCK_OK)
        abort();
    while (code == REDLOCK_BUSY)
        event_base_loop(base, EVLOOP_ONCE);
    if (code != REDLOCK_OK) {
        fprintf(stderr, "stress: admit returns %s\n", redlock_code_name(code));
        oracle_fail();
    }
    redlock_client_free(client);
    event_base_free(base);
}

/* --- threads --- */

/* With a group alone, one thread of each client runs: those run their loops. */
static bool rests(const struct actor *actor)
{
    unsigned band = atomic_load_explicit(&lone, memory_order_relaxed);
    unsigned place = actor->slot % BAND;
    return band > 0 && (actor->slot / BAND + 1 != band || (place > 0 && actor->counts));
}

static void *act(void *arg)
{
    struct actor *actor = arg;
    while (!atomic_load_explicit(&ends, memory_order_relaxed))
        if (rests(actor))
            usleep(REST_US);
        else
            operations_next(actor);
    return NULL;
}

static void start_threads(uint64_t seed)
{
    for (unsigned i = 0; i < threads; i++) {
        struct actor *actor = &actors[i];
        actor->slot = i;
        actor->counts = i % BAND != BAND - 1;
        actor->sync = sync_of[actor->counts ? 0 : 1];
        actor->prng = (seed + i + 1) * UINT64_C(0x9e3779b97f4a7c15);
        actor->others = actors;
        actor->actors = threads;
        actor->tried = calloc(operations_count(), sizeof(unsigned));
        actor->done = calloc(operations_count(), sizeof(unsigned));
        pthread_mutex_init(&actor->mutex, NULL);
    }
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&actors[i].thread, NULL, act, &actors[i]) != 0)
            abort();
}

static void on_alarm(int signal)
{
    (void)signal;
    fputs("stress: it hangs. The current operation of each thread:\n", stderr);
    for (unsigned i = 0; i < threads; i++)
        fprintf(stderr, "%u: %s\n", i,
                actors[i].operation ? actors[i].operation->name : "nothing");
    _exit(EXIT_FAILURE); /* the servers end with us */
}

/* --- what happens to the nodes meanwhile --- */

static void rob(void)
{
    for (unsigned i = 0; i < servers.n; i++)
        if (servers.server[i].pid > 0)
            servers_do(&servers, i, "DEL robbed");
}

/*
 * In every other period one thread of each client runs alone. It runs its loop if the work
 * that others began is soon done: of 4 threads often, of 64 seldom.
 */
static void choose_lone(unsigned time)
{
    unsigned bands = (threads + BAND - 1) / BAND;
    unsigned spell = time / SPELL, band = spell % 2 ? spell / 2 % bands + 1 : 0;
    atomic_exchange_explicit(&lone, band, memory_order_relaxed); /* for helgrind */
}

static bool goes_on(int64_t end)
{
    int64_t now = now_ms();
    return now < end ||
           (does_all && now < end + LONGER_S * 1000 && !operations_were_all_done());
}

/* In the main thread: servers end with the thread that started them. */
static void make_trouble(int64_t seconds)
{
    int64_t begin = now_ms(), end = begin + seconds * 1000;
    bool killed = false, back = false;
    for (unsigned time = 0; goes_on(end); time++) {
        choose_lone(time);
        usleep(ROBBERY_MS * 1000);
        rob();
        if (!killed && now_ms() > begin + (end - begin) / 3) {
            servers_kill(&servers, 4);
            killed = true;
        } else if (killed && !back && now_ms() > begin + (end - begin) / 2) {
            servers_launch(&servers, 4);
            back = true;
        }
    }
    choose_lone(0);
}

/* --- the end --- */

/* It waits for a lock that another holds, until its client is freed. */
static void *wait_to_the_last(void *arg)
{
    redlock_hold *hold;
    redlock_code code = redlock_lock(arg, "last", 4, NULL, &hold);
    if (code != REDLOCK_CANCELLED && code != REDLOCK_CLOSED) {
        fprintf(stderr, "stress: the last wait returns %s\n", redlock_code_name(code));
        oracle_fail();
    }
    return NULL;
}

/* A client is freed while one of its threads holds a lock and others wait for that. */
static void close_while_they_wait(redlock_sync *sync)
{
    pthread_t waiter[LAST_WAITERS];
    redlock_hold *hold;
    redlock_stop *stop;
    redlock_lock_options options;
    redlock_lock_options_init(&options);
    /* it is never released, and the next client waits for it */
    options.ttl_ms = LAST_TTL_MS;
    expect_right(redlock_lock(sync, "last", 4, &options, &hold) == REDLOCK_OK,
                 "a last lock");
    expect_right(redlock_stop_new(sync, &stop) == REDLOCK_OK, "a last stop");
    for (unsigned i = 0; i < LAST_WAITERS; i++)
        if (pthread_create(&waiter[i], NULL, wait_to_the_last, sync) != 0)
            abort();
    usleep(100000);
    redlock_sync_free(sync);
    for (unsigned i = 0; i < LAST_WAITERS; i++)
        pthread_join(waiter[i], NULL);
    expect_right(redlock_hold_lost(hold),
                 "it is lost to its owner when the client is freed");
    expect_right(redlock_unlock(hold, 0) != REDLOCK_OK, "and cannot be unlocked");
    redlock_stop_all(stop);
    redlock_stop_free(stop);
    redlock_hold_free(hold);
}

static void tell(void)
{
    unsigned long counted = 0;
    for (unsigned i = 0; i < operations_count(); i++) {
        unsigned tried = 0, done = 0;
        for (unsigned j = 0; j < threads; j++) {
            tried += actors[j].tried[i];
            done += actors[j].done[i];
        }
        printf("%-20s %8u tried %8u done\n", operations[i].name, tried, done);
    }
    for (unsigned j = 0; j < threads; j++)
        counted += actors[j].counted;
    printf("%lu counted, %lu reported, %u losses reported, %u flights\n", calm_count,
           counted, operations_lost, flights_begun);
    expect_right(calm_count == counted, "increments were lost");
    expect_right(flights_begun == flights_flown, "the number of leaders differs");
    expect_right(!does_all || operations_were_all_done(), "an operation was never done");
}

static void end_threads(void)
{
    ends = true;
    alarm(PATIENCE_S);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(actors[i].thread, NULL);
}

int main(int argc, char **argv)
{
    int64_t seconds = argc > 1 ? atoll(argv[1]) : SECONDS;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : (uint64_t)now_ms();
    if (argc > 2)
        threads = (unsigned)atoi(argv[2]);
    expect_right(seconds > 0 && threads > 0 && threads <= ORACLE_SLOTS / 2,
                 "usage: stress [SECONDS [THREADS [SEED]]]");
    does_all = seconds >= SECONDS && threads >= THREADS;
    printf("%u threads, seed %llu\n", threads, (unsigned long long)seed);
    signal(SIGALRM, on_alarm);
    alarm((unsigned)seconds + LONGER_S + PATIENCE_S);
    servers_start(&servers, 5, NULL);
    admit();
    oracle_begin();
    for (unsigned i = 0; i < CLIENTS; i++)
        sync_of[i] = open_client();
    start_threads(seed);
    make_trouble(seconds);
    end_threads();
    for (unsigned i = 0; i < CLIENTS; i++)
        close_while_they_wait(sync_of[i]);
    tell();
    for (unsigned i = 0; i < threads; i++) {
        free(actors[i].tried);
        free(actors[i].done);
    }
    servers_end(&servers);
    return EXIT_SUCCESS;
}
