/* The story of a run, for those who want to read it. */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

#include <stdint.h>
#include <stdio.h>

#include "core/types.h"

struct trace {
    FILE *to; /* NULL: nobody reads */
    uint64_t hash;
};

#define TRACE(...) (world.trace.to ? trace_line(__VA_ARGS__) : (void)0)

void trace_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Two runs of a seed have the same trace. */
void trace_mix(uint64_t value);

/* The members of a set, counted from 1; valid until the next call but one. */
const char *trace_set(uint32_t set);

void trace_begin(void);
void trace_end(void);

#endif
