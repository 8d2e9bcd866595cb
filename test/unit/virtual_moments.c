/*
 * Moments that the simulator hardly ever reaches, made by hand. Each was found by a mistake
 * that somebody planted there.
 */
#include "virtual_fixture.h"

#include <criterion/criterion.h>
#include <string.h>

#include "redlock/admin.h"
#include "sim/redis/reply.h"
#include "sim/virtual/network.h"

TestSuite(virtual_moments, .init = virtual_setup, .fini = virtual_teardown);

static void run_for(int64_t span)
{
    virtual_run_until(events_now() + span);
}

/* NULL: the node has no such key. */
static struct key *key_on(unsigned i, const char *name)
{
    struct rl_word word = {name, strlen(name)};
    return keyspace_find(&node[i].redis->keyspace, 0, word, node_now(&node[i]) / 1000);
}

/* Blocks one node's replies to both clients. */
static void block_replies(unsigned i, int64_t span)
{
    network.path[0][i + 1].down_blocked = events_now() + span;
}

static void on_result(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct user *mine = arg;
    (void)lease;
    mine->code = result->code;
    mine->told++;
}

/* --- observers --- */

static int64_t terms[8];
static unsigned terms_count;

static void on_leader(redlock_observer *observer, const redlock_leader *leader, void *arg)
{
    (void)observer;
    (void)arg;
    cr_assert_lt(terms_count, 8);
    terms[terms_count++] = leader->term;
}

static redlock_observer *observer;

static void observe(void *arg)
{
    struct user *mine = arg;
    cr_assert_eq(redlock_observe(mine->client, "job", 3, on_leader, NULL, &observer),
                 REDLOCK_OK);
}

static void stop_observing(void *arg)
{
    (void)arg;
    redlock_observer_free(observer);
}

static void put(unsigned i, const char *name, struct rl_word value)
{
    struct keyspace *keyspace = &node[i].redis->keyspace;
    struct key *key =
        keyspace_add(keyspace, 0, (struct rl_word){name, strlen(name)}, KEY_STRING);
    bytes_set(&key->string, value);
}

/* A delayed extension finds free nodes. */
Test(virtual_moments, an_earlier_term_that_is_stored_again_is_not_told)
{
    struct bytes earlier = {0};
    cr_assert_eq(user_told(&user[1], user_admit), REDLOCK_OK);
    user[1].options.kind = REDLOCK_KIND_ELECTION;
    terms_count = 0;
    process_call(&user[0].process, observe, &user[0]);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(user_told(&user[1], user_acquire), REDLOCK_OK);
        run_for(2 * VIRTUAL_S);
        for (unsigned k = 0; earlier.len == 0 && k < NODES; k++)
            if (key_on(k, "job!term"))
                bytes_set(&earlier, bytes_word(&key_on(k, "job!term")->string));
        cr_assert_eq(user_told(&user[1], user_release), REDLOCK_OK);
        run_for(2 * VIRTUAL_S);
        process_call(&user[1].process, user_free_lease, &user[1]);
    }
    unsigned count = terms_count;
    cr_assert_gt(count, 3);
    cr_assert_gt(terms[count - 2], terms[count - 4], "two terms, and after each nobody");
    struct rl_word term = bytes_word(&earlier);
    size_t token = strcspn(earlier.data, " ") + 1;
    for (unsigned k = 0; k < MAJORITY; k++) {
        put(k, "job!term", term);
        put(k, "job", (struct rl_word){term.text + token, term.len - token});
    }
    run_for(10 * VIRTUAL_S);
    cr_assert_eq(terms_count, count);
    bytes_free(&earlier);
    process_call(&user[0].process, stop_observing, NULL);
}

/* --- releases and extensions --- */

static void release_without_memory(void *arg)
{
    struct user *mine = arg;
    mine->process.faults.no_memory = 1;
    (void)redlock_release(mine->lease, on_result, mine);
}

