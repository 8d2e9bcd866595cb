/* Why a lock is lost: the nodes of the last extension, not those of the last success. */
#include <criterion/criterion.h>

#include "quorum.h"
#include "redlock/stats.h"

#define TTL_MS 6000

/* Calls of `log` and `on_lost`. */
struct book {
    unsigned failed, recovered;
    redlock_lease *lease;
    redlock_node
        at_first[3]; /* as explained inside of the first "watchdog_extension_failed" */
    redlock_node at_loss[3];
    struct reported lost;
};

static void note_event(const redlock_event *event, void *arg)
{
    struct book *book = arg;
    book->recovered += event->type == REDLOCK_EVENT_WATCHDOG_EXTENSION_RECOVERED;
    if (event->type == REDLOCK_EVENT_WATCHDOG_EXTENSION_FAILED && book->failed++ == 0)
        cr_assert_eq(redlock_explain(book->lease, book->at_first, 3), 3);
}

static void note_loss(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct book *book = arg;
    cr_assert_eq(redlock_explain(lease, book->at_loss, 3), 3);
    reported_note(lease, result, &book->lost);
}

/* Three nodes; each has `node_timeout_ms` to reply. */
static void hold(struct quorum *s, struct book *book, int64_t node_timeout_ms,
                 int64_t ttl_ms, bool watchdog)
{
    redlock_options options = quorum_options();
    redlock_lease_options lease_options = quorum_lease_options();
    options.node_timeout_ms = node_timeout_ms;
    options.log = note_event;
    options.log_arg = book;
    lease_options.ttl_ms = ttl_ms;
    lease_options.watchdog = watchdog;
    lease_options.on_lost = note_loss;
    lease_options.lost_arg = book;
    quorum_open_with(s, 3, &options);
    book->lease = quorum_hold(s, "job", &lease_options);
    LOOP_UNTIL(s->base, quorum_count_votes(book->lease, "granted") == 3);
}

static void end(struct quorum *s, struct book *book)
{
    redlock_lease_free(book->lease);
    quorum_close(s);
}

static void expect_fault(const redlock_node *node, redlock_fault fault)
{
    cr_assert_eq(node->fault, fault, "%s: %s, %s", node->uri,
                 redlock_verdict_name(node->verdict), redlock_fault_name(node->fault));
    cr_assert_neq(node->verdict, REDLOCK_VERDICT_GRANTED);
}

Test(why_lost, two_of_three_nodes_die)
{
    struct quorum s;
    struct book book = {0};
    redlock_stats stats;
    redlock_stats_init(&stats);
    hold(&s, &book, 10000, TTL_MS, true);
    servers_kill_first(&s.servers, 2);
    EXPECT_REPORTED(&s, &book.lost, REDLOCK_EXPIRED);
    cr_assert_eq(book.lost.result.granted, 1, "%u", book.lost.result.granted);
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_neq(book.at_first[i].fault, REDLOCK_FAULT_NONE);
        expect_fault(&book.at_loss[i], REDLOCK_FAULT_CONNECT);
    }
    cr_assert_eq(book.at_loss[2].verdict, REDLOCK_VERDICT_GRANTED);
    cr_assert_eq(redlock_client_stats(s.client, &stats), REDLOCK_OK);
    cr_assert_gt(stats.watchdog_extensions_failed, 1);
    cr_assert_eq(book.failed, 1, "%u warnings", book.failed);
    cr_assert_eq(book.recovered, 0);
    end(&s, &book);
}

/* Again if the machine stood still for so long that no extension was tried. */
static void lose_by_a_stop(struct quorum *s, struct book *book)
{
    *book = (struct book){0};
    hold(s, book, 500, TTL_MS, true);
    servers_stop_first(&s->servers, 2);
    EXPECT_REPORTED(s, &book->lost, REDLOCK_EXPIRED);
    servers_cont_first(&s->servers, 2);
    if (book->failed > 0)
        return;
    end(s, book);
    lose_by_a_stop(s, book);
}

Test(why_lost, two_of_three_nodes_stop)
{
    struct quorum s;
    struct book book;
    lose_by_a_stop(&s, &book);
    for (unsigned i = 0; i < 2; i++) {
        expect_fault(&book.at_first[i], REDLOCK_FAULT_TIMEOUT);
        expect_fault(&book.at_loss[i], REDLOCK_FAULT_TIMEOUT);
    }
    cr_assert_lt(book.lost.result.granted, 2);
    end(&s, &book);
}

Test(why_lost, an_outage_that_ends_is_told_twice)
{
    struct quorum s;
    struct book book = {0};
    hold(&s, &book, 500, 10000, true);
    servers_stop_first(&s.servers, 2);
    LOOP_UNTIL(s.base, book.failed == 1);
    servers_cont_first(&s.servers, 2);
    LOOP_UNTIL(s.base, book.recovered > 0);
    for (unsigned i = 0; i < 2; i++) { /* a further renewal tells nothing */
        struct reported reported = {0};
        cr_assert_eq(redlock_extend(book.lease, 0, reported_note, &reported), REDLOCK_OK);
        EXPECT_REPORTED(&s, &reported, REDLOCK_OK);
    }
    cr_assert_eq(book.recovered, book.failed);
    cr_assert_eq(book.lost.times, 0);
    end(&s, &book);
}

/* The lock is held until its old deadline: what counts is the round that failed. */
Test(why_lost, the_result_of_an_extension_that_fails)
{
    struct quorum s;
    struct book book = {0};
    struct reported reported = {0};
    hold(&s, &book, 10000, 60000, false);
    servers_kill_first(&s.servers, 2);
    for (unsigned i = 0; i < 2; i++)
        LOOP_UNTIL(s.base, quorum_link(s.client, i)->fault == REDLOCK_FAULT_CONNECT);
    cr_assert_eq(redlock_extend(book.lease, 0, reported_note, &reported), REDLOCK_OK);
    EXPECT_REPORTED(&s, &reported, REDLOCK_NO_QUORUM);
    cr_assert_eq(reported.result.granted, 1, "%u", reported.result.granted);
    cr_assert_gt(reported.result.valid_ms, 0);
    expect_fault(quorum_node(book.lease, 0), REDLOCK_FAULT_CONNECT);
    end(&s, &book);
}
