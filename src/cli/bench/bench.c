/* redlock bench: measures how long the nodes take to acquire and release a lock. */
#include "bench.h"
#include "page.h"
#include "progress.h"
#include "workers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DURATION_MS     10000
#define DURATION_MAX_MS INT64_C(86400000)
#define CYCLES_MAX      INT64_C(10000000000) /* so that no sum of weights overflows */
#define WARMUP_MS       1000

const struct cli_help cli_bench_help = {
    "Usage: redlock bench [OPTION]...\n"
    "Measure how long these nodes take to acquire and release a lock: for the quorum, for\n"
    "each node, and as an estimate for other sets of these nodes. The keys are its own,\n"
    "\"redlock-bench:...\", and none is left behind.\n\n"
    "  -c, --lanes N             use N lanes at once, each with a lock; default 1\n"
    "  -d, --duration D          measure this long; default 10s, at most 24h\n"
    "  -n, --cycles N            instead of -d: how often to acquire and release\n"
    "      --warmup D            first run cycles that are not counted; default 1s\n"
    "  -t, --ttl TTL             of the locks; default 30s\n"
    "      --export-json F       write to F what --json prints, histograms and timeline\n"
    "      --export-csv F        write one row of 100 bytes or more per cycle\n"
    "      --html F              write F, a page that draws it: one file for any "
    "browser\n\n"
    "Example:\n"
    "  redlock bench -c 16 -d 1m --html bench.html\n",
    "  redlock bench --json -n 10000 | jq '.acquire.p99_us, .nodes[].latency.p99_us'\n\n"
    "A cycle: the lock is acquired, held until every node has replied or timed out,\n"
    "and released. Acquire and release are measured; the time between them is not. A\n"
    "node's time is the time from the request to its grant; the q-th is that of the\n"
    "node that completed the quorum. Percentiles are never below the true value, and\n"
    "less than 0.1 % above it. An outage is the time between two successes with a\n"
    "failure in between.\n\n"
    "What if: computed from the nodes' times in each cycle. \"without\" a node: q stays\n"
    "the same. \"any m\": over all sets of m of these nodes, with the majority of m.\n\n"
    "Exit codes: 0 at least one cycle held the lock, others may have failed; 69 no\n"
    "quorum, no cycle held it; 78 also: a file cannot be written; 128+n ended by signal\n"
    "n, after the results so far were printed.\n",
};

enum phase {
    PHASE_OPENING, /* one cycle only: checks whether the nodes grant a lock */
    PHASE_RUNNING,
    PHASE_STOPPING,
};

struct call {
    struct bench bench;
    struct workers workers;
    enum phase phase;
    int64_t from_us, until_us;             /* cycles that begin between these times count */
    int64_t begun;                         /* cycles that count */
    redlock_result failure;                /* of the last cycle that was not held */
    redlock_node nodes[REDLOCK_NODES_MAX]; /* of that cycle */
    size_t node_count;
};

/* --- cycles --- */

static bool may_begin(void *arg, struct cycle *cycle)
{
    struct call *call = arg;
    int64_t now = cli_clock_us(CLOCK_MONOTONIC);
    if (call->phase != PHASE_RUNNING)
        return call->phase == PHASE_OPENING;
    if (now < call->from_us)
        return true;
    bool enough = call->bench.cycles != CLI_UNSAID ? call->begun >= call->bench.cycles
                                                   : now >= call->until_us;
    if (call->begun >= CYCLES_MAX || (enough && call->begun > 0))
        return false;
    cycle->counted = true;
    call->begun++;
    return true;
}

static void open_workers(struct call *call)
{
    call->phase = PHASE_RUNNING;
    call->from_us = cli_clock_us(CLOCK_MONOTONIC) + call->bench.warmup_ms * 1000;
    call->until_us = call->from_us + call->bench.duration_ms * 1000;
    call->bench.bench_result.began_us = call->from_us;
    workers_begin(&call->workers, 1, call->workers.count);
}

static void ended(void *arg, const struct cycle *cycle)
{
    struct call *call = arg;
    if (!cycle_is_held(cycle)) {
        call->failure = cycle->acquired;
        memcpy(call->nodes, call->workers.nodes, sizeof(call->nodes));
        call->node_count = call->workers.node_count;
    }
    if (cycle->counted) {
        bench_result_take(&call->bench.bench_result, cycle);
        bench_csv_row(&call->bench, cycle);
    }
    if (call->phase == PHASE_OPENING && cycle_is_held(cycle))
        open_workers(call);
    else if (call->phase == PHASE_OPENING)
        call->phase = PHASE_STOPPING;
}

