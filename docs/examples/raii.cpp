/* The lock of a deployment in the words of C++17: raii redis://a redis://b redis://c */
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
        std::lock_guard lock(accounts); // waits for as long as it takes
        std::cout << "What nobody else may do meanwhile is done here.\n";
    }
    if (std::unique_lock lock(archive, 2s); lock) {
        for (int record = 0; record < 3 && !archive.lost(); record++)
            std::cout << "record " << record << '\n';
        if (archive.valid() > 5s)
            std::cout << "and there is time left\n";
    }
    std::scoped_lock both(accounts, archive); // in whatever order others take them
    std::cout << "both\n";
    return 0;
} catch (const redlock::error &error) {
    std::cerr << redlock_code_name(error.code()) << ": " << error.what() << '\n';
    return 1;
}
