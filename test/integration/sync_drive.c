/* Who runs the loop of a client for threads: its own thread, or one that waits. */
#include <criterion/criterion.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "child.h"
#include "crew.h"

/* --- sending the client's thread away --- */

/*
 * It stays in a callback while the loop is free. So it can neither drive nor relieve
 * anyone, and a thread that waits drives for as long as that is so.
 */
struct away {
    struct crew crew;
    redlock_hold *lost;
    sem_t back;
    atomic_uint gone;
    pthread_t thread;
    enum crew_driver driver; /* when it was told */
    bool frees;              /* the client, when it is called back */
};

static void stay_away(redlock_hold *hold, redlock_code why, int64_t valid_ms, void *arg)
{
    struct away *away = arg;
    (void)hold;
    (void)why;
    (void)valid_ms;
    away->thread = pthread_self();
    away->driver = crew_driver(away->crew.sync);
    atomic_fetch_add(&away->gone, 1);
    while (sem_wait(&away->back) != 0)
        ;
    if (away->frees)
        redlock_sync_free(away->crew.sync);
}

/* One wait after the other: the loop is left free for them. */
static atomic_bool enough;

static void job_cycle(struct hand *hand)
{
    while (!enough) {
        job_lock(hand);
        job_confirm(hand);
    }
}

static void call_back(struct away *away)
{
    sem_post(&away->back);
    redlock_hold_free(away->lost);
    away->lost = NULL;
}

/* A lock is lost in the midst of that. False: the client's thread drove just then. */
static bool goes_away(struct away *away)
{
    struct hand hand;
    redlock_lock_options options = crew_lock_options();
    unsigned gone = away->gone;
    options.max_hold_ms = 20;
    options.on_lost = stay_away;
    options.lost_arg = away;
    cr_assert_eq(redlock_lock(away->crew.sync, "lost", 4, &options, &away->lost),
                 REDLOCK_OK);
    enough = false;
    hand_start(&hand, away->crew.sync, "cycle", NULL);
    hand_do(&hand, job_cycle);
    CREW_UNTIL(away->gone > gone);
    cr_assert(!pthread_equal(away->thread, hand.thread));
    bool free = away->driver != CREW_CLIENT;
    enough = true;
    if (!free)
        call_back(away);
    cr_assert_eq(hand_await(&hand), REDLOCK_OK);
    hand_end(&hand);
    return free;
}

static void send_away(struct away *away)
{
    *away = (struct away){.thread = pthread_self()};
    sem_init(&away->back, 0, 0);
    crew_open(&away->crew, 3);
    CREW_UNTIL(goes_away(away));
    cr_assert_eq(crew_driver(away->crew.sync), CREW_NOBODY);
}

static void finish(struct away *away)
{
    if (away->lost)
        call_back(away);
    crew_close(&away->crew);
    sem_destroy(&away->back);
}

/* --- a thread drives --- */

Test(sync_drive, alone)
{
    struct away away;
    struct hand hand;
    send_away(&away);
    hand_start(&hand, away.crew.sync, "job", NULL);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(hand_done(&hand, job_lock), REDLOCK_OK);
        cr_assert_eq(hand_done(&hand, job_extend), REDLOCK_OK);
        cr_assert_eq(hand_done(&hand, job_confirm), REDLOCK_OK);
        cr_assert_eq(crew_driver(away.crew.sync), CREW_NOBODY);
    }
    hand_end(&hand);
    finish(&away);
}

/* What it waits for is done by another thread. */
Test(sync_drive, is_handed_a_lock)
{
    struct away away;
    struct hand hand[2];
    send_away(&away);
    for (unsigned i = 0; i < 2; i++)
        hand_start(&hand[i], away.crew.sync, "job", NULL);
    cr_assert_eq(hand_done(&hand[0], job_lock), REDLOCK_OK);
    hand_do(&hand[1], job_lock);
    CREW_UNTIL(crew_driver(away.crew.sync) == CREW_CALLER);
    cr_assert_eq(hand_done(&hand[0], job_unlock), REDLOCK_OK);
    cr_assert_eq(hand_await(&hand[1]), REDLOCK_OK);
    cr_assert_eq(crew_driver(away.crew.sync), CREW_NOBODY);
    cr_assert_eq(hand_done(&hand[1], job_confirm), REDLOCK_OK);
    hand_end(&hand[0]);
    hand_end(&hand[1]);
    finish(&away);
}

/* A lock that another process has: whoever waits for it, waits. */
struct theirs {
    redlock_sync *sync;
    redlock_hold *hold;
};

