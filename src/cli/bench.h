/* What the parts of redlock bench share: what was asked for, and what was measured. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli.h"
#include "outfile.h"
#include "tally.h"

struct bench {
    const struct cli *cli;
    int64_t lanes, duration_ms, cycles, warmup_ms; /* the second or third is CLI_UNSAID */
    struct outfile json, csv, plot;

    redlock_node nodes[REDLOCK_NODES_MAX]; /* for their names */
    unsigned quorum;
    int signal;         /* that ended it; 0: none */
    redlock_code cause; /* why no cycle was held; OK: some was */
    struct tally tally;
};

/* The percentiles that are told: parts of HISTOGRAM_ALL. The largest comes after them. */
#define BENCH_PERCENTILES 4
extern const struct bench_percentile {
    uint32_t parts;
    const char *head; /* "P99.9" */
    const char *key;  /* "p99_9_us" */
} bench_percentile[BENCH_PERCENTILES];

/* "1,234,567" */
#define BENCH_NUMBER 32
const char *bench_grouped(uint64_t number, char buffer[BENCH_NUMBER]);

/* How much of all that the model had was not held. */
double bench_never(const struct tally_model *model);

/* What is computed, and how, where other nodes are supposed. */
extern const char bench_what_if[];

/* bench_text.c: the tables, on stdout. */
bool bench_print(const struct bench *bench);

/* bench_json.c: one object; the second one has each bucket and each interval. */
json_t *bench_json(const struct bench *bench);
json_t *bench_json_whole(const struct bench *bench);

/* bench_csv.c: one row per cycle; what the file held is gone with the first. */
void bench_csv_row(struct bench *bench, const struct cycle *cycle);

/* bench_plot.c: ends the process where gnuplot cannot be had; false: it failed. */
void bench_plot_check(const struct bench *bench);
bool bench_plot(struct bench *bench);

#endif
