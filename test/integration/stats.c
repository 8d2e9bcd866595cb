/* redlock_client_stats(): what it says after runs whose operations are known. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "child.h"
#include "quorum.h"
#include "redlock/stats.h"

#define NODES 5

struct numbers {
    redlock_stats client;
    redlock_node_stats node[NODES];
};

static uint64_t sum_of(const uint64_t results[REDLOCK_RESULTS])
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < REDLOCK_RESULTS; i++)
        sum += results[i];
    return sum;
}

#define EXPECT(number, wanted)                                                             \
    cr_assert_eq((uint64_t)(number), (uint64_t)(wanted),                                   \
                 "%s is %" PRIu64 ", not %" PRIu64, #number, (uint64_t)(number),           \
                 (uint64_t)(wanted))

/* The sums that hold at any time, with nothing running but acquires. */
static void expect_sums(const struct numbers *n, unsigned outstanding)
{
    const redlock_stats *c = &n->client;
    EXPECT(redlock_histogram_count(&c->acquire_time), c->acquire_results[REDLOCK_OK]);
    EXPECT(redlock_histogram_count(&c->validity), c->attempt_results[REDLOCK_OK]);
    for (size_t i = 0; i < c->count; i++)
        EXPECT(n->node[i].queue, outstanding);
}

static struct numbers numbers_of(const redlock_client *client)
{
    struct numbers n;
    redlock_stats_init(&n.client);
    n.client.nodes = n.node;
    n.client.room = NODES;
    cr_assert_eq(redlock_client_stats(client, &n.client), REDLOCK_OK);
    return n;
}

static struct numbers settled(struct quorum *s)
{
    quorum_drain(s);
    struct numbers n = numbers_of(s->client);
    expect_sums(&n, 0);
    return n;
}

/* 7 acquires, of which 3 find the lock taken; 2 extensions; 4 releases. */
Test(stats, of_a_known_run)
{
    struct quorum s;
    struct reported reported;
    redlock_lease_options options = quorum_quiet_options();
    quorum_open(&s, NODES);
    servers_do_first(&s.servers, NODES, "SET theirs another PX 60000");
    for (unsigned i = 0; i < 4; i++) {
        redlock_lease *lease = quorum_hold(&s, "ours", &options);
        EXPECT(numbers_of(s.client).client.held, 1);
        for (unsigned k = 0; k < 2 && i == 0; k++)
            cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_OK);
        cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
        redlock_lease_free(lease);
    }
    for (unsigned i = 0; i < 3; i++) {
        reported = (struct reported){0};
        redlock_lease *lease = quorum_acquire(&s, "theirs", &options, &reported);
        cr_assert_eq(reported.result.code, REDLOCK_TAKEN);
        redlock_lease_free(lease);
    }
    struct numbers n = settled(&s);
    EXPECT(n.client.quorum, 3);
    EXPECT(n.client.votes, NODES);
    EXPECT(n.client.votes_fenced, 0);
    EXPECT(sum_of(n.client.acquire_results), 7);
    EXPECT(n.client.acquire_results[REDLOCK_OK], 4);
    EXPECT(n.client.acquire_results[REDLOCK_TAKEN], 3);
    EXPECT(n.client.acquiring, 0);
    EXPECT(sum_of(n.client.attempt_results), 7);
    EXPECT(n.client.attempt_results[REDLOCK_OK], 4);
    EXPECT(n.client.attempt_results[REDLOCK_TAKEN], 3);
    EXPECT(redlock_histogram_count(&n.client.hold_time), 4);
    EXPECT(sum_of(n.client.losses), 0);
    EXPECT(n.client.watchdog_extensions + n.client.watchdog_extensions_failed, 0);
    EXPECT(redlock_histogram_count(&n.client.wait_time), 0);
    for (unsigned i = 0; i < NODES; i++) {
        cr_assert_str_eq(n.node[i].uri, s.servers.server[i].uri);
        cr_assert(n.node[i].connected && n.node[i].votes && !n.node[i].votes_fenced);
        EXPECT(redlock_histogram_count(&n.node[i].round_trip), 7 + 2 + 7);
        EXPECT(n.node[i].errors + n.node[i].timeouts + n.node[i].disconnects, 0);
    }
    quorum_close(&s);
}

