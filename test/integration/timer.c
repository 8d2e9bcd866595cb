/*
 * The timer of a client runs on CLOCK_BOOTTIME, which a time daemon may slow down by up to
 * a tenth: a long sleep ends an eighth early, so that a deadline is never noticed late.
 */
#include <criterion/criterion.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "client/client.h"
#include "quorum.h"

static struct itimerspec set;

/* Takes the place of the C library's function. */
int timerfd_settime(int fd, int flags, const struct itimerspec *when,
                    struct itimerspec *ret_old)
{
    cr_assert_eq(flags, TFD_TIMER_ABSTIME);
    set = *when;
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
