/* A lock on several masters with the C++17 types: raii redis://a redis://b redis://c */
#include <chrono>
#include <iostream>
#include <mutex>
#include <redlock/redlock.hpp>

using namespace std::chrono_literals;

int main(int argc, char **argv)
try {
    redlock::client nodes({argv + 1, argv + argc});
    redlock::mutex accounts(nodes, "accounts"), archive(nodes, "archive");
    {
        std::lock_guard lock(accounts); // waits without a limit
        std::cout << "This runs while no other client holds the lock.\n";
    }
    if (std::unique_lock lock(archive, 2s); lock) {
        for (int record = 0; record < 3 && !archive.lost(); record++)
            std::cout << "record " << record << '\n';
        if (archive.valid() > 5s)
            std::cout << "and there is time left\n";
    }
    std::scoped_lock both(accounts, archive); // in any order that other threads use
    std::cout << "both\n";
    return 0;
} catch (const redlock::error &error) {
    std::cerr << redlock_code_name(error.code()) << ": " << error.what() << '\n';
    return 1;
}
