/*
 * Which thread runs the event loop of a client, and the jobs that it runs there.
 *
 * At most one thread runs the loop: the loop owner, `owner`. It is set under the mutex. The
 * loop owner unlocks the mutex only in the loop, so what one loop owner did happens before
 * what the next one does. The loop owner is
 *
 * - the client's own thread, while no thread waits, while several threads wait (it sends
 *   their commands together), and when a thread waits for long; or
 * - a thread that waits alone, called a caller here. A wake-up by another thread would take
 *   a good part of the time that the nodes take. A caller runs the loop until its wait is
 *   done, its deadline comes, or it is relieved: the client's thread takes the loop back.
 *
 * When waits follow each other one by one, the client's thread leaves the loop free for
 * callers and watches it. Every RL_LOOP_FREE_MS it becomes the loop owner if no caller was
 * since the last look, and relieves a caller that ran the loop all that time. Two kinds of
 * threads give the loop to the client's thread at once: one that posts a job and does not
 * wait, and a caller that leaves the loop while others wait. A thread that unlocks waits
 * until the release is written: if the loop is free, it runs one iteration. So the only
 * work that is delayed is that of replies and timers while no thread waits, by less than
 * two times RL_LOOP_FREE_MS. This is harmless: the deadline of a hold is checked by the
 * clock, an extension may be late by two thirds of the TTL, and a busy machine delays any
 * loop as long.
 *
 * Invariants. Every change has to keep them:
 *
 * - `owner` changes only under the mutex, in three ways. A caller takes a free loop, and
 *   leaves it. The client's thread takes a free loop, or receives the loop, and leaves it
 *   free. No thread takes from the client's thread a loop that it received.
 * - A caller that owns the loop holds the mutex or is in the loop. So between the end of
 *   `in_loop` and its next check of the jobs no thread can post one. The client's thread
 *   also unlocks the mutex for callbacks, and therefore checks the jobs again after them.
 * - `mail_sent` is set as long as `mail_fd` is readable. Both may stay so when a loop owner
 *   leaves: then the next loop owner handles one event without a job.
 * - `leave_loop` and `wakes_due` belong to one stay in the loop. `yields` belongs to one
 *   ownership by a caller.
 * - A wait that is done while the loop owner is in the loop is woken after the iteration.
 *   Any other wait that is done is woken when the mutex is unlocked.
 * - If a thread waits and is not the loop owner, another thread is, or the client's thread
 *   is about to be. The exception is a caller that could not set its alarm: the client's
 *   thread finds it RL_LOOP_FREE_MS later. An alarm may fire early, because the loop's
 *   clock is coarse; then it is set again. Only rl_wait_sleep() decides that the deadline
 *   has come.
 *
 * User callbacks run only in the client's thread, outside of the loop. While a long
 * callback runs, a loop that the client's thread owns, or receives, stands still: the
 * client extends and sends nothing until the callback returns. A caller that owns the loop
 * meanwhile goes on for all threads. Likewise a loop owner that is descheduled, or that is
 * in a long signal handler, blocks all other threads. It can be relieved only when it runs
 * again.
 */
#include "loop_owner.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define RL_LOOP_FREE_MS 2
#define RL_SINGLE_WAITS 8 /* single waits in a row after which the loop is left free */

/* The generation, because a forked child's thread is no client's thread any more. */
static _Thread_local struct {
    bool is_client_thread;
    unsigned generation;
} here;

bool rl_loop_owner_in_any_thread(void)
{
    return here.is_client_thread && here.generation == rl_system_fork_generation();
}

static bool is_current(const struct rl_loop_owner *loop)
{
    return loop->in_loop && pthread_equal(loop->owner->thread, pthread_self());
}

/* --- jobs --- */

static void insert(struct rl_jobs *queue, struct rl_job *job)
{
    if (job->queue)
        return;
    job->queue = queue;
    TAILQ_INSERT_TAIL(queue, job, link);
}

void rl_job_post(struct rl_loop_owner *loop, struct rl_job *job)
{
    insert(&loop->jobs, job);
}

void rl_job_cancel(struct rl_job *job)
{
    if (job->queue)
        TAILQ_REMOVE(job->queue, job, link);
    job->queue = NULL;
}

