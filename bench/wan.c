/*
 * wan: how long a lock takes, and how often it fails, with distant nodes. Prints JSON, the
 * same each time; bench/wan.py makes tables and a plot of it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/quorum.h"
#include "far.h"

#define SEED      2026
#define LOCKS     4000 /* of which latencies are taken */
#define TTL       (10 * RL_SECOND)
#define LOSS      1000
#define TTL_LOCKS 1000 /* for each of the short TTLs */

/* Clients with default options: a minute, the drift and a tenth (src/client/nodes.c). */
#define QUARANTINE (66602 * RL_MS)

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct far far;

/* --- latency --- */

#define DISTANCES 3 /* of the placements, the first: all are as far apart */

/* Where the nodes are: data centre A, B, C ..., and how far that is from the client. */
struct placement {
    const char *name, *where;
    rl_time ms[RL_NODES_MAX];
};

static const struct placement placements[] = {
    {"1+1+1, all 1 ms apart", "ABC", {1, 1, 1}},
    {"1+1+1, all 30 ms apart", "ABC", {1, 30, 30}},
    {"1+1+1, all 100 ms apart", "ABC", {1, 100, 100}},
    {"1+1+1", "ABC", {1, 30, 100}},
    {"2+2+1", "AABBC", {1, 1, 30, 30, 100}},
    {"3+1+1", "AAABC", {1, 1, 1, 30, 100}},
    {"2+2+1, client in C", "AABBC", {100, 100, 100, 100, 1}},
    {"1+1+1+1+1", "ABCDE", {1, 30, 100, 30, 100}},
};

/* Which nodes are down. */
static const struct {
    const char *name;
    char centre; /* 0: none */
    bool whole;  /* otherwise only one node of it */
} losses[] = {
    {"nothing", 0, false}, {"a node of A", 'A', false}, {"A", 'A', true}, {"B", 'B', true},
    {"C", 'C', true},
};

static rl_node_set nodes_of(const struct placement *placement, char centre, bool whole)
{
    rl_node_set nodes = 0;
    for (unsigned i = 0; placement->where[i]; i++)
        if (placement->where[i] == centre && (whole || !nodes))
            nodes |= rl_bit(i);
    return nodes;
}

static int compare(const void *a, const void *b)
{
    rl_time left = *(const rl_time *)a, right = *(const rl_time *)b;
    return (left > right) - (left < right);
}

static void print_times(const char *name, rl_time *times, unsigned count, const char *after)
{
    static const struct {
        const char *name;
        double share;
    } marks[] = {{"least", 0}, {"p50", 0.5}, {"p99", 0.99}, {"p999", 0.999}};
    printf("\"%s\": ", name);
    if (count == 0) {
        printf("null%s", after);
        return;
    }
    qsort(times, count, sizeof(*times), compare);
    for (size_t i = 0; i < COUNT(marks); i++)
        printf("%s\"%s\": %.1f", i ? ", " : "{", marks[i].name,
               (double)times[(unsigned)(marks[i].share * (count - 1))] / RL_MS);
    printf("}%s", after);
}

static struct far_terms terms_of(const struct placement *placement, rl_time ttl)
{
    struct far_terms terms = {.loss = LOSS, .ttl = ttl};
    for (; placement->where[terms.n]; terms.n++)
        terms.round_trip[terms.n] = placement->ms[terms.n] * RL_MS;
    return terms;
}

static void measure_latency(const struct placement *placement, size_t loss)
{
    static rl_time acquire[LOCKS], release[LOCKS], left[LOCKS];
    unsigned held = 0, released = 0;
    struct far_terms terms = terms_of(placement, TTL);
    far_begin(&far, &terms, SEED);
    far_lose(nodes_of(placement, losses[loss].centre, losses[loss].whole));
    for (unsigned i = 0; i < LOCKS; i++) {
        struct far_lock lock = far_lock(&far);
        if (lock.held) {
            acquire[held] = lock.acquire;
            left[held++] = lock.left;
        }
        if (lock.released)
            release[released++] = lock.release;
        far_wait(FAR_LOCKS_GAP);
    }
    far_end(&far);
    printf("  {\"placement\": \"%s\", \"gone\": \"%s\", \"held\": %.4f, ", placement->name,
           losses[loss].name, (double)held / LOCKS);
    print_times("acquire_ms", acquire, held, ", ");
    print_times("release_ms", release, released, ", ");
    print_times("left_ms", left, held, "}");
}

