/* Why a lock is refused; and locks that are taken over, or released, by their token. */
#include <criterion/criterion.h>
#include <pthread.h>

#include "worker_threads.h"

#define NODES 3

static struct sync_quorum quorum;
static redlock_sync *others; /* another client: to the nodes, another process */
static redlock_failure failure;
static redlock_node nodes[NODES];
static redlock_lock_options options;

static void open_both(void)
{
    sync_quorum_open(&quorum, NODES);
    others = sync_quorum_sync(&quorum);
    redlock_failure_init(&failure);
    failure.nodes = nodes;
    failure.room = NODES;
    options = sync_quorum_lock_options();
    options.failure = &failure;
}

static void close_both(void)
{
    redlock_sync_free(others);
    sync_quorum_close(&quorum);
}

TestSuite(sync_token, .init = open_both, .fini = close_both);

static bool is_connected(redlock_sync *sync)
{
    unsigned ready = 0;
    redlock_node seen[NODES];
    redlock_sync_explain(sync, seen, NODES);
    for (unsigned i = 0; i < NODES; i++)
        ready += seen[i].verdict == REDLOCK_VERDICT_READY;
    return ready == NODES;
}

/* Every node stores its key, so that a release by another client meets it there. */
static redlock_hold *hold_of(redlock_sync *sync)
{
    redlock_hold *hold = NULL;
    redlock_lock_options patient = sync_quorum_lock_options();
    SYNC_QUORUM_UNTIL(is_connected(quorum.sync) && is_connected(others));
    cr_assert_eq(redlock_lock(sync, "job", 3, &patient, &hold), REDLOCK_OK);
    SYNC_QUORUM_UNTIL(servers_with(&quorum.servers, "job", redlock_hold_token(hold)) ==
                      NODES);
    return hold;
}

static void expect_taken(redlock_code code, redlock_code wanted)
{
    unsigned held = 0;
    cr_assert_eq(code, wanted);
    cr_assert_eq(failure.error->code, wanted);
    cr_assert(strstr(failure.error->text, " has the lock for another "), "%s",
              failure.error->text);
    cr_assert(failure.remaining_ms > 0 && failure.remaining_ms <= 60000);
    cr_assert_str_neq(failure.holder, "");
    cr_assert_eq(failure.count, NODES);
    for (unsigned i = 0; i < NODES; i++)
        held += nodes[i].verdict == REDLOCK_VERDICT_HELD;
    cr_assert_geq(held, 2);
}

Test(sync_token, taken_by_whom)
{
    redlock_hold *theirs = hold_of(others), *mine = NULL;
    expect_taken(redlock_try_lock(quorum.sync, "job", 3, &options, &mine), REDLOCK_TAKEN);
    expect_taken(redlock_lock_for(quorum.sync, "job", 3, 30, &options, &mine),
                 REDLOCK_TIMEOUT);
    redlock_hold_free(theirs);
    cr_assert_eq(redlock_lock(quorum.sync, "job", 3, &options, &mine), REDLOCK_OK);
    cr_assert_eq(failure.error->code, REDLOCK_OK);
    redlock_hold_free(mine);
}

Test(sync_token, taken_by_a_thread)
{
    redlock_hold *theirs = hold_of(quorum.sync), *mine = NULL;
    cr_assert_eq(redlock_try_lock(quorum.sync, "job", 3, &options, &mine), REDLOCK_TAKEN);
    cr_assert(strstr(failure.error->text, "a thread of this process has the lock"));
    cr_assert_gt(failure.remaining_ms, 0);
    cr_assert_eq(redlock_lock_for(quorum.sync, "job", 3, 30, &options, &mine),
                 REDLOCK_TIMEOUT);
    cr_assert(strstr(failure.error->text, "a thread of this process has the lock"));
    cr_assert_eq(failure.count, 0);
    redlock_hold_free(theirs);
}

static unsigned granted(redlock_hold *hold)
{
    unsigned count = 0;
    size_t n = redlock_hold_explain(hold, nodes, NODES);
    for (size_t i = 0; i < n; i++)
        count += nodes[i].verdict == REDLOCK_VERDICT_GRANTED;
    return count;
}

Test(sync_token, is_adopted)
{
    char token[REDLOCK_TOKEN_MAX + 1];
    redlock_hold *theirs = hold_of(others), *mine = NULL;
    strcpy(token, redlock_hold_token(theirs));
    cr_assert_eq(redlock_unlock(theirs, REDLOCK_DISOWN), REDLOCK_OK);
    cr_assert_eq(redlock_unlock(theirs, 0), REDLOCK_NOT_HELD);
    redlock_hold_free(theirs);
    cr_assert_eq(redlock_lock_adopt(quorum.sync, "job", 3, token, 0, &options, &mine),
                 REDLOCK_OK);
    cr_assert_str_eq(redlock_hold_token(mine), token);
    cr_assert_gt(redlock_hold_valid_ms(mine), 50000);
    cr_assert_eq(redlock_hold_extend(mine, 0), REDLOCK_OK);
    cr_assert_geq(granted(mine), 2);
    cr_assert_eq(redlock_unlock(mine, REDLOCK_CONFIRM), REDLOCK_OK);
    cr_assert_eq(granted(mine), 0);
    redlock_hold_free(mine);
    SYNC_QUORUM_UNTIL(servers_keys(&quorum.servers) == 0);
    cr_assert_eq(redlock_lock_adopt(quorum.sync, "job", 3, token, 0, &options, &mine),
                 REDLOCK_GONE);
    cr_assert_eq(failure.error->code, REDLOCK_GONE);
}

