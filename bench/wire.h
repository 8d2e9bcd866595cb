/*
 * Counts the commands that this process sends to its nodes: what goes through send() is
 * parsed as the servers will parse it. So the count is exact, and does not include commands
 * inside scripts.
 */
#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

#include <stdbool.h>
#include <stdint.h>

/* The window, CLOCK_MONOTONIC in us: counted separately. May be set during the run. */
void wire_window(int64_t begin, int64_t end);

/* While it is set, this thread's bytes are not counted. */
void wire_aside(bool aside);

struct wire_count {
    uint64_t inside;  /* commands in the window */
    uint64_t all;     /* since the process began */
    uint64_t scripts; /* EVAL and EVALSHA among them: no script can call those */
};

struct wire_count wire_counted(void);

#endif
