/* The oracle on what a client counts: its numbers are those of what users asked and heard.
 */
#include <stdlib.h>
#include <string.h>

#include "oracle_parts.h"
#include "redlock/stats.h"
#include "world.h"

#define EACH_ITERATIONS 50 /* to copy the numbers takes longer than an iteration */

void oracle_asked(struct client *client, enum wish wish)
{
    client->counts.asked[wish]++;
}

void oracle_count_news(struct client *client, enum news news, redlock_code code)
{
    client->counts.told[news][code]++;
}

struct question {
    const struct client *client;
    redlock_stats stats;
    redlock_node_stats node[NODES_MAX];
    redlock_code code;
};

static void ask(void *arg)
{
    struct question *question = arg;
    redlock_stats_init(&question->stats);
    question->stats.nodes = question->node;
    question->stats.room = NODES_MAX;
    question->code = redlock_client_stats(question->client->handle, &question->stats);
}

static void accuse(const struct client *client, const char *what, uint64_t counted,
                   uint64_t known)
{
    oracle_accuse(INVARIANT_TOLD, "client %u counts %llu %s, not %llu", client->index + 1,
                  (unsigned long long)counted, what, (unsigned long long)known);
}

/* The owner that frees a lease gets no report of its operation. */
static void judge_results(const struct client *client,
                          const uint64_t results[REDLOCK_RESULTS], const uint64_t *good,
                          const uint64_t *bad)
{
    for (unsigned code = 0; code < REDLOCK_RESULTS; code++) {
        uint64_t told = good[code] + bad[code];
        if (code == REDLOCK_CANCELLED ? results[code] < told : results[code] != told)
            accuse(client, "acquires with a result", results[code], told);
    }
}

static void judge_sums(const struct client *client, const redlock_stats *stats)
{
    const struct counts *counts = &client->counts;
    uint64_t acquires = stats->acquiring, granted = stats->acquire_results[REDLOCK_OK];
    uint64_t holds = stats->held + redlock_histogram_count(&stats->hold_time);
    unsigned acquiring = 0;
    for (unsigned i = 0; i < client->users; i++)
        acquiring += client->user[i].is_acquiring;
    for (unsigned code = 0; code < REDLOCK_RESULTS; code++)
        acquires += stats->acquire_results[code];
    if (acquires != counts->asked[WISH_ACQUIRE])
        accuse(client, "acquires", acquires, counts->asked[WISH_ACQUIRE]);
    if (stats->acquiring != acquiring)
        accuse(client, "acquires that run", stats->acquiring, acquiring);
    if (holds < granted || holds > granted + counts->asked[WISH_ADOPT])
        accuse(client, "holds", holds, granted);
    if (stats->held > client->users)
        accuse(client, "locks that are held", stats->held, client->users);
}

/* A loss, or an extension by the watchdog, is not told to one that releases by then. */
static void judge_lives(const struct client *client, const redlock_stats *stats)
{
    const struct counts *counts = &client->counts;
    uint64_t extensions = counts->told[NEWS_RENEWED][REDLOCK_OK];
    for (unsigned code = 0; code < REDLOCK_RESULTS; code++)
        if (stats->losses[code] < counts->told[NEWS_LOST][code])
            accuse(client, "losses", stats->losses[code], counts->told[NEWS_LOST][code]);
    if (stats->watchdog_extensions < extensions)
        accuse(client, "watchdog extensions", stats->watchdog_extensions, extensions);
}

void oracle_judge_counts(struct client *client)
{
    static struct question question;
    const struct counts *counts = &client->counts;
    question.client = client;
    process_ask(&client->process, ask, &question);
    const redlock_stats *stats = &question.stats;
    if (question.code == REDLOCK_CLOSED) /* it is being freed */
        return;
    judge_results(client, stats->acquire_results, counts->told[NEWS_HELD],
                  counts->told[NEWS_FAILED]);
    judge_sums(client, stats);
    judge_lives(client, stats);
}

/* --- spans and events --- */

void *oracle_next_lease(const struct client *client)
{
    const uint64_t *asked = client->counts.asked;
    return (void *)(uintptr_t)(asked[WISH_ACQUIRE] + asked[WISH_ADOPT] + 1);
}

static struct open_span *find_span(struct counts *counts, const redlock_span *span)
{
    for (unsigned i = 0; i < counts->open_count; i++)
        if (counts->open[i].lease == span->lease &&
            strcmp(counts->open[i].operation, span->operation) == 0)
            return &counts->open[i];
    return NULL;
}

static void note_begin(struct counts *counts, const redlock_span *span)
{
    bool holds = strcmp(span->operation, "hold") == 0;
    counts->holds_begun += holds;
    counts->spans_begun += !holds;
    if (counts->open_count == SPANS_MAX)
        abort();
    counts->open[counts->open_count++] = (struct open_span){span->lease, span->operation};
}

/* Of each lease and operation a begin and an end follow each other; without memory some are
   dropped. */
void oracle_told_span(struct client *client, const redlock_span *span)
{
    struct counts *counts = &client->counts;
    struct open_span *open = find_span(counts, span);
    if ((uintptr_t)span->user != span->lease || span->duration_us < 0)
        oracle_accuse(INVARIANT_CALLBACK, "client %u: the span %s of lease %llu is odd",
                      client->index + 1, span->operation, (unsigned long long)span->lease);
    if (span->ended != (open != NULL) && client->process.failed_allocations == 0)
        oracle_accuse(INVARIANT_CALLBACK, "client %u: lease %llu: %s %s twice",
                      client->index + 1, (unsigned long long)span->lease, span->operation,
                      span->ended ? "ends" : "begins");
    if (open)
        *open = counts->open[--counts->open_count];
    if (!span->ended)
        note_begin(counts, span);
}

/* The first field of an event of a lock is its lease. */
void oracle_told_event(const struct client *client, const redlock_event *event)
{
    bool of_node = strcmp(event->fields[0].name, "node") == 0;
    if ((uintptr_t)event->user != (of_node ? 0 : (uint64_t)event->fields[0].number))
        oracle_accuse(INVARIANT_CALLBACK, "client %u: %s with the user of another lock",
                      client->index + 1, event->name);
}

void oracle_judge_spans(const struct client *client)
{
    const struct counts *counts = &client->counts;
    uint64_t asked = counts->asked[WISH_ACQUIRE] + counts->asked[WISH_EXTEND] +
                     counts->asked[WISH_RELEASE];
    if (client->index % 2 == 0 || client->process.failed_allocations > 0)
        return;
    if (counts->spans_begun != asked)
        accuse(client, "spans", counts->spans_begun, asked);
    if (counts->holds_begun < counts->told[NEWS_HELD][REDLOCK_OK])
        accuse(client, "spans of holds", counts->holds_begun,
               counts->told[NEWS_HELD][REDLOCK_OK]);
    if (counts->open_count > 0)
        accuse(client, "spans without an end", counts->open_count, 0);
}

void oracle_counts_iterated(struct client *client)
{
    if (++client->counts.iterations % EACH_ITERATIONS == 0)
        oracle_judge_counts(client);
}
