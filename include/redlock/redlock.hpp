/*
 * libredlock for C++17: redlock::mutex is locked as a std::mutex is, by std::unique_lock,
 * std::lock_guard and std::scoped_lock; header only, on redlock/sync.h, whose rules hold.
 *
 *  1. What cannot be done throws redlock::error; a lock that another has does not: it is
 *     waited for, or try_...() is false. unlock() and destructors never throw.
 *  2. A mutex may be used by many threads, as it is or by a mutex of its own for each: what
 *     counts is the key. Each thread has its own hold, and asks after that: fence(),
 * valid(), lost() and extend() are about what the calling thread holds by this mutex.
 *  3. Other than a std::mutex, it can be lost while it is held: ask lost() in loops, and
 *     valid() right before what must not be done twice.
 *  4. Who locks twice in one thread waits for itself, as with std::mutex.
 */
#ifndef REDLOCK_HPP
#define REDLOCK_HPP

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
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

    explicit error(const redlock_error &why)
        : std::runtime_error(why.text[0] ? why.text : redlock_code_text(why.code)),
          code_(why.code)
    {
    }

    redlock_code code() const noexcept
    {
        return code_;
    }

  private:
    redlock_code code_;
};

/* A client of these nodes, and its thread. It outlives its mutexes. */
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
        redlock_error why{};
        redlock_code code =
            redlock_sync_new(each.data(), each.size(), options, &made, &why);
        if (code != REDLOCK_OK) {
            why.code = code;
            throw error(why);
        }
        sync_.reset(made);
    }

    /* For what there is in C only. */
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

/* One key, or the lock on it. Lockable and TimedLockable. */
class mutex
{
  public:
    mutex(const client &nodes, std::string key) : sync_(nodes.get()), key_(std::move(key))
    {
        redlock_lock_options_init(&options_);
    }

    /* The options are copied; a stop of theirs must outlive the mutex. */
    mutex(const client &nodes, std::string key, const redlock_lock_options &options)
        : sync_(nodes.get()), key_(std::move(key)), options_(options)
    {
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

    /* One attempt: false if another has it. */
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
        /* Compared as doubles: hours::max() is no number of milliseconds. */
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

    /* Whatever was left of it. That it was lost before is not told: ask lost(). */
    void unlock() noexcept
    {
        hold_ptr mine = take();
        if (mine)
            redlock_unlock(mine.get(), 0);
    }

    /* --- of what the calling thread holds --- */

    /* True as well if it holds nothing. */
    bool lost() const noexcept
    {
        const redlock_hold *mine = find();
        return !mine || redlock_hold_lost(mine);
    }

    std::chrono::milliseconds valid() const noexcept
    {
        const redlock_hold *mine = find();
        return std::chrono::milliseconds(mine ? redlock_hold_valid_ms(mine) : 0);
    }

    /* The fencing token; 0: it is not fenced. */
    std::int64_t fence() const noexcept
    {
        const redlock_hold *mine = find();
        return mine ? redlock_hold_fence(mine) : 0;
    }

    /* To so long from now on; 0: to its own TTL. */
    void extend(std::chrono::milliseconds ttl = std::chrono::milliseconds(0))
    {
        redlock_hold *mine = find();
        redlock_code code =
            mine ? redlock_hold_extend(mine, ttl.count()) : REDLOCK_NOT_HELD;
        if (code != REDLOCK_OK)
            throw error(code);
    }

    const std::string &key() const noexcept
    {
        return key_;
    }

  private:
    struct free {
        void operator()(redlock_hold *hold) const noexcept
        {
            redlock_hold_free(hold);
        }
    };
    using hold_ptr = std::unique_ptr<redlock_hold, free>;

    bool keep(redlock_code code, redlock_hold *made)
    {
        if (code == REDLOCK_TAKEN || code == REDLOCK_TIMEOUT)
            return false;
        if (code != REDLOCK_OK)
            throw error(code);
        hold_ptr mine(made); /* unlocks if there is no memory to remember it */
        std::lock_guard<std::mutex> guard(guard_);
        holds_[std::this_thread::get_id()] = std::move(mine);
        return true;
    }

    hold_ptr take() noexcept
    {
        std::lock_guard<std::mutex> guard(guard_);
        const auto at = holds_.find(std::this_thread::get_id());
        if (at == holds_.end())
            return nullptr;
        hold_ptr mine = std::move(at->second);
        holds_.erase(at);
        return mine;
    }

    /* Only this thread frees what is found. */
    redlock_hold *find() const noexcept
    {
        std::lock_guard<std::mutex> guard(guard_);
        const auto at = holds_.find(std::this_thread::get_id());
        return at == holds_.end() ? nullptr : at->second.get();
    }

    redlock_sync *sync_;
    std::string key_;
    redlock_lock_options options_;
    mutable std::mutex guard_; /* of the next, never held while a lock is waited for */
    std::map<std::thread::id, hold_ptr> holds_; /* more than one if one was lost */
};

} // namespace redlock

#endif