static void run_first(struct rl_loop_owner *loop, struct rl_jobs *queue)
{
    struct rl_job *job = TAILQ_FIRST(queue);
    rl_job_cancel(job);
    job->run(loop, job);
}

static void run_jobs(struct rl_loop_owner *loop)
{
    while (!TAILQ_EMPTY(&loop->jobs))
        run_first(loop, &loop->jobs);
}

/* A report unlocks the mutex while it is in the user's callback. */
static void run_reports(struct rl_loop_owner *loop)
{
    while (!TAILQ_EMPTY(&loop->reports)) {
        loop->in_callback = true;
        loop->yields = false; /* a caller keeps the loop, however long the callback takes */
        run_first(loop, &loop->reports);
        loop->in_callback = false;
        pthread_cond_broadcast(&loop->changed);
    }
}

/* --- the loop --- */

/* Wakes the waits that this iteration ended, all at once. */
static void wake_done(struct rl_loop_owner *loop)
{
    pthread_mutex_lock(&loop->monitor.mutex);
    loop->wakes_due = false;
    rl_monitor_unlock(&loop->monitor);
}

/*
 * Runs the loop without the mutex: if `waits` until `leave_loop` is set, otherwise once
 * without blocking. False: the loop failed.
 */
static bool run_loop(struct rl_loop_owner *loop, bool waits)
{
    int failed;
    loop->in_loop = true;
    loop->leave_loop = loop->wakes_due = false;
    rl_monitor_unlock(&loop->monitor);
    do {
        failed = event_base_loop(loop->base, EVLOOP_ONCE | (waits ? 0 : EVLOOP_NONBLOCK));
        if (loop->wakes_due)
            wake_done(loop);
    } while (!failed && waits && !loop->leave_loop); /* set by this thread only */
    pthread_mutex_lock(&loop->monitor.mutex);
    loop->in_loop = false;
    return !failed;
}

static void send_mail(struct rl_loop_owner *loop)
{
    uint64_t one = 1;
    int state;
    if (!loop->in_loop || loop->mail_sent)
        return;
    loop->mail_sent = true;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state); /* the mutex is held */
    while (write(loop->mail_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
    pthread_setcancelstate(state, NULL);
}

/* --- the mutex, and who is notified --- */

static void give_to_client_thread(struct rl_loop_owner *loop)
{
    loop->owner = &loop->client_thread;
    rl_wait_wake(&loop->client_thread);
}

/* Notifies the loop owner of posted jobs; without a loop owner, the client's thread. */
static void announce_jobs(struct rl_loop_owner *loop)
{
    if (TAILQ_EMPTY(&loop->jobs))
        return;
    if (!loop->owner)
        give_to_client_thread(loop);
    else if (is_current(loop))
        loop->leave_loop = true;
    else
        send_mail(loop);
}

void rl_loop_owner_lock(struct rl_loop_owner *loop)
{
    pthread_mutex_lock(&loop->monitor.mutex);
}

void rl_loop_owner_unlock(struct rl_loop_owner *loop)
{
    announce_jobs(loop);
    if (is_current(loop)) /* waits are woken after the iteration */
        pthread_mutex_unlock(&loop->monitor.mutex);
    else
        rl_monitor_unlock(&loop->monitor);
}

/* For work that no other thread does. */
static void wake_client_thread(struct rl_loop_owner *loop)
{
    if (loop->owner == &loop->client_thread && is_current(loop))
        loop->leave_loop = true;
    else
        rl_wait_wake(&loop->client_thread);
}

void rl_job_post_report(struct rl_loop_owner *loop, struct rl_job *job)
{
    insert(&loop->reports, job);
    wake_client_thread(loop);
}

void rl_loop_owner_begin_close(struct rl_loop_owner *loop)
{
    loop->closing = true;
}

void rl_loop_owner_end(struct rl_loop_owner *loop)
{
    loop->over = true;
    wake_client_thread(loop);
}

void rl_loop_owner_await_change(struct rl_loop_owner *loop)
{
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state); /* the mutex is held */
    pthread_cond_wait(&loop->changed, &loop->monitor.mutex);
    pthread_setcancelstate(state, NULL);
}

/* --- a thread that waits --- */

