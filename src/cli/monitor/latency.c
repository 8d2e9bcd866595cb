/*
 * /api/latency and /api/whatif: what the cycles of the canary took, and would have taken.
 */
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/order_stats.h"
#include "monitor.h"
#include "query.h"
#include "whatif.h"

#define FOR_S      600
#define RTT_MAX_MS 60000

/* How old an answer may be: for each second that it covers, and while a cycle runs. */
#define AGE_US_PER_S INT64_C(500)
#define AGE_BUSY_US  INT64_C(10000000)

/* The asked seconds, at most what is kept; 0: the query is wrong. */
static int64_t read_seconds(const struct monitor *monitor, const struct evkeyvalq *query)
{
    size_t seconds = FOR_S, kept = (size_t)((monitor->keep_ms + 999) / 1000);
    if (!query_number(query, "for", SIZE_MAX / 100, &seconds))
        return 0;
    return (int64_t)(seconds < kept ? seconds : kept);
}

static const char wrong_seconds[] = "for is a number of seconds, from 1";

/* --- /api/latency --- */

/*
 * Where the timeline begins: with the canary, or later at a multiple of the length of the
 * intervals, so that they are the same ones at the next request.
 */
static int64_t begin_of(const struct canary *canary, int64_t now_us, int64_t seconds)
{
    int64_t interval_us = TIMELINE_FIRST_MS * 1000, from_us = now_us - seconds * 1000000;
    if (from_us <= canary->since_us)
        return canary->since_us;
    while (seconds * 1000000 / interval_us >= TIMELINE_SLOTS - 1)
        interval_us *= 2;
    return (from_us + interval_us - 1) / interval_us * interval_us;
}

static void take_cycles(const struct history *history, int64_t now_us, struct bench *bench)
{
    struct bench_result *result = &bench->bench_result;
    struct cycle cycle;
    for (size_t i = history_from(history, result->began_us); i < history->count; i++) {
        history_get(history, i, &cycle);
        bench_result_take(result, &cycle);
        bench->cause = cycle.acquired.code;
    }
    bench_result_end(result, now_us - result->began_us);
    if (result->held > 0)
        bench->cause = REDLOCK_OK;
}

static json_t *latency_json(const struct monitor *monitor, int64_t seconds)
{
    const struct history *history = &monitor->canary.history;
    int64_t now_us = cli_clock_us(CLOCK_MONOTONIC);
    struct bench *bench = cli_need_memory(calloc(1, sizeof(*bench)));
    bench->cli = monitor->cli;
    bench->workers = 1;
    bench->quorum = redlock_client_quorum(monitor->cli->client);
    redlock_client_explain(monitor->cli->client, bench->nodes, REDLOCK_NODES_MAX);
    if (!bench_result_init(&bench->bench_result, history->n, bench->quorum))
        cli_fail(CLI_FAILED, "out of memory");
    bench->bench_result.began_us = begin_of(&monitor->canary, now_us, seconds);
    take_cycles(history, now_us, bench);
    json_t *object = bench_json_whole(bench);
    int64_t ago_us = now_us - bench->bench_result.began_us;
    json_object_set_new(object, "began_at_ms",
                        json_integer((cli_clock_us(CLOCK_REALTIME) - ago_us) / 1000));
    bench_result_free(&bench->bench_result);
    free(bench);
    return object;
}

/*
 * The last answer is still good if no cycle has ended since, and that of a long time stays
 * good for longer. While a cycle runs, computing would delay its replies.
 */
static bool is_good(const struct monitor *monitor, int64_t seconds)
{
    const struct monitor_answer *last = &monitor->latency;
    int64_t age_us = cli_clock_us(CLOCK_MONOTONIC) - last->made_us;
    return last->text && last->seconds == seconds &&
           (last->cycles == monitor->canary.history.added ||
            age_us < seconds * AGE_US_PER_S ||
            (age_us < AGE_BUSY_US && canary_is_busy(&monitor->canary)));
}

static int keep(struct monitor_answer *answer, int64_t seconds, uint64_t cycles,
                struct evbuffer *body)
{
    free(answer->text);
    *answer = (struct monitor_answer){
        .seconds = seconds,
        .cycles = cycles,
        .made_us = cli_clock_us(CLOCK_MONOTONIC),
        .len = evbuffer_get_length(body),
    };
    answer->text = cli_need_memory(malloc(answer->len));
    evbuffer_copyout(body, answer->text, answer->len);
    return 200;
}