/* --- short TTLs --- */

static const rl_time ttls_ms[] = {300, 500, 1000, 2000};

static void measure_ttl(const struct placement *placement, rl_time ttl)
{
    unsigned held = 0;
    struct far_terms terms = terms_of(placement, ttl);
    far_begin(&far, &terms, SEED);
    for (unsigned i = 0; i < TTL_LOCKS; i++) {
        held += far_lock(&far).held;
        far_wait(FAR_LOCKS_GAP);
    }
    far_end(&far);
    printf("  {\"placement\": \"%s\", \"ttl_ms\": %d, \"held\": %.4f}", placement->name,
           (int)(ttl / RL_MS), (double)held / TTL_LOCKS);
}

/* --- availability --- */

/*
 * The nodes are bad on purpose: with good nodes there would be nothing to count. The
 * results of consecutive locks are correlated, so each batch has many locks, and the
 * batches are the sample.
 */
#define MTBF      (450 * RL_SECOND)
#define MTTR      (50 * RL_SECOND)
#define TRIES_GAP (100 * RL_SECOND)
#define BATCHES   100
#define BATCH     100

static const unsigned sizes[] = {1, 3, 5, 7};

/*
 * The probability that at least a majority of n nodes vote, if each votes with this
 * probability.
 */
static double binomial(unsigned n, double votes)
{
    double sum = 0;
    for (unsigned k = rl_majority(n); k <= n; k++)
        sum += exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)) * pow(votes, k) *
               pow(1 - votes, n - k);
    return sum;
}

static void measure_availability(unsigned n, rl_time quarantine)
{
    struct far_terms terms = {
        .n = n, .mtbf = MTBF, .mttr = MTTR, .ttl = TTL, .durable = quarantine == 0};
    for (unsigned i = 0; i < n; i++)
        terms.round_trip[i] = RL_MS;
    far_begin(&far, &terms, SEED + n);
    double sum = 0, squares = 0;
    for (unsigned batch = 0; batch < BATCHES; batch++) {
        unsigned held = 0;
        for (unsigned i = 0; i < BATCH; i++) {
            held += far_lock(&far).held;
            far_wait(TRIES_GAP);
        }
        sum += (double)held / BATCH;
        squares += (double)held / BATCH * held / BATCH;
    }
    far_end(&far);
    double mean = sum / BATCHES;
    double error = sqrt((squares / BATCHES - mean * mean) / (BATCHES - 1));
    /* It votes if it is up, and has been for a quarantine: times are exponential. */
    double votes = (double)MTBF / (MTBF + MTTR) * exp(-(double)quarantine / MTBF);
    printf(
        "  {\"nodes\": %u, \"quarantine_s\": %.1f, \"node\": %.4f, \"held\": %.5f, "
        "\"error\": %.5f, \"formula\": %.5f}",
        n, (double)quarantine / RL_SECOND, votes, mean, error, binomial(n, votes));
}

/* --- all of it --- */

/* Between two items of a list. */
static void end_item(size_t index, size_t count)
{
    puts(index + 1 < count ? "," : "");
}

int main(void)
{
    const size_t runs = COUNT(placements) * COUNT(losses);
    const size_t short_runs = DISTANCES * COUNT(ttls_ms), fleets = 2 * COUNT(sizes);
    printf("{\"seed\": %d, \"locks\": %d, \"latency\": [\n", SEED, LOCKS);
    for (size_t i = 0; i < runs; i++) {
        measure_latency(&placements[i / COUNT(losses)], i % COUNT(losses));
        end_item(i, runs);
    }
    puts("], \"ttl\": [");
    for (size_t i = 0; i < short_runs; i++) {
        measure_ttl(&placements[i / COUNT(ttls_ms)], ttls_ms[i % COUNT(ttls_ms)] * RL_MS);
        end_item(i, short_runs);
    }
    printf("], \"tries\": %d, \"availability\": [\n", BATCHES * BATCH);
    for (size_t i = 0; i < fleets; i++) {
        measure_availability(sizes[i % COUNT(sizes)], i < COUNT(sizes) ? 0 : QUARANTINE);
        end_item(i, fleets);
    }
    puts("]}");
    return ferror(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
