/* A service on Boost.Asio works under a lock: asio STEPS redis://a redis://b redis://c */
#include "lock_thread.hpp"
#include <cstdlib>
#include <iostream>
#if __has_include(<boost/asio.hpp>)
#include <boost/asio.hpp>
namespace asio = boost::asio;
#else
#include <asio.hpp>
#endif

static asio::io_context loop; /* outlives the thread that posts to it */
static asio::steady_timer timer(loop);
static lock *job;
static int ticks, steps;
static bool held, leaving;

static void leave()
{
    leaving = true;
    std::cout << (steps == 0                ? "done"
                  : job->code == REDLOCK_OK ? "the deadline has passed"
                                            : redlock_code_text(job->code))
              << std::endl;
    job->leave();
}

static void on_news()
{
    if (job->state == lock::HELD && !held) {
        std::cout << "held" << std::endl;
        held = true;
    } else if (job->state == lock::LOST && !leaving) {
        leave();
    } else if (job->state == lock::ENDED) {
        std::cout << (job->code == REDLOCK_OK ? "released" : redlock_code_text(job->code))
                  << std::endl;
        loop.stop();
    }
}

static void tick()
{
    if (job->state == lock::WAITING && ++ticks % 100 == 0)
        std::cout << "waiting" << std::endl;
    if (held && !leaving && (!job->valid() || --steps == 0)) /* each tick does a step */
        leave();
    timer.expires_after(std::chrono::milliseconds(10));
    timer.async_wait([](const auto &failed) {
        if (!failed)
            tick();
    });
}

int main(int argc, char **argv)
try {
    if (argc < 3)
        throw std::invalid_argument("usage: asio STEPS NODE...");
    steps = std::atoi(argv[1]);
    lock_thread client(argv + 2, argc - 2);
    lock mine(client, "job", [] { asio::post(loop, on_news); });
    job = &mine;
    tick();
    loop.run();
    return steps == 0 && mine.code == REDLOCK_OK ? 0 : 1;
} catch (const std::exception &error) {
    std::cerr << error.what() << '\n';
    return 1;
}
