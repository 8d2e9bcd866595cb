/*
 * How many commands this process sends to its nodes: what goes through send() is read on
 * its way, as the servers will read it. So it is exact, and what scripts do inside the
 * servers is not in it.
 */
#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

#include <stdbool.h>
#include <stdint.h>

/* From here to there, CLOCK_MONOTONIC in us: counted apart. May be set while it counts. */
void wire_window(int64_t begin, int64_t end);

/* While it is set, what this thread sends is none of the nodes' business. */
void wire_aside(bool aside);

struct wire_count {
    uint64_t inside;  /* commands in the window */
    uint64_t all;     /* since the process began */
    uint64_t scripts; /* EVAL and EVALSHA among them: no script can call those */
};

struct wire_count wire_counted(void);

#endif
