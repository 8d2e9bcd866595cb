/* Threads that lock several keys, all or nothing. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>

#include "worker_threads.h"

#define KEY(text)                                                                          \
    {                                                                                      \
        (text), sizeof(text) - 1                                                           \
    }

static const redlock_key apple_pear[] = {KEY("apple"), KEY("pear")};
static const redlock_key pear_apple[] = {KEY("pear"), KEY("apple")};
static const redlock_key pear_fig[] = {KEY("pear"), KEY("fig")};

static struct sync_quorum quorum;
static redlock_sync *others; /* another client: to the nodes, another process */
static redlock_lock_options options;

static void open_both(void)
{
    sync_quorum_open(&quorum, 3);
    others = sync_quorum_sync(&quorum);
    options = sync_quorum_lock_options();
}

static void close_both(void)
{
    redlock_sync_free(others);
    sync_quorum_close(&quorum);
}

TestSuite(sync_many, .init = open_both, .fini = close_both);

static redlock_hold *hold_of(redlock_sync *sync, const redlock_key keys[2])
{
    redlock_hold *hold = NULL;
    cr_assert_eq(redlock_lock_many(sync, keys, 2, REDLOCK_FOREVER, &options, &hold),
                 REDLOCK_OK, "%s", redlock_last_error()->text);
    return hold;
}

Test(sync_many, locked_extended_and_unlocked)
{
    redlock_hold *mine = hold_of(quorum.sync, pear_apple);
    SYNC_QUORUM_UNTIL(servers_with(&quorum.servers, "apple", redlock_hold_token(mine)) ==
                      3);
    SYNC_QUORUM_UNTIL(servers_with(&quorum.servers, "pear", redlock_hold_token(mine)) == 3);
    cr_assert_gt(redlock_hold_valid_ms(mine), 0);
    cr_assert_eq(redlock_hold_extend(mine, 0), REDLOCK_OK);
    cr_assert_eq(redlock_unlock(mine, REDLOCK_CONFIRM), REDLOCK_OK);
    redlock_hold_free(mine);
    SYNC_QUORUM_UNTIL(servers_keys(&quorum.servers) == 0);
}

/* The order in which the keys are named does not matter. */
Test(sync_many, a_thread_has_the_same_set)
{
    redlock_hold *theirs = hold_of(quorum.sync, apple_pear), *mine = NULL;
    cr_assert_eq(redlock_lock_many(quorum.sync, pear_apple, 2, 0, &options, &mine),
                 REDLOCK_TAKEN);
    cr_assert(strstr(redlock_last_error()->text, "a thread of this process has the lock"));
    cr_assert_eq(redlock_lock_many(quorum.sync, pear_apple, 2, 20, &options, &mine),
                 REDLOCK_TIMEOUT);
    cr_assert_null(mine);
    redlock_hold_free(theirs);
}

/* Within a process and between processes. */
Test(sync_many, another_set_or_a_single_key_is_in_the_way)
{
    redlock_hold *theirs = hold_of(quorum.sync, apple_pear), *mine = NULL;
    redlock_sync *const clients[] = {quorum.sync, others};
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_eq(redlock_lock_many(clients[i], pear_fig, 2, 0, &options, &mine),
                     REDLOCK_TAKEN);
        cr_assert_eq(redlock_try_lock(clients[i], "apple", 5, &options, &mine),
                     REDLOCK_TAKEN);
        cr_assert_eq(redlock_try_lock(clients[i], "fig", 3, &options, &mine), REDLOCK_OK);
        cr_assert_eq(redlock_unlock(mine, REDLOCK_CONFIRM), REDLOCK_OK);
        redlock_hold_free(mine);
        mine = NULL;
    }
    redlock_hold_free(theirs);
}

