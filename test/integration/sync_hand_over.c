/* Which thread gets the lease of another one, and what it gets with it. */
#include <criterion/criterion.h>

#include "worker_threads.h"

static struct sync_quorum quorum;

static void open_quorum(void)
{
    sync_quorum_open_fenced(&quorum, 3);
}

static void close_quorum(void)
{
    sync_quorum_close(&quorum);
}

TestSuite(sync_hand_over, .init = open_quorum, .fini = close_quorum);

static bool have_one_token(const struct worker *a, const struct worker *b)
{
    return strcmp(redlock_hold_token(a->hold), redlock_hold_token(b->hold)) == 0;
}

static void finish(struct worker *worker)
{
    cr_assert_eq(worker_done(worker, job_confirm), REDLOCK_OK);
    worker_end(worker);
}

/* --- options --- */

/* One of two locks; `handed`: to a thread with the other options, either way. */
struct pair {
    redlock_lock_options usual, odd;
    bool handed;
};

static struct pair pairs[12];

static struct pair *add(size_t *count, bool handed)
{
    struct pair *pair = &pairs[(*count)++];
    *pair = (struct pair){sync_quorum_lock_options(), sync_quorum_lock_options(), handed};
    return pair;
}

static void note_nothing(redlock_hold *hold, redlock_code why, redlock_reason reason,
                         int64_t valid_ms, void *arg)
{
    (void)reason;
    (void)hold;
    (void)why;
    (void)valid_ms;
    (void)arg;
}

static size_t make_pairs(void)
{
    size_t count = 0;
    add(&count, false)->odd.ttl_ms = 50000;
    add(&count, false)->odd.margin_ms = 10;
    add(&count, false)->odd.watchdog = false;
    add(&count, false)->odd.max_hold_ms = 600000;
    add(&count, false)->odd.fenced = true;
    add(&count, false)->odd.kind = REDLOCK_KIND_REDISSON;
    struct pair *election = add(&count, false);
    election->usual.fenced = election->odd.fenced = true;
    election->odd.kind = REDLOCK_KIND_ELECTION;
    add(&count, true)->odd.min_validity_ms = 100;
    add(&count, true)->odd.any_thread = true;
    add(&count, true)->odd.recursive = true;
    add(&count, true)->odd.release_on_free = true;
    add(&count, true)->odd.on_lost = note_nothing;
    cr_assert_eq(count, sizeof(pairs) / sizeof(pairs[0]));
    return count;
}

/* A thread whose options matter on the nodes gets a lease of its own. */
static void is_handed_over(const redlock_lock_options *first, redlock_lock_options *next,
                           bool handed, size_t number)
{
    struct worker worker[2];
    worker_start_holding(&worker[0], quorum.sync, "job", first);
    worker_start_waiting(&worker[1], quorum.sync, "job", next);
    cr_assert_eq(worker_done(&worker[0], job_confirm), REDLOCK_OK);
    cr_assert_eq(worker_await(&worker[1]), REDLOCK_OK);
    cr_assert_eq(have_one_token(&worker[0], &worker[1]), handed, "pair %zu", number);
    cr_assert_eq(redlock_hold_fence(worker[1].hold) > 0, next->fenced, "pair %zu", number);
    finish(&worker[1]);
    worker_end(&worker[0]);
}

Test(sync_hand_over, only_with_equal_options)
{
    size_t count = make_pairs();
    for (size_t i = 0; i < count; i++) {
        is_handed_over(&pairs[i].usual, &pairs[i].odd, pairs[i].handed, i);
        is_handed_over(&pairs[i].odd, &pairs[i].usual, pairs[i].handed, i);
    }
}

static bool is_queued(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < 3; i++)
        count += servers_int(&quorum.servers, i, 1, "EXISTS job!queue");
    return count >= 2;
}

