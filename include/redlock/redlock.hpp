/*
 * libredlock for C++17: redlock::mutex is locked as a std::mutex is, by std::unique_lock,
 * std::lock_guard and std::scoped_lock; header only, on redlock/sync.h, whose rules hold.
 *
 *  1. What cannot be done throws redlock::error; a lock that another has does not: it is
 *     waited for, or try_...() is false. unlock() and destructors never throw.
 *  2. A mutex may be used by many threads, as it is or by a mutex of its own for each: what
 *     counts is the key. It knows its hold: any thread may unlock it, as where a
 *     std::unique_lock was moved into another thread. fence(), valid(), lost() and extend()
 *     are about that hold. A hold belongs to the thread that locked (sync.h, rule 3): where
 *     that thread may end before the lock is unlocked, say `any_thread` in the options.
 *  3. Other than a std::mutex, it can be lost while it is held: ask lost() in loops, and
 *     valid() right before what must not be done twice. Who lost it still has to unlock.
 *  4. Who locks twice in one thread waits for itself, as with std::mutex.
 *  5. If it was lost, another thread may lock it before the first one unlocks. Then the
 *     mutex has two holds. A thread that locked one of them unlocks that one, and asks
 *     after it; any other thread means the one that was lost. So a thread that locked such
 *     a mutex must not take over a guard of it from another thread meanwhile.
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
        const hold_ptr mine = take();
        if (mine)
            redlock_unlock(mine.get(), 0);
    }

    /* --- of its hold --- */

    /* True as well if it is not locked. */
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

    /* The fencing token; 0: it is not fenced. */
    std::int64_t fence() const noexcept
    {
        const hold_ptr mine = find();
        return mine ? redlock_hold_fence(mine.get()) : 0;
    }

    /* To so long from now on; 0: to its own TTL. */
    void extend(std::chrono::milliseconds ttl = std::chrono::milliseconds(0))
    {
        const hold_ptr mine = find();
        redlock_code code =
            mine ? redlock_hold_extend(mine.get(), ttl.count()) : REDLOCK_NOT_HELD;
        if (code != REDLOCK_OK)
            throw error(code);
    }

    const std::string &key() const noexcept
    {
        return key_;
    }

  private:
    using hold_ptr = std::shared_ptr<redlock_hold>; /* one is asked while it is unlocked */

    struct owned {
        std::uint64_t thread; /* that locked */
        hold_ptr hold;
    };

    /* No other thread ever has the same number. */
    static std::uint64_t this_thread() noexcept
    {
        static std::atomic<std::uint64_t> threads{0};
        thread_local const std::uint64_t number = ++threads;
        return number;
    }

    /* An option that is out of its range is named. */
    [[noreturn]] void refuse(redlock_code code) const
    {
        redlock_error why{};
        if (redlock_lock_explain(sync_, key_.data(), key_.size(), &options_, &why) == code)
            throw error(why);
        throw error(code);
    }

    bool keep(redlock_code code, redlock_hold *made)
    {
        if (code == REDLOCK_TAKEN || code == REDLOCK_TIMEOUT)
            return false;
        if (code != REDLOCK_OK)
            refuse(code);
        hold_ptr mine(made, redlock_hold_free); /* unlocks if it cannot be remembered */
        std::lock_guard<std::mutex> guard(guard_);
        holds_.push_back({this_thread(), std::move(mine)});
        return true;
    }

    /*
     * What the calling thread locked, or, if that is none, any. Of several all but one were
     * lost: `lost` says which kind is looked for first.
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

    /* One that was lost goes first: what is held is never unlocked by mistake. */
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
    mutable std::mutex guard_; /* of the next, never held while a lock is waited for */
    std::vector<owned> holds_; /* that are not unlocked; more than one if one was lost */
};

} // namespace redlock

#endif