Test(stats, of_extensions_and_adoptions)
{
    struct quorum s;
    redlock_lease *lease, *adopted;
    redlock_lease_options options = quorum_lease_options();
    struct reported renewed = {0}, reported = {0};
    options.ttl_ms = 600;
    options.on_extended = reported_note;
    options.extended_arg = &renewed;
    quorum_open(&s, 3);
    lease = quorum_hold(&s, "k", &options);
    LOOP_UNTIL(s.base, renewed.times == 3);
    int64_t valid_ms = redlock_valid_ms(lease);
    options.on_extended = NULL;
    cr_assert_eq(
        redlock_adopt(s.client, "k", 1, redlock_token(lease), valid_ms, &options, &adopted),
        REDLOCK_OK);
    redlock_disown(lease);
    redlock_lease_free(lease);
    struct numbers n = numbers_of(s.client);
    EXPECT(redlock_histogram_count(&n.client.hold_time), 1);
    EXPECT(n.client.held, 1);
    /* A bare token is held once it is extended. */
    cr_assert_eq(redlock_adopt(s.client, "k", 1, redlock_token(adopted), REDLOCK_UNKNOWN,
                               &options, &lease),
                 REDLOCK_OK);
    EXPECT(numbers_of(s.client).client.held, 1);
    cr_assert_eq(redlock_extend(lease, 0, reported_note, &reported), REDLOCK_OK);
    EXPECT_REPORTED(&s, &reported, REDLOCK_OK);
    EXPECT(numbers_of(s.client).client.held, 2);
    redlock_lease_free(lease);
    redlock_lease_free(adopted);
    n = settled(&s);
    EXPECT(n.client.held, 0);
    EXPECT(redlock_histogram_count(&n.client.hold_time), 3);
    cr_assert_geq(n.client.watchdog_extensions, 3);
    quorum_close(&s);
}

/* A lease that is freed while it acquires, cancelled ones, and one that waits. */
Test(stats, of_what_is_cancelled_or_waits)
{
    struct quorum s;
    redlock_lease_options options = quorum_quiet_options();
    struct reported reported[3] = {0};
    quorum_open(&s, 3);
    redlock_lease *holder = quorum_hold(&s, "k", &options);
    options.wait_ms = REDLOCK_FOREVER;
    redlock_lease *freed = quorum_start(&s, "k", &options, &reported[0]);
    redlock_lease *cancelled = quorum_start(&s, "k", &options, &reported[1]);
    redlock_lease *waiter = quorum_start(&s, "k", &options, &reported[2]);
    EXPECT(numbers_of(s.client).client.acquiring, 3);
    LOOP_UNTIL(s.base, numbers_of(s.client).client.attempt_results[REDLOCK_TAKEN] >= 3);
    redlock_lease_free(freed);
    redlock_cancel(cancelled);
    EXPECT_REPORTED(&s, &reported[1], REDLOCK_CANCELLED);
    cr_assert_eq(quorum_release(&s, holder), REDLOCK_OK);
    EXPECT_REPORTED(&s, &reported[2], REDLOCK_OK);
    redlock_lease_free(holder);
    redlock_lease_free(cancelled);
    redlock_lease_free(waiter);
    struct numbers n = settled(&s);
    EXPECT(n.client.acquiring, 0);
    EXPECT(n.client.acquire_results[REDLOCK_OK], 2);
    EXPECT(n.client.acquire_results[REDLOCK_CANCELLED], 2);
    cr_assert_geq(redlock_histogram_count(&n.client.wait_time), 2);
    quorum_close(&s);
}

/* Three of five nodes are killed while a lock is held: it is lost, and others are refused.
 */