void rl_loop_owner_begin_wait(struct rl_loop_owner *loop, struct rl_wait *wait)
{
    rl_wait_begin(wait);
    loop->waits++;
    if (loop->pending++ > 0 || rl_now_ms() > loop->last_wait_ended + RL_LOOP_FREE_MS)
        loop->single_waits = 0;
    loop->latest_wait = wait;
}

void rl_loop_owner_finish_wait(struct rl_loop_owner *loop, struct rl_wait *wait,
                               redlock_code code)
{
    bool is_owner = wait == loop->owner;
    wait->done = true;
    wait->code = code;
    if (!is_owner)
        rl_wait_wake_later(&loop->monitor, wait);
    if (--loop->pending == 0) {
        loop->single_waits++;
        loop->last_wait_ended = rl_now_ms();
    }
    if (is_current(loop)) {
        loop->leave_loop |= is_owner || loop->pending == 0;
        loop->wakes_due |= !is_owner;
    } else if (is_owner) {
        send_mail(loop);
    }
}

void rl_loop_owner_end_wait(struct rl_loop_owner *loop, struct rl_wait *wait)
{
    rl_wait_end(&loop->monitor, wait);
    loop->waits--;
    pthread_cond_broadcast(&loop->changed);
}

static bool is_queued(const struct rl_wait *wait)
{
    const char *call = (const char *)wait - offsetof(struct rl_call, wait);
    const struct rl_write *write = (const struct rl_write *)call;
    return write->is_queued && write->is_queued(write);
}

/* `all`: also those whose command is queued. */
static void end_writes(struct rl_loop_owner *loop, bool all)
{
    struct rl_wait *wait = TAILQ_FIRST(&loop->to_write), *next;
    for (; wait; wait = next) {
        next = TAILQ_NEXT(wait, link);
        if (!all && is_queued(wait))
            continue;
        TAILQ_REMOVE(&loop->to_write, wait, link);
        rl_loop_owner_finish_wait(loop, wait, REDLOCK_OK);
    }
}

/*
 * Completes the pending writes before a callback begins, or before the loop goes to a
 * thread in a callback: the callback may wait for a thread that waits for its write. A wait
 * for a write that begins meanwhile ends with its release still unwritten.
 */
static void finish_writes(struct rl_loop_owner *loop)
{
    run_jobs(loop);
    if (TAILQ_EMPTY(&loop->to_write))
        return;
    run_loop(loop, false);
    run_jobs(loop);
    end_writes(loop, true);
}

/*
 * The alarm may fire early, because the loop's clock is coarse. False: the deadline has
 * come, or the alarm cannot be set.
 */
static bool set_alarm(struct rl_loop_owner *loop, int64_t deadline)
{
    int64_t left = rl_left_ms(deadline);
    struct timeval in = {.tv_sec = left / 1000, .tv_usec = left % 1000 * 1000};
    return left > 0 && event_add(loop->alarm, &in) == 0;
}

static bool run_as_caller(struct rl_loop_owner *loop, struct rl_wait *wait,
                          int64_t deadline)
{
    bool ends = deadline != RL_FOREVER, goes_on;
    if (loop->owner || (ends && !set_alarm(loop, deadline)))
        return false;
    loop->owner = wait;
    loop->runs_by_callers++;
    do {
        run_jobs(loop);
        goes_on = run_loop(loop, !wait->done) && !wait->done && !loop->yields &&
                  (!ends || set_alarm(loop, deadline));
    } while (goes_on);
    if (ends)
        event_del(loop->alarm);
    if (loop->in_callback)
        finish_writes(loop);
    loop->owner = NULL;
    loop->yields = false;
    if (loop->pending > 0 || loop->closing || !TAILQ_EMPTY(&loop->jobs))
        give_to_client_thread(loop);
    return true;
}

bool rl_loop_owner_wait_once(struct rl_loop_owner *loop, struct rl_wait *wait,
                             int64_t deadline)
{
    if (run_as_caller(loop, wait, deadline))
        return true;
    announce_jobs(loop);
    return rl_wait_sleep(&loop->monitor, wait, deadline);
}

redlock_code rl_loop_owner_may_wait(const struct rl_loop_owner *loop)
{
    if (!loop)
        return rl_fail_by_reason(REDLOCK_CLOSED, REDLOCK_REASON_NULL_HANDLE);
    if (!rl_loop_owner_is_ours(loop))
        return rl_fail_by_code(REDLOCK_FORKED);
    return rl_loop_owner_in_any_thread()
               ? rl_fail_by_reason(REDLOCK_WOULD_DEADLOCK, REDLOCK_REASON_IN_CALLBACK)
               : REDLOCK_OK;
}