static struct theirs take(struct away *away, const char *key)
{
    struct theirs theirs = {.sync = crew_sync(&away->crew)};
    cr_assert_eq(redlock_lock(theirs.sync, key, strlen(key), NULL, &theirs.hold),
                 REDLOCK_OK);
    return theirs;
}

static void give_back(struct theirs *theirs)
{
    redlock_hold_free(theirs->hold);
    redlock_sync_free(theirs->sync);
}

/* Whoever waited for it has it, and gives it back. */
static void serve_at_last(struct theirs *theirs, struct hand *waiting)
{
    give_back(theirs);
    cr_assert_eq(hand_await(waiting), REDLOCK_OK);
    cr_assert_eq(hand_done(waiting, job_confirm), REDLOCK_OK);
    hand_end(waiting);
}

static void wait_and_drive(struct away *away, struct hand *hand,
                           const redlock_lock_options *options, hand_job *job)
{
    hand_start(hand, away->crew.sync, "theirs", options);
    hand->wait_ms = 50;
    hand_do(hand, job);
    CREW_UNTIL(crew_driver(away->crew.sync) == CREW_CALLER);
}

Test(sync_drive, is_stopped)
{
    struct away away;
    struct hand hand;
    redlock_stop *stop = NULL;
    redlock_lock_options options = crew_lock_options();
    send_away(&away);
    struct theirs theirs = take(&away, "theirs");
    cr_assert_eq(redlock_stop_new(away.crew.sync, &stop), REDLOCK_OK);
    options.stop = stop;
    wait_and_drive(&away, &hand, &options, job_lock);
    redlock_stop_all(stop);
    cr_assert_eq(hand_await(&hand), REDLOCK_CANCELLED);
    hand_end(&hand);
    redlock_stop_free(stop);
    give_back(&theirs);
    finish(&away);
}

/* A thread of its own process has the lock: nothing but the deadline ends its wait. */
Test(sync_drive, has_a_deadline)
{
    struct away away;
    struct hand hand[2];
    send_away(&away);
    for (unsigned i = 0; i < 2; i++)
        hand_start(&hand[i], away.crew.sync, "job", NULL);
    cr_assert_eq(hand_done(&hand[0], job_lock), REDLOCK_OK);
    hand[1].wait_ms = 300;
    hand_do(&hand[1], job_lock_for);
    CREW_UNTIL(crew_driver(away.crew.sync) == CREW_CALLER);
    cr_assert_eq(hand_await(&hand[1]), REDLOCK_TIMEOUT);
    hand_end(&hand[0]);
    hand_end(&hand[1]);
    finish(&away);
}

/* It does what others want, too, for as long as it drives. */
Test(sync_drive, serves_others)
{
    struct away away;
    struct hand waiting, other;
    send_away(&away);
    struct theirs theirs = take(&away, "theirs");
    wait_and_drive(&away, &waiting, NULL, job_lock);
    hand_start(&other, away.crew.sync, "other", NULL);
    cr_assert_eq(hand_done(&other, job_lock), REDLOCK_OK);
    cr_assert_eq(hand_done(&other, job_unlock), REDLOCK_OK);
    CREW_UNTIL(servers_number(&away.crew.servers, 0, "EXISTS other") == 0);
    cr_assert_eq(crew_driver(away.crew.sync), CREW_CALLER);
    redlock_hold_free(theirs.hold);
    theirs.hold = NULL;
    cr_assert_eq(hand_await(&waiting), REDLOCK_OK);
    cr_assert_eq(hand_done(&waiting, job_confirm), REDLOCK_OK);
    hand_end(&waiting);
    hand_end(&other);
    give_back(&theirs);
    finish(&away);
}

/* What others hold is extended and is found lost, while no callback can be called. */
static void note_loss(redlock_hold *hold, redlock_code why, int64_t valid_ms, void *arg)
{
    atomic_uint *told = arg;
    (void)why;
    (void)valid_ms;
    atomic_fetch_add(told, redlock_hold_lost(hold) ? 1 : 1000);
}

