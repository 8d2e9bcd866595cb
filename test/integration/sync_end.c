/* Waits that are given up, threads that end, and clients that are freed under way. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "crew.h"

/* --- giving up --- */

static void start_waiting(struct crew *c, struct hand *hand, redlock_stop *stop,
                          unsigned already)
{
    redlock_lock_options options = crew_lock_options();
    options.stop = stop;
    hand_start(hand, c->sync, "job", &options);
    hand_do(hand, job_lock);
    CREW_UNTIL(crew_waiting(c->sync, "job") == already + 1);
}

static void finish(struct hand *hand)
{
    cr_assert_eq(hand_await(hand), REDLOCK_OK, "%s", redlock_code_name(hand->code));
    cr_assert_eq(hand_done(hand, job_confirm), REDLOCK_OK);
    hand_end(hand);
}

/* The first asks the nodes, the others wait for it: whoever gives up, the rest goes on. */
static void give_up(unsigned which)
{
    struct crew c;
    struct hand hand[3];
    redlock_stop *stop[3];
    redlock_hold *hold = NULL;
    crew_open(&c, 3);
    redlock_sync *other = crew_sync(&c);
    cr_assert_eq(redlock_lock(other, "job", 3, NULL, &hold), REDLOCK_OK);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(redlock_stop_new(c.sync, &stop[i]), REDLOCK_OK);
        start_waiting(&c, &hand[i], stop[i], i);
    }
    redlock_stop_all(stop[which]);
    cr_assert_eq(hand_await(&hand[which]), REDLOCK_CANCELLED);
    cr_assert_eq(crew_waiting(c.sync, "job"), 2);
    cr_assert_eq(hand_done(&hand[which], job_lock), REDLOCK_CANCELLED, "from now on");
    cr_assert_eq(hand_done(&hand[which], job_try), REDLOCK_CANCELLED);
    redlock_hold_free(hold);
    for (unsigned i = 0; i < 3; i++)
        if (i != which)
            finish(&hand[i]);
    hand_end(&hand[which]);
    for (unsigned i = 0; i < 3; i++)
        redlock_stop_free(stop[i]);
    CREW_UNTIL(crew_keys(c.sync) == 0);
    redlock_sync_free(other);
    redlock_sync_free(c.sync);
    c.sync = NULL;
    cr_assert_eq(servers_keys(&c.servers), 0);
    crew_close(&c);
}

Test(sync_end, first_gives_up)
{
    give_up(0);
}

Test(sync_end, middle_gives_up)
{
    give_up(1);
}

Test(sync_end, last_gives_up)
{
    give_up(2);
}

/* What is held stays held, and who does not name it goes on waiting. */
Test(sync_end, stop_is_for_waits)
{
    struct crew c;
    struct hand holder, waiting;
    redlock_stop *stop = NULL;
    redlock_lock_options options = crew_lock_options();
    crew_open(&c, 3);
    cr_assert_eq(redlock_stop_new(c.sync, &stop), REDLOCK_OK);
    options.stop = stop;
    hand_start(&holder, c.sync, "job", &options);
    cr_assert_eq(hand_done(&holder, job_lock), REDLOCK_OK);
    start_waiting(&c, &waiting, NULL, 0);
    redlock_stop_all(stop);
    cr_assert_not(redlock_hold_lost(holder.hold));
    cr_assert(hand_is_busy(&waiting));
    finish(&holder);
    finish(&waiting);
    redlock_stop_free(stop);
    crew_close(&c);
}

/* Given up at many moments of an attempt: nothing stays on the nodes. */
Test(sync_end, given_up_at_any_moment)
{
    struct crew c;
    unsigned cancelled = 0;
    crew_open(&c, 5);
    for (unsigned i = 0; i < 100; i++) {
        struct hand hand;
        redlock_stop *stop = NULL;
        redlock_lock_options options = crew_lock_options();
        cr_assert_eq(redlock_stop_new(c.sync, &stop), REDLOCK_OK);
        options.stop = stop;
        hand_start(&hand, c.sync, "job", &options);
        hand_do(&hand, job_lock);
        for (unsigned j = 0; j < i * 20; j++)
            (void)crew_waiting(c.sync, "job");
        redlock_stop_all(stop);
        redlock_code code = hand_await(&hand);
        cr_assert(code == REDLOCK_OK || code == REDLOCK_CANCELLED);
        cancelled += code == REDLOCK_CANCELLED;
        if (code == REDLOCK_OK)
            cr_assert_eq(hand_done(&hand, job_unlock), REDLOCK_OK);
        hand_end(&hand);
        redlock_stop_free(stop);
    }
    cr_assert_gt(cancelled, 0);
    redlock_sync_free(c.sync);
    c.sync = NULL;
    cr_assert_eq(servers_keys(&c.servers), 0);
    crew_close(&c);
}