Test(stats, of_killed_nodes)
{
    struct quorum s;
    struct reported lost = {0}, reported = {0};
    redlock_lease_options options = quorum_lease_options();
    options.ttl_ms = 2000;
    reported_on_lost(&options, &lost);
    quorum_open(&s, NODES);
    redlock_lease *lease = quorum_hold(&s, "k", &options);
    servers_kill_first(&s.servers, 3);
    EXPECT_REPORTED(&s, &lost, REDLOCK_EXPIRED);
    redlock_lease_free(lease);
    lease = quorum_acquire(&s, "k", &options, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_NO_QUORUM);
    redlock_lease_free(lease);
    struct numbers n = settled(&s);
    EXPECT(n.client.votes, 2);
    EXPECT(n.client.held, 0);
    EXPECT(n.client.losses[REDLOCK_EXPIRED], 1);
    EXPECT(sum_of(n.client.acquire_results), 2);
    EXPECT(n.client.acquire_results[REDLOCK_NO_QUORUM], 1);
    cr_assert_gt(n.client.watchdog_extensions_failed, 0);
    for (unsigned i = 0; i < NODES; i++) {
        EXPECT(n.node[i].connected, i >= 3);
        EXPECT(n.node[i].votes, i >= 3);
        EXPECT(n.node[i].disconnects, i < 3);
        cr_assert(i >= 3 || n.node[i].connect_failures > 0);
    }
    servers_launch(&s.servers, 0);
    LOOP_UNTIL(s.base, numbers_of(s.client).node[0].connected);
    cr_assert(!numbers_of(s.client).node[0].votes, "it is quarantined");
    quorum_close(&s);
}

/* A node that is stopped for a while does not vote until it replies again. */
Test(stats, of_a_node_that_hangs)
{
    struct quorum s;
    redlock_options client = quorum_options();
    redlock_lease_options options = quorum_quiet_options();
    client.node_timeout_ms = 1000;
    quorum_open_with(&s, 3, &client);
    servers_stop(&s.servers, 0);
    redlock_lease *lease = quorum_hold(&s, "k", &options);
    LOOP_UNTIL(s.base, numbers_of(s.client).node[0].timeouts == 1);
    LOOP_UNTIL(s.base, !numbers_of(s.client).node[0].votes);
    servers_cont(&s.servers, 0);
    LOOP_UNTIL(s.base, numbers_of(s.client).node[0].votes);
    redlock_lease_free(lease);
    settled(&s);
    quorum_close(&s);
}

Test(stats, of_a_node_that_refuses)
{
    struct quorum s;
    redlock_lease_options options = quorum_quiet_options();
    quorum_open(&s, 3);
    servers_do(&s.servers, 0, "CONFIG SET maxmemory 1");
    redlock_lease *lease = quorum_hold(&s, "k", &options);
    LOOP_UNTIL(s.base, numbers_of(s.client).node[0].errors == 1);
    redlock_lease_free(lease);
    settled(&s);
    quorum_close(&s);
}

/* Those of a newer program are longer; a node's may end earlier. */
Test(stats, structs_of_other_sizes)
{
    struct quorum s;
    quorum_open(&s, 3);
    redlock_lease *lease = quorum_hold(&s, "k", NULL);
    _Alignas(redlock_stats) char room[sizeof(redlock_stats) + 64];
    redlock_node_stats node = {.errors = 77};
    redlock_stats *stats = (redlock_stats *)room;
    memset(room, 1, sizeof(room));
    redlock_stats_init_sized(stats, offsetof(redlock_stats, acquire_results), 0);
    cr_assert_eq(redlock_client_stats(s.client, stats), REDLOCK_BAD_OPTION);
    redlock_stats_init_sized(stats, sizeof(*stats), offsetof(redlock_node_stats, errors));
    stats->nodes = &node;
    stats->room = 1;
    cr_assert_eq(redlock_client_stats(s.client, stats), REDLOCK_OK);
    EXPECT(stats->quorum, 2);
    EXPECT(stats->count, 1);
    EXPECT(node.connected, 1);
    EXPECT(node.errors, 77);
    for (size_t i = sizeof(*stats); i < sizeof(room); i++)
        cr_assert_eq(room[i], 1, "byte %zu", i);
    redlock_stats_init_sized(stats, sizeof(room), sizeof(node));
    cr_assert_eq(redlock_client_stats(s.client, stats), REDLOCK_OK);
    for (size_t i = sizeof(redlock_stats); i < sizeof(room); i++)
        cr_assert_eq(room[i], 0, "a newer program's member");
    room[sizeof(room) - 1] = 1;
    cr_assert_eq(redlock_client_stats(s.client, stats), REDLOCK_UNSUPPORTED);
    redlock_lease_free(lease);
    quorum_close(&s);
}

static redlock_code asked_while_closing;

static void ask_while_closing(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct quorum *s = arg;
    struct numbers n;
    (void)lease;
    cr_assert_eq(result->code, REDLOCK_CANCELLED);
    redlock_stats_init(&n.client);
    asked_while_closing = redlock_client_stats(s->client, &n.client);
}