/* A release has a script that was not sent before: it does not fit into what is there. */
Test(virtual_moments, a_release_for_which_there_was_no_memory_is_sent_later)
{
    cr_assert_eq(user_told(&user[0], user_acquire), REDLOCK_OK);
    run_for(VIRTUAL_MS);
    cr_assert_eq(virtual_keys(), NODES);
    process_call(&user[0].process, release_without_memory, &user[0]);
    run_for(VIRTUAL_MS);
    cr_assert_gt(user[0].process.failed_allocations, 0);
    cr_assert_eq(virtual_keys(), NODES);
    user[0].process.faults.no_memory = 0;
    run_for(VIRTUAL_S);
    cr_assert_eq(virtual_keys(), 0);
}

static bool refuses_releases(const struct node_command *command, struct bytes *out)
{
    bool is_script = word_is_option(command->word[0], "EVAL") ||
                     word_is_option(command->word[0], "EVALSHA");
    if (is_script)
        reply_error_format(out, "BUSY for a while");
    return is_script;
}

static const struct node_class refusing = {.replaces = refuses_releases};
static const struct node_class usual = {0};

static bool is_drained, is_clean;

static void on_drained(redlock_client *client, bool clean, void *arg)
{
    (void)client;
    (void)arg;
    is_drained = true;
    is_clean = clean;
}

static void drain(void *arg)
{
    struct user *mine = arg;
    cr_assert_eq(redlock_client_drain(mine->client, REDLOCK_FOREVER, on_drained, NULL),
                 REDLOCK_OK);
}

/* All have replied, and one of them with an error: the release is sent again. */
Test(virtual_moments, a_drain_waits_for_a_release_that_a_node_refused)
{
    cr_assert_eq(user_told(&user[0], user_acquire), REDLOCK_OK);
    node_watch(&node[0], &refusing);
    cr_assert_eq(user_told(&user[0], user_release), REDLOCK_OK);
    run_for(VIRTUAL_S / 4);
    process_call(&user[0].process, drain, &user[0]);
    run_for(4 * VIRTUAL_S);
    cr_assert_not(is_drained);
    cr_assert_not_null(key_on(0, "job"));
    node_watch(&node[0], &usual);
    run_for(VIRTUAL_S);
    cr_assert(is_drained && is_clean);
    cr_assert_null(key_on(0, "job"));
}

static int64_t longer_ms;

static void extend(void *arg)
{
    struct user *mine = arg;
    cr_assert_eq(redlock_extend(mine->lease, longer_ms, on_result, mine), REDLOCK_OK);
}

static redlock_verdict verdict;

static void explain(void *arg)
{
    struct user *mine = arg;
    redlock_node nodes[NODES];
    cr_assert_eq(redlock_client_explain(mine->client, nodes, NODES), NODES);
    verdict = nodes[0].verdict;
}

/* This client does not know max_ttl_ms but from the TTLs that it uses. */
Test(virtual_moments, a_longer_ttl_of_an_extension_makes_quarantines_longer)
{
    cr_assert_eq(user_told(&user[0], user_acquire), REDLOCK_OK);
    longer_ms = 10 * TTL_MS;
    cr_assert_eq(user_told(&user[0], extend), REDLOCK_OK);
    node_restart(&node[0]);
    run_for(longer_ms * VIRTUAL_MS);
    process_call(&user[0].process, explain, &user[0]);
    cr_assert_eq(verdict, REDLOCK_VERDICT_QUARANTINED);
    run_for(longer_ms * VIRTUAL_MS / 5);
    process_call(&user[0].process, explain, &user[0]);
    cr_assert_eq(verdict, REDLOCK_VERDICT_READY);
}

/* It says when it was sent itself: a node that lost the key stores it again. */
Test(virtual_moments, an_extension_of_a_fenced_lock_recreates_a_key_after_any_time)
{
    cr_assert_eq(user_told(&user[0], user_admit), REDLOCK_OK);
    user[0].options.fenced = true;
    cr_assert_eq(user_told(&user[0], user_acquire), REDLOCK_OK);
    run_for(3 * TTL_MS * VIRTUAL_MS);
    keyspace_delete(&node[4].redis->keyspace, key_on(4, "job"));
    run_for(TTL_MS * VIRTUAL_MS / 2);
    cr_assert_not_null(key_on(4, "job"));
}