Test(sync_drive, keeps_what_others_hold)
{
    struct away away;
    struct hand waiting, other;
    atomic_uint told = 0;
    redlock_lock_options options = crew_lock_options();
    options.ttl_ms = 3000;
    options.on_lost = note_loss;
    options.lost_arg = &told;
    send_away(&away);
    struct theirs theirs = take(&away, "theirs");
    wait_and_drive(&away, &waiting, NULL, job_lock);
    hand_start(&other, away.crew.sync, "other", &options);
    cr_assert_eq(hand_done(&other, job_lock), REDLOCK_OK);
    int64_t end = crew_clock_ms() + redlock_hold_valid_ms(other.hold);
    CREW_UNTIL(crew_clock_ms() + redlock_hold_valid_ms(other.hold) >
               end + options.ttl_ms / 6);
    for (unsigned i = 0; i < away.crew.servers.n; i++)
        servers_do(&away.crew.servers, i, "DEL other");
    CREW_UNTIL(redlock_hold_lost(other.hold));
    cr_assert_eq(crew_driver(away.crew.sync), CREW_CALLER);
    cr_assert_eq(told, 0);
    call_back(&away);
    CREW_UNTIL(told > 0);
    give_back(&theirs);
    cr_assert_eq(hand_await(&waiting), REDLOCK_OK);
    hand_end(&waiting);
    hand_end(&other);
    finish(&away);
    cr_assert_eq(told, 1);
}

/*
 * The client's thread wanted the loop, but is kept by the next callback before it gets it:
 * who drives goes on, for there is nobody to take over.
 */
Test(sync_drive, is_not_relieved_by_who_calls_back)
{
    struct away away;
    struct hand waiting, other;
    redlock_lock_options options = crew_lock_options();
    options.max_hold_ms = 20;
    options.on_lost = stay_away;
    options.lost_arg = &away;
    send_away(&away);
    struct theirs theirs = take(&away, "theirs");
    wait_and_drive(&away, &waiting, NULL, job_lock);
    hand_start(&other, away.crew.sync, "other", &options);
    cr_assert_eq(hand_done(&other, job_lock), REDLOCK_OK);
    CREW_UNTIL(redlock_hold_lost(other.hold));
    unsigned gone = away.gone;
    crew_relieve(away.crew.sync);
    sem_post(&away.back);
    CREW_UNTIL(away.gone > gone);
    cr_assert_eq(hand_done(&other, job_unlock), REDLOCK_MAX_HOLD, "the driver has mail");
    serve_at_last(&theirs, &waiting);
    sem_post(&away.back);
    hand_end(&other);
    redlock_hold_free(away.lost);
    away.lost = NULL;
    finish(&away);
}

/* Lost, but freed, or left by its thread, before it could be told. */
Test(sync_drive, hushes_what_nobody_has)
{
    struct away away;
    struct hand waiting, other[2];
    static const char *const key[] = {"freed", "left"};
    atomic_uint told = 0;
    redlock_lock_options options = crew_lock_options();
    options.max_hold_ms = 20;
    options.on_lost = note_loss;
    options.lost_arg = &told;
    send_away(&away);
    struct theirs theirs = take(&away, "theirs");
    wait_and_drive(&away, &waiting, NULL, job_lock);
    for (unsigned i = 0; i < 2; i++) {
        hand_start(&other[i], away.crew.sync, key[i], &options);
        cr_assert_eq(hand_done(&other[i], job_lock), REDLOCK_OK);
        CREW_UNTIL(redlock_hold_lost(other[i].hold));
    }
    redlock_hold_free(other[0].hold);
    other[0].hold = NULL;
    redlock_hold *left = other[1].hold;
    other[1].hold = NULL;
    hand_end(&other[1]);
    call_back(&away);
    give_back(&theirs);
    cr_assert_eq(hand_await(&waiting), REDLOCK_OK);
    hand_end(&other[0]);
    hand_end(&waiting);
    finish(&away);
    cr_assert_eq(told, 0);
    redlock_hold_free(left);
}

static atomic_uint signals;

static void on_signal(int number)
{
    (void)number;
    atomic_fetch_add(&signals, 1);
}

/* Neither a signal nor a cancellation ends a wait, and both come to their right. */
static void *lock_and_end(void *arg)
{
    job_lock(arg);
    pthread_testcancel();
    return arg;
}