/* --- freeing the client --- */

static void note_loss(redlock_hold *hold, redlock_code why, int64_t valid_ms, void *arg)
{
    atomic_uint *told = arg;
    if (why == REDLOCK_CANCELLED && valid_ms > 0 && redlock_hold_lost(hold))
        atomic_fetch_add(told, 1);
    else
        atomic_fetch_add(told, 1000);
}

Test(sync_end, client_is_freed_while_threads_hold_and_wait)
{
    struct crew c;
    struct hand holder, waiting[2], remote;
    redlock_hold *theirs = NULL;
    redlock_stop *stop = NULL;
    atomic_uint told = 0;
    redlock_lock_options options = crew_lock_options();
    options.on_lost = note_loss;
    options.lost_arg = &told;
    crew_open(&c, 3);
    redlock_sync *other = crew_sync(&c);
    cr_assert_eq(redlock_stop_new(c.sync, &stop), REDLOCK_OK);
    cr_assert_eq(redlock_lock(other, "theirs", 6, NULL, &theirs), REDLOCK_OK);
    hand_start(&holder, c.sync, "job", &options);
    cr_assert_eq(hand_done(&holder, job_lock), REDLOCK_OK);
    for (unsigned i = 0; i < 2; i++)
        start_waiting(&c, &waiting[i], NULL, i);
    hand_start(&remote, c.sync, "theirs", NULL);
    hand_do(&remote, job_lock);
    CREW_UNTIL(crew_waiting(c.sync, "theirs") == 1);
    CREW_UNTIL(servers_with(&c.servers, "job", redlock_hold_token(holder.hold)) == 3);
    redlock_sync_free(c.sync);
    c.sync = NULL;
    cr_assert_eq(told, 1);
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_eq(hand_await(&waiting[i]), REDLOCK_CANCELLED);
        hand_end(&waiting[i]);
    }
    cr_assert_eq(hand_await(&remote), REDLOCK_CANCELLED);
    hand_end(&remote);
    cr_assert(redlock_hold_lost(holder.hold));
    cr_assert_eq(servers_with(&c.servers, "job", redlock_hold_token(holder.hold)), 3,
                 "it stays until its TTL ends");
    cr_assert_eq(hand_done(&holder, job_extend), REDLOCK_CLOSED);
    cr_assert_eq(hand_done(&holder, job_unlock), REDLOCK_CLOSED);
    cr_assert_eq(hand_done(&holder, job_unlock), REDLOCK_NOT_HELD);
    hand_end(&holder);
    redlock_stop_all(stop);
    redlock_stop_free(stop);
    redlock_hold_free(theirs);
    redlock_sync_free(other);
    crew_close(&c);
}

/* --- freeing the client, and what is held --- */

static void note_release(redlock_hold *hold, redlock_code why, int64_t valid_ms, void *arg)
{
    atomic_uint *told = arg;
    bool right = why == REDLOCK_CANCELLED && valid_ms == 0 && redlock_hold_lost(hold);
    atomic_fetch_add(told, right ? 1 : 1000);
}

/* As a program of an older version has it: what it does not know is off. */
static redlock_lock_options older_options(void)
{
    redlock_lock_options options = crew_lock_options();
    options.release_on_free = true;
    options.size = offsetof(redlock_lock_options, release_on_free);
    return options;
}

static redlock_hold *hold_key(struct crew *c, const char *key,
                              const redlock_lock_options *options)
{
    redlock_hold *hold = NULL;
    cr_assert_eq(redlock_lock(c->sync, key, strlen(key), options, &hold), REDLOCK_OK);
    CREW_UNTIL(servers_with(&c->servers, key, redlock_hold_token(hold)) == 3);
    return hold;
}

