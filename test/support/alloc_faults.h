/*
 * Allocations that fail when a test requests it. All allocations of the program and its
 * libraries go through alloc_faults.c, which also counts them.
 */
#ifndef TEST_ALLOC_FAULTS_H
#define TEST_ALLOC_FAULTS_H

#include <stdbool.h>
#include <stddef.h>

/* The next `after` allocations succeed; the `count` after them fail. */
void alloc_faults_begin(size_t after, size_t count);

/* Failures apply only between these two, so that the test itself can allocate. */
void alloc_faults_enter(void);
void alloc_faults_leave(void);

/* Ends it; returns whether any allocation failed. */
bool alloc_faults_end(void);

/* The calls so far, by all threads. */
struct alloc_faults_calls {
    unsigned long malloc, calloc, realloc, free;
};

struct alloc_faults_calls alloc_faults_calls(void);

/* Blocks that were allocated and not freed. */
long alloc_faults_live(void);

#endif
