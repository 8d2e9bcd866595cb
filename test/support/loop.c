#include "loop.h"

#include <criterion/criterion.h>
#include <time.h>

#define PASS_US 2000

int64_t loop_clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void do_nothing(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
}

void loop_pass(struct event_base *base)
{
    struct timeval soon = {.tv_usec = PASS_US};
    cr_assert_eq(event_base_once(base, -1, EV_TIMEOUT, do_nothing, NULL, &soon), 0);
    cr_assert_geq(event_base_loop(base, EVLOOP_ONCE), 0);
}

void loop_pass_before(struct event_base *base, int64_t end, const char *file, int line,
                      const char *condition)
{
    cr_assert_lt(loop_clock_ms(), end, "%s:%d: never so: %s", file, line, condition);
    loop_pass(base);
}

void loop_block(int64_t ms)
{
    struct timespec rest = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&rest, &rest) != 0)
        ;
}

void loop_run_for(struct event_base *base, int64_t ms)
{
    for (int64_t end = loop_clock_ms() + ms; loop_clock_ms() < end;)
        loop_pass(base);
}
