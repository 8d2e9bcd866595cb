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
 *  4. A thread that locks a key twice waits for itself, as with std::mutex. With a
 *     redlock::recursive_mutex it gets the lock again, and has to unlock it as often. If
 *     the lock was lost in between, locking it again throws: otherwise lost() and valid()
 *     would tell the outer owner of another lock than its own.
 *  5. If the lock was lost, another thread may lock the mutex before the first thread
 *     unlocks it. Then the mutex has two holds. A thread that locked one of the two
 *     unlocks and queries that one; every other thread unlocks and queries the lost one. So
 *     while a mutex has two holds, a thread that locked it must not take over a guard of it
 *     from another thread.
 *  6. redlock::guard locks by itself, without a mutex: one key or several, all or nothing.
 *     Ask it, not a mutex, whether it is lost. redlock::scoped_lock does so with the keys
 *     of mutexes, in one round; std::scoped_lock locks them one after the other.
 */
#ifndef REDLOCK_HPP
#define REDLOCK_HPP

#if __cplusplus < 201703L
#error "redlock.hpp needs C++17"
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>
#if defined(__has_include) && __cplusplus >= 202002L
#if __has_include(<stop_token>)
#include <stop_token>
#endif
#endif

#include "settings.h"
#include "stats.h"
#include "sync.h"

