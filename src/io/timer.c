#include "timer.h"

#include "loop_fd.h"

#include <event2/event.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define US_PER_SECOND 1000000

struct rl_timer {
    const struct rl_timer_handler *owner;
    void *arg;
    struct rl_loop_fd file;
    struct event *fired, *ended;
};

static void on_fired(evutil_socket_t fd, short what, void *arg)
{
    const struct rl_timer *timer = arg;
    uint64_t times;
    (void)what;
    if (timer->file.is_inert)
        return;
    (void)!read(fd, &times, sizeof(times));
    timer->owner->fired(timer->arg);
}

static void on_ended(evutil_socket_t fd, short what, void *arg)
{
    const struct rl_timer *timer = arg;
    (void)fd;
    (void)what;
    if (!timer->file.is_inert)
        timer->owner->ended(timer->arg);
}

struct rl_timer *rl_timer_new(struct event_base *base, const struct rl_timer_handler *owner,
                              void *arg)
{
    int fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    if (fd < 0)
        return NULL;
    struct rl_timer *timer = malloc(sizeof(*timer));
    if (!timer) {
        close(fd);
        return NULL;
    }
    *timer = (struct rl_timer){.owner = owner, .arg = arg};
    rl_loop_fd_init(&timer->file, fd);
    timer->fired = event_new(base, fd, EV_READ | EV_PERSIST, on_fired, timer);
    /* It is never pending. If it is persistent, libevent does not look whether it is. */
    timer->ended = event_new(base, -1, EV_PERSIST, on_ended, timer);
    if (timer->fired && timer->ended && event_add(timer->fired, NULL) == 0)
        return timer;
    rl_timer_free(timer);
    return NULL;
}

bool rl_timer_set(struct rl_timer *timer, int64_t at)
{
    struct itimerspec when = {
        .it_value = {.tv_sec = at / US_PER_SECOND, .tv_nsec = at % US_PER_SECOND * 1000}};
    return timerfd_settime(timer->file.fd, TFD_TIMER_ABSTIME, &when, NULL) == 0;
}

void rl_timer_want_end(struct rl_timer *timer)
{
    event_active(timer->ended, EV_TIMEOUT, 0);
}

void rl_timer_free(struct rl_timer *timer)
{
    if (timer->fired)
        event_free(timer->fired);
    if (timer->ended)
        event_free(timer->ended);
    rl_loop_fd_close(&timer->file);
    free(timer);
}
