/* redlock bench, the output for people. */
#include "bench.h"
#include "order_stats.h"

#include <stdio.h>
#include <string.h>

#define LINE    80
#define COLUMN  8 /* the width of the columns in the rows below */
#define PERCENT 100.0

const struct bench_percentile bench_percentile[BENCH_PERCENTILES] = {
    {500000, "P50", "p50_us"},
    {900000, "P90", "p90_us"},
    {990000, "P99", "p99_us"},
    {999000, "P99.9", "p99_9_us"},
};

const char bench_what_if[] =
    "What if: computed for each cycle from the times that the nodes took to grant; the\n"
    "lock is held when the q-th node has granted. \"without\": that node never replies, "
    "and\n"
    "q stays the same. \"any m\": m nodes and their majority; all sets of m of these "
    "nodes\n"
    "have equal weight. More nodes than these cannot be estimated. The time of this\n"
    "process is not included; it is included in the measured acquires. Percentiles are of\n"
    "the cycles that hold the lock; shares are of cycles, not of time: a failed cycle\n"
    "takes longer.\n";

const char *bench_grouped(uint64_t number, char buffer[BENCH_NUMBER])
{
    char digits[BENCH_NUMBER];
    int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)number);
    char *to = buffer;
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
    return buffer;
}

/* Prints milliseconds, with no more digits than were measured. */
static void print_ms(int64_t us)
{
    double ms = (double)us / 1000;
    int decimals = ms < 10 ? 3 : ms < 100 ? 2 : ms < 1000 ? 1 : 0;
    if (us < 0)
        cli_print("  %*s", COLUMN, "-");
    else
        cli_print("  %*.*f", COLUMN, decimals, ms);
}

static void print_latency(const struct histogram *latency)
{
    for (size_t i = 0; i < BENCH_PERCENTILES; i++)
        print_ms(histogram_at(latency, bench_percentile[i].parts));
    print_ms(latency->most);
}

static void print_heads(void)
{
    for (size_t i = 0; i < BENCH_PERCENTILES; i++)
        cli_print("  %*s", COLUMN, bench_percentile[i].head);
    cli_print("  %*s", COLUMN, "MAX");
}

static void print_share(double share)
{
    cli_print("  %*.*f%%", COLUMN - 1, share > 0 && share < 0.1 ? 2 : 1, PERCENT * share);
}

double bench_never(const struct bench_result_model *model)
{
    uint64_t all = model->latency.total + model->never + model->untimed;
    return all ? (double)model->never / (double)all : 0;
}

static void print_model(const char *name, int width, const struct bench_result_model *model)
{
    cli_print("%-*s", width, name);
    print_latency(&model->latency);
    print_share(bench_never(model));
    cli_print("\n");
}

/* "3.60 s (72.0 %), longest 3.60 s" */
static void print_outage(const struct bench *bench, const struct outage *outage)
{
    cli_print("%.2f s (%.1f %%), longest %.2f s", (double)outage->sum / 1e6,
              PERCENT * (double)outage->sum / (double)bench->bench_result.elapsed_us,
              (double)outage->longest / 1e6);
}

/* --- the parts --- */

static void print_summary(const struct bench *bench)
{
    const struct bench_result *bench_result = &bench->bench_result;
    char cycles[BENCH_NUMBER], failed[BENCH_NUMBER], rate[BENCH_NUMBER], text[CLI_CAUSE];
    double per_s = (double)bench_result->cycles * 1e6 / (double)bench_result->elapsed_us;
    cli_print("%s cycles in %.1f s, %s a second, %lld at a time; %s failed\n",
              bench_grouped(bench_result->cycles, cycles),
              (double)bench_result->elapsed_us / 1e6,
              bench_grouped((uint64_t)(per_s + 0.5), rate), (long long)bench->workers,
              bench_grouped(bench_result->cycles - bench_result->held, failed));
    for (int code = 0; code < CYCLE_CODES; code++) {
        if (bench_result->not_acquired[code])
            cli_print("    not acquired, %s: %s\n", cli_cause_name(code, text),
                      bench_grouped(bench_result->not_acquired[code], failed));
        if (bench_result->not_released[code])
            cli_print("    not released, %s: %s\n", cli_cause_name(code, text),
                      bench_grouped(bench_result->not_released[code], failed));
    }
    if (bench_result->outage.sum > 0) {
        cli_print("    no lock could be acquired for ");
        print_outage(bench, &bench_result->outage);
        cli_print("\n");
    }
}

