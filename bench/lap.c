#include "lap.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define END_MAX 1e6
#define CYCLES_MAX                                                                         \
    ((size_t)1 << 21) /* of a thread in one lap; pages that are not used cost nothing */

void lap_fail(const char *why)
{
    fprintf(stderr, "contender: %s\n", why);
    exit(EXIT_FAILURE);
}

int64_t lap_now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * INT64_C(1000000000) + at.tv_nsec;
}

/* --- commands --- */

size_t lap_nodes(const char *ret_uri[LAP_NODES_MAX])
{
    size_t nodes = 0;
    char *list = getenv("REDLOCK_NODES");
    if (!list)
        lap_fail("REDLOCK_NODES is not set");
    for (char *at = strtok(list, ","); at && nodes < LAP_NODES_MAX; at = strtok(NULL, ","))
        ret_uri[nodes++] = at;
    return nodes;
}

void lap_ready(void)
{
    puts("ready");
    fflush(stdout);
}

bool lap_read_order(struct lap_order *ret_order)
{
    char line[64], unit = LAP_SECONDS;
    if (!fgets(line, sizeof(line), stdin))
        return false;
    if (sscanf(line, "%u %lf%c", &ret_order->lanes, &ret_order->end, &unit) < 2 ||
        ret_order->lanes < 1 || ret_order->lanes > LAP_LANES_MAX || ret_order->end < 0 ||
        ret_order->end > END_MAX || !strchr("\nc+-", unit))
        lap_fail("a lap is IN_FLIGHT END");
    ret_order->unit = (enum lap_unit)unit;
    return true;
}

/* --- keys --- */

/* A key of this process: several may have laps at once. */
void lap_key(unsigned lane, char ret_key[LAP_KEY + 1])
{
    snprintf(ret_key, LAP_KEY + 1, "bench:%010u%05u", (unsigned)getpid(), lane);
}

/* --- logs --- */

void lap_log_init(struct lap_log *log)
{
    void *pages = mmap(NULL, CYCLES_MAX * sizeof(*log->ns), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED)
        lap_fail("out of memory");
    *log = (struct lap_log){.ns = pages};
}

void lap_log_clear(struct lap_log *log)
{
    munmap(log->ns, CYCLES_MAX * sizeof(*log->ns));
    *log = (struct lap_log){0};
}

void lap_note(struct lap_log *log, int64_t ns)
{
    if (log->cycles == CYCLES_MAX)
        lap_fail("more cycles than a lap may have");
    log->ns[log->cycles++] = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

/* --- laps --- */

/* Preloaded if a lap is to report its allocations. */
__attribute__((weak)) struct alloc_faults_calls alloc_faults_calls(void);

static int64_t cpu_ns(const struct rusage *used)
{
    return (used->ru_utime.tv_sec + used->ru_stime.tv_sec) * INT64_C(1000000000) +
           (used->ru_utime.tv_usec + used->ru_stime.tv_usec) * INT64_C(1000);
}

void lap_begin(struct lap *lap, const struct lap_order *order)
{
    struct rusage used;
    *lap = (struct lap){.order = *order, .ends = INT64_MAX};
    if (order->unit == LAP_CYCLES) /* each lane begins one without asking */
        lap->left = (int64_t)order->end - order->lanes;
    if (alloc_faults_calls)
        lap->calls = alloc_faults_calls();
    getrusage(RUSAGE_SELF, &used);
    lap->cpu_ns = cpu_ns(&used);
    lap->began = lap_now();
    if (order->unit == LAP_SECONDS)
        lap->ends = lap->began + (int64_t)(order->end * 1e9);
}

bool lap_goes_on(struct lap *lap, int64_t now)
{
    if (now < lap->ends &&
        (lap->order.unit != LAP_CYCLES || atomic_fetch_sub(&lap->left, 1) > 0))
        return true;
    lap->over = now;
    return false;
}

static int compare(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

static double quantile_us(const uint32_t *sorted, size_t count, double share)
{
    size_t at = (size_t)(share * (double)count);
    return count ? sorted[at < count ? at : count - 1] / 1e3 : 0;
}

/* All threads' cycles, in the first one's log. */
static void merge(struct lap_log *log, size_t logs)
{
    for (size_t i = 1; i < logs; i++) {
        if (log->cycles + log[i].cycles > CYCLES_MAX)
            lap_fail("more cycles than a lap may have");
        memcpy(log->ns + log->cycles, log[i].ns, log[i].cycles * sizeof(*log->ns));
        log->cycles += log[i].cycles;
        log->failed += log[i].failed;
        log->denied += log[i].denied;
        log[i].cycles = log[i].failed = log[i].denied = 0;
    }
    qsort(log->ns, log->cycles, sizeof(*log->ns), compare);
}

static void print_calls(const struct alloc_faults_calls *before,
                        const struct alloc_faults_calls *after)
{
    printf(", \"malloc\": %lu, \"calloc\": %lu, \"realloc\": %lu, \"free\": %lu",
           after->malloc - before->malloc, after->calloc - before->calloc,
           after->realloc - before->realloc, after->free - before->free);
}

void lap_end(struct lap *lap, struct lap_log *log, size_t logs)
{
    struct rusage used;
    struct alloc_faults_calls calls =
        alloc_faults_calls ? alloc_faults_calls() : (struct alloc_faults_calls){0};
    double seconds = (double)(lap_now() - lap->began) / 1e9;
    getrusage(RUSAGE_SELF, &used); /* before the sorting */
    merge(log, logs);
    printf(
        "{\"cycles\": %zu, \"failed\": %zu, \"denied\": %zu, \"seconds\": %.6f, "
        "\"over_s\": %.6f, "
        "\"p50_us\": %.3f, \"p99_us\": %.3f, \"max_us\": %.3f, \"cpu_s\": %.6f",
        log->cycles, log->failed, log->denied, seconds, (double)lap->over / 1e9,
        quantile_us(log->ns, log->cycles, 0.5), quantile_us(log->ns, log->cycles, 0.99),
        quantile_us(log->ns, log->cycles, 1), (double)(cpu_ns(&used) - lap->cpu_ns) / 1e9);
    if (alloc_faults_calls)
        print_calls(&lap->calls, &calls);
    puts("}");
    fflush(stdout);
    log->cycles = log->failed = log->denied = 0;
}
