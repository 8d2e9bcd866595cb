/* redlock.hpp on real servers: std_mutex URI URI URI. Speaks TAP. */
#include <redlock/admin.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <event2/event.h>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "cases.hpp"

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

/* No memory, for the calling thread. */
static thread_local bool no_memory;

void *operator new(std::size_t size)
{
    void *memory = no_memory ? nullptr : std::malloc(size);
    if (!memory)
        throw std::bad_alloc();
    return memory;
}

void operator delete(void *memory) noexcept
{
    std::free(memory);
}

void operator delete(void *memory, std::size_t) noexcept
{
    std::free(memory);
}

namespace
{

static_assert(std::is_move_constructible_v<redlock::client>);
static_assert(std::is_move_assignable_v<redlock::client>);
static_assert(!std::is_copy_constructible_v<redlock::client>);
static_assert(!std::is_copy_constructible_v<redlock::mutex>);
static_assert(std::is_base_of_v<std::runtime_error, redlock::error>);
static_assert(noexcept(std::declval<redlock::mutex &>().unlock()));

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
    });
    check(count == 8 * 50, "nothing was lost");
    check(mutex.lost() && mutex.valid() == 0ms, "it is not held");
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
    check(theirs.lost(), "a failed try is not held");
    const auto begin = steady::now();
    check(!theirs.try_lock_for(50ms), "try_lock_for");
    check(!theirs.try_lock_for(-5s), "try_lock_for in the past");
    check(!theirs.try_lock_for(0.01s), "try_lock_for a part of a second");
    check(!theirs.try_lock_until(begin + 100ms), "try_lock_until");
    check(!theirs.try_lock_until(steady::time_point::min()), "the first time that exists");
    check(steady::now() >= begin + 100ms, "it did wait");
    std::unique_lock trial(theirs, std::try_to_lock);
    check(!trial.owns_lock(), "unique_lock with try_to_lock");
    std::unique_lock timed(theirs, 10ms);
    check(!timed.owns_lock(), "unique_lock with a time");
    in_threads(1, [&](int) { check(!mine.try_lock(), "another thread has it"); });
    check(!mine.try_lock_for(20ms), "a thread waits for itself");
    check(!mine.lost(), "it is held as before");
}

