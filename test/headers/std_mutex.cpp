/* redlock.hpp on real servers: std_mutex URI URI URI. Speaks TAP. */
#include <redlock/redlock.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

namespace
{

static_assert(std::is_move_constructible_v<redlock::client>);
static_assert(std::is_move_assignable_v<redlock::client>);
static_assert(!std::is_copy_constructible_v<redlock::client>);
static_assert(!std::is_copy_constructible_v<redlock::mutex>);
static_assert(std::is_base_of_v<std::runtime_error, redlock::error>);
static_assert(noexcept(std::declval<redlock::mutex &>().unlock()));

std::vector<std::string> uris;

/* Of a client whose nodes may be slow. */
const redlock_options *patient()
{
    static const redlock_options options = [] {
        redlock_options made;
        redlock_options_init(&made);
        made.node_timeout_ms = 5000;
        return made;
    }();
    return &options;
}

class failed : public std::runtime_error
{
  public:
    using std::runtime_error::runtime_error;
};

void check(bool holds, const char *what)
{
    if (!holds)
        throw failed(what);
}

template <class Does> void expect_error(redlock_code code, Does does)
{
    try {
        does();
    } catch (const redlock::error &error) {
        check(error.code() == code, redlock_code_name(error.code()));
        check(error.what()[0] != '\0', "an error says what it is");
        return;
    }
    throw failed(redlock_code_name(code));
}

template <class Does> void in_threads(int count, Does does)
{
    std::vector<std::thread> threads;
    std::atomic<bool> right{true};
    for (int i = 0; i < count; i++)
        threads.emplace_back([&, i] {
            try {
                does(i);
            } catch (const std::exception &error) {
                std::cerr << error.what() << '\n';
                right = false;
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    check(right, "something was thrown in a thread");
}

void one_mutex_for_all()
{
    redlock::client nodes(uris, patient());
    redlock::mutex mutex(nodes, "one");
    int count = 0;
    in_threads(8, [&](int) {
        for (int i = 0; i < 50; i++) {
            std::lock_guard lock(mutex);
            count++;
            check(!mutex.lost() && mutex.valid() > 0ms, "it is held");
        }
        check(mutex.lost() && mutex.valid() == 0ms, "it is not held");
    });
    check(count == 8 * 50, "nothing was lost");
}

void a_mutex_for_each()
{
    redlock::client nodes(uris, patient());
    int count = 0;
    in_threads(8, [&](int) {
        redlock::mutex mutex(nodes, "each");
        for (int i = 0; i < 50; i++) {
            std::unique_lock lock(mutex);
            count++;
        }
    });
    check(count == 8 * 50, "nothing was lost");
}

void both_in_any_order()
{
    redlock::client nodes(uris, patient());
    redlock::mutex a(nodes, "a"), b(nodes, "b");
    int count = 0;
    in_threads(4, [&](int number) {
        for (int i = 0; i < 20; i++) {
            if (number % 2) {
                std::scoped_lock lock(a, b);
                count++;
            } else {
                std::scoped_lock lock(b, a);
                count++;
            }
        }
    });
    check(count == 4 * 20, "nothing was lost");
}

void another_has_it()
{
    redlock::client nodes(uris, patient()), others(uris, patient());
    redlock::mutex mine(nodes, "taken"), theirs(others, "taken");
    std::lock_guard lock(mine);
    check(!theirs.try_lock(), "try_lock");
    check(theirs.lost(), "what was not got is not held");
    const auto begin = steady::now();
    check(!theirs.try_lock_for(50ms), "try_lock_for");
    check(!theirs.try_lock_for(-5s), "try_lock_for in the past");
    check(!theirs.try_lock_for(0.01s), "try_lock_for a part of a second");
    check(!theirs.try_lock_until(begin + 100ms), "try_lock_until");
    check(steady::now() >= begin + 100ms, "it was waited");
    std::unique_lock trial(theirs, std::try_to_lock);
    check(!trial.owns_lock(), "unique_lock with try_to_lock");
    std::unique_lock timed(theirs, 10ms);
    check(!timed.owns_lock(), "unique_lock with a time");
    in_threads(1, [&](int) {
        check(!mine.try_lock(), "another thread has it");
        check(mine.lost(), "it is of no other thread");
        mine.unlock();
    });
    check(!mine.lost(), "who has it not cannot unlock it");
}

void it_is_given_back()
{
    redlock::client nodes(uris, patient()), others(uris, patient());
    redlock::mutex mine(nodes, "back"), theirs(others, "back");
    mine.lock();
    mine.unlock();
    mine.unlock();
    check(theirs.try_lock_for(std::chrono::hours::max()), "after unlock");
    theirs.unlock();
    {
        redlock::mutex passing(nodes, "back");
        passing.lock();
    }
    check(theirs.try_lock_until(std::chrono::system_clock::now() + 20s),
          "after the end of a mutex that was locked");
    theirs.unlock();
}

void it_is_lost()
{
    redlock::client nodes(uris, patient());
    redlock_lock_options options;
    redlock_lock_options_init(&options);
    options.ttl_ms = 1500;
    options.watchdog = false;
    redlock::mutex mutex(nodes, "lost", options);
    std::unique_lock lock(mutex);
    check(mutex.valid() > 0ms && mutex.valid() <= 1500ms, "valid");
    mutex.extend(2000ms);
    mutex.extend();
    check(mutex.fence() == 0, "it is not fenced");
    while (!mutex.lost())
        std::this_thread::sleep_for(10ms);
    check(mutex.valid() == 0ms, "not valid");
    expect_error(REDLOCK_EXPIRED, [&] {
        try {
            mutex.extend();
        } catch (const redlock::error &error) { /* it may be forgotten by now */
            throw redlock::error(error.code() == REDLOCK_NOT_HELD ? REDLOCK_EXPIRED
                                                                  : error.code());
        }
    });
    lock.unlock();
    lock.lock();
}

void what_cannot_be_done()
{
    expect_error(REDLOCK_BAD_URI, [] { redlock::client({"no such thing"}); });
    expect_error(REDLOCK_BAD_NODES, [] { redlock::client(std::vector<std::string>()); });
    redlock::client first(uris, patient());
    redlock::client nodes(std::move(first));
    redlock::mutex none(nodes, ""), mutex(nodes, "mutex");
    expect_error(REDLOCK_BAD_KEY, [&] { none.lock(); });
    expect_error(REDLOCK_BAD_KEY, [&] { none.try_lock(); });
    expect_error(REDLOCK_NOT_HELD, [&] { mutex.extend(); });
    check(mutex.key() == "mutex", "the key");
    check(redlock_sync_nodes(nodes.get()) == uris.size(), "nodes");
}

const struct {
    const char *text;
    void (*does)();
} cases[] = {
    {"one mutex for all threads", one_mutex_for_all},
    {"a mutex for each thread", a_mutex_for_each},
    {"two at once, in any order", both_in_any_order},
    {"another has it", another_has_it},
    {"it is given back", it_is_given_back},
    {"it is lost", it_is_lost},
    {"what cannot be done throws", what_cannot_be_done},
};

} // namespace

int main(int argc, char **argv)
{
    int number = 0, failures = 0;
    uris.assign(argv + 1, argv + argc);
    std::cout << "1.." << std::size(cases) << std::endl;
    for (const auto &one : cases) {
        bool right = true;
        try {
            one.does();
        } catch (const std::exception &error) {
            std::cerr << "# failed: " << one.text << ": " << error.what() << std::endl;
            right = false;
        }
        failures += !right;
        std::cout << (right ? "ok " : "not ok ") << ++number << " - " << one.text
                  << std::endl;
    }
    return failures > 0;
}