/* --- repairs --- */

static redlock_lease *other_lease;

static void acquire_other(void *arg)
{
    struct user *mine = arg;
    cr_assert_eq(redlock_acquire(mine->client, "other", 5, &mine->options, on_result, mine,
                                 &other_lease),
                 REDLOCK_OK);
}

static void free_other(void *arg)
{
    (void)arg;
    redlock_lease_free(other_lease);
}

/* The client sees that it votes again. */
static void wait_for_vote(void)
{
    do {
        run_for(VIRTUAL_MS);
        process_call(&user[0].process, explain, &user[0]);
    } while (verdict != REDLOCK_VERDICT_READY);
}

/*
 * The first lease is repaired after 0.6 s, and the node is slow to reply to that. So it is
 * not asked when the second one is extended, after 1.1 s.
 */
Test(virtual_moments, a_node_that_is_slow_while_it_is_repaired_is_repaired_later)
{
    cr_assert_eq(user_told(&user[0], user_acquire), REDLOCK_OK);
    cr_assert_eq(user_told(&user[0], acquire_other), REDLOCK_OK);
    run_for(VIRTUAL_S);
    keyspace_delete(&node[0].redis->keyspace, key_on(0, "job"));
    keyspace_delete(&node[0].redis->keyspace, key_on(0, "other"));
    node_restart(&node[0]);
    run_for(VIRTUAL_S);
    wait_for_vote();
    block_replies(0, VIRTUAL_S);
    run_for(VIRTUAL_S * 12 / 10);
    cr_assert_not_null(key_on(0, "job"));
    cr_assert_null(key_on(0, "other"));
    process_call(&user[0].process, explain, &user[0]);
    cr_assert_eq(verdict, REDLOCK_VERDICT_SUSPECT);
    run_for(2 * VIRTUAL_S);
    cr_assert_not_null(key_on(0, "other"));
    process_call(&user[0].process, free_other, NULL);
}

/*
 * The quarantine of the link is longer than that of the marker, by the TTL of a plain lock.
 * When it ends, the node lacks the fenced lease: the last extension stored the key again.
 */
Test(virtual_moments, a_quarantine_of_plain_locks_is_no_reason_to_extend_a_fenced_lock)
{
    cr_assert_eq(user_told(&user[0], user_admit), REDLOCK_OK);
    user[0].options.ttl_ms = 4 * TTL_MS;
    cr_assert_eq(user_told(&user[0], acquire_other), REDLOCK_OK);
    user[0].options.ttl_ms = TTL_MS;
    user[0].options.fenced = true;
    cr_assert_eq(user_told(&user[0], user_acquire), REDLOCK_OK);
    node_restart(&node[0]);
    run_for(4 * TTL_MS * VIRTUAL_MS);
    cr_assert_not_null(key_on(0, "job"), "its marker is active");
    do {
        if (key_on(0, "job"))
            keyspace_delete(&node[0].redis->keyspace, key_on(0, "job"));
        run_for(VIRTUAL_MS);
        process_call(&user[0].process, explain, &user[0]);
    } while (verdict == REDLOCK_VERDICT_QUARANTINED);
    cr_assert_eq(verdict, REDLOCK_VERDICT_READY);
    int64_t expires = key_on(1, "job")->expires;
    run_for(TTL_MS * VIRTUAL_MS / 20);
    cr_assert_eq(key_on(1, "job")->expires, expires);
    process_call(&user[0].process, free_other, NULL);
}

/* --- clocks --- */

static redlock_verdict member;

static void look_at_member(void *arg)
{
    struct user *mine = arg;
    redlock_node nodes[NODES];
    cr_assert_eq(redlock_client_members(mine->client, nodes, NODES), NODES);
    member = nodes[NODES - 1].verdict;
}