/* The longest times do not fit into the unit of the clock. */
void it_waits_until_the_end_of_time()
{
    using seconds =
        std::chrono::time_point<std::chrono::system_clock, std::chrono::seconds>;
    using hours = std::chrono::time_point<steady, std::chrono::hours>;
    redlock::client nodes(uris, patient()), others(uris, patient());
    redlock::mutex mine(nodes, "end"), theirs(others, "end");
    for (bool is_steady : {false, true}) {
        mine.lock();
        in_threads(2, [&](int number) {
            if (number == 0) {
                std::this_thread::sleep_for(50ms);
                mine.unlock();
            } else {
                check(is_steady ? theirs.try_lock_until(hours::max())
                                : theirs.try_lock_until(seconds::max()),
                      "it waits");
                theirs.unlock();
            }
        });
    }
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

/* --- guards that go to another thread --- */

using guard = std::unique_lock<redlock::mutex>;

redlock_lock_options any_thread()
{
    redlock_lock_options options;
    redlock_lock_options_init(&options);
    options.any_thread = true;
    return options;
}

void is_free(const char *key)
{
    redlock::client others(uris, patient());
    redlock::mutex theirs(others, key);
    check(theirs.try_lock_for(10s), "the lock was not released");
    theirs.unlock();
}

/* The thread that locked lives on, or ends before the guard is unlocked. */
template <class Lock> void worker_to_another(const char *key, Lock lock)
{
    redlock::client nodes(uris, patient());
    redlock::mutex mutex(nodes, key, any_thread());
    guard mine = lock(mutex);
    check(mine.owns_lock(), "it is locked");
    in_threads(1, [&](int) {
        guard taken = std::move(mine);
        check(!mutex.lost() && mutex.valid() > 0ms, "the owner of the guard holds it");
        mutex.extend();
        taken.unlock();
        check(mutex.lost() && mutex.valid() == 0ms, "it is not held any more");
    });
    is_free(key);
    in_threads(1, [&](int) { mine = lock(mutex); });
    check(!mutex.lost() && mutex.valid() > 0ms, "it belongs to no thread");
    mine = guard();
    check(mutex.lost(), "it is not held any more");
    is_free(key);
}

void a_guard_is_moved()
{
    worker_to_another("moved", [](redlock::mutex &mutex) { return guard(mutex); });
    worker_to_another("tried",
                      [](redlock::mutex &mutex) { return guard(mutex, std::try_to_lock); });
    worker_to_another("timed", [](redlock::mutex &mutex) { return guard(mutex, 10s); });
    worker_to_another(
        "until", [](redlock::mutex &mutex) { return guard(mutex, steady::now() + 10s); });
}

/* By default a lock is not extended for a thread that has ended. */
void a_guard_outlives_its_thread()
{
    redlock::client nodes(uris, patient());
    redlock::mutex mutex(nodes, "outlives");
    guard mine;
    in_threads(1, [&](int) { mine = guard(mutex); });
    check(mutex.lost() && mutex.valid() > 0ms, "it ends by its TTL");
    expect_error(REDLOCK_NOT_HELD, [&] { mutex.extend(); });
    mine.unlock();
    check(mutex.lost() && mutex.valid() == 0ms, "it is forgotten");
}

void many_guards_are_moved()
{
    redlock::client nodes(uris, patient());
    redlock::mutex mutex(nodes, "many");
    int count = 0;
    in_threads(4, [&](int) {
        for (int i = 0; i < 20; i++) {
            guard mine(mutex);
            std::thread([&count, taken = std::move(mine)] { count++; }).join();
        }
    });
    check(count == 4 * 20, "nothing was lost");
    check(mutex.lost(), "it is not held");
}

void a_condition_is_waited_for()
{
    redlock::client nodes(uris, patient());
    redlock::mutex mutex(nodes, "condition");
    std::condition_variable_any changed;
    int turn = 0;
    in_threads(2, [&](int number) {
        for (int i = 0; i < 20; i++) {
            guard mine(mutex);
            changed.wait(mine, [&] { return turn % 2 == number; });
            check(!mutex.lost(), "it is held again");
            turn++;
            changed.notify_all();
        }
    });
    check(turn == 40, "nothing was lost");
    {
        guard mine(mutex);
        check(!changed.wait_for(mine, 10ms, [] { return false; }), "wait_for");
        check(mine.owns_lock() && !mutex.lost(), "it is held again");
    }
    is_free("condition");
}

/* --- a lock that is lost, and locked by another thread before it is unlocked --- */

void stop_loop(redlock_client *, const redlock_inspection *, void *base)
{
    event_base_loopbreak(static_cast<event_base *>(base));
}

/* An operator deletes the key. */
void break_lock(const std::string &key)
{
    std::vector<const char *> each;
    for (const std::string &uri : uris)
        each.push_back(uri.c_str());
    event_base *base = event_base_new();
    redlock_client *client = nullptr;
    check(redlock_client_new(base, each.data(), each.size(), patient(), &client) ==
              REDLOCK_OK,
          "an operator");
    check(redlock_break(client, key.data(), key.size(), stop_loop, base) == REDLOCK_OK,
          "break");
    event_base_dispatch(base);
    redlock_client_free(client);
    event_base_free(base);
}

void lose(redlock::mutex &mutex)
{
    while (!mutex.lost()) {
        break_lock(mutex.key());
        try {
            mutex.extend();
        } catch (const redlock::error &) { /* lost() knows more */
        }
    }
    break_lock(mutex.key()); /* also the key that the extension recreated */
}

/* One thread has lost the lock and has not unlocked; the other one has the lock. */
struct two_holds {
    redlock::client nodes{uris, patient()};
    redlock::mutex mutex;
    guard loser, winner;

    explicit two_holds(const char *key) : mutex(nodes, key, any_thread())
    {
        in_threads(1, [&](int) { loser = guard(mutex); });
        lose(mutex);
    }
};

void the_loser_unlocks_late()
{
    two_holds two("late");
    two.winner = guard(two.mutex);
    check(!two.mutex.lost(), "this thread has it");
    in_threads(1, [&](int) {
        check(two.mutex.lost(), "and no other");
        two.loser.unlock(); /* in a thread that never locked */
    });
    check(!two.mutex.lost() && two.mutex.valid() > 0ms, "it is still held");
    in_threads(1, [&](int) { check(!two.mutex.lost(), "the only one left"); });
    two.winner.unlock();
    check(two.mutex.lost(), "it is not held any more");
    is_free("late");
}

void the_loser_never_unlocks()
{
    two_holds two("never");
    two.winner = guard(two.mutex);
    two.winner.unlock();
    is_free("never");
    (void)two.loser.release();
}

/*
 * It is unlocked there, or in another thread: no other thread's lock is unlocked by
 * mistake.
 */
void one_thread_locked_both()
{
    redlock::client nodes(uris, patient());
    redlock::mutex mutex(nodes, "both", any_thread());
    for (bool elsewhere : {false, true}) {
        guard first(mutex);
        lose(mutex);
        guard second(mutex);
        check(!mutex.lost(), "the second");
        if (elsewhere)
            in_threads(1, [&](int) { first.unlock(); });
        else
            first.unlock();
        check(!mutex.lost(), "it is still held");
        second.unlock();
        check(mutex.lost(), "it is not held any more");
        is_free("both");
    }
}

/* While one thread has the mutex, others may query it until it is freed. */
void all_ask_meanwhile()
{
    redlock::client nodes(uris, patient());
    redlock::mutex mutex(nodes, "asked");
    std::atomic<int> locking{3};
    in_threads(6, [&](int number) {
        for (int i = 0; number < 3 && i < 30; i++) {
            guard mine(mutex);
            check(!mutex.lost() && mutex.valid() > 0ms && mutex.fence() == 0, "mine");
        }
        locking -= number < 3;
        while (number >= 3 && locking > 0)
            (void)(mutex.lost() || mutex.valid() > 0ms || mutex.fence() > 0);
    });
    check(mutex.lost(), "it is not held");
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
    try {
        none.lock();
    } catch (const redlock::error &error) {
        check(std::string(error.what()) == "key is empty" &&
                  error.reason() == REDLOCK_REASON_EMPTY &&
                  std::string(error.field()) == "key",
              error.what());
    }
    redlock::client nobody({"unix:///nowhere/1", "unix:///nowhere/2"});
    try {
        redlock::mutex(nobody, "mutex").try_lock();
        throw failed("no node");
    } catch (const redlock::error &error) { /* it names the nodes */
        check(error.code() == REDLOCK_NO_QUORUM &&
                  std::string(error.what()).find("unix:///nowhere/2") != std::string::npos,
              error.what());
    }
    mutex.lock();
    try {
        mutex.extend(-1ms);
        throw failed("a TTL below 0");
    } catch (const redlock::error &error) {
        check(std::string(error.what()).find("ttl_ms is -1") == 0, error.what());
    }
    mutex.unlock();
    expect_error(REDLOCK_NOT_HELD, [&] { mutex.extend(); });
    check(mutex.key() == "mutex", "the key");
    check(redlock_sync_nodes(nodes.get()) == uris.size(), "nodes");
}

/* A function that locks calls another one that does. */
void locked_again()
{
    redlock::client nodes(uris, patient()), others(uris, patient());
    redlock::recursive_mutex mutex(nodes, "again");
    redlock::mutex other(others, "again");
    std::unique_lock<redlock::recursive_mutex> outer(mutex);
    {
        std::lock_guard<redlock::recursive_mutex> inner(mutex);
        std::unique_lock<redlock::recursive_mutex> third(mutex, std::try_to_lock);
        check(third.owns_lock() && !mutex.lost() && mutex.valid() > 0ms, "three levels");
    }
    check(!other.try_lock() && !mutex.lost(), "one level");
    in_threads(1, [&](int) { check(!mutex.try_lock(), "another thread"); });
    mutex.extend(20s);
    outer.unlock();
    check(mutex.lost(), "none");
    other.lock();
    other.unlock();
}

void read_and_written()
{
    redlock::client nodes(uris, patient());
    redlock::shared_mutex mutex(nodes, "shared");
    std::atomic<int> readers{0}, most{0}, writes{0};
    in_threads(4, [&](int) {
        std::shared_lock lock(mutex);
        most = std::max(most.load(), ++readers);
        check(!mutex.reader().lost() && mutex.reader().valid() > 0ms, "it is read");
        while (most < 2)
            std::this_thread::yield();
        readers--;
    });
    check(most >= 2, "two read at one time");
    in_threads(4, [&](int) {
        for (int i = 0; i < 10; i++) {
            std::unique_lock lock(mutex);
            check(writes++ == 0, "one writer");
            writes--;
        }
    });
    std::shared_lock lock(mutex);
    expect_error(REDLOCK_WOULD_DEADLOCK, [&] { mutex.lock(); });
    in_threads(1, [&](int) {
        check(!mutex.try_lock(), "no writer beside a reader");
        std::shared_lock other(mutex, 10s);
        check(other.owns_lock(), "but another reader");
    });
    lock.unlock();
    check(mutex.try_lock(), "the reader has gone");
    mutex.unlock_and_lock_shared();
    in_threads(1, [&](int) {
        check(!mutex.try_lock(), "no writer beside what has become a reader");
        std::shared_lock other(mutex, 10s);
        check(other.owns_lock(), "but another reader");
    });
    mutex.unlock_shared();
    expect_error(REDLOCK_NOT_HELD, [&] { mutex.unlock_and_lock_shared(); });
    redlock::guard guard(nodes, {"shared"}, std::try_to_lock);
    check(guard.owns_lock(), "all have gone");
    guard.downgrade();
    expect_error(REDLOCK_BAD_OPTION, [&] { guard.downgrade(); });
}

/* The lock stays with the writer. */
void downgraded_without_memory()
{
    redlock::client nodes(uris, patient());
    redlock::shared_mutex mutex(nodes, "memory");
    mutex.lock();
    bool failed = false;
    no_memory = true;
    try {
        mutex.unlock_and_lock_shared();
    } catch (const std::bad_alloc &) {
        failed = true;
    }
    no_memory = false;
    check(failed, "it throws");
    check(!mutex.writer().lost() && mutex.reader().lost(), "it is a writer still");
    in_threads(1, [&](int) { check(!mutex.try_lock_shared(), "no reader beside it"); });
    mutex.unlock_and_lock_shared();
    check(mutex.writer().lost() && !mutex.reader().lost(), "it is a reader");
    mutex.unlock_shared();
    is_free("memory");
}

void slots()
{
    redlock::client nodes(uris, patient());
    redlock::counting_semaphore three(nodes, "slots", 3);
    std::atomic<int> inside{0};
    in_threads(8, [&](int) {
        three.acquire();
        check(++inside <= 3, "at most three");
        const unsigned slot = three.hold().slot();
        check(slot >= 1 && slot <= 3, "a slot of three");
        inside--;
        three.release();
    });
    check(three.try_acquire() && three.try_acquire() && three.try_acquire(), "all three");
    check(!three.try_acquire(), "and no more");
    for (int i = 0; i < 3; i++)
        three.release();
    redlock_code code = REDLOCK_OK;
    try {
        redlock::counting_semaphore none(nodes, "slots", 0);
        none.acquire();
    } catch (const redlock::error &why) {
        code = why.code();
    }
    check(code == REDLOCK_BAD_OPTION, "no semaphore without slots");
}

/* lost() and valid() of the outer owner must not tell of the inner one's lock. */
void lost_and_locked_again()
{
    redlock::client nodes(uris, patient());
    redlock_lock_options options;
    redlock_lock_options_init(&options);
    options.ttl_ms = 1500;
    options.watchdog = false;
    redlock::recursive_mutex mutex(nodes, "lost", options);
    mutex.lock();
    while (!mutex.lost())
        std::this_thread::sleep_for(10ms);
    expect_error(REDLOCK_EXPIRED, [&] { mutex.lock(); });
    check(mutex.lost() && mutex.valid() == 0ms, "it stays lost");
    mutex.unlock();
    mutex.lock();
    mutex.unlock();
}

void elections()
{
    redlock::client nodes(uris, patient()), others(uris, patient());
    std::mutex guard;
    std::condition_variable changed;
    std::int64_t seen = -1;
    redlock::observer observer(others, "leads", [&](const redlock::leader &now) {
        std::lock_guard lock(guard);
        seen = now.code == REDLOCK_OK ? now.term : -1;
        changed.notify_all();
    });
    const auto sees = [&](std::int64_t term) {
        std::unique_lock lock(guard);
        check(changed.wait_for(lock, 60s, [&] { return seen == term; }), "what it sees");
    };
    redlock::election candidate(nodes, "leads");
    sees(0);
    for (std::int64_t last = 0, i = 0; i < 2; i++) {
        candidate.campaign();
        check(candidate.term() > last && !candidate.lost(), "it leads");
        last = candidate.term();
        sees(last);
        candidate.resign();
        sees(0);
    }
}

const test_case cases[] = {
    {"a candidate leads, and an observer sees it", elections},
    {"one mutex for all threads", one_mutex_for_all},
    {"a mutex for each thread", a_mutex_for_each},
    {"two at once, in any order", both_in_any_order},
    {"another has it", another_has_it},
    {"it waits until the end of time", it_waits_until_the_end_of_time},
    {"it is released", it_is_given_back},
    {"a guard is moved to another thread", a_guard_is_moved},
    {"a guard outlives the thread that locked", a_guard_outlives_its_thread},
    {"many guards are moved", many_guards_are_moved},
    {"a condition is waited for", a_condition_is_waited_for},
    {"the loser unlocks late", the_loser_unlocks_late},
    {"the loser never unlocks", the_loser_never_unlocks},
    {"one thread locked both", one_thread_locked_both},
    {"all query it meanwhile", all_ask_meanwhile},
    {"it is lost", it_is_lost},
    {"it is locked again", locked_again},
    {"it is lost and locked again", lost_and_locked_again},
    {"it is read and written", read_and_written},
    {"it is downgraded without memory", downgraded_without_memory},
    {"three have a slot each", slots},
    {"an invalid call throws", what_cannot_be_done},
};

} // namespace

int main(int argc, char **argv)
{
    return run(cases, std::size(cases), argc, argv);
}