/* No lock is valid for longer than the longest TTL. */
Test(sync_token, is_adopted_with_the_largest_validity)
{
    char token[REDLOCK_TOKEN_MAX + 1];
    redlock_hold *theirs = hold_of(others), *mine = NULL;
    strcpy(token, redlock_hold_token(theirs));
    cr_assert_eq(redlock_unlock(theirs, REDLOCK_DISOWN), REDLOCK_OK);
    cr_assert_eq(
        redlock_lock_adopt(quorum.sync, "job", 3, token, INT64_MAX, &options, &mine),
        REDLOCK_OK);
    redlock_hold_free(theirs);
    redlock_hold_free(mine);
}

/* A token that is not on the nodes changes nothing there. */
Test(sync_token, is_not_adopted)
{
    redlock_hold *theirs = hold_of(others), *mine = NULL;
    cr_assert_eq(redlock_lock_adopt(quorum.sync, "job", 3, "pother", 0, &options, &mine),
                 REDLOCK_TAKEN);
    cr_assert_eq(redlock_lock_release(quorum.sync, "job", 3, "pother"), REDLOCK_TAKEN);
    cr_assert_eq(redlock_hold_extend(theirs, 0), REDLOCK_OK);
    redlock_hold_free(theirs);
}

Test(sync_token, is_released)
{
    redlock_hold *theirs = hold_of(others);
    cr_assert_eq(redlock_lock_release(quorum.sync, "job", 3, redlock_hold_token(theirs)),
                 REDLOCK_OK);
    SYNC_QUORUM_UNTIL(servers_keys(&quorum.servers) == 0);
    cr_assert_eq(redlock_lock_release(quorum.sync, "job", 3, redlock_hold_token(theirs)),
                 REDLOCK_GONE);
    redlock_hold_free(theirs);
}

/* Nothing would release keys that a failed adoption makes. */
Test(sync_token, a_failed_adoption_recreates_no_key)
{
    char token[REDLOCK_TOKEN_MAX + 1];
    redlock_hold *theirs = hold_of(others), *mine = NULL;
    strcpy(token, redlock_hold_token(theirs));
    SYNC_QUORUM_UNTIL(is_connected(quorum.sync));
    redlock_hold_free(theirs);
    SYNC_QUORUM_UNTIL(servers_keys(&quorum.servers) == 0);
    cr_assert_eq(redlock_lock_adopt(quorum.sync, "job", 3, token, 30000, &options, &mine),
                 REDLOCK_GONE);
    cr_assert_eq(servers_keys(&quorum.servers), 0);
}

static void *adopt_within_1_ms(void *token)
{
    redlock_hold *mine = NULL;
    static redlock_code code;
    code = redlock_lock_adopt(quorum.sync, "job", 3, token, 1, &options, &mine);
    return &code;
}

/* The extension succeeds after the validity that the former holder knew. */
Test(sync_token, a_known_validity_has_passed)
{
    char token[REDLOCK_TOKEN_MAX + 1];
    pthread_t thread;
    void *code;
    redlock_hold *theirs = hold_of(others), *mine = NULL;
    strcpy(token, redlock_hold_token(theirs));
    redlock_unlock(theirs, REDLOCK_DISOWN);
    redlock_hold_free(theirs);
    servers_stop(&quorum.servers, 0);
    servers_stop(&quorum.servers, 1);
    pthread_create(&thread, NULL, adopt_within_1_ms, token);
    SYNC_QUORUM_UNTIL(sync_quorum_waiting(quorum.sync, "job") == 1);
    sync_quorum_run_for(20);
    servers_cont(&quorum.servers, 0);
    servers_cont(&quorum.servers, 1);
    pthread_join(thread, &code);
    cr_assert_eq(*(redlock_code *)code, REDLOCK_EXPIRED);
    SYNC_QUORUM_UNTIL(is_connected(quorum.sync));
    cr_assert_eq(redlock_lock_adopt(quorum.sync, "job", 3, token, 50000, &options, &mine),
                 REDLOCK_OK);
    redlock_hold_free(mine);
}

/* The TTL that a release does not use must not be above the client's longest. */
Test(sync_token, is_released_by_a_client_of_short_locks)
{
    redlock_options shorter = sync_quorum_options();
    redlock_sync *third;
    shorter.max_ttl_ms = 5000;
    redlock_hold *theirs = hold_of(others);
    cr_assert_eq(redlock_sync_new(quorum.servers.uri, NODES, &shorter, &third), REDLOCK_OK);
    SYNC_QUORUM_UNTIL(is_connected(third));
    cr_assert_eq(redlock_lock_release(third, "job", 3, redlock_hold_token(theirs)),
                 REDLOCK_OK);
    redlock_hold_free(theirs);
    redlock_sync_free(third);
}

Test(sync_token, an_expired_lock_is_not_disowned)
{
    redlock_hold *mine = NULL;
    options.ttl_ms = 300;
    options.watchdog = false;
    cr_assert_eq(redlock_lock(quorum.sync, "job", 3, &options, &mine), REDLOCK_OK);
    SYNC_QUORUM_UNTIL(redlock_hold_valid_ms(mine) == 0);
    cr_assert_eq(redlock_unlock(mine, REDLOCK_DISOWN), REDLOCK_EXPIRED);
    cr_assert_eq(redlock_last_error()->reason, REDLOCK_REASON_DEADLINE);
    redlock_hold_free(mine);
}