namespace redlock
{

/* Two parts of a program may be compiled with headers of two releases: no class contains a
   struct of C that can grow. */
inline namespace v1
{

class error : public std::runtime_error
{
  public:
    explicit error(redlock_code code)
        : error(code, REDLOCK_REASON_NONE, redlock_code_text(code))
    {
    }

    error(redlock_code code, redlock_reason reason, const char *text)
        : std::runtime_error(text), code_(code), reason_(reason)
    {
    }

    explicit error(const redlock_error &why)
        : std::runtime_error(why.text), code_(why.code), reason_(why.reason),
          field_(why.field), value_(why.value), bound_(why.bound)
    {
    }

    redlock_code code() const noexcept
    {
        return code_;
    }

    redlock_reason reason() const noexcept
    {
        return reason_;
    }

    /* The argument or option at fault, its value and its bound: see redlock_error. */
    const char *field() const noexcept
    {
        return field_;
    }

    std::int64_t value() const noexcept
    {
        return value_;
    }

    std::int64_t bound() const noexcept
    {
        return bound_;
    }

  private:
    redlock_code code_;
    redlock_reason reason_;
    const char *field_ = nullptr;
    std::int64_t value_ = 0, bound_ = 0;
};

/*
 * What redlock.conf(5) and the environment set: see redlock_settings_read(). One that was
 * moved from has none.
 */
class settings
{
  public:
    static settings read(const char *file = nullptr, const char *nodes = nullptr)
    {
        redlock_settings *made = nullptr;
        if (redlock_settings_read(file, nodes, &made) != REDLOCK_OK)
            throw error(*redlock_last_error());
        return settings(made);
    }

    /* Fills in the options, whose texts belong to the settings. */
    void options(redlock_options &found) const
    {
        if (redlock_settings_options(made_.get(), &found) != REDLOCK_OK)
            throw error(*redlock_last_error());
    }

    const redlock_settings *operator->() const noexcept
    {
        return made_.get();
    }

  private:
    explicit settings(redlock_settings *made) noexcept : made_(made)
    {
    }

    struct free {
        void operator()(redlock_settings *made) const noexcept
        {
            redlock_settings_free(made);
        }
    };
    std::unique_ptr<redlock_settings, free> made_;
};

/*
 * A client of these nodes, with its thread. It must outlive its mutexes. In a callback of
 * any client its destructor does not wait for that thread: see redlock_sync_free().
 */
class client
{
  public:
    explicit client(const std::vector<std::string> &uris,
                    const redlock_options *options = nullptr)
    {
        std::vector<const char *> each;
        for (const std::string &uri : uris)
            each.push_back(uri.c_str());
        open(each.data(), each.size(), options);
    }

    explicit client(const settings &found)
    {
        redlock_options options;
        found.options(options);
        open(found->uris, found->count, &options);
    }

    /* With other options than found.options() gives. */
    client(const settings &found, const redlock_options &options)
    {
        open(found->uris, found->count, &options);
    }

    /* Numbers: redlock_sync_stats(), after redlock_stats_init(). */
    void stats(redlock_stats &found) const
    {
        if (redlock_sync_stats(get(), &found) != REDLOCK_OK)
            throw error(*redlock_last_error());
    }

    /* Numbers and nodes as text for Prometheus: redlock_stats_prometheus(). */
    std::string prometheus(const std::vector<redlock_label> &labels = {}) const
    {
        const std::size_t count = redlock_sync_nodes(get());
        const std::unique_ptr<redlock_node_stats[]> nodes(new redlock_node_stats[count]);
        redlock_stats found;
        redlock_stats_init(&found);
        found.nodes = nodes.get();
        found.room = count;
        stats(found);
        std::string text(
            redlock_stats_prometheus(&found, labels.data(), labels.size(), nullptr, 0) + 1,
            '\0');
        text.resize(redlock_stats_prometheus(&found, labels.data(), labels.size(), &text[0],
                                             text.size()));
        return text;
    }

    /* For functions that exist in C only. */
    redlock_sync *get() const noexcept
    {
        return sync_.get();
    }

  private:
    void open(const char *const *uris, std::size_t count, const redlock_options *options)
    {
        redlock_sync *made = nullptr;
        if (redlock_sync_new(uris, count, options, &made) != REDLOCK_OK)
            throw error(*redlock_last_error());
        sync_.reset(made);
    }

    struct free {
        void operator()(redlock_sync *sync) const noexcept
        {
            redlock_sync_free(sync);
        }
    };
    std::unique_ptr<redlock_sync, free> sync_;
};

/*
 * Ends waits from another thread, until C++20 has a std::stop_token for it: those of guards
 * that get it, and of mutexes whose options name it. It must outlive them.
 */
class stop
{
  public:
    explicit stop(const client &nodes)
    {
        redlock_stop *made = nullptr;
        if (redlock_stop_new(nodes.get(), &made) != REDLOCK_OK)
            throw error(*redlock_last_error());
        handle_.reset(made);
    }

    /* Ends these waits, and all later ones: redlock_stop_all(). */
    void request_stop() const noexcept
    {
        redlock_stop_all(get());
    }

    redlock_stop *get() const noexcept
    {
        return handle_.get();
    }

  private:
    struct free {
        void operator()(redlock_stop *handle) const noexcept
        {
            redlock_stop_free(handle);
        }
    };
    std::unique_ptr<redlock_stop, free> handle_;
};

/* The defaults: redlock_lock_options_init(). */
static inline redlock_lock_options default_options()
{
    redlock_lock_options options;
    redlock_lock_options_init(&options);
    return options;
}

namespace detail
{

/* A copy of options that may be longer than this header's. */
class lock_options
{
  public:
    explicit lock_options(const redlock_lock_options &given)
    {
        void *room = std::calloc(1, std::max(given.size, sizeof(given)));
        if (!room)
            throw std::bad_alloc();
        std::memcpy(room, &given, given.size);
        made_.reset(static_cast<redlock_lock_options *>(room));
    }

    redlock_lock_options *operator->() const noexcept
    {
        return made_.get();
    }

    redlock_lock_options *get() const noexcept
    {
        return made_.get();
    }

  private:
    struct free {
        void operator()(redlock_lock_options *made) const noexcept
        {
            std::free(made);
        }
    };
    std::unique_ptr<redlock_lock_options, free> made_;
};

inline constexpr std::chrono::milliseconds shortest_wait(0);
inline constexpr std::chrono::milliseconds longest_wait(std::chrono::hours(24 * 365));

/* Compared as doubles: hours::max() does not fit into milliseconds. */
template <class Rep, class Period>
std::int64_t wait_ms(const std::chrono::duration<Rep, Period> &wait)
{
    using std::chrono::milliseconds;
    const std::chrono::duration<double> asked = wait;
    return (asked <= shortest_wait  ? shortest_wait
            : asked >= longest_wait ? longest_wait
                                    : std::chrono::ceil<milliseconds>(wait))
        .count();
}

/* Subtracted as doubles first: max() and min() do not fit into the unit of the clock. */
template <class Clock, class Duration>
std::int64_t wait_ms_until(const std::chrono::time_point<Clock, Duration> &end)
{
    using seconds = std::chrono::duration<double>;
    const typename Clock::time_point now = Clock::now();
    const seconds left = seconds(end.time_since_epoch()) - seconds(now.time_since_epoch());
    return left <= shortest_wait || left >= longest_wait ? wait_ms(left)
                                                         : wait_ms(end - now);
}

} // namespace detail

class scoped_lock;

/* The lock on one key. Lockable and TimedLockable. */
class mutex
{
  public:
    mutex(const client &nodes, std::string key)
        : mutex(nodes, std::move(key), default_options())
    {
    }

    /*
     * The options are copied. If they name a stop, it must outlive the mutex. Their
     * `failure` is not used: a mutex is shared by threads, and an exception has the code.
     */
    mutex(const client &nodes, std::string key, const redlock_lock_options &options)
        : mutex(nodes, std::move(key), detail::lock_options(options))
    {
    }

    mutex(const mutex &) = delete;
    mutex &operator=(const mutex &) = delete;

    void lock()
    {
        redlock_hold *made = nullptr;
        const redlock_code code =
            redlock_lock(sync_, key_.data(), key_.size(), options_.get(), &made);
        keep(code, made);
    }

    /* One attempt; false: another owner has the lock. */
    bool try_lock()
    {
        redlock_hold *made = nullptr;
        const redlock_code code =
            redlock_try_lock(sync_, key_.data(), key_.size(), options_.get(), &made);
        return keep(code, made);
    }

    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &wait)
    {
        return try_lock_for_ms(detail::wait_ms(wait));
    }

    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &end)
    {
        return try_lock_for_ms(detail::wait_ms_until(end));
    }

