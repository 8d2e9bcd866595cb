/*
 * Who runs the event loop of a client when, and the orders that are carried out there.
 *
 * At most one thread does, the driver. It is named under the mutex, which it lets go only
 * in the loop: what one driver did comes before what the next one does. It is
 *
 * - the client's own thread, while nobody waits, while several do, for it sends their
 *   commands together, and for whoever waits for long; or
 * - a thread that waits alone, for being woken by another takes a good part of the time
 *   that the nodes take. It drives until it has what it waits for, its deadline comes, or
 *   it is relieved.
 *
 * The client's thread leaves the loop free for such threads when waits follow each other
 * one by one, and looks on: each RL_LINGER_MS it drives if nobody did since it looked last,
 * and relieves whoever has driven all that time. Whoever posts an order and does not wait,
 * and whoever stops driving while others wait, gives the loop to the client's thread at
 * once. A thread that unlocks waits until the release is written: it drives one pass where
 * the loop is free. So nothing is left undone but what the nodes say or a clock wants while
 * nobody waits, and that for less than two lingers. This is harmless: the deadline of a
 * hold is looked at by the clock, an extension has two thirds of the TTL to be late, and a
 * busy machine lets any loop wait as long.
 *
 * What holds, and whoever changes this has to keep:
 *
 * - `driver` is changed under the mutex only, and by three: a caller takes the loop where
 *   it is free, and leaves it; the client's thread takes it where it is free, or is given
 *   it, and leaves it free. What it was given nobody takes from it.
 * - A caller drives with the mutex in hand, or is in the loop: between `in_loop` and the
 *   next look at the orders nobody can post any. The client's thread lets the mutex go for
 *   callbacks, too, and so looks at the orders again after those.
 * - `called` goes with what can be read of `mail_fd`, and both may outlive a drive: the
 *   next driver looks into an empty box, once.
 * - `comes_out` and `tells` are of one stay in the loop, `relieved` is of one drive by a
 *   caller.
 * - Who is told that it is done while the driver is in the loop is woken when the pass is
 *   over, else when the mutex is let go.
 * - Where somebody waits and does not drive, another does, or the client's thread is about
 *   to; but for one that could not set its alarm, whom the client's thread finds a linger
 *   later. An alarm that rings early, by the coarse clock of the loop, is set again; that
 *   the deadline has come is said by rl_wait_sleep() alone.
 *
 * Users' callbacks run in the client's thread only, and outside of the loop. One that takes
 * long keeps a loop that is the client's thread's just then, or is given to it: nothing is
 * extended or sent until it returns. A thread that drives meanwhile goes on, for all.
 * Equally, a driver that the system does not let run, or whose signal handler takes long,
 * keeps all others; it is relieved only when it goes on.
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "sync_parts.h"

#define RL_LINGER_MS 2
#define RL_ALONE     8 /* waits one by one, until the loop is left free for the next */

/* --- the loop --- */

static void on_mail(evutil_socket_t fd, short what, void *arg)
{
    redlock_sync *sync = arg;
    uint64_t count;
    (void)what;
    rl_sync_lock(sync);
    (void)!read(fd, &count, sizeof(count));
    sync->called = false;
    rl_carry_out_all(sync);
    if (sync->relieved || sync->driver->done)
        sync->comes_out = true;
    rl_sync_unlock(sync);
}

static void on_alarm(evutil_socket_t fd, short what, void *arg)
{
    redlock_sync *sync = arg;
    (void)fd;
    (void)what;
    sync->comes_out = true;
}

/* File descriptors of an event loop: 3, or 5 with evthread_use_pthreads(); and our mail. */
#define LOOP_FILES 6

