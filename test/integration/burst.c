/*
 * Thousands of locks at once, by a client with default options: the nodes' work on them is
 * not taken for silence.
 */
#include <criterion/criterion.h>
#include <stdio.h>

#include "quorum.h"
#include "redlock/stats.h"

#define MANY 10000

static unsigned told, failed;
static redlock_lease *lease[MANY];

static void on_told(redlock_lease *which, const redlock_result *result, void *arg)
{
    (void)which;
    (void)arg;
    told++;
    failed += result->code != REDLOCK_OK;
}

/* The longest queue but one: one node may be slow, a quorum waits for no third one. */
static unsigned queue_of(const redlock_client *client)
{
    redlock_stats stats;
    redlock_node_stats node[3];
    unsigned most = 0, second = 0;
    redlock_stats_init(&stats);
    stats.nodes = node;
    stats.room = 3;
    cr_assert_eq(redlock_client_stats(client, &stats), REDLOCK_OK);
    for (size_t i = 0; i < stats.count; i++) {
        unsigned queue = (unsigned)node[i].queue;
        unsigned less = queue < most ? queue : most;
        second = less > second ? less : second;
        most = queue > most ? queue : most;
    }
    return second;
}

/* An attempt that a busy machine makes too slow is repeated. */
static void acquire_many(struct quorum *s, bool fenced)
{
    redlock_lease_options options;
    redlock_lease_options_init(&options);
    options.wait_ms = LOOP_PATIENCE_MS;
    options.fenced = fenced;
    told = failed = 0;
    for (unsigned i = 0; i < MANY; i++) {
        char key[16];
        int len = snprintf(key, sizeof(key), "job%u", i);
        cr_assert_eq(redlock_acquire(s->client, key, (size_t)len, &options, on_told, NULL,
                                     &lease[i]),
                     REDLOCK_OK);
    }
    cr_assert_eq(queue_of(s->client), 0, "they begin at the end of the iteration");
    unsigned most = 0;
    while (told < MANY) {
        unsigned before = told, queue = 0;
        LOOP_UNTIL(s->base, (queue = queue_of(s->client)) > most || told != before);
        most = queue > most ? queue : most;
    }
    cr_assert_eq(failed, 0);
    cr_assert(most > 0 && most < MANY / 4, "two nodes had %u commands at once", most);
}

static void end(struct quorum *s)
{
    for (unsigned i = 0; i < MANY; i++)
        redlock_lease_free(lease[i]);
    quorum_close_empty(s);
}

Test(burst, of_free_keys_fails_nowhere)
{
    redlock_options options;
    redlock_options_init(&options);
    struct quorum s;
    quorum_open_with(&s, 3, &options);
    acquire_many(&s, false);
    end(&s);
}

Test(burst, of_fenced_locks_fails_nowhere)
{
    redlock_options options;
    redlock_options_init(&options);
    struct quorum s;
    struct admitted admitted;
    quorum_open_with(&s, 3, &options);
    cr_assert_eq(quorum_admit(&s, REDLOCK_ADMIT_AT_ONCE, 0, &admitted), REDLOCK_OK);
    acquire_many(&s, true);
    for (unsigned i = 0; i < MANY; i++)
        redlock_lease_free(lease[i]);
    quorum_drain(&s);
    quorum_close(&s);
}
