/*
 * The timer of a client runs on CLOCK_BOOTTIME, which a time daemon may slow down by up to
 * a tenth: a long sleep ends an eighth early, so that a deadline is never noticed late. It
 * wakes the client for nothing else.
 */
#include <criterion/criterion.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "client/client.h"
#include "io/system.h"
#include "io/timer.h"
#include "quorum.h"

static struct itimerspec set;
static unsigned times_set;

/* Takes the place of the C library's function. */
int timerfd_settime(int fd, int flags, const struct itimerspec *when,
                    struct itimerspec *ret_old)
{
    cr_assert_eq(flags, TFD_TIMER_ABSTIME);
    set = *when;
    times_set++;
    return (int)syscall(SYS_timerfd_settime, fd, flags, when, ret_old);
}

/* Microseconds until the timer fires. */
static rl_time armed(const redlock_client *client)
{
    return set.it_value.tv_sec * RL_SECOND + set.it_value.tv_nsec / 1000 -
           client->loop.boot;
}

#define LONG  (20 * RL_SECOND)
#define AHEAD RL_MS /* the client's clock may be some us ahead of CLOCK_BOOTTIME */

Test(timer, a_long_sleep_is_cut_by_an_eighth)
{
    struct quorum s;
    redlock_lease_options options = quorum_lease_options(); /* a TTL of 60 s */
    options.watchdog = false;
    quorum_open(&s, 3);
    redlock_lease *lease = quorum_hold(&s, "job", &options);
    LOOP_UNTIL(s.base, armed(s.client) > LONG);
    rl_time first = rl_heap_first(&s.client->loop.heap);
    rl_time whole = first - rl_loop_read_clock(&s.client->loop);
    cr_assert_lt(whole, options.ttl_ms * RL_MS);
    cr_assert_leq(armed(s.client), whole - whole / 8 + AHEAD);
    redlock_lease_free(lease);
    quorum_close(&s);
}

/* A third of the TTL passes in a few sleeps, and each wake-up sets the timer again. */
#define EXTENSIONS 4
#define SETS_MAX   40 /* for one extension; it needs 4 */

Test(timer, an_idle_client_sleeps)
{
    struct quorum s;
    struct reported extended = {0};
    redlock_lease_options options = quorum_lease_options();
    options.ttl_ms = 1500;
    options.on_extended = reported_note;
    options.extended_arg = &extended;
    quorum_open(&s, 3);
    redlock_lease *lease = quorum_hold(&s, "job", &options);
    unsigned before = times_set;
    LOOP_UNTIL(s.base, extended.times >= EXTENSIONS);

    cr_assert_leq(times_set - before, EXTENSIONS * SETS_MAX);
    redlock_lease_free(lease);
    quorum_close(&s);
}

static void note_fired(void *arg)
{
    *(bool *)arg = true;
}

static void note_nothing(void *arg)
{
    (void)arg;
}

static int64_t boot_us(void)
{
    return rl_system_clock_ns(CLOCK_BOOTTIME) / 1000;
}

Test(timer, it_fires_at_its_time_and_not_before)
{
    static const struct rl_timer_handler handler = {.fired = note_fired,
                                                    .ended = note_nothing};
    bool fired = false;
    struct event_base *base = event_base_new();
    struct rl_timer *timer = rl_timer_new(base, &handler, &fired);
    for (int64_t ms = 1; ms < 100; ms *= 2) {
        int64_t at = boot_us() + ms * RL_MS;
        fired = false;
        cr_assert(rl_timer_set(timer, at));
        LOOP_UNTIL(base, fired);
        cr_assert_geq(boot_us(), at, "set to %lld ms", (long long)ms);
    }
    rl_timer_free(timer);
    event_base_free(base);
}