Test(sync_many, adopted_and_released_by_token)
{
    redlock_hold *theirs = hold_of(others, apple_pear), *mine = NULL;
    char token[REDLOCK_TOKEN_MAX + 1];
    strcpy(token, redlock_hold_token(theirs));
    cr_assert_eq(redlock_unlock(theirs, REDLOCK_DISOWN), REDLOCK_OK);
    redlock_hold_free(theirs);
    cr_assert_eq(
        redlock_lock_adopt_many(quorum.sync, pear_apple, 2, token, 0, &options, &mine),
        REDLOCK_OK);
    cr_assert_eq(redlock_unlock(mine, REDLOCK_DISOWN), REDLOCK_OK);
    redlock_hold_free(mine);
    cr_assert_eq(redlock_lock_release_many(others, pear_apple, 2, token), REDLOCK_OK);
    cr_assert_eq(redlock_lock_release_many(others, pear_apple, 2, token), REDLOCK_GONE);
    SYNC_QUORUM_UNTIL(servers_keys(&quorum.servers) == 0);
}

/* The nodes name the key that is held as the caller numbers it, also once it is lost. */
Test(sync_many, the_key_that_is_held_is_named)
{
    redlock_node nodes[3];
    redlock_failure failure;
    redlock_hold *mine = NULL;
    redlock_failure_init(&failure);
    failure.nodes = nodes;
    failure.room = 3;
    options.failure = &failure;
    servers_do_first(&quorum.servers, 3, "SET pear other");
    cr_assert_eq(redlock_lock_many(quorum.sync, pear_fig, 2, 0, &options, &mine),
                 REDLOCK_TAKEN);
    for (size_t i = 0; i < failure.count; i++)
        if (nodes[i].verdict == REDLOCK_VERDICT_HELD)
            cr_assert_eq(nodes[i].key, 0);
    cr_assert_eq(failure.count, 3);
    cr_assert_str_eq(failure.holder, "other");
    servers_do_first(&quorum.servers, 3, "DEL pear");
    mine = hold_of(quorum.sync, pear_fig);
    SYNC_QUORUM_UNTIL(servers_keys(&quorum.servers) == 6);
    servers_do_first(&quorum.servers, 3, "SET pear other");
    cr_assert_eq(redlock_hold_extend(mine, 0), REDLOCK_TAKEN);
    cr_assert_eq(redlock_hold_explain(mine, nodes, 3), 3);
    bool named = false;
    for (unsigned i = 0; i < 3; i++) {
        named |= nodes[i].verdict == REDLOCK_VERDICT_HELD;
        cr_assert_eq(nodes[i].key, 0);
    }
    cr_assert(named);
    redlock_hold_free(mine);
}

/*
 * Five philosophers at a round table: two clients, and each fork is a key. Whoever eats is
 * alone with both forks, and all have eaten in the end.
 */
#define PHILOSOPHERS 5
#define MEALS        20

static const redlock_key forks[PHILOSOPHERS] = {KEY("0"), KEY("1"), KEY("2"), KEY("3"),
                                                KEY("4")};
static atomic_uint in_use[PHILOSOPHERS], mistakes;

static void *dine(void *seat)
{
    const unsigned left = (unsigned)((const redlock_key *)seat - forks);
    const unsigned right = (left + 1) % PHILOSOPHERS;
    const redlock_key both[] = {forks[left], forks[right]};
    for (unsigned i = 0; i < MEALS; i++) {
        redlock_hold *hold = hold_of(left % 2 ? others : quorum.sync, both);
        mistakes +=
            atomic_fetch_add(&in_use[left], 1) + atomic_fetch_add(&in_use[right], 1);
        in_use[left]--;
        in_use[right]--;
        redlock_hold_free(hold);
    }
    return NULL;
}

Test(sync_many, philosophers_eat)
{
    pthread_t thread[PHILOSOPHERS];
    for (unsigned i = 0; i < PHILOSOPHERS; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, dine, (void *)&forks[i]), 0);
    for (unsigned i = 0; i < PHILOSOPHERS; i++)
        pthread_join(thread[i], NULL);
    cr_assert_eq(mistakes, 0);
    SYNC_QUORUM_UNTIL(servers_keys(&quorum.servers) == 0);
}
