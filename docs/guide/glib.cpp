/* A service on GLib works under a lock: glib STEPS redis://a redis://b redis://c */
#include "lock_thread.hpp"
#include <cstdio>
#include <cstdlib>
#include <glib.h>

static lock *job;
static int ticks, steps;
static bool held, leaving;
static GMainLoop *loop;

static void leave()
{
    leaving = true;
    std::puts(steps == 0                ? "done"
              : job->code == REDLOCK_OK ? "the deadline has passed"
                                        : redlock_code_text(job->code));
    job->leave();
}

static gboolean on_news(gpointer)
{
    if (job->state == lock::HELD && !held) {
        std::puts("held");
        held = true;
    } else if (job->state == lock::LOST && !leaving) {
        leave();
    } else if (job->state == lock::ENDED) {
        std::puts(job->code == REDLOCK_OK ? "released" : redlock_code_text(job->code));
        g_main_loop_quit(loop);
    }
    return G_SOURCE_REMOVE;
}

static gboolean on_tick(gpointer)
{
    if (job->state == lock::WAITING && ++ticks % 100 == 0)
        std::puts("waiting");
    if (held && !leaving && (!job->valid() || --steps == 0)) /* each tick does a step */
        leave();
    return G_SOURCE_CONTINUE;
}

/* Not g_main_context_invoke(): while no thread runs the loop, that calls it right here. */
static void tell()
{
    g_idle_add_full(G_PRIORITY_DEFAULT, on_news, nullptr, nullptr);
}

int main(int argc, char **argv)
try {
    if (argc < 3)
        throw std::invalid_argument("usage: glib STEPS NODE...");
    setlinebuf(stdout);
    steps = std::atoi(argv[1]);
    loop = g_main_loop_new(nullptr, FALSE);
    lock_thread client(argv + 2, argc - 2);
    lock mine(client, "job", tell);
    job = &mine;
    g_timeout_add(10, on_tick, nullptr);
    g_main_loop_run(loop);
    g_main_loop_unref(loop);
    return steps == 0 && mine.code == REDLOCK_OK ? 0 : 1;
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
