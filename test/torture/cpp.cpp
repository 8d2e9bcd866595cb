/* One cycle of a guard: torture-cpp KIND KEY URI... */
#include <cstring>
#include <iostream>
#include <new>
#include <redlock/redlock.hpp>
#include <unistd.h>

extern "C" {
#include "cycle.h"
}

/* The step's result. It is made again if it throws. */
template <class Step> static auto again(const char *name, Step step)
{
    for (unsigned i = 1;; i++)
        try {
            return step();
        } catch (const redlock::error &why) {
            std::cout << "failed " << name << ' ' << redlock_code_name(why.code()) << ' '
                      << redlock_reason_name(why.reason()) << ' ' << why.what()
                      << std::endl;
            if (i == TIMES)
                throw;
        } catch (const std::bad_alloc &why) {
            std::cout << "failed " << name << " - - " << why.what() << std::endl;
            if (i == TIMES)
                throw;
        }
}

static void await_ready(const redlock::client &nodes)
{
    redlock_node found[NODES_MAX];
    while (!cycle_are_ready(found, redlock_sync_explain(nodes.get(), found, NODES_MAX)))
        usleep(1000);
}

static void run(const char *key, char **begin, char **end)
{
    const redlock_options options = cycle_options();
    redlock_lock_options how = redlock::default_options();
    how.ttl_ms = TTL_MS;
    const redlock::client nodes = again("new", [&] {
        return redlock::client({begin, end}, &options);
    });
    redlock::guard mine = again("lock", [&] {
        await_ready(nodes);
        return redlock::guard(nodes, {key}, std::try_to_lock, how);
    });
    const std::string token =
        again("token", [&] { return std::string(redlock_hold_token(mine.get())); });
    cycle_tell("held", token.c_str());
    again("extend", [&] { mine.extend(std::chrono::milliseconds(LONGER_MS)); });
    cycle_tell("extended", token.c_str());
    try {
        mine.unlock();
    } catch (const redlock::error &why) {
        std::cout << "failed unlock " << redlock_code_name(why.code()) << ' '
                  << redlock_reason_name(why.reason()) << ' ' << why.what() << std::endl;
    }
    cycle_tell("released", token.c_str());
    await_ready(nodes);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 1;
    const unsigned before = cycle_descriptors();
    run(argv[2], argv + 3, argv + argc);
    cycle_end(before);
}