redlock_code rl_loop_owner_await(struct rl_loop_owner *loop, struct rl_wait *wait)
{
    while (!wait->done)
        rl_loop_owner_wait_once(loop, wait, RL_FOREVER);
    rl_loop_owner_end_wait(loop, wait);
    return rl_wait_result(wait);
}

redlock_code rl_loop_owner_call(struct rl_loop_owner *loop, struct rl_call *call)
{
    rl_loop_owner_begin_wait(loop, &call->wait);
    rl_job_post(loop, &call->job);
    redlock_code code = rl_loop_owner_await(loop, &call->wait);
    rl_job_cancel(&call->job); /* it may be done before it ran */
    return code;
}

redlock_code rl_loop_owner_request(struct rl_loop_owner *loop, struct rl_call *call)
{
    rl_loop_owner_lock(loop);
    redlock_code code = loop->closing
                            ? rl_fail_by_reason(REDLOCK_CLOSED, REDLOCK_REASON_CLIENT_FREED)
                            : rl_loop_owner_call(loop, call);
    rl_loop_owner_unlock(loop);
    return code;
}

/* --- a thread that waits for a write --- */

/*
 * The jobs before this one have scheduled the end of the client's iteration, which writes.
 * The loop runs active events in the order in which they became active, in one iteration.
 * So `written` runs after the write.
 */
static void begin_write(struct rl_loop_owner *loop, struct rl_job *job)
{
    struct rl_call *call = (struct rl_call *)job;
    TAILQ_INSERT_TAIL(&loop->to_write, &call->wait, link);
    if (loop->over)
        end_writes(loop, true);
    else
        rl_loop_owner_check_writes(loop);
}

void rl_loop_owner_check_writes(struct rl_loop_owner *loop)
{
    event_active(loop->written, EV_TIMEOUT, 0);
}

void rl_loop_owner_flush(struct rl_loop_owner *loop, struct rl_write *write)
{
    bool in_callback = loop->in_callback && loop->owner == &loop->client_thread;
    write->call.job.run = begin_write;
    if (!in_callback && !rl_loop_owner_in_any_thread())
        rl_loop_owner_call(loop, &write->call);
}

/* --- events, opening and closing --- */

static void on_written(evutil_socket_t fd, short what, void *arg)
{
    struct rl_loop_owner *loop = arg;
    (void)fd;
    (void)what;
    rl_loop_owner_lock(loop);
    end_writes(loop, false);
    rl_loop_owner_unlock(loop);
}

static void on_mail(evutil_socket_t fd, short what, void *arg)
{
    struct rl_loop_owner *loop = arg;
    uint64_t count;
    (void)what;
    rl_loop_owner_lock(loop);
    (void)!read(fd, &count, sizeof(count));
    loop->mail_sent = false;
    run_jobs(loop);
    if (loop->yields || loop->owner->done)
        loop->leave_loop = true;
    rl_loop_owner_unlock(loop);
}

static void on_alarm(evutil_socket_t fd, short what, void *arg)
{
    struct rl_loop_owner *loop = arg;
    (void)fd;
    (void)what;
    loop->leave_loop = true;
}

/* File descriptors of an event loop: 3, or 5 with evthread_use_pthreads(); and mail_fd. */
#define LOOP_FILES 6

/*
 * event_base_new() ends the process if it gets no file descriptor, so check first that
 * there are enough. A race remains: another thread may take them in between.
 */
static struct event_base *new_loop(void)
{
    int file[LOOP_FILES], opened = 0;
    while (opened < LOOP_FILES && (file[opened] = eventfd(0, EFD_CLOEXEC)) >= 0)
        opened++;
    for (int i = 0; i < opened; i++)
        close(file[i]);
    return opened == LOOP_FILES ? event_base_new() : NULL;
}

