/* /metrics, for Prometheus. */
#include <inttypes.h>
#include <redlock/stats.h>
#include <stdlib.h>

#include "monitor.h"

static void add_client(const redlock_stats *stats, FILE *to)
{
    size_t len = redlock_stats_prometheus(stats, NULL, 0, NULL, 0);
    char *text = cli_need_memory(malloc(len + 1));
    redlock_stats_prometheus(stats, NULL, 0, text, len + 1);
    fputs(text, to);
    free(text);
}

/* Powers of two microseconds, as those of the client: 32 us to 67 s. */
#define BOUND_FROM 5
#define BOUND_TO   26

static void add_head(const char *name, const char *type, const char *help, FILE *to)
{
    fprintf(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void add_histogram(const redlock_histogram *histogram, const char *name,
                          const char *help, FILE *to)
{
    uint64_t below = 0;
    add_head(name, "histogram", help, to);
    for (unsigned bucket = 0, power = BOUND_FROM; power <= BOUND_TO; bucket++) {
        int64_t bound = redlock_histogram_bound(bucket);
        below += histogram->bucket[bucket];
        if (bound != INT64_C(1) << power)
            continue;
        fprintf(to, "%s_bucket{le=\"%.9g\"} %" PRIu64 "\n", name, (double)bound / 1e6,
                below);
        power++;
    }
    uint64_t count = redlock_histogram_count(histogram);
    fprintf(to, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, count);
    fprintf(to, "%s_sum %.6f\n", name, (double)histogram->sum_us / 1e6);
    fprintf(to, "%s_count %" PRIu64 "\n", name, count);
}

/* --- the last check --- */

static void begin_sample(const char *name, const json_t *node, FILE *to)
{
    fprintf(to, "%s{node=", name);
    monitor_write_label(json_string_value(json_object_get(node, "uri")), to);
}

/* A number of the node, unless it is unknown. */
static void add_known(const char *name, const json_t *node, const char *member,
                      double in_second, FILE *to)
{
    const json_t *number = json_object_get(node, member);
    if (!json_is_integer(number))
        return;
    begin_sample(name, node, to);
    fprintf(to, "} %.6f\n", (double)json_integer_value(number) / in_second);
}

static void add_checked(const json_t *checked, FILE *to)
{
    const char *offset = "redlock_node_clock_offset_seconds";
    const char *certificate = "redlock_node_certificate_left_seconds";
    const char *finding = "redlock_node_finding";
    const json_t *node, *found;
    size_t i, k;
    add_head(offset, "gauge", "The node's time of day minus the median of all nodes.", to);
    json_array_foreach(checked, i, node) add_known(offset, node, "offset_us", 1e6, to);
    add_head(certificate, "gauge", "Until the node's TLS certificate ends.", to);
    json_array_foreach(checked, i, node)
        add_known(certificate, node, "certificate_ms", 1e3, to);
    add_head(finding, "gauge", "1: redlock check finds this of the node.", to);
    json_array_foreach(checked, i, node)
        json_array_foreach(json_object_get(node, "findings"), k, found)
    {
        begin_sample(finding, node, to);
        fprintf(to, ",code=\"%s\",severity=\"%s\"} 1\n",
                json_string_value(json_object_get(found, "code")),
                json_string_value(json_object_get(found, "severity")));
    }
}

/* --- the canary --- */

/* The usual results are shown even if they did not occur. */
static bool is_usual(int code)
{
    return code == REDLOCK_OK || code == REDLOCK_TAKEN || code == REDLOCK_NO_QUORUM ||
           code == REDLOCK_EXPIRED || code == REDLOCK_DENIED || code == REDLOCK_UNCONFIRMED;
}

static void add_gauge(const char *name, const char *help, bool value, FILE *to)
{
    add_head(name, "gauge", help, to);
    fprintf(to, "%s %d\n", name, value);
}

/* All acquires of the client are the canary's. */
static void add_canary(const struct canary *canary, const redlock_stats *stats, FILE *to)
{
    const char *cycles = "redlock_canary_cycles_total";
    char name[CLI_CAUSE];
    add_gauge("redlock_canary_writes", "1: it takes its lock; 0: it only watches.",
              !canary->is_denied, to);
    add_head(cycles, "counter", "Cycles of the canary that have ended.", to);
    for (int code = 0; code < CYCLE_CODES; code++)
        if (canary->results[code] > 0 || is_usual(code))
            fprintf(to, "%s{result=\"%s\"} %" PRIu64 "\n", cycles,
                    cli_cause_name(code, name), canary->results[code]);
    add_histogram(&stats->acquire_time, "redlock_canary_acquire_seconds",
                  "Acquires of the canary that succeeded.", to);
    add_histogram(&canary->release, "redlock_canary_release_seconds",
                  "Releases after these acquires, whatever their result.", to);
}

int monitor_metrics(void *arg, const struct evkeyvalq *query, struct evbuffer *body)
{
    const struct monitor *monitor = arg;
    redlock_node_stats nodes[REDLOCK_NODES_MAX];
    redlock_stats stats;
    struct cli_text printed;
    FILE *to = cli_text_begin(&printed);
    (void)query;
    monitor_stats(monitor->cli->client, &stats, nodes);
    add_client(&stats, to);
    add_canary(&monitor->canary, &stats, to);
    add_gauge("redlock_watches_members",
              "1: it watches nodes of fenced locks, and readmits them.",
              monitor->health.watches, to);
    add_checked(monitor->health.checked, to);
    monitor_locks_metrics(monitor->locks, to);
    char *text = cli_text_end(&printed);
    evbuffer_add(body, text, printed.size);
    free(text);
    return 200;
}
