/*
 * libredlock for C++17: redlock::mutex works with std::unique_lock, std::lock_guard and
 * std::scoped_lock, as a std::mutex does. Header only; the rules of redlock/sync.h apply.
 *
 *  1. A call that fails throws redlock::error, whose what() is the text of
 *     redlock_last_error(), or of the code. A lock that another owner has is no failure:
 *     lock() waits for it, and try_...() returns false. unlock() and destructors never
 *     throw.
 *  2. Many threads may share one mutex, or each may have its own: only the key matters. A
 *     mutex remembers its hold, and any thread may unlock it, for example after a
 *     std::unique_lock was moved into another thread. fence(), valid(), lost() and extend()
 *     act on that hold. A hold belongs to the thread that locked (sync.h, rule 3): if that
 *     thread may end before the lock is unlocked, set `any_thread` in the options.
 *  3. Unlike a std::mutex, it can be lost while it is held. Check lost() in loops, and
 *     valid() right before work that must not be done twice. A thread that lost it still
 *     has to unlock it.
 *  4. A thread that locks a key twice waits for itself, as with std::mutex.
 *  5. If the lock was lost, another thread may lock the mutex before the first thread
 *     unlocks it. Then the mutex has two holds. A thread that locked one of the two
 *     unlocks and queries that one; every other thread unlocks and queries the lost one. So
 *     while a mutex has two holds, a thread that locked it must not take over a guard of it
 *     from another thread.
 */
#ifndef REDLOCK_HPP
#define REDLOCK_HPP

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sync.h"

namespace redlock
{

class error : public std::runtime_error
{
  public:
    explicit error(redlock_code code)
        : std::runtime_error(redlock_code_text(code)), code_(code)
    {
    }

    explicit error(const redlock_error &why) : std::runtime_error(why.text), code_(why.code)
    {
    }

    redlock_code code() const noexcept
    {
        return code_;
    }

  private:
    redlock_code code_;
};

/* A client of these nodes, with its thread. It must outlive its mutexes. */
class client
{
  public:
    explicit client(const std::vector<std::string> &uris,
                    const redlock_options *options = nullptr)
    {
        std::vector<const char *> each;
        for (const std::string &uri : uris)
            each.push_back(uri.c_str());
        redlock_sync *made = nullptr;
        if (redlock_sync_new(each.data(), each.size(), options, &made, nullptr) !=
            REDLOCK_OK)
            throw error(*redlock_last_error());
        sync_.reset(made);
    }

    /* For functions that exist in C only. */
    redlock_sync *get() const noexcept
    {
        return sync_.get();
    }

  private:
    struct free {
        void operator()(redlock_sync *sync) const noexcept
        {
            redlock_sync_free(sync);
        }
    };
    std::unique_ptr<redlock_sync, free> sync_;
};

/* The lock on one key. Lockable and TimedLockable. */
class mutex
{
  public:
    mutex(const client &nodes, std::string key) : sync_(nodes.get()), key_(std::move(key))
    {
        redlock_lock_options_init(&options_);
    }

    /*
     * The options are copied. If they name a stop, it must outlive the mutex. Their
     * `failure` is not used: a mutex is shared by threads, and an exception has the code.
     */
    mutex(const client &nodes, std::string key, const redlock_lock_options &options)
        : sync_(nodes.get()), key_(std::move(key)), options_(options)
    {
        options_.failure = nullptr;
    }

    mutex(const mutex &) = delete;
    mutex &operator=(const mutex &) = delete;

    void lock()
    {
        redlock_hold *made = nullptr;
        const redlock_code code =
            redlock_lock(sync_, key_.data(), key_.size(), &options_, &made);
        keep(code, made);
    }