bool rl_loop_owner_open(struct rl_loop_owner *loop)
{
    rl_monitor_init(&loop->monitor);
    pthread_cond_init(&loop->changed, NULL);
    loop->generation = rl_system_fork_generation();
    atomic_init(&loop->references, 1);
    TAILQ_INIT(&loop->jobs);
    TAILQ_INIT(&loop->reports);
    TAILQ_INIT(&loop->to_write);
    rl_wait_init(&loop->client_thread);
    loop->owner = &loop->client_thread;
    loop->mail_fd = -1;
    loop->base = new_loop();
    if (!loop->base)
        return false;
    loop->mail_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (loop->mail_fd < 0)
        return false;
    loop->mail = event_new(loop->base, loop->mail_fd, EV_READ | EV_PERSIST, on_mail, loop);
    loop->alarm = evtimer_new(loop->base, on_alarm, loop);
    loop->written = event_new(loop->base, -1, 0, on_written, loop);
    return loop->mail && loop->alarm && loop->written && event_add(loop->mail, NULL) == 0;
}

void rl_loop_owner_close(struct rl_loop_owner *loop)
{
    struct event *const events[] = {loop->mail, loop->alarm, loop->written};
    bool ours = rl_loop_owner_is_ours(loop);
    for (size_t i = 0; ours && i < sizeof(events) / sizeof(events[0]); i++)
        if (events[i])
            event_free(events[i]);
    if (ours && loop->base)
        event_base_free(loop->base);
    if (loop->mail_fd >= 0)
        close(loop->mail_fd);
}

void rl_loop_owner_ref(struct rl_loop_owner *loop)
{
    atomic_fetch_add(&loop->references, 1);
}

void rl_loop_owner_unref(struct rl_loop_owner *loop)
{
    if (atomic_fetch_sub(&loop->references, 1) > 1)
        return;
    if (rl_loop_owner_is_ours(loop)) {
        pthread_cond_destroy(&loop->changed);
        sem_destroy(&loop->client_thread.woken);
        pthread_mutex_destroy(&loop->monitor.mutex);
    }
    free(loop);
}

/* --- the client's own thread --- */

static void watch_callers(struct rl_loop_owner *loop)
{
    unsigned runs = loop->runs_by_callers;
    while (sem_trywait(&loop->client_thread.woken) == 0)
        ; /* discards wake-ups for what is known by now */
    rl_wait_sleep(&loop->monitor, &loop->client_thread, rl_in_ms(RL_LOOP_FREE_MS));
    if (loop->owner != &loop->client_thread)
        run_reports(loop);
    if (loop->runs_by_callers != runs || loop->owner == &loop->client_thread)
        return;
    if (!loop->owner) {
        loop->owner = &loop->client_thread;
    } else {
        loop->yields = true;
        send_mail(loop);
    }
}

/*
 * Leaves the loop free for the next wait, or for the one that is not done. A row of single
 * waits ends as soon as two waits overlap, so a wait that is not done is the latest one.
 */
static bool leave_loop_free(struct rl_loop_owner *loop)
{
    bool is_idle = loop->pending == 0 && TAILQ_EMPTY(&loop->jobs);
    if (loop->single_waits < RL_SINGLE_WAITS || (!is_idle && loop->pending != 1) ||
        loop->closing || !TAILQ_EMPTY(&loop->reports))
        return false;
    loop->owner = NULL;
    if (loop->pending == 1)
        rl_wait_wake(loop->latest_wait);
    return true;
}

/* Runs the loop until it is left free for a caller, or is over. */
static void run_own(struct rl_loop_owner *loop)
{
    for (;;) {
        do {
            run_jobs(loop);
            if (!TAILQ_EMPTY(&loop->reports))
                finish_writes(loop);
            run_reports(loop);
        } while (!TAILQ_EMPTY(&loop->jobs));
        if (loop->over)
            return;
        if (!run_loop(loop, true))
            loop->over = true;
        if (leave_loop_free(loop))
            return;
    }
}

void rl_loop_owner_run_thread(struct rl_loop_owner *loop)
{
    here.is_client_thread = true;
    here.generation = loop->generation;
    rl_loop_owner_lock(loop);
    loop->client_thread.thread = pthread_self();
    while (loop->owner != &loop->client_thread || !loop->over)
        if (loop->owner == &loop->client_thread)
            run_own(loop);
        else
            watch_callers(loop);
    end_writes(loop, true);
}

void rl_loop_owner_run_rest(struct rl_loop_owner *loop)
{
    run_jobs(loop);
    run_reports(loop);
}