Test(sync_end, client_is_freed_and_releases_what_is_held)
{
    struct crew c;
    atomic_uint told = 0;
    redlock_lock_options options = crew_lock_options(), older = older_options();
    options.release_on_free = true;
    options.on_lost = note_release;
    options.lost_arg = &told;
    crew_open(&c, 3);
    redlock_hold *released = hold_key(&c, "released", &options);
    redlock_hold *kept = hold_key(&c, "kept", NULL);
    redlock_hold *unknown = hold_key(&c, "unknown", &older);
    redlock_sync_free(c.sync);
    c.sync = NULL;
    cr_assert_eq(servers_with(&c.servers, "released", NULL), 3);
    cr_assert_eq(servers_with(&c.servers, "kept", redlock_hold_token(kept)), 3);
    cr_assert_eq(servers_with(&c.servers, "unknown", redlock_hold_token(unknown)), 3);
    cr_assert_eq(told, 1);
    cr_assert(redlock_hold_lost(released));
    cr_assert_eq(redlock_hold_valid_ms(released), 0);
    cr_assert_gt(redlock_hold_valid_ms(kept), 0, "it excludes others still");
    cr_assert_eq(redlock_unlock(released, 0), REDLOCK_CLOSED);
    redlock_hold_free(released);
    redlock_hold_free(kept);
    redlock_hold_free(unknown);
    crew_close(&c);
}

/* It was lost by a clock, and its owner has not unlocked: the keys are there still. */
Test(sync_end, client_is_freed_and_releases_what_was_lost)
{
    struct crew c;
    redlock_hold *hold[2];
    redlock_lock_options options = crew_lock_options();
    options.max_hold_ms = 20;
    crew_open(&c, 3);
    for (unsigned i = 0; i < 2; i++) {
        options.release_on_free = i > 0;
        hold[i] = hold_key(&c, i > 0 ? "released" : "kept", &options);
        CREW_UNTIL(redlock_hold_lost(hold[i]));
    }
    redlock_sync_free(c.sync);
    c.sync = NULL;
    cr_assert_eq(servers_with(&c.servers, "released", NULL), 3);
    cr_assert_eq(servers_with(&c.servers, "kept", redlock_hold_token(hold[0])), 3);
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_eq(redlock_unlock(hold[i], 0), REDLOCK_MAX_HOLD);
        redlock_hold_free(hold[i]);
    }
    crew_close(&c);
}

/* Nobody answers: all of it ends all the same. */
Test(sync_end, client_is_freed_while_nodes_are_silent)
{
    struct crew c;
    struct hand hand[3];
    crew_open(&c, 3);
    for (unsigned i = 0; i < 3; i++)
        hand_start(&hand[i], c.sync, "job", NULL);
    cr_assert_eq(hand_done(&hand[0], job_lock), REDLOCK_OK);
    for (unsigned i = 0; i < 3; i++)
        servers_stop(&c.servers, i);
    hand[1].key = "other";
    hand_do(&hand[1], job_lock);
    CREW_UNTIL(crew_waiting(c.sync, "other") == 1);
    hand_do(&hand[0], job_confirm);
    CREW_UNTIL(!crew_held(c.sync, "job"));
    hand_do(&hand[2], job_lock);
    CREW_UNTIL(crew_waiting(c.sync, "job") == 1);
    redlock_sync_free(c.sync);
    c.sync = NULL;
    cr_assert_eq(hand_await(&hand[0]), REDLOCK_UNCONFIRMED);
    cr_assert_eq(hand_await(&hand[1]), REDLOCK_CANCELLED);
    cr_assert_eq(hand_await(&hand[2]), REDLOCK_CANCELLED);
    for (unsigned i = 0; i < 3; i++) {
        servers_cont(&c.servers, i);
        hand_end(&hand[i]);
    }
    crew_close(&c);
}

/* The same while a lock is extended for the one who is next. */
Test(sync_end, client_is_freed_while_a_lock_is_handed_over)
{
    struct crew c;
    struct hand hand[2];
    redlock_lock_options options = crew_lock_options();
    options.watchdog = false;
    crew_open(&c, 3);
    hand_start(&hand[0], c.sync, "job", &options);
    cr_assert_eq(hand_done(&hand[0], job_lock), REDLOCK_OK);
    options.min_validity_ms = 59300;
    hand_start(&hand[1], c.sync, "job", &options);
    CREW_UNTIL(redlock_hold_valid_ms(hand[0].hold) < options.min_validity_ms);
    hand_do(&hand[1], job_lock);
    CREW_UNTIL(crew_waiting(c.sync, "job") == 1);
    for (unsigned i = 0; i < 3; i++)
        servers_stop(&c.servers, i);
    hand_do(&hand[0], job_confirm);
    CREW_UNTIL(!crew_held(c.sync, "job"));
    redlock_sync_free(c.sync);
    c.sync = NULL;
    cr_assert_eq(hand_await(&hand[0]), REDLOCK_UNCONFIRMED);
    cr_assert_eq(hand_await(&hand[1]), REDLOCK_CANCELLED);
    for (unsigned i = 0; i < 3; i++)
        servers_cont(&c.servers, i);
    hand_end(&hand[0]);
    hand_end(&hand[1]);
    crew_close(&c);
}