/*
 * event_base_new() ends the process if it gets no file descriptor. Another thread may take
 * those that are seen to be free here.
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

static void end_writes(redlock_sync *sync)
{
    struct rl_wait *wait;
    while ((wait = TAILQ_FIRST(&sync->to_write))) {
        TAILQ_REMOVE(&sync->to_write, wait, in_done);
        rl_wait_done(wait, REDLOCK_OK);
    }
}

static void on_written(evutil_socket_t fd, short what, void *arg)
{
    redlock_sync *sync = arg;
    (void)fd;
    (void)what;
    rl_sync_lock(sync);
    end_writes(sync);
    rl_sync_unlock(sync);
}

bool rl_drive_open(redlock_sync *sync)
{
    rl_wait_init(sync, &sync->own);
    sync->driver = &sync->own;
    sync->base = new_loop();
    if (!sync->base)
        return false;
    sync->mail_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (sync->mail_fd < 0)
        return false;
    sync->mail = event_new(sync->base, sync->mail_fd, EV_READ | EV_PERSIST, on_mail, sync);
    sync->alarm = evtimer_new(sync->base, on_alarm, sync);
    sync->written = event_new(sync->base, -1, 0, on_written, sync);
    return sync->mail && sync->alarm && sync->written && event_add(sync->mail, NULL) == 0;
}

void rl_drive_close(redlock_sync *sync)
{
    if (sync->mail)
        event_free(sync->mail);
    if (sync->alarm)
        event_free(sync->alarm);
    if (sync->written)
        event_free(sync->written);
    if (sync->base)
        event_base_free(sync->base);
}

/* Of this pass, all at once. */
static void tell_who_is_done(redlock_sync *sync)
{
    pthread_mutex_lock(&sync->mutex);
    sync->tells = false;
    rl_wait_let_go(sync);
}

/* Is in the loop, without the mutex, until called out, or just once. False: that failed. */
static bool drive(redlock_sync *sync, bool waits)
{
    int failed;
    sync->in_loop = true;
    sync->comes_out = sync->tells = false;
    rl_wait_let_go(sync);
    do {
        failed = event_base_loop(sync->base, EVLOOP_ONCE | (waits ? 0 : EVLOOP_NONBLOCK));
        if (sync->tells)
            tell_who_is_done(sync);
    } while (!failed && waits && !sync->comes_out); /* which only this thread sets */
    pthread_mutex_lock(&sync->mutex);
    sync->in_loop = false;
    return !failed;
}

bool rl_drive_is_here(const redlock_sync *sync)
{
    return sync->in_loop && pthread_equal(sync->driver->thread, pthread_self());
}