Test(sync_drive, is_interrupted)
{
    struct away away;
    struct hand hand = {.key = "theirs", .options = crew_lock_options()};
    pthread_t thread;
    void *ended = NULL;
    struct sigaction action = {.sa_handler = on_signal}; /* calls are not begun anew */
    cr_assert_eq(sigaction(SIGUSR1, &action, NULL), 0);
    send_away(&away);
    hand.sync = away.crew.sync;
    hand.options.any_thread = true;
    struct theirs theirs = take(&away, "theirs");
    cr_assert_eq(pthread_create(&thread, NULL, lock_and_end, &hand), 0);
    CREW_UNTIL(crew_driver(away.crew.sync) == CREW_CALLER);
    for (unsigned i = 1; i <= 10; i++) {
        cr_assert_eq(pthread_kill(thread, SIGUSR1), 0);
        CREW_UNTIL(signals == i);
    }
    cr_assert_eq(pthread_cancel(thread), 0);
    crew_run_for(20);
    cr_assert_eq(crew_driver(away.crew.sync), CREW_CALLER);
    give_back(&theirs);
    cr_assert_eq(pthread_join(thread, &ended), 0);
    cr_assert_eq(ended, PTHREAD_CANCELED);
    cr_assert_eq(hand.code, REDLOCK_OK);
    cr_assert_not(redlock_hold_lost(hand.hold));
    cr_assert_eq(redlock_unlock(hand.hold, REDLOCK_CONFIRM), REDLOCK_OK);
    redlock_hold_free(hand.hold);
    finish(&away);
}

/* The child shares the sockets with a thread that is in the midst of the loop. */
Test(sync_drive, process_forks)
{
    struct away away;
    struct hand hand;
    send_away(&away);
    struct theirs theirs = take(&away, "theirs");
    wait_and_drive(&away, &hand, NULL, job_lock);
    for (unsigned i = 0; i < 10; i++) {
        pid_t child = fork();
        cr_assert_geq(child, 0);
        if (child == 0) {
            redlock_hold *none;
            alarm(20);
            bool right =
                redlock_lock(away.crew.sync, "job", 3, NULL, &none) == REDLOCK_FORKED;
            redlock_hold_free(away.lost);
            redlock_sync_free(away.crew.sync);
            _exit(!right);
        }
        child_expect(child);
    }
    serve_at_last(&theirs, &hand);
    finish(&away);
}

/* --- the client's thread drives after that --- */

Test(sync_drive, client_relieves_who_waits_for_long)
{
    struct away away;
    struct hand hand;
    send_away(&away);
    struct theirs theirs = take(&away, "theirs");
    wait_and_drive(&away, &hand, NULL, job_lock);
    call_back(&away);
    CREW_UNTIL(crew_driver(away.crew.sync) == CREW_CLIENT);
    cr_assert(hand_is_busy(&hand));
    serve_at_last(&theirs, &hand);
    finish(&away);
}

/* Who has what it waited for gives the loop to the client's thread, if others wait. */
Test(sync_drive, client_follows_a_thread_that_drove)
{
    struct away away;
    struct hand hand[2], other;
    send_away(&away);
    for (unsigned i = 0; i < 2; i++)
        hand_start(&hand[i], away.crew.sync, "job", NULL);
    struct theirs theirs = take(&away, "theirs");
    cr_assert_eq(hand_done(&hand[0], job_lock), REDLOCK_OK);
    hand_do(&hand[1], job_lock);
    CREW_UNTIL(crew_driver(away.crew.sync) == CREW_CALLER);
    hand_start(&other, away.crew.sync, "theirs", NULL);
    hand_do(&other, job_lock);
    CREW_UNTIL(crew_waiting(away.crew.sync, "theirs") == 1);
    cr_assert_eq(hand_done(&hand[0], job_unlock), REDLOCK_OK);
    cr_assert_eq(hand_await(&hand[1]), REDLOCK_OK);
    cr_assert_eq(crew_driver(away.crew.sync), CREW_CLIENT);
    call_back(&away);
    give_back(&theirs);
    cr_assert_eq(hand_await(&other), REDLOCK_OK);
    hand_end(&hand[0]);
    hand_end(&hand[1]);
    hand_end(&other);
    finish(&away);
}

/* What a thread left behind when it ended: nobody waits for that. */
Test(sync_drive, client_does_what_nobody_waits_for)
{
    struct away away;
    struct hand hand;
    send_away(&away);
    hand_start(&hand, away.crew.sync, "job", NULL);
    cr_assert_eq(hand_done(&hand, job_lock), REDLOCK_OK);
    cr_assert_eq(crew_driver(away.crew.sync), CREW_NOBODY);
    redlock_hold *hold = hand.hold;
    hand.hold = NULL;
    hand_end(&hand);
    cr_assert_eq(crew_driver(away.crew.sync), CREW_CLIENT);
    call_back(&away);
    CREW_UNTIL(crew_keys(away.crew.sync) == 0);
    redlock_hold_free(hold);
    finish(&away);
}

/* --- a thread that unlocks --- */

