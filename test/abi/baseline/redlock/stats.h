#ifndef REDLOCK_STATS_H
#define REDLOCK_STATS_H
#include "sync.h"
#ifdef __cplusplus
extern "C" {
#endif
#define REDLOCK_BUCKETS 144
typedef struct redlock_histogram {
    uint64_t sum_us;
    uint64_t bucket[REDLOCK_BUCKETS];
} redlock_histogram;
REDLOCK_API uint64_t redlock_histogram_count(const redlock_histogram *histogram);
REDLOCK_API int64_t redlock_histogram_bound(unsigned bucket);
REDLOCK_API int64_t redlock_histogram_quantile(const redlock_histogram *histogram,
                                               double part);
#define REDLOCK_RESULTS 48
typedef struct redlock_node_stats {
    const char *uri;
    bool connected;
    bool votes;
    bool votes_fenced;
    uint64_t queue;
    uint64_t errors;
    uint64_t timeouts;
    uint64_t disconnects;
    uint64_t connect_failures;
    redlock_histogram round_trip;
} redlock_node_stats;
typedef struct redlock_stats {
    size_t size, node_size;
    redlock_node_stats *nodes;
    size_t room, count;
    unsigned quorum;
    unsigned votes, votes_fenced;
    uint64_t acquiring;
    uint64_t acquire_results[REDLOCK_RESULTS];
    uint64_t attempt_results[REDLOCK_RESULTS];
    uint64_t held;
    uint64_t losses[REDLOCK_RESULTS];
    uint64_t watchdog_extensions, watchdog_extensions_failed;
    uint64_t events_dropped;
    redlock_histogram acquire_time;
    redlock_histogram wait_time;
    redlock_histogram hold_time;
    redlock_histogram validity;
} redlock_stats;
REDLOCK_API void redlock_stats_init_sized(redlock_stats *stats, size_t size,
                                          size_t node_size);
static inline void redlock_stats_init(redlock_stats *stats)
{
    redlock_stats_init_sized(stats, sizeof(*stats), sizeof(redlock_node_stats));
}
REDLOCK_API redlock_code redlock_client_stats(const redlock_client *client,
                                              redlock_stats *stats);
REDLOCK_API redlock_code redlock_sync_stats(redlock_sync *sync, redlock_stats *stats);
typedef struct redlock_label {
    const char *name, *value;
} redlock_label;
REDLOCK_API size_t redlock_stats_prometheus(const redlock_stats *stats,
                                            const redlock_label *labels, size_t count,
                                            char *bytes, size_t room);
#ifdef __cplusplus
}
#endif
#endif