    /* Takes over the lock that has this token; see redlock_lock_adopt(). */
    void adopt(const std::string &token,
               std::chrono::milliseconds valid = std::chrono::milliseconds(0))
    {
        redlock_hold *made = nullptr;
        const redlock_code code =
            redlock_lock_adopt(sync_, key_.data(), key_.size(), token.c_str(),
                               valid.count(), options_.get(), &made);
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

    /* The slot of a semaphore; 0: it is none, or not locked. */
    unsigned slot() const noexcept
    {
        const hold_ptr mine = find();
        return mine ? redlock_hold_slot(mine.get()) : 0;
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

  protected:
    mutex(const client &nodes, std::string key, detail::lock_options options)
        : sync_(nodes.get()), key_(std::move(key)), options_(std::move(options))
    {
        options_->failure = nullptr;
    }

  private:
    friend class scoped_lock;
    friend class shared_mutex;
    friend class counting_semaphore;

    /* Shared: a thread may query a hold while another thread unlocks it. */
    using hold_ptr = std::shared_ptr<redlock_hold>;

    struct owned {
        std::uint64_t thread; /* the one that locked */
        hold_ptr hold;
    };

    /*
     * A number that no other thread ever has. All shared objects of a program share it,
     * also those that are compiled with -fvisibility=hidden.
     */
    REDLOCK_API static std::uint64_t this_thread() noexcept
    {
        static std::atomic<std::uint64_t> threads{0};
        thread_local const std::uint64_t number = ++threads;
        return number;
    }

    /*
     * Turns the writer that has this mutex into a reader that has the other one. It is
     * added there first, so that no lack of memory can separate a hold from both.
     */
    void downgrade(mutex &reader)
    {
        const hold_ptr mine = find();
        if (!mine)
            throw error(REDLOCK_NOT_HELD);
        {
            std::lock_guard<std::mutex> guard(reader.guard_);
            reader.holds_.push_back({this_thread(), mine});
        }
        const redlock_code code = redlock_hold_downgrade(mine.get());
        {
            std::scoped_lock guard(guard_, reader.guard_);
            const bool reads =
                code == REDLOCK_OK || code == REDLOCK_NO_QUORUM || code == REDLOCK_DENIED;
            if (!reads || !remove(mine)) /* another thread may have unlocked it meanwhile */
                reader.remove(mine);
        }
        if (code != REDLOCK_OK)
            throw error(*redlock_last_error());
    }

    bool remove(const hold_ptr &hold) noexcept
    {
        const auto same = [&hold](const owned &each) { return each.hold == hold; };
        const auto at = std::find_if(holds_.begin(), holds_.end(), same);
        if (at == holds_.end())
            return false;
        holds_.erase(at);
        return true;
    }

    bool try_lock_for_ms(std::int64_t wait_ms)
    {
        redlock_hold *made = nullptr;
        const redlock_code code = redlock_lock_for(sync_, key_.data(), key_.size(), wait_ms,
                                                   options_.get(), &made);
        return keep(code, made);
    }

    bool keep(redlock_code code, redlock_hold *made)
    {
        if (code == REDLOCK_TAKEN || code == REDLOCK_TIMEOUT)
            return false;
        if (code != REDLOCK_OK)
            throw error(*redlock_last_error());
        hold_ptr mine(made, redlock_hold_free); /* unlocks if push_back() throws */
        std::lock_guard<std::mutex> guard(guard_);
        if (options_->recursive && has_other(made))
            throw error(REDLOCK_EXPIRED, REDLOCK_REASON_LOST,
                        "this thread had the lock already, and lost it");
        holds_.push_back({this_thread(), std::move(mine)});
        return true;
    }

    /* The calling thread has yet to unlock another hold: one that is lost. */
    bool has_other(const redlock_hold *made) const noexcept
    {
        for (const owned &each : holds_)
            if (each.thread == this_thread() && each.hold.get() != made)
                return true;
        return false;
    }

    /*
     * The index of a hold, or holds_.size() if there is none. `own`: considers only holds
     * that the calling thread locked. Those that are not lost are the same hold. `lost`:
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
        if (at == holds_.size() && options_->kind != REDLOCK_KIND_SHARED)
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
        if (at == holds_.size() && options_->kind != REDLOCK_KIND_SHARED &&
            options_->kind != REDLOCK_KIND_SLOT)
            at = choose(false, true);
        return at == holds_.size() ? nullptr : holds_[at].hold;
    }

    redlock_sync *sync_;
    std::string key_;
    detail::lock_options options_;
    mutable std::mutex guard_; /* guards holds_; not held during a wait for a lock */
    /* More than one if one was lost, or its thread locked it again. */
    std::vector<owned> holds_;
};

/* A mutex that its thread may lock again: the option `recursive`. */
class recursive_mutex : public mutex
{
  public:
    recursive_mutex(const client &nodes, std::string key)
        : recursive_mutex(nodes, std::move(key), default_options())
    {
    }

    recursive_mutex(const client &nodes, std::string key,
                    const redlock_lock_options &options)
        : mutex(nodes, std::move(key), recursive(options))
    {
    }

  private:
    static detail::lock_options recursive(const redlock_lock_options &given)
    {
        detail::lock_options options(given);
        options->recursive = true;
        return options;
    }
};

/*
 * A candidate of an election, on nodes that were admitted: a mutex of the kind
 * ELECTION. It leads while it is locked; lost() tells that it does not lead any more.
 */
class election : public mutex
{
  public:
    election(const client &nodes, std::string name)
        : election(nodes, std::move(name), default_options())
    {
    }

    election(const client &nodes, std::string name, const redlock_lock_options &options)
        : mutex(nodes, std::move(name), with(options))
    {
    }

    /* Waits until it leads. */
    void campaign()
    {
        lock();
    }

    void resign() noexcept
    {
        unlock();
    }

    /* The number of the term, for every request that the leader makes; 0: it does not lead.
     */
    std::int64_t term() const noexcept
    {
        return fence();
    }

  private:
    static detail::lock_options with(const redlock_lock_options &given)
    {
        detail::lock_options options(given);
        options->kind = REDLOCK_KIND_ELECTION;
        return options;
    }
};

/* The leader of an election, as far as it is known. */
struct leader {
    redlock_code code; /* OK; NO_QUORUM: it is not known */
    std::int64_t term; /* 0: nobody leads */
    std::string id;
};

/*
 * Calls `changed` in the client's thread with who leads, and at each change, until its
 * destructor has returned. An exception in `changed` ends the program. Do not destroy the
 * observer in a callback of any client: there the destructor does not wait for a running
 * `changed`, because two callbacks could wait for each other.
 */
class observer
{
  public:
    observer(const client &nodes, const std::string &name,
             std::function<void(const leader &)> changed)
        : changed_(std::move(changed))
    {
        redlock_sync_observer *made = nullptr;
        if (redlock_sync_observe(nodes.get(), name.data(), name.size(), call, this,
                                 &made) != REDLOCK_OK)
            throw error(*redlock_last_error());
        handle_.reset(made);
    }

    observer(const observer &) = delete;
    observer &operator=(const observer &) = delete;

  private:
    static void call(redlock_sync_observer *, const redlock_leader *now, void *arg) noexcept
    {
        static_cast<observer *>(arg)->changed_(leader{now->code, now->term, now->id});
    }

    struct free {
        void operator()(redlock_sync_observer *handle) const noexcept
        {
            redlock_sync_observer_free(handle);
        }
    };

    std::function<void(const leader &)> changed_;
    std::unique_ptr<redlock_sync_observer, free> handle_; /* ended before changed_ */
};

/*
 * Many readers or one writer, for std::shared_lock and std::unique_lock: the kind
 * SHARED. A thread that has it as a reader cannot lock it as a writer: that throws
 * (WOULD_DEADLOCK). As with std::shared_mutex, the thread that locked as a reader unlocks:
 * among several readers no other one is known. For readers that move between threads use a
 * guard of the kind SHARED.
 */
class shared_mutex
{
  public:
    shared_mutex(const client &nodes, std::string key)
        : shared_mutex(nodes, std::move(key), default_options())
    {
    }

    shared_mutex(const client &nodes, std::string key, const redlock_lock_options &options)
        : writer_(nodes, key, with(options, REDLOCK_KIND_EXCLUSIVE)),
          reader_(nodes, std::move(key), with(options, REDLOCK_KIND_SHARED))
    {
    }

    void lock()
    {
        writer_.lock();
    }

    bool try_lock()
    {
        return writer_.try_lock();
    }

    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &wait)
    {
        return writer_.try_lock_for(wait);
    }

    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &end)
    {
        return writer_.try_lock_until(end);
    }