    /* One attempt; false: another owner has the lock. */
    bool try_lock()
    {
        redlock_hold *made = nullptr;
        const redlock_code code =
            redlock_try_lock(sync_, key_.data(), key_.size(), &options_, &made);
        return keep(code, made);
    }

    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &wait)
    {
        using std::chrono::milliseconds;
        /* Compared as doubles: hours::max() does not fit into milliseconds. */
        const std::chrono::duration<double> asked = wait;
        constexpr milliseconds shortest(0), longest(std::chrono::hours(24 * 365));
        const milliseconds ms = asked <= shortest  ? shortest
                                : asked >= longest ? longest
                                                   : std::chrono::ceil<milliseconds>(wait);
        redlock_hold *made = nullptr;
        const redlock_code code =
            redlock_lock_for(sync_, key_.data(), key_.size(), ms.count(), &options_, &made);
        return keep(code, made);
    }

    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &end)
    {
        return try_lock_for(end - Clock::now());
    }

    /* Takes over the lock that has this token; see redlock_lock_adopt(). */
    void adopt(const std::string &token,
               std::chrono::milliseconds valid = std::chrono::milliseconds(0))
    {
        redlock_hold *made = nullptr;
        const redlock_code code =
            redlock_lock_adopt(sync_, key_.data(), key_.size(), token.c_str(),
                               valid.count(), &options_, &made);
        if (!keep(code, made))
            throw error(*redlock_last_error());
    }

    /* Unlocks, also if the lock was lost. It does not report the loss: check lost(). */
    void unlock() noexcept
    {
        const hold_ptr mine = take();
        if (mine)
            redlock_unlock(mine.get(), 0);
    }

    /* --- its hold --- */

    /* Also true if the mutex is not locked. */
    bool lost() const noexcept
    {
        const hold_ptr mine = find();
        return !mine || redlock_hold_lost(mine.get());
    }

    std::chrono::milliseconds valid() const noexcept
    {
        const hold_ptr mine = find();
        return std::chrono::milliseconds(mine ? redlock_hold_valid_ms(mine.get()) : 0);
    }

    /* The fencing token; 0: the lock is not fenced. */
    std::int64_t fence() const noexcept
    {
        const hold_ptr mine = find();
        return mine ? redlock_hold_fence(mine.get()) : 0;
    }

    /* Extends to `ttl` from now; 0: to the lock's own TTL. */
    void extend(std::chrono::milliseconds ttl = std::chrono::milliseconds(0))
    {
        const hold_ptr mine = find();
        if (!mine)
            throw error(REDLOCK_NOT_HELD);
        if (redlock_hold_extend(mine.get(), ttl.count()) != REDLOCK_OK)
            throw error(*redlock_last_error());
    }

    const std::string &key() const noexcept
    {
        return key_;
    }

  private:
    /* Shared: a thread may query a hold while another thread unlocks it. */
    using hold_ptr = std::shared_ptr<redlock_hold>;

    struct owned {
        std::uint64_t thread; /* the one that locked */
        hold_ptr hold;
    };

    /* A number that no other thread ever has. */
    static std::uint64_t this_thread() noexcept
    {
        static std::atomic<std::uint64_t> threads{0};
        thread_local const std::uint64_t number = ++threads;
        return number;
    }

    bool keep(redlock_code code, redlock_hold *made)
    {
        if (code == REDLOCK_TAKEN || code == REDLOCK_TIMEOUT)
            return false;
        if (code != REDLOCK_OK)
            throw error(*redlock_last_error());
        hold_ptr mine(made, redlock_hold_free); /* unlocks if push_back() throws */
        std::lock_guard<std::mutex> guard(guard_);
        holds_.push_back({this_thread(), std::move(mine)});
        return true;
    }

    /*
     * The index of a hold, or holds_.size() if there is none. `own`: considers only holds
     * that the calling thread locked. Of several holds, at most one is not lost. `lost`:
     * prefers a lost one; otherwise the one that is not lost.
     */
    std::size_t choose(bool own, bool lost) const noexcept
    {
        std::size_t chosen = holds_.size();
        for (std::size_t i = 0; i < holds_.size(); i++) {
            if (own && holds_[i].thread != this_thread())
                continue;
            if (chosen == holds_.size() || redlock_hold_lost(holds_[i].hold.get()) == lost)
                chosen = i;
        }
        return chosen;
    }

    /* A lost hold goes first, so that a held lock is never unlocked by mistake. */
    hold_ptr take() noexcept
    {
        std::lock_guard<std::mutex> guard(guard_);
        std::size_t at = choose(true, true);
        if (at == holds_.size())
            at = choose(false, true);
        if (at == holds_.size())
            return nullptr;
        hold_ptr mine = std::move(holds_[at].hold);
        holds_.erase(holds_.begin() + static_cast<std::ptrdiff_t>(at));
        return mine;
    }

    hold_ptr find() const noexcept
    {
        std::lock_guard<std::mutex> guard(guard_);
        std::size_t at = choose(true, false);
        if (at == holds_.size())
            at = choose(false, true);
        return at == holds_.size() ? nullptr : holds_[at].hold;
    }

    redlock_sync *sync_;
    std::string key_;
    redlock_lock_options options_;
    mutable std::mutex guard_; /* guards holds_; not held during a wait for a lock */
    std::vector<owned> holds_; /* not unlocked yet; more than one if one was lost */
};

} // namespace redlock

#endif