/* It writes the release itself where the loop is free, and waits for no answer. */
Test(sync_drive, release_is_written_by_who_unlocks)
{
    struct away away;
    struct hand hand;
    send_away(&away);
    hand_start(&hand, away.crew.sync, "job", NULL);
    cr_assert_eq(hand_done(&hand, job_lock), REDLOCK_OK);
    for (unsigned i = 0; i < away.crew.servers.n; i++)
        servers_stop(&away.crew.servers, i);
    cr_assert_eq(hand_done(&hand, job_unlock), REDLOCK_OK);
    cr_assert_eq(crew_driver(away.crew.sync), CREW_NOBODY);
    for (unsigned i = 0; i < away.crew.servers.n; i++)
        servers_cont(&away.crew.servers, i);
    CREW_UNTIL(servers_with(&away.crew.servers, "job", NULL) == 3);
    hand_end(&hand);
    finish(&away);
}

/* The loop is the client's thread's, and that waits, in a callback, for the one that
 * unlocks. */
Test(sync_drive, callback_waits_for_who_unlocks)
{
    struct away away = {.thread = pthread_self()};
    struct hand hand;
    redlock_lock_options options = crew_lock_options();
    options.max_hold_ms = 20;
    options.on_lost = stay_away;
    options.lost_arg = &away;
    sem_init(&away.back, 0, 0);
    crew_open(&away.crew, 3);
    hand_start(&hand, away.crew.sync, "job", NULL);
    cr_assert_eq(hand_done(&hand, job_lock), REDLOCK_OK);
    cr_assert_eq(redlock_lock(away.crew.sync, "lost", 4, &options, &away.lost), REDLOCK_OK);
    CREW_UNTIL(away.gone > 0);
    cr_assert_eq(away.driver, CREW_CLIENT);
    cr_assert_eq(hand_done(&hand, job_unlock), REDLOCK_OK);
    call_back(&away);
    CREW_UNTIL(servers_with(&away.crew.servers, "job", NULL) == 3);
    hand_end(&hand);
    finish(&away);
}

/* A free loop is taken over, and what is held is extended while nobody calls. */
Test(sync_drive, client_extends_while_nobody_calls)
{
    struct away away;
    struct hand hand;
    redlock_lock_options options = crew_lock_options();
    options.ttl_ms = 3000;
    send_away(&away);
    hand_start(&hand, away.crew.sync, "job", &options);
    cr_assert_eq(hand_done(&hand, job_lock), REDLOCK_OK);
    cr_assert_eq(crew_driver(away.crew.sync), CREW_NOBODY);
    int64_t end = crew_clock_ms() + redlock_hold_valid_ms(hand.hold);
    sem_post(&away.back);
    CREW_UNTIL(crew_driver(away.crew.sync) == CREW_CLIENT);
    CREW_UNTIL(crew_clock_ms() + redlock_hold_valid_ms(hand.hold) >
               end + options.ttl_ms / 6);
    cr_assert_not(redlock_hold_lost(hand.hold));
    hand_end(&hand);
    redlock_hold_free(away.lost);
    away.lost = NULL;
    finish(&away);
}

static void *free_client(void *arg)
{
    redlock_sync_free(arg);
    return NULL;
}

Test(sync_drive, client_is_freed)
{
    struct away away;
    struct hand hand;
    pthread_t thread;
    send_away(&away);
    struct theirs theirs = take(&away, "theirs");
    wait_and_drive(&away, &hand, NULL, job_lock);
    cr_assert_eq(pthread_create(&thread, NULL, free_client, away.crew.sync), 0);
    cr_assert_eq(hand_await(&hand), REDLOCK_CANCELLED);
    call_back(&away);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    away.crew.sync = NULL;
    hand_end(&hand);
    give_back(&theirs);
    for (unsigned i = 0; i < away.crew.servers.n; i++)
        cr_assert_eq(servers_number(&away.crew.servers, i, "EXISTS theirs"), 0);
    finish(&away);
}

/* In the callback itself: by then the client is left to end alone. */
Test(sync_drive, client_is_freed_in_a_callback)
{
    struct away away;
    struct hand hand;
    send_away(&away);
    struct theirs theirs = take(&away, "theirs");
    wait_and_drive(&away, &hand, NULL, job_lock);
    away.frees = true;
    call_back(&away);
    cr_assert_eq(hand_await(&hand), REDLOCK_CANCELLED);
    away.crew.sync = NULL;
    hand_end(&hand);
    give_back(&theirs);
    finish(&away);
}
