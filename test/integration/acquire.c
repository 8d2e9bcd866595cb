/* Acquiring and releasing when all nodes reply. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <time.h>

#include "quorum.h"

#define THREAD_STEPS 100 /* an acquire, and extensions */

Test(acquire, stores_the_token_on_all_nodes)
{
    struct quorum s;
    quorum_open(&s, 5);
    struct reported reported;
    redlock_lease *lease = quorum_acquire(&s, "job", NULL, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_OK);
    cr_assert_eq(reported.result.nodes, 5);
    cr_assert_eq(reported.result.quorum, 3);
    cr_assert_eq(reported.result.granted, 3);
    cr_assert_eq(reported.result.attempts, 1);
    cr_assert(reported.result.valid_ms > 0 && reported.result.valid_ms < 60000);
    cr_assert_gt(redlock_valid_ms(lease), 0);
    LOOP_UNTIL(s.base, servers_with(&s.servers, "job", redlock_token(lease)) == 5);
    for (unsigned i = 0; i < 5; i++) {
        long long pttl = servers_number(&s.servers, i, "PTTL job");
        cr_assert(pttl > 0 && pttl <= 60000);
    }
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
    cr_assert_eq(redlock_valid_ms(lease), 0);
    LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_NOT_HELD);
    redlock_lease_free(lease);
    quorum_close(&s);
}

static int64_t boot_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* The client's own clock may run ahead a little, to be on the safe side. */
Test(acquire, no_node_took_longer_than_the_whole_acquire)
{
    struct quorum s;
    struct reported reported;
    quorum_open(&s, 3);
    for (unsigned round = 0; round < 200; round++) {
        int64_t began = boot_us();
        redlock_lease *lease = quorum_acquire(&s, "job", NULL, &reported);
        int64_t took = boot_us() - began;
        for (unsigned i = 0; i < 3; i++)
            cr_assert_leq(quorum_node(lease, i)->latency_us, took);
        cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
        redlock_lease_free(lease);
    }
    quorum_close(&s);
}

static void occupy(struct quorum *s, unsigned mask, const char *key)
{
    for (unsigned i = 0; i < 5; i++)
        if (mask >> i & 1)
            servers_do(&s->servers, i, "SET %s stranger PX 90000", key);
}

/* The occupied nodes keep the other owner's value; all others have the expected value. */
static void expect_values(struct quorum *s, unsigned mask, const char *key,
                          const char *ours)
{
    for (unsigned i = 0; i < 5; i++)
        cr_assert(
            servers_text(&s->servers, i, mask >> i & 1 ? "stranger" : ours, "GET %s", key),
            "mask %x, node %u", mask, i);
}

static void expect_explained(const redlock_lease *lease, unsigned mask)
{
    for (unsigned i = 0; i < 5; i++) {
        const redlock_node *node = quorum_node(lease, i);
        if (!(mask >> i & 1)) {
            cr_assert_eq(node->verdict, REDLOCK_VERDICT_GRANTED);
            cr_assert_str_empty(node->holder);
            continue;
        }
        cr_assert_eq(node->verdict, REDLOCK_VERDICT_HELD);
        cr_assert_str_eq(node->holder, "stranger");
        cr_assert_str_eq(node->value, "stranger");
        cr_assert(node->remaining_us > 0 && node->remaining_us <= 90000000);
    }
}

static void win_beside(struct quorum *s, redlock_lease *lease, unsigned mask,
                       const char *key)
{
    LOOP_UNTIL(s->base, quorum_count_votes(lease, "waiting") == 0);
    expect_values(s, mask, key, redlock_token(lease));
    cr_assert_eq(quorum_release(s, lease), REDLOCK_OK);
    quorum_drain(s);
    expect_values(s, mask, key, NULL);
}

static void lose_against(struct quorum *s, redlock_lease *lease,
                         const struct reported *reported, unsigned mask, const char *key)
{
    /* at once: HELD by another is reported after the release */
    expect_values(s, mask, key, NULL);
    expect_explained(lease, mask);
    cr_assert_eq(redlock_valid_ms(lease), 0);
    cr_assert(reported->result.remaining_ms > 0 && reported->result.remaining_ms <= 90000);
    cr_assert_eq(reported->result.valid_ms, 0);
}

