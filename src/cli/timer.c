#include "timer.h"

#include "cli.h"

static void timer_expired(evutil_socket_t fd, short what, void *arg)
{
    const struct cli_timer *timer = arg;
    (void)fd;
    (void)what;
    timer->ring(timer->arg);
}

void cli_timer_begin(struct cli_timer *timer, struct event_base *base, int64_t every_ms,
                     void (*ring)(void *arg), void *arg)
{
    short flags = every_ms > 0 ? EV_PERSIST : 0;
    timer->ring = ring;
    timer->arg = arg;
    timer->event = cli_need_memory(event_new(base, -1, flags, timer_expired, timer));
    if (every_ms > 0)
        cli_timer_set(timer, every_ms);
}

void cli_timer_set(const struct cli_timer *timer, int64_t ms)
{
    const struct timeval after = {ms / 1000, ms % 1000 * 1000};
    cli_need_memory(event_add(timer->event, &after) == 0 ? timer->event : NULL);
}

void cli_timer_stop(const struct cli_timer *timer)
{
    event_del(timer->event);
}

void cli_timer_end(struct cli_timer *timer)
{
    if (timer->event)
        event_free(timer->event);
    timer->event = NULL;
}
