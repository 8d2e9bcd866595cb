/* The same as alike.c. */
#include <chrono>
#include <iostream>
#include <redlock/redlock.hpp>

int main()
try {
    const redlock::settings settings = redlock::settings::read();
    const redlock::client nodes(settings);
    redlock_lock_options options = redlock::default_options();
    options.ttl_ms = settings->ttl_ms;
    redlock::mutex mutex(nodes, "k", options);
    if (settings->wait_ms == REDLOCK_FOREVER)
        mutex.lock();
    else if (!mutex.try_lock_for(std::chrono::milliseconds(settings->wait_ms)))
        return 75;
    std::cout << "held" << std::endl;
    std::cin.get();
    mutex.unlock();
    return 0;
} catch (const redlock::error &error) {
    std::cerr << error.what() << '\n';
    return error.code() >= REDLOCK_BAD_NODES ? 78 : 69;
}