    void unlock() noexcept
    {
        writer_.unlock();
    }

    void lock_shared()
    {
        reader_.lock();
    }

    bool try_lock_shared()
    {
        return reader_.try_lock();
    }

    template <class Rep, class Period>
    bool try_lock_shared_for(const std::chrono::duration<Rep, Period> &wait)
    {
        return reader_.try_lock_for(wait);
    }

    template <class Clock, class Duration>
    bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration> &end)
    {
        return reader_.try_lock_until(end);
    }

    void unlock_shared() noexcept
    {
        reader_.unlock();
    }

    /*
     * Turns the writer into a reader, without a gap; then unlock_shared() unlocks. Throws
     * (NO_QUORUM, DENIED) if too few nodes extended the lock: it is a reader then, too,
     * until its validity ends. After any other error it is as it was.
     */
    void unlock_and_lock_shared()
    {
        writer_.downgrade(reader_);
    }

    /* The hold of the calling thread: lost(), valid(), fence(), extend(). */
    mutex &writer() noexcept
    {
        return writer_;
    }

    mutex &reader() noexcept
    {
        return reader_;
    }

  private:
    static detail::lock_options with(const redlock_lock_options &given, redlock_kind kind)
    {
        detail::lock_options options(given);
        options->kind = kind;
        return options;
    }

    mutex writer_, reader_;
};

