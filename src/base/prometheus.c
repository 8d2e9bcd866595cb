/*
 * The numbers of a client as text in the format of Prometheus. A metric is a row of one of
 * the tables; docs/telemetry.md has a row for each, too.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "histogram.h"
#include "options.h"
#include "samples.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

/* Microseconds as seconds: exact, and without zeros at the end. */
#define SECONDS 32

static const char *seconds(uint64_t us, char ret_text[SECONDS])
{
    int len =
        snprintf(ret_text, SECONDS, "%" PRIu64 ".%06" PRIu64, us / 1000000, us % 1000000);
    while (ret_text[len - 1] == '0')
        len--;
    len -= ret_text[len - 1] == '.';
    ret_text[len] = '\0';
    return ret_text;
}

/* --- a client --- */

#define AT(member)           offsetof(redlock_stats, member)
#define MEMBER(type, member) offsetof(type, member), sizeof(((type *)0)->member)

/* A counter, whose name ends with "_total", or a gauge. */
struct number {
    const char *name, *help;
    size_t at, size;
};

#define OF_CLIENT(member) MEMBER(redlock_stats, member)

static const struct number numbers[] = {
    {"redlock_quorum", "Nodes that must grant.", OF_CLIENT(quorum)},
    {"redlock_voting_nodes", "Nodes that may vote on plain locks.", OF_CLIENT(votes)},
    {"redlock_voting_nodes_fenced",
     "Nodes that may vote on fenced locks; 0 if the client uses none.",
     OF_CLIENT(votes_fenced)},
    {"redlock_acquiring", "Acquires that are running.", OF_CLIENT(acquiring)},
    {"redlock_held", "Locks that are held.", OF_CLIENT(held)},
    {"redlock_events_dropped_total", "Events that log and trace did not get.",
     OF_CLIENT(events_dropped)},
};

#define CODES 10

/* One number for each code; the usual codes are shown even if they did not occur. */
static const struct {
    const char *name, *label, *help;
    size_t at;
    redlock_code usual[CODES]; /* up to the second OK */
} results[] = {
    {"redlock_acquires_total",
     "result",
     "Acquires that have ended.",
     AT(acquire_results),
     {REDLOCK_OK, REDLOCK_TAKEN, REDLOCK_TIMEOUT, REDLOCK_NO_QUORUM, REDLOCK_EXPIRED,
      REDLOCK_CANCELLED, REDLOCK_DENIED, REDLOCK_BAD_TTL, REDLOCK_NO_MEMORY,
      REDLOCK_SYSTEM}},
    {"redlock_attempts_total",
     "result",
     "Attempts of acquires that have ended.",
     AT(attempt_results),
     {REDLOCK_OK, REDLOCK_TAKEN, REDLOCK_NO_QUORUM, REDLOCK_EXPIRED, REDLOCK_CANCELLED,
      REDLOCK_DENIED}},
    {"redlock_losses_total",
     "cause",
     "Held locks that were lost.",
     AT(losses),
     {REDLOCK_EXPIRED, REDLOCK_GONE, REDLOCK_TAKEN, REDLOCK_MAX_HOLD}},
};

/* Powers of two microseconds: the bounds of a histogram that are shown. */
#define SHORT_FROM 5  /* 32 us */
#define SHORT_TO   24 /* 17 s */
#define LONG_FROM  10 /* 1 ms */
#define LONG_TO    36 /* 19 h */

static const struct {
    const char *name, *help;
    size_t at;
    unsigned from, to;
} histograms[] = {
    {"redlock_acquire_seconds", "Acquires that succeeded, with all their attempts.",
     AT(acquire_time), SHORT_FROM, LONG_TO},
    {"redlock_wait_seconds", "Acquires that had to wait after an attempt.", AT(wait_time),
     LONG_FROM, LONG_TO},
    {"redlock_hold_seconds", "Locks that were held, at their end.", AT(hold_time),
     LONG_FROM, LONG_TO},
    {"redlock_validity_seconds", "Validity that was left when an attempt succeeded.",
     AT(validity), LONG_FROM, LONG_TO},
};

static uint64_t number_at(const void *from, size_t at)
{
    uint64_t number;
    memcpy(&number, (const char *)from + at, sizeof(number));
    return number;
}

static void put_type(struct rl_samples *text, const struct number *number)
{
    size_t len = strlen(number->name), end = strlen("_total");
    bool counts = len > end && strcmp(number->name + len - end, "_total") == 0;
    rl_samples_head(text, number->name, counts ? "counter" : "gauge", number->help);
}

/* A bool, an unsigned or a uint64_t. */
static uint64_t value_of(const struct number *number, const void *stats)
{
    const void *at = (const char *)stats + number->at;
    switch (number->size) {
    case sizeof(bool): return *(const bool *)at;
    case sizeof(unsigned): return *(const unsigned *)at;
    default: return *(const uint64_t *)at;
    }
}

static void put_numbers(struct rl_samples *text, const redlock_stats *stats)
{
    for (size_t i = 0; i < COUNT(numbers); i++) {
        put_type(text, &numbers[i]);
        rl_samples_begin(text, numbers[i].name, "");
        rl_samples_end(text, value_of(&numbers[i], stats));
    }
}

static bool prometheus_is_usual(const redlock_code usual[CODES], unsigned code)
{
    for (unsigned i = 0; i < CODES && (i == 0 || usual[i] != REDLOCK_OK); i++)
        if ((unsigned)usual[i] == code)
            return true;
    return false;
}

static void put_word(struct rl_samples *text, const char *name, const char *label,
                     const char *word, uint64_t number)
{
    rl_samples_begin(text, name, "");
    rl_samples_label(text, label, word);
    rl_samples_end(text, number);
}

