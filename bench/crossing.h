/* The laps (lap.h) of a contender in C++, with one lane. */
#ifndef BENCH_CROSSING_H
#define BENCH_CROSSING_H

#ifdef __cplusplus
extern "C" {
#endif

#include <stdbool.h>

/* The nodes of the environment. */
const char *const *crossing_nodes(unsigned *ret_count);

/* The key of the lane. */
const char *crossing_key(void);

/* Waits for the next lap, and begins its first cycle; false: there is none. */
bool crossing_begins(void);

/* A cycle has ended; whether another one begins. Otherwise the lap has ended, too. */
bool crossing_goes_on(bool failed);

#ifdef __cplusplus
}
#endif

#endif