/* Threads extend and unlock what they hold while it is freed: each call ends. */
#define BUSY 4

static void job_extend_on(struct hand *hand)
{
    do
        job_extend(hand);
    while (hand->code == REDLOCK_OK);
}

Test(sync_end, client_is_freed_while_threads_work)
{
    struct crew c;
    static const char *const key[BUSY] = {"a", "b", "c", "d"};
    crew_open(&c, 3);
    for (unsigned round = 0; round < 10; round++) {
        struct hand hand[BUSY];
        for (unsigned i = 0; i < BUSY; i++) {
            hand_start(&hand[i], c.sync, key[i], NULL);
            cr_assert_eq(hand_done(&hand[i], job_lock), REDLOCK_OK);
        }
        for (unsigned i = 0; i < BUSY; i++)
            hand_do(&hand[i], i % 2 ? job_extend_on : job_confirm);
        redlock_sync_free(c.sync);
        for (unsigned i = 0; i < BUSY; i++) {
            redlock_code code = hand_await(&hand[i]);
            if (i % 2)
                cr_assert_eq(code, REDLOCK_CLOSED, "%s", redlock_code_name(code));
            else
                cr_assert(code == REDLOCK_CLOSED || code == REDLOCK_OK ||
                          code == REDLOCK_UNCONFIRMED);
            cr_assert_eq(hand_done(&hand[i], job_unlock),
                         i % 2 ? REDLOCK_CLOSED : REDLOCK_NOT_HELD);
            hand_end(&hand[i]);
        }
        for (unsigned i = 0; i < c.servers.n; i++)
            servers_do(&c.servers, i, "FLUSHALL");
        c.sync = crew_sync(&c);
    }
    crew_close(&c);
}

/* --- threads that end --- */

/* Nobody knows what it left half done: the lock stays until its TTL ends. */
Test(sync_end, thread_ends_with_a_lock)
{
    struct crew c;
    struct hand holder, waiting;
    redlock_hold *none = NULL;
    redlock_lock_options options = crew_lock_options();
    options.ttl_ms = 1000;
    crew_open(&c, 3);
    hand_start(&holder, c.sync, "job", &options);
    cr_assert_eq(hand_done(&holder, job_lock), REDLOCK_OK);
    redlock_hold *hold = holder.hold;
    hand_start(&waiting, c.sync, "job", &options);
    hand_do(&waiting, job_lock);
    CREW_UNTIL(crew_waiting(c.sync, "job") == 1);
    CREW_UNTIL(servers_with(&c.servers, "job", redlock_hold_token(hold)) == 3);
    holder.hold = NULL;
    hand_end(&holder);
    cr_assert(redlock_hold_lost(hold));
    cr_assert_eq(redlock_hold_extend(hold, 0), REDLOCK_NOT_HELD);
    cr_assert_eq(redlock_unlock(hold, 0), REDLOCK_NOT_HELD, "it does not release it");
    cr_assert_eq(redlock_try_lock(c.sync, "job", 3, &options, &none), REDLOCK_TAKEN);
    cr_assert_eq(servers_with(&c.servers, "job", redlock_hold_token(hold)), 3);
    cr_assert_eq(hand_await(&waiting), REDLOCK_OK);
    cr_assert_str_neq(redlock_hold_token(waiting.hold), redlock_hold_token(hold));
    finish(&waiting);
    redlock_hold_free(hold);
    crew_close(&c);
}

