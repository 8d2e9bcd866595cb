#include "timer.h"

#include <event2/event.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define US_PER_SECOND 1000000

struct rl_timer {
    const struct rl_timer_handler *owner;
    void *arg;
    int fd;
    struct event *fired, *ended;
};

static void on_fired(evutil_socket_t fd, short what, void *arg)
{
    const struct rl_timer *timer = arg;
    uint64_t times;
    (void)what;
    (void)!read(fd, &times, sizeof(times));
    timer->owner->fired(timer->arg);
}

static void on_ended(evutil_socket_t fd, short what, void *arg)
{
    const struct rl_timer *timer = arg;
    (void)fd;
    (void)what;
    timer->owner->ended(timer->arg);
}

struct rl_timer *rl_timer_new(struct event_base *base, const struct rl_timer_handler *owner,
                              void *arg)
{
    struct rl_timer *timer = malloc(sizeof(*timer));
    if (!timer)
        return NULL;
    int fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    *timer = (struct rl_timer){.owner = owner, .arg = arg, .fd = fd};
    if (fd >= 0) {
        timer->fired = event_new(base, fd, EV_READ | EV_PERSIST, on_fired, timer);
        timer->ended = event_new(base, -1, 0, on_ended, timer);
    }
    if (timer->fired && timer->ended && event_add(timer->fired, NULL) == 0)
        return timer;
    rl_timer_free(timer, false);
    return NULL;
}

bool rl_timer_set(struct rl_timer *timer, int64_t at)
{
    struct itimerspec when = {
        .it_value = {.tv_sec = at / US_PER_SECOND, .tv_nsec = at % US_PER_SECOND * 1000}};
    return timerfd_settime(timer->fd, TFD_TIMER_ABSTIME, &when, NULL) == 0;
}

void rl_timer_want_end(struct rl_timer *timer)
{
    event_active(timer->ended, EV_TIMEOUT, 0);
}

void rl_timer_free(struct rl_timer *timer, bool forked)
{
    if (timer->fired && !forked)
        event_free(timer->fired);
    if (timer->ended && !forked)
        event_free(timer->ended);
    if (timer->fd >= 0)
        close(timer->fd);
    free(timer);
}
