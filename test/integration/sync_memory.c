/*
 * Every allocation of threads that lock fails in turn: each call ends, and nothing leaks.
 */
#include <criterion/criterion.h>
#include <event2/event.h>

#include "alloc_faults.h"
#include "worker_threads.h"

#define FOREVER SIZE_MAX
#define ENOUGH  2000 /* allocations; a run needs far fewer */

/* The results of the calls of one run. */
struct story {
    redlock_code new, stop, lock, extend, downgrade, confirm, flight, try;
    redlock_sync *sync;
    unsigned flown;
    int returned;
};

static int fly(redlock_hold *hold, void *arg)
{
    struct story *story = arg;
    (void)hold;
    story->flown++;
    return 3;
}

static void use(struct story *story, const redlock_lock_options *options)
{
    redlock_hold *hold = NULL;
    redlock_sync *sync = story->sync;
    story->lock = redlock_lock_for(sync, "job", 3, 200, options, &hold);
    if (story->lock == REDLOCK_OK) {
        story->extend = redlock_hold_extend(hold, 0);
        story->downgrade = redlock_hold_downgrade(hold);
        story->confirm = redlock_unlock(hold, REDLOCK_CONFIRM);
    }
    redlock_hold_free(hold);
    hold = NULL;
    story->flight = redlock_single_flight(sync, "flown", 5, 200, options, fly, story,
                                          &story->returned, NULL);
    story->try = redlock_try_lock(sync, "tried", 5, options, &hold);
    redlock_hold_free(hold);
}

/* AddressSanitizer aborts if it has no memory for a new thread. */
static void make_client(struct sync_quorum *c, struct story *story,
                        const redlock_options *options)
{
#ifdef __SANITIZE_ADDRESS__
    alloc_faults_leave();
#endif
    story->new = redlock_sync_new(c->servers.uri, 3, options, &story->sync);
    if (story->new == REDLOCK_OK)
        (void)redlock_sync_explain(story->sync, NULL, 0); /* the thread is running then */
    alloc_faults_enter();
}

static void tell_story(struct sync_quorum *c, struct story *story)
{
    redlock_stop *stop = NULL;
    redlock_options options;
    redlock_lock_options lock_options;
    redlock_options_init(&options);
    redlock_lock_options_init(&lock_options);
    options.connect_timeout_ms = 300;
    options.node_timeout_ms = 100;
    make_client(c, story, &options);
    if (story->new != REDLOCK_OK)
        return;
    story->stop = redlock_stop_new(story->sync, &stop);
    lock_options.stop = stop;
    use(story, &lock_options);
    redlock_stop_free(stop);
}

static void expect_sense(const struct story *story, bool ran_out)
{
    const redlock_code codes[] = {story->new,    story->stop,      story->lock,
                                  story->extend, story->downgrade, story->confirm,
                                  story->flight, story->try};
    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
        cr_assert(codes[i] == REDLOCK_OK ||
                      (ran_out &&
                       (codes[i] == REDLOCK_NO_MEMORY || codes[i] == REDLOCK_SYSTEM ||
                        codes[i] == REDLOCK_NO_QUORUM || codes[i] == REDLOCK_UNCONFIRMED)),
                  "%zu: %s", i, redlock_code_name(codes[i]));
    cr_assert_eq(story->sync != NULL, story->new == REDLOCK_OK);
    cr_assert_eq(story->flown == 1, story->sync && story->flight == REDLOCK_OK);
    cr_assert_eq(story->returned, story->flown ? 3 : 0);
}

static bool run_story(struct sync_quorum *c, size_t after, size_t count)
{
    struct story story = {0};
    alloc_faults_begin(after, count);
    alloc_faults_enter();
    tell_story(c, &story);
    bool ran_out = alloc_faults_end();
    expect_sense(&story, ran_out);
    SYNC_QUORUM_UNTIL(servers_keys(&c->servers) ==
                      0); /* with memory again, in the surviving thread */
    redlock_sync_free(story.sync);
    return ran_out;
}

static void say_nothing(int severity, const char *text)
{
    (void)severity;
    (void)text;
}

static void fail_in_turn(size_t count)
{
    struct sync_quorum c = {0};
    event_set_log_callback(say_nothing);
    servers_start(&c.servers, 3, NULL);
    run_story(&c, ENOUGH, 0);
    long before = alloc_faults_live();
    size_t after = 0;
    while (run_story(&c, after, count)) {
        cr_assert_eq(alloc_faults_live(), before, "%ld blocks leaked after %zu",
                     alloc_faults_live() - before, after);
        cr_assert_lt(++after, ENOUGH);
    }
    cr_assert_gt(after, 20, "nothing was tried");
    servers_end(&c.servers);
}

Test(sync_memory, one_allocation_fails)
{
    fail_in_turn(1);
}

Test(sync_memory, three_allocations_fail)
{
    fail_in_turn(3);
}

Test(sync_memory, no_allocation_succeeds_any_more)
{
    fail_in_turn(FOREVER);
}

/* Everything that a locked lock needs was allocated before the wait. */
Test(sync_memory, handed_over_without_memory)
{
    struct sync_quorum c;
    struct worker worker[3];
    redlock_code code[3];
    sync_quorum_open(&c, 3);
    for (unsigned i = 0; i < 3; i++) {
        worker_start(&worker[i], c.sync, "job", NULL);
        worker_do(&worker[i], job_lock);
        SYNC_QUORUM_UNTIL(i == 0 ? sync_quorum_held(c.sync, "job")
                                 : sync_quorum_waiting(c.sync, "job") == i);
    }
    alloc_faults_begin(0, FOREVER);
    alloc_faults_enter();
    for (unsigned i = 0; i < 3; i++) {
        code[i] = worker_await(&worker[i]);
        worker_done(&worker[i], job_unlock);
    }
    alloc_faults_leave();
    (void)alloc_faults_end();
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(code[i], REDLOCK_OK);
        cr_assert_eq(worker[i].code, REDLOCK_OK);
        worker_end(&worker[i]);
    }
    SYNC_QUORUM_UNTIL(servers_keys(&c.servers) == 0);
    sync_quorum_close(&c);
}
