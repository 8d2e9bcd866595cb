/* A coroutine works under a lock: await STEPS redis://a redis://b redis://c */
#include "lock_thread.hpp"
#include <cstdlib>
#include <iostream>
#if __has_include(<boost/asio.hpp>)
#include <boost/asio.hpp>
namespace asio = boost::asio;
using boost::system::error_code;
#else
#include <asio.hpp>
using asio::error_code;
#endif

using asio::awaitable, asio::steady_timer;

static asio::io_context loop; /* all coroutines resume in the thread that runs it */
static steady_timer news(loop, steady_timer::time_point::max());

static awaitable<redlock_code> until(const lock &job, int state)
{
    error_code ignored;
    while (job.state < state)
        co_await news.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    co_return job.code;
}

static awaitable<redlock_code> acquire(const lock &job)
{
    return until(job, lock::HELD);
}

static awaitable<redlock_code> release(lock &job)
{
    job.leave();
    return until(job, lock::ENDED);
}

static awaitable<void> tick()
{
    steady_timer timer(loop, std::chrono::milliseconds(10));
    co_await timer.async_wait(asio::use_awaitable);
}

static awaitable<void> beat(const lock &job)
{
    for (int ticks = 1; job.state == lock::WAITING; ticks++) {
        co_await tick();
        if (ticks % 100 == 0)
            std::cout << "waiting" << std::endl;
    }
}

static awaitable<void> work(lock &job, int &steps)
{
    if (co_await acquire(job) == REDLOCK_OK)
        std::cout << "held" << std::endl;
    while (job.valid() && steps > 0) {
        steps--;
        co_await tick();
    }
    std::cout << (steps == 0               ? "done"
                  : job.code == REDLOCK_OK ? "the deadline has passed"
                                           : redlock_code_text(job.code))
              << std::endl;
    const redlock_code code = co_await release(job);
    std::cout << (code == REDLOCK_OK ? "released" : redlock_code_text(code)) << std::endl;
}

int main(int argc, char **argv)
try {
    if (argc < 3)
        throw std::invalid_argument("usage: await STEPS NODE...");
    int steps = std::atoi(argv[1]);
    lock_thread client(argv + 2, argc - 2);
    lock mine(client, "job", [] { asio::post(loop, [] { news.cancel(); }); });
    asio::co_spawn(loop, beat(mine), asio::detached);
    asio::co_spawn(loop, work(mine, steps), asio::detached);
    loop.run(); /* until both have ended */
    return steps == 0 && mine.code == REDLOCK_OK ? 0 : 1;
} catch (const std::exception &error) {
    std::cerr << error.what() << '\n';
    return 1;
}
