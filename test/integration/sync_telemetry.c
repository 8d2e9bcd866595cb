/* Numbers, events and spans of a client for threads. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "redlock/stats.h"
#include "worker_threads.h"

static redlock_stats stats_of(redlock_sync *sync)
{
    redlock_stats stats;
    redlock_stats_init(&stats);
    cr_assert_eq(redlock_sync_stats(sync, &stats), REDLOCK_OK);
    return stats;
}

#define WORKERS 4
#define ROUNDS  50

static void job_many(struct worker *worker)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        redlock_hold *hold;
        worker->code = redlock_lock(worker->sync, worker->key, 1, &worker->options, &hold);
        cr_assert_eq(worker->code, REDLOCK_OK);
        redlock_unlock(hold, 0);
        redlock_hold_free(hold);
    }
}

/* Each grant of the nodes is one hold, by however many threads it is used in turn. */
Test(sync_telemetry, locks_of_threads_add_up)
{
    struct sync_quorum c;
    struct worker worker[WORKERS];
    redlock_lock_options options = sync_quorum_lock_options();
    sync_quorum_open(&c, 3);
    for (unsigned i = 0; i < WORKERS; i++)
        worker_start(&worker[i], c.sync, "k", &options);
    for (unsigned i = 0; i < WORKERS; i++)
        worker_do(&worker[i], job_many);
    while (worker_is_busy(&worker[0])) { /* a snapshot at any time */
        redlock_stats stats = stats_of(c.sync);
        cr_assert_leq(stats.held, 1);
        cr_assert_leq(redlock_histogram_count(&stats.hold_time) + stats.held,
                      stats.acquire_results[REDLOCK_OK]);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        worker_await(&worker[i]);
        worker_end(&worker[i]);
    }
    SYNC_QUORUM_UNTIL(stats_of(c.sync).held == 0);
    redlock_stats stats = stats_of(c.sync);
    cr_assert_leq(stats.acquire_results[REDLOCK_OK], WORKERS * ROUNDS);
    cr_assert_eq(redlock_histogram_count(&stats.hold_time),
                 stats.acquire_results[REDLOCK_OK]);
    sync_quorum_close(&c);
}

struct book {
    redlock_sync *sync;
    pthread_t thread;
    atomic_uint events, spans, begun;
    atomic_int code; /* of a call inside */
    atomic_bool is_wrong;
    atomic_uint pauses_after; /* so many spans; 0: never */
    atomic_llong hold_us;     /* of the last hold that ended */
    uint64_t lease;
    char text[512];
};

static void note_event(const redlock_event *event, void *arg)
{
    struct book *book = arg;
    if (event->type != REDLOCK_EVENT_NODE_CONNECTED || event->count != 2 ||
        strncmp(event->fields[1].text, "unix://", 7) != 0)
        book->is_wrong = true;
    book->thread = pthread_self();
    atomic_fetch_add(&book->events, 1);
}

static void note_span(const redlock_span *span, void *arg)
{
    struct book *book = arg;
    if (span->key_len != 1 || *(const char *)span->key != 'k' ||
        !pthread_equal(book->thread, pthread_self()))
        book->is_wrong = true;
    if (!span->ended)
        atomic_fetch_add(&book->begun, 1);
    if (book->sync) {
        redlock_stats stats;
        redlock_stats_init(&stats);
        book->code = (int)redlock_sync_stats(book->sync, &stats);
    }
    atomic_fetch_add(&book->spans, 1);
}

/* They are called in the client's thread, whichever thread runs the loop. */
Test(sync_telemetry, events_in_the_thread_of_the_client)
{
    enum { TIMES = 30 };
    struct sync_quorum c;
    struct book book = {0};
    redlock_options options = sync_quorum_options();
    redlock_sync *sync;
    options.log = note_event;
    options.trace = note_span;
    options.log_arg = options.trace_arg = &book;
    sync_quorum_open(&c, 3);
    cr_assert_eq(redlock_sync_new(c.servers.uri, 3, &options, &sync), REDLOCK_OK);
    SYNC_QUORUM_UNTIL(book.events == 3);
    for (unsigned i = 0; i < TIMES; i++) {
        redlock_lock_options lock = sync_quorum_lock_options();
        redlock_hold *hold;
        cr_assert_eq(redlock_lock(sync, "k", 1, &lock, &hold), REDLOCK_OK);
        cr_assert_eq(redlock_unlock(hold, REDLOCK_CONFIRM), REDLOCK_OK);
        redlock_hold_free(hold);
    }
    book.sync = sync;
    SYNC_QUORUM_UNTIL(book.spans == 6 * TIMES);
    book.sync = NULL;
    redlock_sync_free(sync);
    cr_assert_eq(book.spans, 6 * TIMES);
    cr_assert_eq(book.begun, 3 * TIMES);
    cr_assert_not(book.is_wrong);
    sync_quorum_close(&c);
}

/* Which spans came in which order: "+hold one " begins, "-hold one " ends. */
static void note_owner(const redlock_span *span, void *arg)
{
    struct book *book = arg;
    if (span->ended && span->code != REDLOCK_OK)
        book->is_wrong = true;
    book->lease = span->lease;
    snprintf(book->text + strlen(book->text), sizeof(book->text) - strlen(book->text),
             "%c%s %s ", span->ended ? '-' : '+', span->operation,
             (const char *)span->user);
    if (span->ended && strcmp(span->operation, "hold") == 0)
        book->hold_us = (long long)span->duration_us;
    atomic_fetch_add(&book->spans, 1);
    while (book->pauses_after == book->spans)
        usleep(500);
}

#define HELD_MS 100

static int64_t clock_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/*
 * Each owner's hold is a span of its own, also if threads hand the lock on. It ends when
 * the owner unlocks, also if the nodes send nothing.
 */