int monitor_api_latency(void *arg, const struct evkeyvalq *query, struct evbuffer *body)
{
    struct monitor *monitor = arg;
    int64_t seconds = read_seconds(monitor, query);
    if (seconds == 0)
        return monitor_refuse(body, wrong_seconds);
    if (is_good(monitor, seconds)) {
        evbuffer_add(body, monitor->latency.text, monitor->latency.len);
        return 200;
    }
    int status = monitor_answer(body, "latency", latency_json(monitor, seconds));
    return status == 200
               ? keep(&monitor->latency, seconds, monitor->canary.history.added, body)
               : status;
}

void monitor_latency_end(struct monitor *monitor)
{
    free(monitor->latency.text);
}

/* --- /api/whatif --- */

static const char computed[] =
    "Computed for each cycle of the canary from the times that the nodes took to grant.\n"
    "The lock is held when the q-th node has granted.\n"
    "A node without is configured and never replies.\n"
    "The times of a node that is moved are shifted: their median is its new round trip.\n"
    "Fewer nodes: all sets of so many of these, with equal weight.\n"
    "Added nodes reply as these did half of the time later.\n";

struct question {
    struct whatif whatif;
    int64_t seconds;
    double rtt_ms[REDLOCK_NODES_MAX]; /* -1: as measured */
};

static const char *read_without(const struct evkeyvalq *query, unsigned n,
                                struct whatif *whatif)
{
    double index[REDLOCK_NODES_MAX];
    int count = query_list(query, "without", n - 1, index, REDLOCK_NODES_MAX);
    for (int i = 0; i < count; i++) {
        if (index[i] < 0 || index[i] != (unsigned)index[i])
            count = -1;
        else
            whatif->without[(unsigned)index[i]] = true;
    }
    return count < 0 ? "without is a list of numbers of nodes, from 0" : NULL;
}

static const char *read_question(const struct monitor *monitor,
                                 const struct evkeyvalq *query, struct question *question)
{
    unsigned n = monitor->canary.history.n;
    unsigned quorum = redlock_client_quorum(monitor->cli->client);
    size_t nodes = n, q = 0;
    question->seconds = read_seconds(monitor, query);
    for (unsigned i = 0; i < n; i++)
        question->rtt_ms[i] = -1;
    if (question->seconds == 0)
        return wrong_seconds;
    if (!query_number(query, "node_count", ORDER_STATS_MAX, &nodes) || nodes == 0)
        return "node_count is a number up to 32";
    if (!query_number(query, "quorum", nodes, &q) ||
        (q > 0 && q < order_stats_majority((unsigned)nodes)))
        return "quorum is from the majority of the nodes to all of them";
    if (query_list(query, "rtt", RTT_MAX_MS, question->rtt_ms, n) < 0)
        return "rtt is a list of milliseconds up to 60000, one for each node, or empty";
    if (q == 0)
        q = nodes == n ? quorum : order_stats_majority((unsigned)nodes);
    whatif_init(&question->whatif, (unsigned)nodes, (unsigned)q);
    return read_without(query, n, &question->whatif);
}

static json_t *model_json(const struct whatif *whatif, const struct history *history,
                          size_t first)
{
    struct bench_result_model model;
    if (!whatif_compute(whatif, history, first, &model))
        cli_fail(CLI_FAILED, "out of memory");
    json_t *object = bench_model_json(&model);
    histogram_free(&model.latency);
    return object;
}

static json_t *whatif_json(const struct monitor *monitor, struct question *question)
{
    const struct history *history = &monitor->canary.history;
    struct whatif measured, *whatif = &question->whatif;
    size_t first =
        history_from(history, cli_clock_us(CLOCK_MONOTONIC) - question->seconds * 1000000);
    json_t *without = json_array();
    whatif_init(&measured, history->n, redlock_client_quorum(monitor->cli->client));
    for (unsigned i = 0; i < history->n; i++) {
        if (question->rtt_ms[i] >= 0 &&
            !whatif_move(whatif, history, first, i,
                         (int64_t)(question->rtt_ms[i] * 1000 + 0.5)))
            cli_fail(CLI_FAILED, "out of memory");
        if (whatif->without[i])
            json_array_append_new(without, json_integer(i));
    }
    return json_pack("{s:I, s:i, s:i, s:i, s:o, s:s, s:o, s:o}", "for_s",
                     (json_int_t)question->seconds, "node_count", (int)whatif->nodes,
                     "quorum", (int)whatif->quorum, "may_fail",
                     (int)whatif->nodes - (int)whatif->quorum, "without", without,
                     "computed", computed, "now", model_json(&measured, history, first),
                     "then", model_json(whatif, history, first));
}

int monitor_api_whatif(void *arg, const struct evkeyvalq *query, struct evbuffer *body)
{
    const struct monitor *monitor = arg;
    struct question question;
    const char *error = read_question(monitor, query, &question);
    if (error)
        return monitor_refuse(body, error);
    return monitor_answer(body, "whatif", whatif_json(monitor, &question));
}
