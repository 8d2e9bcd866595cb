/*
 * Memory that runs out when a test says so: all that the program and its libraries ask
 * for is asked of scarce.c, which counts it, too.
 */
#ifndef TEST_SCARCE_H
#define TEST_SCARCE_H

#include <stdbool.h>
#include <stddef.h>

/* The next `after` allocations are made; the `count` after them fail. */
void scarce_begin(size_t after, size_t count);

/* Scarcity counts only between these two, so that the test itself has what it needs. */
void scarce_enter(void);
void scarce_leave(void);

/* Ends it; whether any allocation failed. */
bool scarce_end(void);

/* The calls so far, by any thread. */
struct scarce_calls {
    unsigned long malloc, calloc, realloc, free;
};

struct scarce_calls scarce_calls(void);

/* Blocks that were allocated and not freed. */
long scarce_live(void);

#endif
