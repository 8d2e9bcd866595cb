/*
 * A contender of the races (crossing.h): a service of docs/guide/loops.md. Its loop is that
 * of libuv, GLib or Asio (ON_UV, ON_GLIB, ON_ASIO), or it is a coroutine on Asio
 * (ON_AWAIT). Each cycle goes to the lock's thread and back twice.
 */
#include "../docs/guide/lock_thread.hpp"
#include "crossing.h"
#include <memory>

#if !defined(ON_AWAIT)
static void on_news();
#endif

#if defined(ON_UV)
#include <uv.h>

static uv_async_t news;

static void tell()
{
    uv_async_send(&news);
}

static void run_loop()
{
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
}

static void stop_loop()
{
    uv_stop(uv_default_loop());
}

static void make_loop()
{
    uv_async_init(uv_default_loop(), &news, [](uv_async_t *) { on_news(); });
}
#elif defined(ON_GLIB)
#include <glib.h>

static GMainLoop *loop;

static gboolean hear(gpointer)
{
    on_news();
    return G_SOURCE_REMOVE;
}

static void tell()
{
    g_idle_add_full(G_PRIORITY_DEFAULT, hear, nullptr, nullptr);
}

static void run_loop()
{
    g_main_loop_run(loop);
}

static void stop_loop()
{
    g_main_loop_quit(loop);
}

static void make_loop()
{
    loop = g_main_loop_new(nullptr, FALSE);
}
#else
#if __has_include(<boost/asio.hpp>)
#include <boost/asio.hpp>
namespace asio = boost::asio;
using boost::system::error_code;
#else
#include <asio.hpp>
using asio::error_code;
#endif

static asio::io_context loop;

static void run_loop()
{
    const auto work = asio::make_work_guard(loop);
    loop.restart();
    loop.run();
}

static void stop_loop()
{
    loop.stop();
}

static void make_loop()
{
}

#if defined(ON_ASIO)
static void tell()
{
    asio::post(loop, on_news);
}
#endif
#endif

static std::unique_ptr<lock_thread> client;

#if defined(ON_AWAIT)
static asio::steady_timer news(loop, asio::steady_timer::time_point::max());

static void tell()
{
    asio::post(loop, [] { news.cancel(); });
}

static asio::awaitable<redlock_code> until(const lock &job, int state)
{
    error_code ignored;
    while (job.state < state)
        co_await news.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    co_return job.code;
}

static asio::awaitable<void> cycle()
{
    for (bool goes_on = true; goes_on;) {
        lock job(*client, crossing_key(), tell);
        const bool failed = co_await until(job, lock::HELD) != REDLOCK_OK;
        job.leave();
        goes_on =
            crossing_goes_on(co_await until(job, lock::ENDED) != REDLOCK_OK || failed);
    }
    stop_loop();
}

static void begin()
{
    asio::co_spawn(loop, cycle(), asio::detached);
}
#else
static std::unique_ptr<lock> job;
static bool leaving, failed;

static void begin()
{
    leaving = failed = false;
    job = std::make_unique<lock>(*client, crossing_key(), tell);
}

static void on_news()
{
    if (!job || job->state == lock::WAITING)
        return; /* of the cycle before */
    if (job->state != lock::ENDED) {
        if (!leaving) {
            failed = job->state == lock::LOST;
            leaving = true;
            job->leave();
        }
        return;
    }
    failed = failed || job->code != REDLOCK_OK;
    job.reset();
    if (crossing_goes_on(failed))
        begin();
    else
        stop_loop();
}
#endif

int main()
{
    unsigned count;
    const char *const *nodes = crossing_nodes(&count);
    make_loop();
    client = std::make_unique<lock_thread>(nodes, count);
    while (crossing_begins()) {
        begin();
        run_loop();
    }
    client.reset();
}