/*
 * At most `slots` holders of one key, at least 1, among all processes that give the same
 * number. Like std::counting_semaphore, any thread may release; but only what this object
 * has acquired.
 */
class counting_semaphore
{
  public:
    counting_semaphore(const client &nodes, std::string key, unsigned slots)
        : counting_semaphore(nodes, std::move(key), slots, default_options())
    {
    }

    counting_semaphore(const client &nodes, std::string key, unsigned slots,
                       const redlock_lock_options &options)
        : mutex_(nodes, std::move(key), with(options, slots))
    {
    }

    void acquire()
    {
        mutex_.lock();
    }

    bool try_acquire()
    {
        return mutex_.try_lock();
    }

    template <class Rep, class Period>
    bool try_acquire_for(const std::chrono::duration<Rep, Period> &wait)
    {
        return mutex_.try_lock_for(wait);
    }

    template <class Clock, class Duration>
    bool try_acquire_until(const std::chrono::time_point<Clock, Duration> &end)
    {
        return mutex_.try_lock_until(end);
    }

    /* Releases a slot of the calling thread, else of another one; if one was lost, that. */
    void release() noexcept
    {
        mutex_.unlock();
    }

    /* The hold of the calling thread: lost(), valid(), fence(), slot(), extend(). */
    mutex &hold() noexcept
    {
        return mutex_;
    }

