/* redlock bench, one row per cycle: the raw measurements, for other programs. */
#include "bench.h"

static const char *const words[] = {
    [CYCLE_WAITING] = "silent", [CYCLE_REFUSED] = "refused",  [CYCLE_SILENT] = "silent",
    [CYCLE_BROKEN] = "broken",  [CYCLE_ABSENT] = "not_asked", [CYCLE_READY] = "ready",
};

static void write_quoted(FILE *stream, const char *text)
{
    fputc('"', stream);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', stream);
        fputc(*text, stream);
    }
    fputc('"', stream);
}

static void csv_begin(struct bench *bench)
{
    outfile_begin(&bench->csv);
    fprintf(bench->csv.stream,
            "begun_us,lane,acquired,acquire_us,valid_ms,released,release_us");
    for (unsigned i = 0; i < bench->bench_result.n; i++) {
        fputc(',', bench->csv.stream);
        write_quoted(bench->csv.stream, bench->nodes[i].uri);
    }
    fputc('\n', bench->csv.stream);
}

void bench_csv_row(struct bench *bench, const struct cycle *cycle)
{
    char name[CLI_CAUSE];
    if (!bench->csv.path)
        return;
    if (!bench->csv.stream)
        csv_begin(bench);
    FILE *stream = bench->csv.stream;
    fprintf(stream, "%lld,%u,%s,%lld,%lld,",
            (long long)(cycle->begun_us - bench->bench_result.began_us), cycle->worker,
            cli_cause_name(cycle->acquired.code, name), (long long)cycle->acquire_us,
            (long long)cycle->acquired.valid_ms);
    if (cycle_is_held(cycle))
        fprintf(stream, "%s,%lld", cli_cause_name(cycle->released, name),
                (long long)cycle->release_us);
    else
        fputc(',', stream);
    for (unsigned i = 0; i < bench->bench_result.n; i++) {
        const struct cycle_node *node = &cycle->node[i];
        if (node->answer == CYCLE_GRANTED)
            fprintf(stream, ",%lld", (long long)node->latency_us);
        else
            fprintf(stream, ",%s", words[node->answer]);
    }
    fputc('\n', stream);
    outfile_note(&bench->csv);
}