/*
 * The first reply with this node's time comes after the attempt is over. It is what later
 * ones are compared with: the clock is set right after it.
 */
Test(virtual_moments, a_reply_to_an_attempt_that_is_over_tells_the_time_of_its_node)
{
    cr_assert_eq(user_told(&user[0], user_admit), REDLOCK_OK);
    for (unsigned i = 0; i < NODES; i++)
        node_hang_up(&node[i]);
    run_for(VIRTUAL_S);
    user[1].options.fenced = true;
    user[1].options.ttl_ms = 100;
    user[1].options.watchdog = false;
    block_replies(NODES - 1, VIRTUAL_S / 2);
    cr_assert_eq(user_told(&user[1], user_acquire), REDLOCK_OK);
    cr_assert_eq(user_told(&user[1], user_release), REDLOCK_OK);
    process_call(&user[1].process, user_free_lease, &user[1]);
    run_for(VIRTUAL_S);
    process_call(&user[1].process, look_at_member, &user[1]);
    cr_assert_eq(member, REDLOCK_VERDICT_ACTIVE);
    virtual_clock_step(&node[NODES - 1].clock, VIRTUAL_S * 4 / 5);
    cr_assert_eq(user_told(&user[1], user_acquire), REDLOCK_OK);
    run_for(VIRTUAL_S / 4);
    process_call(&user[1].process, look_at_member, &user[1]);
    cr_assert_neq(member, REDLOCK_VERDICT_ACTIVE);
}

/* Its unslewed clock has counted the suspension: so no node's clock seems to be set. */
Test(virtual_moments, a_client_that_was_suspended_acquires_with_its_first_attempt)
{
    cr_assert_eq(user_told(&user[0], user_admit), REDLOCK_OK);
    for (unsigned i = 0; i < NODES; i++)
        node_hang_up(&node[i]);
    run_for(VIRTUAL_S);
    user[1].options.fenced = true;
    cr_assert_eq(user_told(&user[1], user_acquire), REDLOCK_OK);
    cr_assert_eq(user_told(&user[1], user_release), REDLOCK_OK);
    process_call(&user[1].process, user_free_lease, &user[1]);
    process_suspend(&user[1].process, events_now() + 3 * VIRTUAL_S, false);
    run_for(3 * VIRTUAL_S);
    cr_assert_eq(user_told(&user[1], user_acquire), REDLOCK_OK);
}

/* --- an operator --- */

static void on_broken(redlock_client *client, const redlock_inspection *inspection,
                      void *arg)
{
    struct user *mine = arg;
    (void)client;
    mine->code = inspection->code;
    mine->told++;
}

static void break_lock(void *arg)
{
    struct user *mine = arg;
    cr_assert_eq(redlock_break(mine->client, "job", 3, on_broken, mine), REDLOCK_OK);
}

Test(virtual_moments, a_lock_that_is_broken_leaves_its_fence)
{
    cr_assert_eq(user_told(&user[0], user_admit), REDLOCK_OK);
    user[0].options.fenced = true;
    cr_assert_eq(user_told(&user[0], user_acquire), REDLOCK_OK);
    cr_assert_eq(user_told(&user[1], break_lock), REDLOCK_OK);
    run_for(VIRTUAL_S);
    for (unsigned i = 0; i < NODES; i++) {
        cr_assert_null(key_on(i, "job"));
        cr_assert_not_null(key_on(i, "job!fence"));
    }
}

/* --- shared locks --- */

static void downgrade(void *arg)
{
    struct user *mine = arg;
    cr_assert_eq(redlock_downgrade(mine->lease, on_result, mine), REDLOCK_OK);
}

