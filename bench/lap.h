/*
 * What the contenders of a race have in common: how they are told to run, and what they
 * report. bench/race.py talks to them.
 *
 * A contender says "ready". Each line "IN_FLIGHT SECONDS" on stdin starts a lap: as many
 * lanes, each of which acquires and releases a key of its own again and again. When the
 * time is over, what was measured is one line of JSON on stdout. The end of stdin ends the
 * contender.
 */
#ifndef BENCH_LAP_H
#define BENCH_LAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAP_TTL_MS    10000
#define LAP_LANES_MAX 1024
#define LAP_LABEL     "race" /* of the tokens: theirs are as long as ours */

/* CLOCK_MONOTONIC, ns. */
int64_t lap_now(void);

/* The next line of orders; false: there is none. */
struct lap_order {
    unsigned lanes;
    int64_t ns;
};

void lap_ready(void);
bool lap_read_order(struct lap_order *ret_order);

/* The key of a lane, "bench:000000000000042": all are of one length. */
#define LAP_KEY 21

void lap_key(unsigned lane, char ret_key[LAP_KEY + 1]);

/* The cycles of one thread. It ends the program where there is no memory. */
struct lap_log {
    uint32_t *ns;
    size_t cycles, failed;
};

void lap_log_init(struct lap_log *log);
void lap_log_clear(struct lap_log *log);
void lap_note(struct lap_log *log, int64_t ns);

/* Around a lap: the time, and what the process has used meanwhile. */
struct lap {
    int64_t began, cpu_ns;
};

void lap_begin(struct lap *lap);

/* Reports what all these threads did since, and empties their logs. */
void lap_end(const struct lap *lap, struct lap_log *log, size_t logs);

/* Says why on stderr, and exits. */
_Noreturn void lap_fail(const char *why);

#endif
