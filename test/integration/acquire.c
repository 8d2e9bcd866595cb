/* Acquiring and releasing on nodes that all answer. */
#include <criterion/criterion.h>
#include <time.h>

#include "stage.h"

Test(acquire, stores_the_token_everywhere)
{
    struct stage s;
    stage_open(&s, 5);
    struct told told;
    redlock_lease *lease = stage_acquire(&s, "job", NULL, &told);
    cr_assert_eq(told.result.code, REDLOCK_OK);
    cr_assert_eq(told.result.nodes, 5);
    cr_assert_eq(told.result.quorum, 3);
    cr_assert_eq(told.result.granted, 3);
    cr_assert_eq(told.result.attempts, 1);
    cr_assert(told.result.valid_ms > 0 && told.result.valid_ms < 60000);
    cr_assert_gt(redlock_valid_ms(lease), 0);
    LOOP_UNTIL(s.base, servers_with(&s.servers, "job", redlock_token(lease)) == 5);
    for (unsigned i = 0; i < 5; i++) {
        long long pttl = servers_number(&s.servers, i, "PTTL job");
        cr_assert(pttl > 0 && pttl <= 60000);
    }
    cr_assert_eq(stage_release(&s, lease), REDLOCK_OK);
    cr_assert_eq(redlock_valid_ms(lease), 0);
    LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
    cr_assert_eq(stage_release(&s, lease), REDLOCK_NOT_HELD);
    redlock_lease_free(lease);
    stage_close(&s);
}

static int64_t boot_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* The client's own clock may run ahead a little, to be on the safe side. */
Test(acquire, no_node_took_longer_than_all_of_it)
{
    struct stage s;
    struct told told;
    stage_open(&s, 3);
    for (unsigned round = 0; round < 200; round++) {
        int64_t began = boot_us();
        redlock_lease *lease = stage_acquire(&s, "job", NULL, &told);
        int64_t took = boot_us() - began;
        for (unsigned i = 0; i < 3; i++)
            cr_assert_leq(stage_node(lease, i)->latency_us, took);
        cr_assert_eq(stage_release(&s, lease), REDLOCK_OK);
        redlock_lease_free(lease);
    }
    stage_close(&s);
}

static void occupy(struct stage *s, unsigned mask, const char *key)
{
    for (unsigned i = 0; i < 5; i++)
        if (mask >> i & 1)
            servers_do(&s->servers, i, "SET %s stranger PX 90000", key);
}

/* Nothing of the stranger's was touched, and elsewhere is what ought to be. */
static void expect_values(struct stage *s, unsigned mask, const char *key, const char *ours)
{
    for (unsigned i = 0; i < 5; i++)
        cr_assert(
            servers_text(&s->servers, i, mask >> i & 1 ? "stranger" : ours, "GET %s", key),
            "mask %x, node %u", mask, i);
}

static void expect_explained(const redlock_lease *lease, unsigned mask)
{
    for (unsigned i = 0; i < 5; i++) {
        const redlock_node *node = stage_node(lease, i);
        if (!(mask >> i & 1)) {
            cr_assert_str_eq(node->verdict, "granted");
            cr_assert_str_empty(node->holder);
            continue;
        }
        cr_assert_str_eq(node->verdict, "held");
        cr_assert_str_eq(node->holder, "stranger");
        cr_assert_str_eq(node->value, "stranger");
        cr_assert(node->remaining_ms > 0 && node->remaining_ms <= 90000);
    }
}

static void win_beside(struct stage *s, redlock_lease *lease, unsigned mask,
                       const char *key)
{
    LOOP_UNTIL(s->base, stage_verdicts(lease, "waiting") == 0);
    expect_values(s, mask, key, redlock_token(lease));
    cr_assert_eq(stage_release(s, lease), REDLOCK_OK);
    stage_drain(s);
    expect_values(s, mask, key, NULL);
}

static void lose_against(struct stage *s, redlock_lease *lease, const struct told *told,
                         unsigned mask, const char *key)
{
    expect_values(s, mask, key, NULL); /* at once: it is told when it is released */
    expect_explained(lease, mask);
    cr_assert_eq(redlock_valid_ms(lease), 0);
    cr_assert(told->result.remaining_ms > 0 && told->result.remaining_ms <= 90000);
    cr_assert_eq(told->result.valid_ms, 0);
}

Test(acquire, all_patterns_of_occupied_nodes)
{
    struct stage s;
    stage_open(&s, 5);
    for (unsigned mask = 0; mask < 32; mask++) {
        char key[16];
        struct told told;
        snprintf(key, sizeof(key), "mask:%u", mask);
        occupy(&s, mask, key);
        redlock_lease *lease = stage_acquire(&s, key, NULL, &told);
        bool free = __builtin_popcount(mask) <= 2;
        cr_assert_eq(told.result.code, free ? REDLOCK_OK : REDLOCK_TAKEN, "mask %x", mask);
        if (free)
            win_beside(&s, lease, mask, key);
        else
            lose_against(&s, lease, &told, mask, key);
        redlock_lease_free(lease);
    }
    stage_close(&s);
}