static void put_results(struct rl_samples *text, const redlock_stats *stats)
{
    for (size_t i = 0; i < COUNT(results); i++) {
        rl_samples_head(text, results[i].name, "counter", results[i].help);
        for (unsigned code = 0; code < REDLOCK_RESULTS; code++) {
            uint64_t number = number_at(stats, results[i].at + code * sizeof(uint64_t));
            char name[32];
            if (number == 0 && !prometheus_is_usual(results[i].usual, code))
                continue;
            snprintf(name, sizeof(name), "%s", redlock_code_name((redlock_code)code));
            for (char *c = name; *c; c++)
                *c = (char)tolower((unsigned char)*c);
            put_word(text, results[i].name, results[i].label, name, number);
        }
    }
}

static void put_watchdog_extensions(struct rl_samples *text, const redlock_stats *stats)
{
    static const char name[] = "redlock_watchdog_extensions_total";
    rl_samples_head(text, name, "counter", "Extensions by the watchdog.");
    put_word(text, name, "result", "ok", stats->watchdog_extensions);
    put_word(text, name, "result", "failed", stats->watchdog_extensions_failed);
}

/* `node`: its URI; NULL: the histogram is of the client. */
static void begin_part(struct rl_samples *text, const char *name, const char *suffix,
                       const char *node)
{
    rl_samples_begin(text, name, suffix);
    if (node)
        rl_samples_label(text, "node", node);
}

static void put_histogram(struct rl_samples *text, const char *name, const char *node,
                          const redlock_histogram *histogram, unsigned from, unsigned to)
{
    char value[SECONDS];
    uint64_t count = 0;
    for (unsigned bucket = 0, power = from; bucket < REDLOCK_BUCKETS; bucket++) {
        int64_t bound = redlock_histogram_bound(bucket);
        count += histogram->bucket[bucket];
        if (power > to || bound != INT64_C(1) << power)
            continue;
        begin_part(text, name, "_bucket", node);
        rl_samples_label(text, "le", seconds((uint64_t)bound, value));
        rl_samples_end(text, count);
        power++;
    }
    begin_part(text, name, "_bucket", node);
    rl_samples_label(text, "le", "+Inf");
    rl_samples_end(text, count);
    begin_part(text, name, "_sum", node);
    rl_samples_end_text(text, seconds(histogram->sum_us, value));
    begin_part(text, name, "_count", node);
    rl_samples_end(text, count);
}

static void put_histograms(struct rl_samples *text, const redlock_stats *stats)
{
    for (size_t i = 0; i < COUNT(histograms); i++) {
        rl_samples_head(text, histograms[i].name, "histogram", histograms[i].help);
        put_histogram(text, histograms[i].name, NULL,
                      (const void *)((const char *)stats + histograms[i].at),
                      histograms[i].from, histograms[i].to);
    }
}

/* --- its nodes --- */

#define OF_NODE(member) MEMBER(redlock_node_stats, member)

static const struct number node_numbers[] = {
    {"redlock_node_connected", "1: the node has replied to the greeting.",
     OF_NODE(connected)},
    {"redlock_node_votes", "1: the node may vote on plain locks.", OF_NODE(votes)},
    {"redlock_node_votes_fenced", "1: the node may vote on fenced locks.",
     OF_NODE(votes_fenced)},
    {"redlock_node_queue", "Commands without a reply yet.", OF_NODE(queue)},
    {"redlock_node_errors_total", "Error replies.", OF_NODE(errors)},
    {"redlock_node_timeouts_total", "Replies that did not come in time.",
     OF_NODE(timeouts)},
    {"redlock_node_disconnects_total", "Connections that were used and ended.",
     OF_NODE(disconnects)},
    {"redlock_node_connect_failures_total", "Connections that failed or were refused.",
     OF_NODE(connect_failures)},
};

static redlock_node_stats node_at(const redlock_stats *stats, size_t i)
{
    redlock_node_stats node;
    rl_copy_sized(&node, sizeof(node), (const char *)stats->nodes + i * stats->node_size,
                  stats->node_size);
    return node;
}

static void put_nodes(struct rl_samples *text, const redlock_stats *stats)
{
    static const char round_trip[] = "redlock_node_round_trip_seconds";
    for (size_t i = 0; i < COUNT(node_numbers); i++) {
        put_type(text, &node_numbers[i]);
        for (size_t k = 0; k < stats->count; k++) {
            redlock_node_stats node = node_at(stats, k);
            begin_part(text, node_numbers[i].name, "", node.uri);
            rl_samples_end(text, value_of(&node_numbers[i], &node));
        }
    }
    rl_samples_head(text, round_trip, "histogram", "From a command to its reply.");
    for (size_t k = 0; k < stats->count; k++) {
        redlock_node_stats node = node_at(stats, k);
        put_histogram(text, round_trip, node.uri, &node.round_trip, SHORT_FROM, SHORT_TO);
    }
}

size_t redlock_stats_prometheus(const redlock_stats *stats, const redlock_label *labels,
                                size_t count, char *bytes, size_t room)
{
    struct rl_samples text = {
        .bytes = bytes, .room = room, .labels = labels, .label_count = count};
    redlock_stats all;
    rl_copy_sized(&all, sizeof(all), stats, stats->size);
    put_numbers(&text, &all);
    put_results(&text, &all);
    put_watchdog_extensions(&text, &all);
    put_histograms(&text, &all);
    if (all.count > 0)
        put_nodes(&text, &all);
    if (text.len >= room && room > 0)
        bytes[0] = '\0';
    return text.len;
}
