/* A service on libuv works under a lock: uv STEPS redis://a redis://b redis://c */
#include "lock_thread.hpp"
#include <cstdio>
#include <cstdlib>
#include <uv.h>

static lock *job;
static int ticks, steps;
static bool held, leaving;
static uv_async_t news;

static void leave()
{
    leaving = true;
    std::puts(steps == 0                ? "done"
              : job->code == REDLOCK_OK ? "the deadline has passed"
                                        : redlock_code_text(job->code));
    job->leave();
}

/* Many calls of uv_async_send() can be one call here: it reads what is true now. */
static void on_news(uv_async_t *)
{
    if (job->state == lock::HELD && !held) {
        std::puts("held");
        held = true;
    } else if (job->state == lock::LOST && !leaving) {
        leave();
    } else if (job->state == lock::ENDED) {
        std::puts(job->code == REDLOCK_OK ? "released" : redlock_code_text(job->code));
        uv_stop(uv_default_loop());
    }
}

static void on_tick(uv_timer_t *)
{
    if (job->state == lock::WAITING && ++ticks % 100 == 0)
        std::puts("waiting");
    if (held && !leaving && (!job->valid() || --steps == 0)) /* each tick does a step */
        leave();
}

int main(int argc, char **argv)
try {
    if (argc < 3)
        throw std::invalid_argument("usage: uv STEPS NODE...");
    setlinebuf(stdout);
    steps = std::atoi(argv[1]);
    uv_timer_t timer;
    uv_async_init(uv_default_loop(), &news, on_news);
    uv_timer_init(uv_default_loop(), &timer);
    lock_thread client(argv + 2, argc - 2);
    lock mine(client, "job", [] { uv_async_send(&news); });
    job = &mine;
    uv_timer_start(&timer, on_tick, 10, 10);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    return steps == 0 && mine.code == REDLOCK_OK ? 0 : 1;
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
