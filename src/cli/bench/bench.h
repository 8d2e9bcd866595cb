/* Shared by the parts of redlock bench: the options and the results. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli.h"
#include "outfile.h"
#include "result.h"

struct bench {
    const struct cli *cli;
    int64_t workers, duration_ms;
    int64_t cycles; /* CLI_UNSAID: duration_ms applies */
    int64_t warmup_ms;
    struct outfile json, csv, html;

    redlock_node nodes[REDLOCK_NODES_MAX]; /* for their names */
    unsigned quorum;
    int signal;         /* the signal that ended the run; 0: none */
    redlock_code cause; /* why no cycle was held; OK: at least one was */
    struct bench_result bench_result;
};

/*
 * The percentiles that are printed, in parts of HISTOGRAM_ALL. The largest value follows
 * them.
 */
#define BENCH_PERCENTILES 4
extern const struct bench_percentile {
    uint32_t parts;
    const char *head; /* "P99.9" */
    const char *key;  /* "p99_9_us" */
} bench_percentile[BENCH_PERCENTILES];

/* "1,234,567" */
#define BENCH_NUMBER 32
const char *bench_grouped(uint64_t number, char buffer[BENCH_NUMBER]);

/* The share of acquires in the model that were not held. */
double bench_never(const struct bench_result_model *model);

/* Describes what the model computes for other sets of nodes, and how. */
extern const char bench_what_if[];

/* text.c: prints the tables on stdout. */
bool bench_print(const struct bench *bench);

/* json.c: one object; the second one has each bucket and each interval. */
json_t *bench_json(const struct bench *bench);
json_t *bench_json_whole(const struct bench *bench);

/* The percentiles, and the share of acquires that were not held. */
json_t *bench_model_json(const struct bench_result_model *model);

/* csv.c: writes one row per cycle; the first row replaces the file's old content. */
void bench_csv_row(struct bench *bench, const struct cycle *cycle);

#endif