Test(sync_telemetry, spans_of_owners)
{
    static const unsigned told[3] = {5, 9, 12}; /* spans when each of them has unlocked */
    struct sync_quorum c;
    static struct book book;
    struct worker worker[3];
    static char names[3][6] = {"one", "two", "three"};
    redlock_options options = sync_quorum_options();
    redlock_lock_options lock = sync_quorum_lock_options();
    redlock_sync *sync;
    options.trace = note_owner;
    options.trace_arg = &book;
    sync_quorum_open(&c, 3);
    cr_assert_eq(redlock_sync_new(c.servers.uri, 3, &options, &sync), REDLOCK_OK);
    int64_t now_us, since_us = clock_us(); /* not later than the hold begins */
    for (unsigned i = 0; i < 3; i++) {
        lock.user = names[i];
        if (i == 0)
            worker_start_holding(&worker[i], sync, "k", &lock);
        else
            worker_start_waiting(&worker[i], sync, "k", &lock);
    }
    for (unsigned i = 0; i < 3; i++) {
        if (i > 0)
            cr_assert_eq(worker_await(&worker[i]), REDLOCK_OK);
        cr_assert_eq(redlock_hold_number(worker[i].hold), 1);
        if (i == 1)
            cr_assert_eq(worker_done(&worker[i], job_extend), REDLOCK_OK);
        sync_quorum_run_for(HELD_MS);
        now_us = clock_us();
        cr_assert_eq(worker_done(&worker[i], job_unlock), REDLOCK_OK);
        SYNC_QUORUM_UNTIL(book.spans >= told[i]);
        cr_assert_geq(book.hold_us, (HELD_MS - 1) * 1000, "%u: %lld us", i, book.hold_us);
        cr_assert_leq(book.hold_us, clock_us() - since_us, "%u: %lld us", i, book.hold_us);
        since_us = now_us;
    }
    for (unsigned i = 0; i < 3; i++)
        worker_end(&worker[i]);
    redlock_sync_free(sync);
    cr_assert_str_eq(book.text,
                     "+acquire one +hold one -acquire one -hold one "
                     "+hold two +extend two -extend two -hold two "
                     "+hold three +release three -hold three -release three ");
    cr_assert_eq(book.lease, 1);
    cr_assert_not(book.is_wrong);
    sync_quorum_close(&c);
}

/* The heir releases before the loop owner knows of it, and a job of the key is due before.
 */
Test(sync_telemetry, heir_that_releases_at_once)
{
    struct sync_quorum c;
    static struct book book;
    struct worker one, two, three;
    redlock_options options = sync_quorum_options();
    redlock_lock_options lock = sync_quorum_lock_options();
    redlock_sync *sync;
    options.trace = note_owner;
    options.trace_arg = &book;
    sync_quorum_open(&c, 3);
    cr_assert_eq(redlock_sync_new(c.servers.uri, 3, &options, &sync), REDLOCK_OK);
    lock.user = "one";
    worker_start_holding(&one, sync, "k", &lock);
    lock.user = "two";
    worker_start_waiting(&two, sync, "k", &lock);
    cr_assert_eq(redlock_stop_new(sync, &lock.stop), REDLOCK_OK);
    worker_start_waiting(&three, sync, "k", &lock);
    SYNC_QUORUM_UNTIL(sync_quorum_loop_owner(sync) == SYNC_QUORUM_CLIENT);
    book.pauses_after = 5; /* the client's thread, which has the loop */
    cr_assert_eq(worker_done(&one, job_extend), REDLOCK_OK);
    SYNC_QUORUM_UNTIL(book.spans == 5);
    redlock_stop_all(lock.stop);
    cr_assert_eq(worker_await(&three), REDLOCK_CANCELLED);
    cr_assert_eq(worker_done(&one, job_unlock), REDLOCK_OK);
    cr_assert_eq(worker_await(&two), REDLOCK_OK);
    cr_assert_eq(worker_done(&two, job_unlock), REDLOCK_OK);
    book.pauses_after = 0;
    worker_end(&one);
    worker_end(&two);
    worker_end(&three);
    redlock_stop_free(lock.stop);
    redlock_sync_free(sync);
    cr_assert_str_eq(book.text,
                     "+acquire one +hold one -acquire one +extend one "
                     "-extend one -hold one +hold two "
                     "+release two -hold two -release two ");
    sync_quorum_close(&c);
}

Test(sync_telemetry, codes)
{
    struct sync_quorum c;
    struct book book = {0};
    redlock_stats stats = {0};
    redlock_options options = sync_quorum_options();
    redlock_lock_options lock = sync_quorum_lock_options();
    redlock_sync *sync;
    redlock_hold *hold;
    sync_quorum_open(&c, 3);
    cr_assert_eq(redlock_sync_stats(c.sync, &stats), REDLOCK_BAD_OPTION);
    redlock_stats_init(&stats);
    cr_assert_eq(redlock_sync_stats(NULL, &stats), REDLOCK_CLOSED);
    pid_t child = fork();
    if (child == 0)
        _exit(redlock_sync_stats(c.sync, &stats) != REDLOCK_FORKED);
    child_expect(child);
    options.trace = note_span;
    options.trace_arg = &book;
    cr_assert_eq(redlock_sync_new(c.servers.uri, 3, &options, &sync), REDLOCK_OK);
    book.sync = sync;
    cr_assert_eq(redlock_lock(sync, "k", 1, &lock, &hold), REDLOCK_OK);
    SYNC_QUORUM_UNTIL(book.spans >= 2);
    cr_assert_eq(book.code, REDLOCK_WOULD_DEADLOCK);
    redlock_hold_free(hold);
    redlock_sync_free(sync);
    sync_quorum_close(&c);
}