static void print_quorum(const struct bench *bench, int width)
{
    const struct bench_result *bench_result = &bench->bench_result;
    char name[LINE];
    cli_print("\n%-*s", width, "MEASURED, ms");
    print_heads();
    snprintf(name, sizeof(name), "acquire, %u of %u nodes", bench_result->q,
             bench_result->n);
    cli_print("\n%-*s", width, name);
    print_latency(&bench_result->acquire);
    snprintf(name, sizeof(name), "release, %u of %u nodes", bench_result->q,
             bench_result->n);
    cli_print("\n%-*s", width, name);
    print_latency(&bench_result->release);
    cli_print("\n");
    double ttl = (double)bench->cli->lease.ttl_ms;
    int64_t median = histogram_at(&bench_result->valid, HISTOGRAM_ALL / 2);
    if (bench_result->held > 0)
        cli_print(
            "validity left when it was held, of a TTL of %lld ms: p50 %.2f %%, least "
            "%.2f %%\n",
            (long long)bench->cli->lease.ttl_ms, PERCENT * (double)median / ttl,
            PERCENT * (double)bench_result->valid.least / ttl);
}

/* Printed below a node's row: why it did not grant. */
static void print_faults(const struct bench *bench, const struct bench_result_node *node)
{
    const struct {
        const char *text;
        uint64_t count;
    } faults[] = {
        {"refused", node->refused},
        {"no answer in time", node->silent},
        {"connection lost", node->broken},
        {"not asked", node->absent},
        {"ready, but too few others were", node->ready},
    };
    char number[BENCH_NUMBER];
    const char *between = "";
    if (!node->fault && node->ready == 0)
        return;
    cli_print("    %s", bench->cli->color && node->fault ? CLI_RED : "");
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        if (faults[i].count == 0)
            continue;
        cli_print("%s%s: %s", between, faults[i].text,
                  bench_grouped(faults[i].count, number));
        between = "; ";
    }
    if (node->fault) {
        cli_print(" (%s); no grant for ", node->fault);
        print_outage(bench, &node->outage);
    }
    cli_print("%s\n", bench->cli->color && node->fault ? CLI_PLAIN : "");
}

static void print_nodes(const struct bench *bench, int width)
{
    const struct bench_result *bench_result = &bench->bench_result;
    char number[BENCH_NUMBER];
    cli_print("\n%-*s", width, "NODE, ms");
    print_heads();
    cli_print("  %*s  %*s  %*s\n", COLUMN, "Q-TH", COLUMN + 2, "GRANTED", COLUMN, "FAILED");
    for (unsigned i = 0; i < bench_result->n; i++) {
        const struct bench_result_node *node = &bench_result->node[i];
        cli_print("%-*s", width, bench->nodes[i].uri);
        print_latency(&node->latency);
        print_share(bench_result->all.latency.total
                        ? (double)node->last / (double)bench_result->all.latency.total
                        : 0);
        cli_print("  %*s", COLUMN + 2, bench_grouped(node->granted, number));
        cli_print(
            "  %*s\n", COLUMN,
            bench_grouped(bench_result->cycles - node->granted - node->ready, number));
        print_faults(bench, node);
    }
}

static void print_models(const struct bench *bench, int width)
{
    const struct bench_result *bench_result = &bench->bench_result;
    char name[LINE];
    cli_print("\n%-*s", width, "WHAT IF, ms");
    print_heads();
    cli_print("  %*s\n", COLUMN, "NOT HELD");
    snprintf(name, sizeof(name), "all %u, %u needed", bench_result->n, bench_result->q);
    print_model(name, width, &bench_result->all);
    for (unsigned i = 0; i < bench_result->n && bench_result->n > 1; i++) {
        const char *without = "without ";
        cli_print("%s", without);
        print_model(bench->nodes[i].uri, width - (int)strlen(without),
                    &bench_result->node[i].without);
    }
    for (unsigned m = bench_result->n - 1; m >= 1; m--) {
        snprintf(name, sizeof(name), "any %u, %u needed", m, order_stats_majority(m));
        print_model(name, width, &bench_result->fewer[m]);
    }
    cli_print("\n%s", bench_what_if);
}

static int widest_name(const struct bench *bench)
{
    size_t width = strlen("acquire, 32 of 32 nodes");
    for (unsigned i = 0; i < bench->bench_result.n; i++) {
        size_t len = strlen("without ") + strlen(bench->nodes[i].uri);
        width = width < len ? len : width;
    }
    return (int)width;
}

bool bench_print(const struct bench *bench)
{
    int width = widest_name(bench);
    print_summary(bench);
    print_quorum(bench, width);
    print_nodes(bench, width);
    print_models(bench, width);
    return cli_flush();
}
