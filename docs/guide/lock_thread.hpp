/* Locks of redlock.h on a thread of their own, for a service that has another loop. */
#include <atomic>
#include <event2/event.h>
#include <event2/thread.h>
#include <functional>
#include <redlock/redlock.h>
#include <stdexcept>
#include <thread>
#include <time.h>
#include <utility>

/* A client, its event_base, and the thread that runs it. */
struct lock_thread {
    event_base *base;
    redlock_client *client;
    std::thread thread;

    lock_thread(const char *const *uris, std::size_t count)
    {
        evthread_use_pthreads(); /* before event_base_new(): all threads post to it */
        base = event_base_new();
        if (redlock_client_new(base, uris, count, nullptr, &client) != REDLOCK_OK) {
            event_base_free(base);
            throw std::runtime_error(redlock_last_error()->text);
        }
        thread = std::thread([this] { event_base_dispatch(base); });
    }
    ~lock_thread() /* when its locks have ended */
    {
        post([](int, short, void *arg) { redlock_client_free((redlock_client *)arg); },
             client);
        thread.join(); /* without its client the loop ends */
        event_base_free(base);
    }
    void post(event_callback_fn job, void *arg) /* jobs run in the order of the posts */
    {
        if (event_base_once(base, -1, EV_TIMEOUT, job, arg, nullptr) != 0)
            std::terminate(); /* out of memory */
    }
};

/* Any thread may call valid() and leave(), and read the state. */
struct lock {
    enum { WAITING, HELD, LOST, ENDED };
    std::atomic<int> state{WAITING};            /* LOST also: not acquired */
    std::atomic<redlock_code> code{REDLOCK_OK}; /* why it was lost, and how it has ended */

    /* `tell` runs in the client's thread after each change: it only wakes the service. */
    lock(lock_thread &thread, const char *key, std::function<void()> tell)
        : thread_(thread), key_(key), tell_(std::move(tell))
    {
        thread.post([](int, short, void *arg) { ((lock *)arg)->acquire(); }, this);
    }
    bool valid() const /* ask before each step: the news of a loss may be late */
    {
        return now_ms() < valid_until_;
    }
    void leave() /* once, also if it is LOST; delete the lock when it has ENDED */
    {
        thread_.post([](int, short, void *arg) { ((lock *)arg)->release(); }, this);
    }

  private:
    void acquire()
    {
        redlock_lease_options options;
        redlock_lease_options_init(&options);
        options.ttl_ms = 3000;
        options.wait_ms = REDLOCK_FOREVER;
        options.on_extended = options.on_lost = on_change;
        options.extended_arg = options.lost_arg = this;
        const redlock_code refused = redlock_acquire(
            thread_.client, key_.data(), key_.size(), &options, on_change, this, &lease_);
        if (refused)
            change(LOST, refused, 0);
    }
    void release()
    {
        if (redlock_release(lease_, on_released, this) != REDLOCK_OK) {
            redlock_lease_free(lease_); /* it was not acquired */
            change(ENDED, REDLOCK_CANCELLED, 0);
        }
    }
    static void on_change(redlock_lease *lease, const redlock_result *result, void *arg)
    {
        const std::int64_t now = now_ms(); /* read first, or the deadline is too late */
        lock *self = (lock *)arg;
        self->change(result->code == REDLOCK_OK ? HELD : LOST, result->code,
                     now + redlock_valid_ms(lease));
    }
    static void on_released(redlock_lease *lease, const redlock_result *result, void *arg)
    {
        redlock_lease_free(lease);
        ((lock *)arg)->change(ENDED, result->code, 0);
    }
    void change(int next, redlock_code why, std::int64_t valid_until) noexcept
    {
        const auto tell = tell_; /* the service may delete the lock when it sees ENDED */
        code = why;
        valid_until_ = valid_until;
        state = next;
        tell();
    }
    static std::int64_t now_ms() /* it counts suspended time, as the client does */
    {
        timespec at;
        clock_gettime(CLOCK_BOOTTIME, &at);
        return at.tv_sec * INT64_C(1000) + at.tv_nsec / 1000000;
    }

    lock_thread &thread_;
    const std::string key_;
    const std::function<void()> tell_;
    redlock_lease *lease_ = nullptr;
    std::atomic<std::int64_t> valid_until_{0}; /* of now_ms() */
};