Test(virtual_moments, a_late_reply_of_before_a_downgrade_is_read_as_a_writers)
{
    run_for(VIRTUAL_S);
    const struct node_link *link = node[4].link;
    block_replies(4, VIRTUAL_S / 2);
    cr_assert_eq(user_told(&user[0], user_acquire), REDLOCK_OK);
    cr_assert_eq(user_told(&user[0], downgrade), REDLOCK_OK);
    run_for(VIRTUAL_S);
    process_call(&user[0].process, explain, &user[0]);
    cr_assert_eq(node[4].link, link, "the connection lasts");
    cr_assert_eq(user_told(&user[0], user_release), REDLOCK_OK);
}

/* The first reader's time was longer: the key ends with the second one's. */
static void leave_early(void)
{
    user[0].options.kind = user[1].options.kind = REDLOCK_KIND_SHARED;
    user[0].options.ttl_ms = 2 * TTL_MS;
    user[1].options.watchdog = false;
    cr_assert_eq(user_told(&user[0], user_acquire), REDLOCK_OK);
    cr_assert_eq(user_told(&user[1], user_acquire), REDLOCK_OK);
    int64_t now = node_now(&node[0]) / 1000;
    cr_assert_gt(key_on(0, "job")->expires, now + 3 * TTL_MS / 2);
    cr_assert_eq(user_told(&user[0], user_release), REDLOCK_OK);
    run_for(VIRTUAL_S);
    for (unsigned i = 0; i < NODES; i++)
        cr_assert_lt(key_on(i, "job")->expires, now + 3 * TTL_MS / 2);
}

Test(virtual_moments, a_reader_that_leaves_lets_the_key_end_with_the_others)
{
    leave_early();
}

Test(virtual_moments, a_fenced_reader_that_leaves_lets_the_key_end_with_the_others)
{
    user[0].options.fenced = user[1].options.fenced = true;
    cr_assert_eq(user_told(&user[0], user_admit), REDLOCK_OK);
    user[1].options.wait_ms = TTL_MS;
    cr_assert_eq(user_told(&user[1], user_acquire), REDLOCK_OK); /* it reads the markers */
    process_call(&user[1].process, user_free_lease, &user[1]);
    run_for(VIRTUAL_S);
    leave_early();
}

/* --- sets that wait --- */

#define SETS 2

static redlock_lease *set[SETS];

static void on_set(redlock_lease *lease, const redlock_result *result, void *arg)
{
    (void)lease;
    (void)result;
    (void)arg;
}

static void want_sets(void *arg)
{
    static const redlock_key both[] = {{"job", 3}, {"zoo", 3}};
    struct user *mine = arg;
    mine->options.wait_ms = REDLOCK_FOREVER;
    for (unsigned i = 0; i < SETS; i++)
        cr_assert_eq(redlock_acquire_many(mine->client, both, 2, &mine->options, on_set,
                                          NULL, &set[i]),
                     REDLOCK_OK);
}

static void free_sets(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < SETS; i++)
        redlock_lease_free(set[i]);
}

static int64_t constant_delay(int64_t latency)
{
    return latency;
}

/* The first two are notified and give up, while they try; the third was not notified. */
Test(virtual_moments, sets_that_were_notified_and_give_up_pass_it_on)
{
    network.draw_delay = constant_delay;
    for (unsigned k = 0; k < NODES; k++)
        put(k, "zoo", (struct rl_word){"anothers", 8});
    cr_assert_eq(user_told(&user[1], user_acquire), REDLOCK_OK);
    process_call(&user[0].process, want_sets, &user[0]);
    run_for(3 * VIRTUAL_S);
    process_call(&user[0].process, user_acquire, &user[0]);
    run_for(3 * VIRTUAL_S);
    process_call(&user[1].process, user_release, &user[1]);
    while (key_on(NODES - 1, "job"))
        cr_assert(events_step(events_now() + LONG));
    run_for(2 * network.path[0][1].latency);
    cr_assert_eq(user[0].told, 0);
    process_call(&user[0].process, free_sets, NULL);
    run_for(VIRTUAL_S / 2);
    cr_assert_eq(user[0].told, 1);
    cr_assert_eq(user[0].code, REDLOCK_OK);
}
