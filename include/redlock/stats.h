/*
 * The numbers of a client: counters, histograms and the state of its nodes; and the same as
 * text for Prometheus. docs/telemetry.md lists all of them.
 *
 * A client counts at all times, in memory of fixed size. Counters begin at 0 with the
 * client and never go down. They count exactly. Each acquire that has started has one
 * result, once it has ended.
 */
#ifndef REDLOCK_STATS_H
#define REDLOCK_STATS_H

#include "sync.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- histograms --- */

#define REDLOCK_BUCKETS 144

/*
 * Counts of values, in microseconds from 0 to 2^37 (38 hours); longer ones count as the
 * longest. Each power of two is divided into four buckets of the same width.
 */
typedef struct redlock_histogram {
    uint64_t sum_us; /* of all values */
    uint64_t bucket[REDLOCK_BUCKETS];
} redlock_histogram;

/* The number of values. */
REDLOCK_API uint64_t redlock_histogram_count(const redlock_histogram *histogram);

/*
 * The upper end of the bucket, in microseconds: its values are below it, and not below that
 * of the bucket before. UNKNOWN: there is no such bucket.
 */
REDLOCK_API int64_t redlock_histogram_bound(unsigned bucket);

/*
 * The value, in microseconds, that this part of all values do not exceed: 0.99 for the 99th
 * percentile. `part` is from 0 to 1. The true value is at most the result, and the result
 * is at most a quarter above it, or 1 above it. UNKNOWN: there are no values.
 */
REDLOCK_API int64_t redlock_histogram_quantile(const redlock_histogram *histogram,
                                               double part);

/* --- counters --- */

/* The size of an array of counters, one for each redlock_code. */
#define REDLOCK_RESULTS 48

/* One node. Commands are those of locks, and all others but the greeting. */
typedef struct redlock_node_stats {
    const char *uri;   /* without the password; lives as long as the client */
    bool connected;    /* it has replied to the greeting */
    bool votes;        /* it may vote on plain locks now */
    bool votes_fenced; /* it may vote on fenced locks now; false if the client uses none */

    uint64_t queue;    /* commands for it without a reply yet, also those not yet written */
    uint64_t errors;   /* error replies to commands of locks, as the votes ERROR */
    uint64_t timeouts; /* rounds that asked it for a vote or a release: no reply in time */

    uint64_t disconnects;      /* a connection that was used ended */
    uint64_t connect_failures; /* connecting or greeting failed, or the node was refused */

    redlock_histogram round_trip; /* of each reply, from the command */
} redlock_node_stats;

/* A client. Arrays are indexed by redlock_code: acquire_results[REDLOCK_TAKEN]. */
typedef struct redlock_stats {
    size_t size, node_size;    /* set by redlock_stats_init() */
    redlock_node_stats *nodes; /* room for the nodes, set by the caller; or NULL */
    size_t room, count;        /* of elements; count: those that were written */
    unsigned quorum;
    unsigned votes, votes_fenced; /* how many nodes may vote now */

    /*
     * Acquires by the caller. CANCELLED: also those whose lease was freed before they
     * ended. An acquire ends after one attempt or several.
     */
    uint64_t acquiring; /* now */
    uint64_t acquire_results[REDLOCK_RESULTS];

    /* Attempts; also those that only joined the wait queue, which end with TAKEN or
       NO_QUORUM. One that was not sent, for lack of nodes, ends with NO_QUORUM. */
    uint64_t attempt_results[REDLOCK_RESULTS];

    /* Locks that are held: acquired, or adopted with a known validity or once they were
       extended. */
    uint64_t held;                    /* now */
    uint64_t losses[REDLOCK_RESULTS]; /* EXPIRED, GONE, TAKEN, MAX_HOLD */

    /* Watchdog extensions. A try that failed is repeated until the deadline. If a late
       reply completes it, it counts in both. */
    uint64_t watchdog_extensions, watchdog_extensions_failed;

    uint64_t events_dropped; /* not passed to `log` or `trace`: too many, or no memory */

    redlock_histogram acquire_time; /* of acquires that ended with OK: of the whole wait */
    redlock_histogram wait_time;    /* of all that had to wait after their first attempt */
    redlock_histogram hold_time;    /* of holds, at their end */
    redlock_histogram validity;     /* that was left when an attempt succeeded */
} redlock_stats;

/* Clears it, and sets both sizes. */
REDLOCK_API void redlock_stats_init_sized(redlock_stats *stats, size_t size,
                                          size_t node_size);
static inline void redlock_stats_init(redlock_stats *stats)
{
    redlock_stats_init_sized(stats, sizeof(*stats), sizeof(redlock_node_stats));
}

/*
 * Copies the numbers of the client to `stats`, and those of its nodes to `stats->nodes`, at
 * most `stats->room` of them. From the client's thread, also in a callback. It sends
 * nothing and allocates nothing.
 * Errors: BAD_OPTION (redlock_stats_init() was not called), FORKED, CLOSED.
 */
REDLOCK_API redlock_code redlock_client_stats(const redlock_client *client,
                                              redlock_stats *stats);

/*
 * Copies the numbers of a client for threads, from any thread: all are of one instant. A
 * lock that goes from thread to thread is one lease here.
 * Errors: BAD_OPTION (redlock_stats_init() was not called), FORKED, CLOSED, WOULD_DEADLOCK.
 */
REDLOCK_API redlock_code redlock_sync_stats(redlock_sync *sync, redlock_stats *stats);

/* --- Prometheus --- */

/*
 * A label of every sample. The name is a letter or "_", and more of these and digits; node,
 * result, cause and le are taken.
 */
typedef struct redlock_label {
    const char *name, *value;
} redlock_label;

/*
 * Writes the numbers as text for Prometheus, with a NUL, if it has at most `room` bytes;
 * otherwise an empty text. Returns the length of the whole text, without the NUL. `bytes`
 * may be NULL if `room` is 0. It uses no client: `stats` is what redlock_client_stats()
 * wrote, and that client must still exist, because it has the URIs.
 *
 * The names are those of docs/telemetry.md and stay as they are. Times are in seconds. The
 * label `node` is the node's URI without its password. `labels` come first; where the
 * texts of several clients meet, these must differ. Values are escaped: any text is
 * possible, and a byte that is not UTF-8 becomes \xNN.
 */
REDLOCK_API size_t redlock_stats_prometheus(const redlock_stats *stats,
                                            const redlock_label *labels, size_t count,
                                            char *bytes, size_t room);

#ifdef __cplusplus
}
#endif

#endif