  private:
    static detail::lock_options with(const redlock_lock_options &given, unsigned slots)
    {
        detail::lock_options options(given);
        options->kind = REDLOCK_KIND_SLOT;
        options->slots = slots;
        options->any_thread = true;
        return options;
    }

    mutex mutex_;
};

/*
 * A lock on one key or several keys, all or nothing (redlock_lock_many()), from its
 * construction to its end. Movable; only one thread at a time may use it.
 */
class guard
{
  public:
    /* Has no lock. */
    guard() noexcept = default;

    /* Waits without a limit. */
    guard(const client &nodes, const std::vector<std::string> &keys,
          const redlock_lock_options &options = default_options())
        : guard(nodes.get(), keys, options, REDLOCK_FOREVER)
    {
    }

    /* One attempt. If another owner has a key, the guard has no lock: see holder(). */
    guard(const client &nodes, const std::vector<std::string> &keys, std::try_to_lock_t,
          const redlock_lock_options &options = default_options())
        : guard(nodes.get(), keys, options, 0)
    {
    }

    /* Waits at most so long. If it gets no lock, see holder(). */
    template <class Rep, class Period>
    guard(const client &nodes, const std::vector<std::string> &keys,
          const std::chrono::duration<Rep, Period> &wait,
          const redlock_lock_options &options = default_options())
        : guard(nodes.get(), keys, options, detail::wait_ms(wait))
    {
    }

    /*
     * Waits until a stop is requested: then the guard has no lock. The options must not
     * name a stop of their own: that throws (BAD_OPTION).
     */
    guard(const client &nodes, const std::vector<std::string> &keys, const stop &stops,
          const redlock_lock_options &options = default_options())
    {
        if (options.stop)
            throw error(REDLOCK_BAD_OPTION, REDLOCK_REASON_CONFLICT,
                        "stop is set, and another stop is given");
        const detail::lock_options mine(options);
        mine->stop = stops.get();
        try {
            lock(nodes.get(), keys, *mine.get(), REDLOCK_FOREVER);
        } catch (const error &why) {
            if (why.code() != REDLOCK_CANCELLED || why.reason() != REDLOCK_REASON_BY_CALLER)
                throw;
        }
    }

#ifdef __cpp_lib_jthread
    guard(const client &nodes, const std::vector<std::string> &keys, std::stop_token token,
          const redlock_lock_options &options = default_options())
    {
        const stop mine(nodes);
        const std::stop_callback stops(token, [&mine] { mine.request_stop(); });
        *this = guard(nodes, keys, mine, options);
    }
#endif

    bool owns_lock() const noexcept
    {
        return hold_ != nullptr;
    }

    explicit operator bool() const noexcept
    {
        return owns_lock();
    }

    /* The holder when it was refused, or "". */
    const std::string &holder() const noexcept
    {
        return holder_;
    }

    /* Also true if the guard has no lock. */
    bool lost() const noexcept
    {
        return !hold_ || redlock_hold_lost(hold_.get());
    }

    std::chrono::milliseconds valid() const noexcept
    {
        return std::chrono::milliseconds(hold_ ? redlock_hold_valid_ms(hold_.get()) : 0);
    }

    /* The fencing token; 0: the lock is not fenced. */
    std::int64_t fence() const noexcept
    {
        return hold_ ? redlock_hold_fence(hold_.get()) : 0;
    }

    /* Extends to `ttl` from now; 0: to the lock's own TTL. */
    void extend(std::chrono::milliseconds ttl = std::chrono::milliseconds(0))
    {
        if (!hold_)
            throw error(REDLOCK_NOT_HELD);
        if (redlock_hold_extend(hold_.get(), ttl.count()) != REDLOCK_OK)
            throw error(*redlock_last_error());
    }