/* Each holder of a semaphore has a lease of its own, and none of them hands it over. */
Test(sync_hand_over, not_of_a_slot)
{
    struct worker worker[3];
    redlock_lock_options options = sync_quorum_lock_options();
    options.kind = REDLOCK_KIND_SLOT;
    options.slots = 2;
    worker_start_holding(&worker[0], quorum.sync, "job", &options);
    worker_start_holding(&worker[1], quorum.sync, "job", &options);
    worker_start(&worker[2], quorum.sync, "job", &options);
    worker_do(&worker[2], job_lock);
    SYNC_QUORUM_UNTIL(is_queued());
    unsigned slot = redlock_hold_slot(worker[0].hold);
    cr_assert_eq(worker_done(&worker[0], job_confirm), REDLOCK_OK);
    cr_assert_eq(worker_await(&worker[2]), REDLOCK_OK);
    cr_assert_eq(redlock_hold_slot(worker[2].hold), slot);
    cr_assert_not(have_one_token(&worker[0], &worker[2]));
    cr_assert_not(redlock_hold_lost(worker[1].hold));
    finish(&worker[1]);
    finish(&worker[2]);
    worker_end(&worker[0]);
}

/* An owner may lower the limit of hand-overs in a row; as many fences are reserved. */
Test(sync_hand_over, as_often_as_each_owner_allows)
{
    static const unsigned handoffs[][3] = {
        {16, 0, 16}, {0, 16, 16}, {1, 16, 16}, {2, 1, 1}};
    static const bool handed[][2] = {
        {true, false}, {false, true}, {true, false}, {true, false}};
    for (size_t i = 0; i < sizeof(handoffs) / sizeof(handoffs[0]); i++) {
        struct worker worker[3];
        redlock_lock_options options = sync_quorum_lock_options();
        options.fenced = true;
        for (unsigned j = 0; j < 3; j++) {
            options.handoffs = handoffs[i][j];
            if (j == 0)
                worker_start_holding(&worker[j], quorum.sync, "job", &options);
            else
                worker_start_waiting(&worker[j], quorum.sync, "job", &options);
        }
        for (unsigned j = 0; j < 3; j++) {
            cr_assert_eq(worker_await(&worker[j]), REDLOCK_OK);
            if (j > 0)
                cr_assert_eq(have_one_token(&worker[j - 1], &worker[j]), handed[i][j - 1],
                             "row %zu, thread %u", i, j);
            cr_assert_eq(worker_done(&worker[j], job_confirm), REDLOCK_OK);
        }
        for (unsigned j = 0; j < 3; j++)
            worker_end(&worker[j]);
    }
}

/* --- how much is left --- */

#define THIRD_MS 20000 /* of the TTL */
#define SLACK_MS 10000

/*
 * A lease with less left than a third of its TTL, or than its margin, is extended before
 * the next thread gets it: with a late watchdog that thread would have almost no time left.
 */
static void is_extended_first(int64_t margin_ms, int64_t left_ms, bool extended)
{
    struct worker first, next;
    redlock_lock_options options = sync_quorum_lock_options();
    cr_assert_eq(options.ttl_ms / 3, THIRD_MS);
    options.watchdog = false;
    options.margin_ms = margin_ms;
    worker_start_holding(&first, quorum.sync, "job", &options);
    worker_start_waiting(&next, quorum.sync, "job", &options);
    sync_quorum_set_left(quorum.sync, "job", left_ms);
    cr_assert_eq(worker_done(&first, job_unlock), REDLOCK_OK);
    cr_assert_eq(worker_await(&next), REDLOCK_OK);
    cr_assert(have_one_token(&first, &next));
    if (extended)
        cr_assert_gt(redlock_hold_valid_ms(next.hold), left_ms, "it is not extended");
    else
        cr_assert_leq(redlock_hold_valid_ms(next.hold), left_ms, "it cost a round");
    finish(&next);
    worker_end(&first);
}

Test(sync_hand_over, of_a_lease_that_is_extended_if_little_is_left)
{
    is_extended_first(0, THIRD_MS + SLACK_MS, false);
    is_extended_first(0, THIRD_MS - 1, true);
    is_extended_first(THIRD_MS + 2 * SLACK_MS, THIRD_MS + SLACK_MS, true);
    is_extended_first(THIRD_MS, THIRD_MS + SLACK_MS, false);
}