static void bench_interrupted(void *arg)
{
    struct call *call = arg;
    if (call->phase == PHASE_OPENING)
        workers_cancel(&call->workers);
    call->phase = PHASE_STOPPING;
}

/* --- progress --- */

static void write_failing(const struct bench *bench, const char *before, const char *after,
                          FILE *stream)
{
    for (unsigned i = 0; i < bench->bench_result.n; i++)
        if (bench->bench_result.node[i].failing)
            fprintf(stream, "%s%s: %s%s", before, bench->nodes[i].uri,
                    bench->bench_result.node[i].fault, after);
}

static void write_figures(const struct bench_result *bench_result, double s, FILE *stream)
{
    const struct histogram *acquire = &bench_result->acquire;
    char cycles[BENCH_NUMBER], failed[BENCH_NUMBER];
    fprintf(stream, "%.1f s: %s cycles, %s failed", s,
            bench_grouped(bench_result->cycles, cycles),
            bench_grouped(bench_result->cycles - bench_result->held, failed));
    if (bench_result->held > 0)
        fprintf(stream, "; acquire p50 %.3f ms, p99 %.3f ms",
                (double)histogram_at(acquire, 500000) / 1000,
                (double)histogram_at(acquire, 990000) / 1000);
}

static void write_progress(const void *arg, bool is_terminal, FILE *stream)
{
    const struct call *call = arg;
    double s = (double)(cli_clock_us(CLOCK_MONOTONIC) - call->from_us) / 1e6;
    fprintf(stream, "bench: ");
    if (call->phase == PHASE_OPENING)
        fprintf(stream, "waiting for the first lock");
    else if (s < 0)
        fprintf(stream, "warming up");
    else
        write_figures(&call->bench.bench_result, s, stream);
    if (call->phase == PHASE_STOPPING)
        fprintf(stream,
                "; ends when the nodes have answered, or at once by another signal");
    fprintf(stream, "%s", is_terminal ? "\n" : "");
    write_failing(&call->bench, is_terminal ? "  " : "; ", is_terminal ? "\n" : "", stream);
}

/* --- the result --- */

static bool write_json(struct bench *bench)
{
    outfile_begin(&bench->json);
    if (!bench->json.stream)
        return true;
    bool written = cli_write_json(bench->cli, bench_json_whole(bench), bench->json.stream);
    outfile_note(&bench->json);
    return outfile_end(&bench->json) && written;
}

static bool write_html(struct bench *bench)
{
    struct cli_text text;
    outfile_begin(&bench->html);
    if (!bench->html.stream)
        return true;
    cli_text_begin(&text);
    bool written = cli_write_json(bench->cli, bench_json_whole(bench), text.to);
    char *json = cli_text_end(&text);
    cli_page_write(json, bench->html.stream);
    free(json);
    outfile_note(&bench->html);
    return outfile_end(&bench->html) && written;
}

static bool write_files(struct bench *bench)
{
    bool csv = outfile_end(&bench->csv);
    bool json = write_json(bench);
    return write_html(bench) && csv && json;
}

/* Prints why no lock was held. */
static void bench_report_failure(const struct call *call)
{
    cli_say_not_acquired(call->bench.cli, "bench: a lock", &call->failure, call->nodes,
                         call->node_count);
}

static bool print_nothing(const struct call *call)
{
    const struct cli *cli = call->bench.cli;
    redlock_code code = call->bench.signal ? REDLOCK_CANCELLED : call->failure.code;
    if (call->bench.signal)
        cli_say(cli, "bench: %s: nothing was measured", strsignal(call->bench.signal));
    else
        bench_report_failure(call);
    return !cli->json ||
           cli_print_json(cli, json_pack("{s:o, s:o}", "cause", cli_cause(code), "nodes",
                                         cli_nodes_json(call->nodes, call->node_count)));
}

static bool bench_print_result(const struct bench *bench)
{
    return bench->cli->json ? cli_print_json(bench->cli, bench_json(bench))
                            : bench_print(bench);
}

static int bench_conclude(struct call *call)
{
    struct bench *bench = &call->bench;
    bool measured = bench->bench_result.cycles > 0;
    bench->cause = bench->bench_result.held > 0 ? REDLOCK_OK : call->failure.code;
    cli_say_nodes(bench->cli, call->nodes, call->node_count);
    bool printed = measured ? bench_print_result(bench) : print_nothing(call);
    int failed = cli_exit_printed(printed, CLI_OK);
    if (measured && bench->cause != REDLOCK_OK)
        bench_report_failure(call);
    bool written = !measured || write_files(bench);
    if (failed || !written)
        return failed ? failed : CLI_FAILED;
    if (bench->signal)
        return CLI_SIGNALLED + bench->signal;
    return cli_acquire_exit(bench->cause, CLI_HELD_ELSEWHERE);
}

