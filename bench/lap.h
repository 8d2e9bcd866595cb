/*
 * Shared by the contenders of a race: how they are started, and what they report.
 * bench/race.py communicates with them.
 *
 * A contender prints "ready". Each line "IN_FLIGHT END" on stdin starts a lap: IN_FLIGHT
 * lanes, each of which acquires and releases its own key repeatedly. When the lap ends, the
 * contender prints the result as one line of JSON. The end of stdin ends the contender. END
 * is a number of
 *
 *     0.5     seconds
 *     20000c  cycles, of all lanes together
 *     3+      a node, from 0: until it votes                 (`cycle async` and `fenced`
 *     only)
 *     3-      a node: until it gets no more commands         (the same)
 */
#ifndef BENCH_LAP_H
#define BENCH_LAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc_faults.h"

#define LAP_TTL_MS    10000
#define LAP_LANES_MAX 1024
#define LAP_LABEL     "race" /* of the tokens: theirs are as long as ours */

/* CLOCK_MONOTONIC, ns. */
int64_t lap_now(void);

/* The next lap's line; false: there is none. */
enum lap_unit {
    LAP_SECONDS = '\n',
    LAP_CYCLES = 'c',
    LAP_UNTIL_VOTE = '+',
    LAP_UNTIL_GONE = '-',
};

struct lap_order {
    unsigned lanes;
    enum lap_unit unit;
    double end;
};

/* The URIs of REDLOCK_NODES; how many there are. */
#define LAP_NODES_MAX 32

size_t lap_nodes(const char *ret_uri[LAP_NODES_MAX]);

void lap_ready(void);
bool lap_read_order(struct lap_order *ret_order);

/* The key of a lane, "bench:000000000000042": all have the same length. */
#define LAP_KEY 21

void lap_key(unsigned lane, char ret_key[LAP_KEY + 1]);

/* The cycles of one thread. Ends the program if memory runs out. */
struct lap_log {
    uint32_t *ns;
    size_t cycles, failed;
    size_t denied; /* threads only: of the failed ones, those that got no lock */
};

void lap_log_init(struct lap_log *log);
void lap_log_clear(struct lap_log *log);
void lap_note(struct lap_log *log, int64_t ns);

/* Around a lap: the time, and the process's resource usage. */
struct lap {
    struct lap_order order;
    int64_t began, cpu_ns;
    int64_t ends;             /* no cycle begins from then on */
    atomic_int_fast64_t left; /* cycles that may still begin, where they are counted */
    atomic_int_fast64_t over; /* when a lane stopped, the last time */
    struct alloc_faults_calls calls; /* if they are counted */
};

void lap_begin(struct lap *lap, const struct lap_order *order);

/* A lane that ended a cycle begins another. Any thread may call it. */
bool lap_goes_on(struct lap *lap, int64_t now);

/* Reports what all these threads did since, and empties their logs. Never inlined, so that
 * instructions.py can leave it out. */
__attribute__((noinline)) void lap_end(struct lap *lap, struct lap_log *log, size_t logs);

/* Says why on stderr, and exits. */
_Noreturn void lap_fail(const char *why);

#endif