/* The next thread wants more than that. */
Test(sync_hand_over, of_a_lease_that_is_extended_for_the_next_thread)
{
    struct worker first, next;
    redlock_lock_options options = sync_quorum_lock_options();
    options.watchdog = false;
    worker_start_holding(&first, quorum.sync, "job", &options);
    options.min_validity_ms = THIRD_MS + SLACK_MS;
    worker_start_waiting(&next, quorum.sync, "job", &options);
    sync_quorum_set_left(quorum.sync, "job", options.min_validity_ms - 1);
    cr_assert_eq(worker_done(&first, job_confirm), REDLOCK_OK);
    cr_assert_eq(worker_await(&next), REDLOCK_OK);
    cr_assert(have_one_token(&first, &next));
    cr_assert_gt(redlock_hold_valid_ms(next.hold), options.min_validity_ms);
    finish(&next);
    worker_end(&first);
}

#define ENOUGH_MS 59000
#define SLOW_MS   450 /* longer than what an extension leaves above that */

/* That extension took so long that less is left: it is released. */
Test(sync_hand_over, not_of_a_lease_that_was_extended_too_slowly)
{
    struct worker first, next;
    redlock_lock_options options = sync_quorum_lock_options();
    options.watchdog = false;
    worker_start_holding(&first, quorum.sync, "job", &options);
    options.min_validity_ms = ENOUGH_MS;
    worker_start_waiting(&next, quorum.sync, "job", &options);
    sync_quorum_set_left(quorum.sync, "job", ENOUGH_MS - 1);
    servers_stop_first(&quorum.servers, 3);
    cr_assert_eq(worker_done(&first, job_unlock), REDLOCK_OK);
    sync_quorum_run_for(SLOW_MS);
    servers_cont_first(&quorum.servers, 3);
    cr_assert_eq(worker_await(&next), REDLOCK_OK);
    cr_assert_not(have_one_token(&first, &next));
    finish(&next);
    worker_end(&first);
}

/* --- a token --- */

#define ANOTHER "pabcdefghijklmnopqrstuvwxyz234567"

static void job_adopt(struct worker *worker)
{
    worker->code =
        redlock_lock_adopt(worker->sync, worker->key, strlen(worker->key), ANOTHER,
                           REDLOCK_UNKNOWN, &worker->options, &worker->hold);
}

/*
 * The thread for which the lease is being extended stops waiting. The next one adopts a
 * lock by its token: it must not get this lease, which has another token.
 */
Test(sync_hand_over, not_to_a_thread_that_adopts)
{
    struct worker first, stopped, adopter;
    redlock_stop *stop;
    redlock_lock_options options = sync_quorum_lock_options();
    options.watchdog = false;
    worker_start_holding(&first, quorum.sync, "job", &options);
    worker_start(&adopter, quorum.sync, "job", &options);
    cr_assert_eq(redlock_stop_new(quorum.sync, &stop), REDLOCK_OK);
    options.stop = stop;
    worker_start_waiting(&stopped, quorum.sync, "job", &options);
    sync_quorum_set_left(quorum.sync, "job", THIRD_MS - 1);
    servers_stop_first(&quorum.servers, 3);
    cr_assert_eq(worker_done(&first, job_unlock), REDLOCK_OK);
    redlock_stop_all(stop);
    cr_assert_eq(worker_await(&stopped), REDLOCK_CANCELLED);
    worker_do(&adopter, job_adopt);
    SYNC_QUORUM_UNTIL(sync_quorum_waiting(quorum.sync, "job") == 1);
    servers_cont_first(&quorum.servers, 3);
    cr_assert_eq(worker_await(&adopter), REDLOCK_GONE, "%s",
                 redlock_code_name(adopter.code));
    worker_end(&adopter);
    worker_end(&stopped);
    worker_end(&first);
    redlock_stop_free(stop);
}

/* Its fence may be unknown, so the next owner's would be, too. */
Test(sync_hand_over, not_of_an_adopted_lock)
{
    struct worker adopter, next;
    servers_do_first(&quorum.servers, 3, "SET job " ANOTHER " PX 60000");
    worker_start(&adopter, quorum.sync, "job", NULL);
    cr_assert_eq(worker_done(&adopter, job_adopt), REDLOCK_OK);
    worker_start_waiting(&next, quorum.sync, "job", NULL);
    cr_assert_eq(worker_done(&adopter, job_confirm), REDLOCK_OK);
    cr_assert_eq(worker_await(&next), REDLOCK_OK);
    cr_assert_not(have_one_token(&adopter, &next));
    finish(&next);
    worker_end(&adopter);
}