/* --- the command --- */

static void check_range(const char *option, int64_t value, int64_t least, int64_t most,
                        const char *bounds)
{
    if (value < least || value > most)
        cli_fail(CLI_USAGE, "%s: %s", option, bounds);
}

static void check_path(const char *option, const struct outfile *file)
{
    if (file->path && !*file->path)
        cli_fail(CLI_USAGE, "%s: an empty name", option);
}

static void read_words(struct bench *bench, struct cli *cli, int argc, char **argv)
{
    *bench = (struct bench){
        .cli = cli,
        .workers = 1,
        .duration_ms = CLI_UNSAID,
        .cycles = CLI_UNSAID,
        .warmup_ms = WARMUP_MS,
    };
    const struct cli_option own[] = {
        {"lanes", 'c', CLI_NUMBER, &bench->workers},
        {"duration", 'd', CLI_DURATION, &bench->duration_ms},
        {"cycles", 'n', CLI_NUMBER, &bench->cycles},
        {"warmup", 0, CLI_DURATION, &bench->warmup_ms},
        {CLI_TTL_OPTION(cli)},
        {"export-json", 0, CLI_TEXT, &bench->json.path},
        {"export-csv", 0, CLI_TEXT, &bench->csv.path},
        {"html", 0, CLI_TEXT, &bench->html.path},
        {NULL, 0, CLI_FLAG, NULL},
    };
    cli_parse(cli, argc, argv, own);
    if (bench->duration_ms != CLI_UNSAID && bench->cycles != CLI_UNSAID)
        cli_fail(CLI_USAGE, "-d and -n exclude each other");
    if (bench->duration_ms == CLI_UNSAID)
        bench->duration_ms = DURATION_MS;
    check_path("--export-json", &bench->json);
    check_path("--export-csv", &bench->csv);
    check_path("--html", &bench->html);
    check_range("-c", bench->workers, 1, WORKERS_MAX, "from 1 to 10000 lanes");
    check_range("-d", bench->duration_ms, 1, DURATION_MAX_MS, "from 1ms to 24h");
    check_range("--warmup", bench->warmup_ms, 0, DURATION_MAX_MS, "at most 24h");
    if (bench->cycles != CLI_UNSAID)
        check_range("-n", bench->cycles, 1, CYCLES_MAX, "from 1 to 10000000000 cycles");
}

/* Before anything is sent, reports files that cannot be written. */
static void open_files(struct bench *bench)
{
    struct outfile *json = &bench->json, *csv = &bench->csv, *html = &bench->html;
    if (!outfile_open(json) || !outfile_open(csv) || !outfile_open(html))
        exit(CLI_CONFIG);
    if (!outfile_differ(json, csv) || !outfile_differ(json, html) ||
        !outfile_differ(csv, html))
        exit(CLI_USAGE);
}

static void measure(struct call *call)
{
    struct progress progress;
    progress_begin(&progress, call->bench.cli, write_progress, call);
    workers_run(&call->workers);
    bench_result_end(&call->bench.bench_result,
                     cli_clock_us(CLOCK_MONOTONIC) - call->bench.bench_result.began_us);
    progress_end(&progress);
    cli_drain(call->bench.cli);
}

/* Signals are caught from the first file on, so that no file is left without a message. */
static void measure_for_files(struct call *call)
{
    struct cli_signals signals;
    cli_signals_begin(&signals, call->bench.cli->base, bench_interrupted, call);
    open_files(&call->bench);
    measure(call);
    call->bench.signal = signals.number;
    cli_signals_end(&signals);
}

int cli_bench(struct cli *cli, int argc, char **argv)
{
    static struct call call;
    struct bench *bench = &call.bench;
    struct workers *workers = &call.workers;
    read_words(bench, cli, argc, argv);

    cli_connect(cli);
    unsigned n =
        (unsigned)redlock_client_explain(cli->client, bench->nodes, REDLOCK_NODES_MAX);
    bench->quorum = redlock_client_quorum(cli->client);
    *workers = (struct workers){
        .cli = cli,
        .may_begin = may_begin,
        .ended = ended,
        .arg = &call,
    };
    workers_init(workers, (unsigned)bench->workers, "redlock-bench");
    if (!bench_result_init(&bench->bench_result, n, bench->quorum))
        cli_fail(CLI_FAILED, "out of memory");
    workers_begin(workers, 0, 1);
    measure_for_files(&call);
    int exit_code = bench_conclude(&call);
    workers_free(workers);
    bench_result_free(&bench->bench_result);
    cli_disconnect(cli);
    return exit_code;
}