    /* Turns a writer into a reader; see redlock_hold_downgrade(). */
    void downgrade()
    {
        if (!hold_)
            throw error(REDLOCK_NOT_HELD);
        if (redlock_hold_downgrade(hold_.get()) != REDLOCK_OK)
            throw error(*redlock_last_error());
    }

    /*
     * Unlocks, and waits until a quorum has confirmed it (REDLOCK_CONFIRM). Throws if it
     * was lost before, or is not confirmed; the guard has no lock then, either. The
     * destructor unlocks without waiting, and never throws.
     */
    void unlock()
    {
        const hold_ptr mine = std::move(hold_);
        if (!mine)
            throw error(REDLOCK_NOT_HELD);
        if (redlock_unlock(mine.get(), REDLOCK_CONFIRM) != REDLOCK_OK)
            throw error(*redlock_last_error());
    }

    /* For functions that exist in C only; nullptr: the guard has no lock. */
    redlock_hold *get() const noexcept
    {
        return hold_.get();
    }

  protected:
    guard(redlock_sync *sync, const std::vector<std::string> &keys,
          const redlock_lock_options &options, std::int64_t wait_ms)
    {
        lock(sync, keys, options, wait_ms);
    }

  private:
    struct free {
        void operator()(redlock_hold *hold) const noexcept
        {
            redlock_hold_free(hold);
        }
    };
    using hold_ptr = std::unique_ptr<redlock_hold, free>;

    void lock(redlock_sync *sync, const std::vector<std::string> &keys,
              const redlock_lock_options &options, std::int64_t wait_ms)
    {
        std::vector<redlock_key> each;
        for (const std::string &key : keys)
            each.push_back({key.data(), key.size()});
        redlock_failure failure;
        redlock_failure_init(&failure);
        const detail::lock_options mine(options);
        mine->failure = &failure;
        redlock_hold *made = nullptr;
        const redlock_code code =
            redlock_lock_many(sync, each.data(), each.size(), wait_ms, mine.get(), &made);
        if (code == REDLOCK_TAKEN || code == REDLOCK_TIMEOUT)
            holder_ = failure.holder;
        else if (code != REDLOCK_OK)
            throw error(*redlock_last_error());
        hold_.reset(made);
    }

    hold_ptr hold_;
    std::string holder_;
};

/*
 * The keys of these mutexes, in one round. The mutexes themselves stay unlocked. They must
 * be of one client and have the same options: else it throws (BAD_OPTION).
 */
class scoped_lock : public guard
{
  public:
    template <class... Mutexes>
    explicit scoped_lock(const mutex &first, const Mutexes &...others)
        : guard(common_client(first, others...), {first.key_, others.key_...},
                *first.options_.get(), REDLOCK_FOREVER)
    {
    }

  private:
    /* `fence` is for adopt(), and a mutex has no `failure`. */
    static auto all_of(const detail::lock_options &options)
    {
        redlock_lock_options known = default_options();
        std::memcpy(&known, options.get(), std::min(options->size, sizeof(known)));
        const auto &[size, fenced, ttl_ms, min_validity_ms, margin_ms, watchdog,
                     max_hold_ms, any_thread, handoffs, stop, on_lost, lost_arg,
                     release_on_free, failure, fence, recursive, kind, slots, user] = known;
        return std::make_tuple(fenced, ttl_ms, min_validity_ms, margin_ms, watchdog,
                               max_hold_ms, any_thread, handoffs, stop, on_lost, lost_arg,
                               release_on_free, recursive, kind, slots, user);
    }

    template <class... Mutexes>
    static redlock_sync *common_client(const mutex &first, const Mutexes &...others)
    {
        if (!((others.sync_ == first.sync_) && ...))
            throw error(REDLOCK_BAD_OPTION, REDLOCK_REASON_CONFLICT,
                        "the mutexes are of different clients");
        if (!((all_of(others.options_) == all_of(first.options_)) && ...))
            throw error(REDLOCK_BAD_OPTION, REDLOCK_REASON_CONFLICT,
                        "the mutexes have different options");
        return first.sync_;
    }
};

} // namespace v1
} // namespace redlock

#endif