Test(acquire, one_node_and_even_numbers)
{
    static const unsigned quorum[] = {0, 1, 2, 2, 3};
    for (unsigned n = 1; n <= 4; n++) {
        struct stage s;
        struct told told;
        stage_open(&s, n);
        cr_assert_eq(redlock_client_nodes(s.client), n);
        cr_assert_eq(redlock_client_quorum(s.client), quorum[n]);
        redlock_lease *lease = stage_acquire(&s, "job", NULL, &told);
        cr_assert_eq(told.result.code, REDLOCK_OK);
        cr_assert_eq(told.result.granted, quorum[n]);
        redlock_lease_free(lease);
        stage_drain(&s);
        stage_close(&s);
    }
}

Test(acquire, a_quorum_of_all)
{
    redlock_options options = stage_options();
    options.quorum = 5;
    struct stage s;
    struct told told;
    stage_open_with(&s, 5, &options);
    redlock_lease *lease = stage_acquire(&s, "job", NULL, &told);
    cr_assert_eq(told.result.code, REDLOCK_OK);
    cr_assert_eq(told.result.granted, 5);
    redlock_lease_free(lease);
    servers_do(&s.servers, 2, "SET other stranger PX 90000");
    lease = stage_acquire(&s, "other", NULL, &told);
    cr_assert_eq(told.result.code, REDLOCK_TAKEN);
    cr_assert_eq(servers_with(&s.servers, "other", NULL), 4);
    redlock_lease_free(lease);
    stage_close(&s);
}

Test(acquire, prefix_and_label_are_on_the_nodes)
{
    redlock_options options = stage_options();
    options.prefix = "team:";
    options.label = "me";
    struct stage s;
    stage_open_with(&s, 3, &options);
    redlock_lease *lease = stage_hold(&s, "job", NULL);
    LOOP_UNTIL(s.base, servers_with(&s.servers, "team:job", redlock_token(lease)) == 3);
    const char *label = strchr(redlock_token(lease), '@');
    cr_assert_not_null(label);
    cr_assert_str_eq(label, "@me");
    redlock_lease_free(lease);
    stage_drain(&s);
    cr_assert_eq(servers_keys(&s.servers), 0);
    stage_close(&s);
}

Test(acquire, a_hundred_keys_at_once)
{
    struct stage s;
    stage_open(&s, 5);
    enum { KEYS = 100 };
    redlock_lease *lease[KEYS];
    struct told told[KEYS] = {0}, released[KEYS] = {0};
    redlock_lease_options options = stage_lease_options();
    for (int i = 0; i < KEYS; i++) {
        char key[16];
        snprintf(key, sizeof(key), "key:%d", i);
        cr_assert_eq(redlock_acquire(s.client, key, strlen(key), &options, told_note,
                                     &told[i], &lease[i]),
                     REDLOCK_OK);
    }
    for (int i = 0; i < KEYS; i++) {
        EXPECT_TOLD(&s, &told[i], REDLOCK_OK);
        cr_assert_eq(redlock_release(lease[i], told_note, &released[i]), REDLOCK_OK);
    }
    for (int i = 0; i < KEYS; i++) {
        EXPECT_TOLD(&s, &released[i], REDLOCK_OK);
        redlock_lease_free(lease[i]);
    }
    stage_drain(&s);
    cr_assert_eq(servers_keys(&s.servers), 0);
    stage_close(&s);
}

/* Two on the same key at the same moment: never both. */
Test(acquire, never_two_at_once)
{
    struct stage s;
    stage_open(&s, 5);
    redlock_client *other = stage_client(&s, NULL);
    redlock_lease_options options = stage_lease_options();
    for (int i = 0; i < 100; i++) {
        struct told a = {0}, b = {0};
        redlock_lease *first, *second;
        cr_assert_eq(redlock_acquire(s.client, "job", 3, &options, told_note, &a, &first),
                     REDLOCK_OK);
        cr_assert_eq(redlock_acquire(other, "job", 3, &options, told_note, &b, &second),
                     REDLOCK_OK);
        LOOP_UNTIL(s.base, a.times && b.times);
        cr_assert_leq((a.result.code == REDLOCK_OK) + (b.result.code == REDLOCK_OK), 1);
        redlock_lease_free(first);
        redlock_lease_free(second);
        LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
    }
    redlock_client_free(other);
    stage_close(&s);
}