static void send_mail(redlock_sync *sync)
{
    uint64_t one = 1;
    int state;
    if (!sync->in_loop || sync->called)
        return;
    sync->called = true;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state); /* the mutex is held */
    while (write(sync->mail_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
    pthread_setcancelstate(state, NULL);
}

void rl_drive_begun(redlock_sync *sync, struct rl_wait *wait)
{
    if (sync->pending++ > 0 || rl_now_ms() > sync->alone_at + RL_LINGER_MS)
        sync->row = 0;
    sync->latest = wait;
}

void rl_drive_done(redlock_sync *sync, const struct rl_wait *wait)
{
    if (--sync->pending == 0) {
        sync->row++;
        sync->alone_at = rl_now_ms();
    }
    if (rl_drive_is_here(sync)) {
        sync->comes_out |= wait == sync->driver || sync->pending == 0;
        sync->tells |= wait != sync->driver;
    } else if (wait == sync->driver) {
        send_mail(sync);
    }
}

/* --- orders --- */

void rl_give_order(redlock_sync *sync, struct rl_order *order)
{
    if (order->posted)
        return;
    order->posted = true;
    TAILQ_INSERT_TAIL(&sync->orders, order, next);
}

void rl_withdraw_order(redlock_sync *sync, struct rl_order *order)
{
    if (order->posted)
        TAILQ_REMOVE(&sync->orders, order, next);
    order->posted = false;
}

void rl_carry_out_all(redlock_sync *sync)
{
    struct rl_order *order;
    while ((order = TAILQ_FIRST(&sync->orders))) {
        rl_withdraw_order(sync, order);
        order->carry_out(sync, order);
    }
}

/*
 * Before a callback begins, or is given the loop: it may wait for a thread that waits for a
 * write. Those that begin to wait meanwhile are let go with their release still to write.
 */
static void finish_writes(redlock_sync *sync)
{
    rl_carry_out_all(sync);
    if (TAILQ_EMPTY(&sync->to_write))
        return;
    drive(sync, false);
    rl_carry_out_all(sync);
    end_writes(sync);
}

static void give_to_own(redlock_sync *sync)
{
    sync->driver = &sync->own;
    rl_wait_wake(&sync->own);
}

void rl_drive_announce(redlock_sync *sync)
{
    if (TAILQ_EMPTY(&sync->orders))
        return;
    if (!sync->driver)
        give_to_own(sync);
    else if (rl_drive_is_here(sync))
        sync->comes_out = true;
    else
        send_mail(sync);
}

void rl_drive_call_own(redlock_sync *sync)
{
    if (sync->driver == &sync->own && rl_drive_is_here(sync))
        sync->comes_out = true;
    else
        rl_wait_wake(&sync->own);
}

/* --- a thread that waits --- */

/* The loop has a coarse clock, and may ring early. False: it is too late, or impossible. */
static bool set_alarm(redlock_sync *sync, int64_t deadline)
{
    int64_t left = rl_left_ms(deadline);
    struct timeval in = {.tv_sec = left / 1000, .tv_usec = left % 1000 * 1000};
    return left > 0 && event_add(sync->alarm, &in) == 0;
}

bool rl_drive(redlock_sync *sync, struct rl_wait *wait, int64_t deadline)
{
    bool ends = deadline != RL_FOREVER, goes_on;
    if (sync->driver || (ends && !set_alarm(sync, deadline)))
        return false;
    sync->driver = wait;
    sync->drives++;
    do {
        rl_carry_out_all(sync);
        goes_on = drive(sync, !wait->done) && !wait->done && !sync->relieved &&
                  (!ends || set_alarm(sync, deadline));
    } while (goes_on);
    if (ends)
        event_del(sync->alarm);
    if (sync->calls_back)
        finish_writes(sync);
    sync->driver = NULL;
    sync->relieved = false;
    if (sync->pending > 0 || sync->closing || !TAILQ_EMPTY(&sync->orders))
        give_to_own(sync);
    return true;
}

/* --- a thread that waits for a write --- */

struct write {
    struct rl_order order;
    struct rl_wait wait;
};

/*
 * What was ordered before it has planned the end of the client's pass, which writes. An
 * event that is made active after another is run after it, in the same pass of the loop.
 */
static void begin_write(redlock_sync *sync, struct rl_order *order)
{
    struct write *write = (struct write *)order;
    TAILQ_INSERT_TAIL(&sync->to_write, &write->wait, in_done);
    if (sync->over)
        end_writes(sync);
    else
        event_active(sync->written, EV_TIMEOUT, 0);
}

void rl_drive_until_written(redlock_sync *sync)
{
    struct write write = {.order.carry_out = begin_write};
    if (rl_sync_is_loop() || (sync->calls_back && sync->driver == &sync->own))
        return;
    rl_wait_begin(sync, &write.wait);
    rl_give_order(sync, &write.order);
    while (!write.wait.done)
        rl_wait_once(sync, &write.wait, RL_FOREVER);
    rl_wait_end(sync, &write.wait);
}

/* --- the client's own thread --- */

static void look_on(redlock_sync *sync)
{
    unsigned drives = sync->drives;
    while (sem_trywait(&sync->own.woken) == 0)
        ; /* for what is known by now */
    rl_wait_sleep(sync, &sync->own, rl_in_ms(RL_LINGER_MS));
    if (sync->driver != &sync->own)
        rl_hold_tell_all(sync);
    if (sync->drives != drives || sync->driver == &sync->own)
        return;
    if (!sync->driver) {
        sync->driver = &sync->own;
    } else {
        sync->relieved = true;
        send_mail(sync);
    }
}

/*
 * To whoever waits next, or does already: a row ends as soon as two waits overlap, so where
 * one is not done, that is the latest.
 */
static bool leaves_it_free(redlock_sync *sync)
{
    bool is_idle = sync->pending == 0 && TAILQ_EMPTY(&sync->orders);
    if (sync->row < RL_ALONE || (!is_idle && sync->pending != 1) || sync->closing ||
        !TAILQ_EMPTY(&sync->untold))
        return false;
    sync->driver = NULL;
    if (sync->pending == 1)
        rl_wait_wake(sync->latest);
    return true;
}

/* Until the loop is left to who waits, or over. */
static void drive_own(redlock_sync *sync)
{
    for (;;) {
        do {
            rl_carry_out_all(sync);
            if (!TAILQ_EMPTY(&sync->untold))
                finish_writes(sync);
            rl_hold_tell_all(sync);
        } while (!TAILQ_EMPTY(&sync->orders));
        if (sync->over)
            return;
        if (!drive(sync, true))
            sync->over = true;
        if (leaves_it_free(sync))
            return;
    }
}

void rl_drive_on(redlock_sync *sync)
{
    while (sync->driver != &sync->own || !sync->over)
        if (sync->driver == &sync->own)
            drive_own(sync);
        else
            look_on(sync);
    end_writes(sync);
}