Test(acquire, all_patterns_of_occupied_nodes)
{
    struct quorum s;
    quorum_open(&s, 5);
    for (unsigned mask = 0; mask < 32; mask++) {
        char key[16];
        struct reported reported;
        snprintf(key, sizeof(key), "mask:%u", mask);
        occupy(&s, mask, key);
        redlock_lease *lease = quorum_acquire(&s, key, NULL, &reported);
        bool free = __builtin_popcount(mask) <= 2;
        cr_assert_eq(reported.result.code, free ? REDLOCK_OK : REDLOCK_TAKEN, "mask %x",
                     mask);
        if (free)
            win_beside(&s, lease, mask, key);
        else
            lose_against(&s, lease, &reported, mask, key);
        redlock_lease_free(lease);
    }
    quorum_close(&s);
}

Test(acquire, prefix_and_label_are_on_the_nodes)
{
    redlock_options options = quorum_options();
    options.prefix = "team:";
    options.label = "me";
    struct quorum s;
    quorum_open_with(&s, 3, &options);
    redlock_lease *lease = quorum_hold(&s, "job", NULL);
    LOOP_UNTIL(s.base, servers_with(&s.servers, "team:job", redlock_token(lease)) == 3);
    const char *label = strchr(redlock_token(lease), '@');
    cr_assert_not_null(label);
    cr_assert_str_eq(label, "@me");
    redlock_lease_free(lease);
    quorum_close_empty(&s);
}

Test(acquire, a_hundred_keys_at_once)
{
    struct quorum s;
    quorum_open(&s, 5);
    enum { KEYS = 100 };
    redlock_lease *lease[KEYS];
    struct reported reported[KEYS] = {0}, released[KEYS] = {0};
    redlock_lease_options options = quorum_lease_options();
    for (int i = 0; i < KEYS; i++) {
        char key[16];
        snprintf(key, sizeof(key), "key:%d", i);
        cr_assert_eq(redlock_acquire(s.client, key, strlen(key), &options, reported_note,
                                     &reported[i], &lease[i]),
                     REDLOCK_OK);
    }
    for (int i = 0; i < KEYS; i++) {
        EXPECT_REPORTED(&s, &reported[i], REDLOCK_OK);
        cr_assert_eq(redlock_release(lease[i], reported_note, &released[i]), REDLOCK_OK);
    }
    for (int i = 0; i < KEYS; i++) {
        EXPECT_REPORTED(&s, &released[i], REDLOCK_OK);
        redlock_lease_free(lease[i]);
    }
    quorum_close_empty(&s);
}

struct thread {
    pthread_t thread;
    struct quorum quorum; /* its client was made by the test's thread */
    const char *key;
    unsigned done;
};

/* No assertion: it would end another thread's test. */
static void on_own_key(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct thread *own = arg;
    bool is_over = result->code != REDLOCK_OK || redlock_valid_ms(lease) == 0 ||
                   ++own->done == THREAD_STEPS ||
                   redlock_extend(lease, 0, on_own_key, own) != REDLOCK_OK;
    if (is_over)
        event_base_loopbreak(own->quorum.base);
}

static void *run_own_loop(void *arg)
{
    struct thread *own = arg;
    redlock_lease_options options = quorum_lease_options();
    redlock_lease *lease = NULL;
    if (redlock_acquire(own->quorum.client, own->key, strlen(own->key), &options,
                        on_own_key, own, &lease) == REDLOCK_OK)
        event_base_dispatch(own->quorum.base);
    redlock_lease_free(lease);
    redlock_client_free(own->quorum.client);
    return NULL;
}

/* Each client is made here, and used by a thread of its own from then on. */
Test(acquire, clients_of_several_threads)
{
    struct quorum s;
    struct thread own[] = {{.key = "a"}, {.key = "b"}, {.key = "c"}};
    quorum_open(&s, 3);
    for (unsigned i = 0; i < 3; i++) {
        own[i].quorum = s;
        own[i].quorum.base = event_base_new();
        own[i].quorum.client = quorum_client(&own[i].quorum, NULL);
    }
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(pthread_create(&own[i].thread, NULL, run_own_loop, &own[i]), 0);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(pthread_join(own[i].thread, NULL), 0);
        cr_assert_eq(own[i].done, THREAD_STEPS);
        event_base_free(own[i].quorum.base);
    }
    quorum_close(&s);
}