Test(stats, codes)
{
    struct quorum s;
    redlock_lease *lease;
    redlock_stats stats;
    redlock_lease_options options = quorum_lease_options();
    quorum_open(&s, 3);
    redlock_stats_init(&stats);
    cr_assert_eq(redlock_client_stats(NULL, &stats), REDLOCK_CLOSED);
    memset(&stats, 0, sizeof(stats));
    cr_assert_eq(redlock_client_stats(s.client, &stats), REDLOCK_BAD_OPTION);
    redlock_stats_init(&stats);
    pid_t child = fork();
    if (child == 0)
        _exit(redlock_client_stats(s.client, &stats) != REDLOCK_FORKED);
    child_expect(child);
    cr_assert_eq(redlock_acquire(s.client, "k", 1, &options, ask_while_closing, &s, &lease),
                 REDLOCK_OK);
    redlock_client_free(s.client);
    s.client = NULL;
    cr_assert_eq(asked_while_closing, REDLOCK_CLOSED);
    redlock_lease_free(lease);
    quorum_close(&s);
}

/* --- the text --- */

static char *text_of(const redlock_client *client)
{
    struct numbers n = numbers_of(client);
    n.client.nodes = n.node;
    size_t len = redlock_stats_prometheus(&n.client, NULL, 0, NULL, 0);
    char *text = malloc(len + 1);
    cr_assert_eq(redlock_stats_prometheus(&n.client, NULL, 0, text, len + 1), len);
    EXPECT(strlen(text), len);
    char small[100] = "x";
    cr_assert_eq(redlock_stats_prometheus(&n.client, NULL, 0, small, sizeof(small)), len);
    cr_assert_str_empty(small, "it is whole, or empty");
    return text;
}

Test(stats, as_text_of_prometheus)
{
    struct quorum s;
    char line[300];
    quorum_open(&s, 3);
    redlock_lease_free(quorum_hold(&s, "k", NULL));
    quorum_drain(&s);
    char *text = text_of(s.client);
    cr_assert(strstr(text, "\n# TYPE redlock_acquires_total counter\n"));
    cr_assert(strstr(text, "\nredlock_acquires_total{result=\"ok\"} 1\n"));
    cr_assert(strstr(text, "\nredlock_acquires_total{result=\"taken\"} 0\n"));
    cr_assert(strstr(text, "\nredlock_held 0\n"));
    cr_assert(strstr(text, "\nredlock_hold_seconds_count 1\n"));
    cr_assert(strstr(text, "\nredlock_hold_seconds_bucket{le=\"+Inf\"} 1\n"));
    cr_assert(strstr(text, "{le=\"0.001024\"}"));
    snprintf(line, sizeof(line), "\nredlock_node_votes{node=\"%s\"} 1\n",
             s.servers.server[0].uri);
    cr_assert(strstr(text, line), "%s", text);
    free(text);
    quorum_close(&s);
}

/* The label is escaped; a URI shows no password. */
Test(stats, a_label_of_any_node)
{
    redlock_stats stats;
    redlock_node_stats node = {.uri = "unix:///a\"b\\c\nd"};
    const redlock_label label = {"job", "nacht\xc3\xa4 \xff\xc3"};
    static char text[100000];
    redlock_stats_init(&stats);
    stats.nodes = &node;
    stats.count = 1;
    cr_assert_lt(redlock_stats_prometheus(&stats, &label, 1, text, sizeof(text)),
                 sizeof(text));
    cr_assert(strstr(text,
                     "redlock_node_votes{job=\"nacht\xc3\xa4 \\\\xff\\\\xc3\","
                     "node=\"unix:///a\\\"b\\\\c\\nd\"} 0\n"));
    cr_assert(strstr(text, "redlock_held{job=\"nacht\xc3\xa4 \\\\xff\\\\xc3\"} 0\n"));
}

Test(stats, no_password)
{
    struct event_base *base = event_base_new();
    const char *uri = "redis://user:secret@127.0.0.1:1";
    redlock_client *client;
    cr_assert_eq(redlock_client_new(base, &uri, 1, NULL, &client), REDLOCK_OK);
    char *text = text_of(client);
    cr_assert(strstr(text, "127.0.0.1") && !strstr(text, "secret"), "%s", text);
    free(text);
    redlock_client_free(client);
    event_base_free(base);
}