/* Only what it holds still; and that of other clients, too. */
Test(sync_end, thread_ends_with_some_locks)
{
    struct crew c;
    struct hand hand;
    redlock_hold *hold[4];
    static const char *const key[] = {"a", "b", "c", "d"};
    redlock_lock_options options = crew_lock_options();
    crew_open(&c, 3);
    redlock_sync *other = crew_sync(&c);
    hand_start(&hand, c.sync, NULL, NULL);
    for (unsigned i = 0; i < 4; i++) {
        hand.key = key[i];
        hand.sync = i < 2 ? c.sync : other;
        hand.options.any_thread = i == 3;
        cr_assert_eq(hand_done(&hand, job_lock), REDLOCK_OK);
        hold[i] = hand.hold;
        hand.hold = NULL;
    }
    cr_assert_eq(redlock_unlock(hold[1], REDLOCK_CONFIRM), REDLOCK_OK, "here, not there");
    hand_end(&hand);
    cr_assert(redlock_hold_lost(hold[0]));
    cr_assert(redlock_hold_lost(hold[2]));
    cr_assert_not(redlock_hold_lost(hold[3]), "it is nobody's in particular");
    cr_assert_eq(redlock_unlock(hold[3], REDLOCK_CONFIRM), REDLOCK_OK);
    hand_start(&hand, c.sync, "b", &options);
    cr_assert_eq(hand_done(&hand, job_lock), REDLOCK_OK);
    finish(&hand);
    for (unsigned i = 0; i < 4; i++)
        redlock_hold_free(hold[i]);
    redlock_sync_free(other);
    crew_close(&c);
}

/* A thread that is cancelled while it waits goes on waiting, and ends after that. */
static void job_lock_and_end(struct hand *hand)
{
    job_lock(hand);
    pthread_testcancel();
}

static void *lock_and_end(void *arg)
{
    job_lock_and_end(arg);
    return NULL;
}

Test(sync_end, thread_is_cancelled_while_it_waits)
{
    struct crew c;
    struct hand holder;
    struct hand cancelled = {.key = "job", .options = crew_lock_options()};
    pthread_t thread;
    void *returned;
    crew_open(&c, 3);
    cancelled.sync = c.sync;
    cancelled.options.ttl_ms = 1000;
    hand_start(&holder, c.sync, "job", NULL);
    cr_assert_eq(hand_done(&holder, job_lock), REDLOCK_OK);
    cr_assert_eq(pthread_create(&thread, NULL, lock_and_end, &cancelled), 0);
    CREW_UNTIL(crew_waiting(c.sync, "job") == 1);
    cr_assert_eq(pthread_cancel(thread), 0);
    cr_assert_eq(crew_waiting(c.sync, "job"), 1);
    cr_assert_eq(hand_done(&holder, job_unlock), REDLOCK_OK);
    cr_assert_eq(pthread_join(thread, &returned), 0);
    cr_assert_eq(returned, PTHREAD_CANCELED);
    cr_assert_eq(cancelled.code, REDLOCK_OK);
    cr_assert(redlock_hold_lost(cancelled.hold));
    redlock_hold_free(cancelled.hold);
    hand_end(&holder);
    crew_close(&c);
}

/* --- signals --- */

static atomic_uint signals;
static pthread_t signalled;

static void on_signal(int number)
{
    (void)number;
    signalled = pthread_self();
    atomic_fetch_add(&signals, 1);
}

Test(sync_end, signals_end_no_wait)
{
    struct crew c;
    struct hand holder, waiting;
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART */
    sigaction(SIGUSR1, &action, NULL);
    crew_open(&c, 3);
    hand_start(&holder, c.sync, "job", NULL);
    cr_assert_eq(hand_done(&holder, job_lock), REDLOCK_OK);
    hand_start(&waiting, c.sync, "job", NULL);
    waiting.wait_ms = 3600000;
    hand_do(&waiting, job_lock_for);
    CREW_UNTIL(crew_waiting(c.sync, "job") == 1);
    for (unsigned i = 1; i <= 20; i++) {
        cr_assert_eq(pthread_kill(waiting.thread, SIGUSR1), 0);
        CREW_UNTIL(signals == i);
    }
    cr_assert(hand_is_busy(&waiting));
    finish(&holder);
    finish(&waiting);
    crew_close(&c);
}

/* The client's thread takes none: the only one that does not block it is this one. */
Test(sync_end, client_takes_no_signals)
{
    struct crew c;
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t usr1, pending;
    sigaction(SIGUSR1, &action, NULL);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    crew_open(&c, 3);
    pthread_sigmask(SIG_BLOCK, &usr1, NULL);
    cr_assert_eq(kill(getpid(), SIGUSR1), 0);
    redlock_hold *hold = NULL;
    cr_assert_eq(redlock_lock(c.sync, "job", 3, NULL, &hold), REDLOCK_OK);
    sigpending(&pending);
    cr_assert(sigismember(&pending, SIGUSR1));
    cr_assert_eq(signals, 0);
    pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
    cr_assert_eq(signals, 1);
    cr_assert(pthread_equal(signalled, pthread_self()));
    redlock_hold_free(hold);
    crew_close(&c);
}
