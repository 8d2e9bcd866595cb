/* The hooks of -finstrument-functions. This file itself is compiled without that option. */
#include "trace.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define STEPS_MAX 100000

struct step {
    uintptr_t function;
    bool enters;
};

static struct step step[STEPS_MAX];
static size_t steps;
static bool records;

void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller);

static void record(void *function, bool enters)
{
    if (!records)
        return;
    if (steps == STEPS_MAX)
        abort();
    step[steps++] = (struct step){(uintptr_t)function, enters};
}

void __cyg_profile_func_enter(void *function, void *caller)
{
    (void)caller;
    record(function, true);
}

void __cyg_profile_func_exit(void *function, void *caller)
{
    (void)caller;
    record(function, false);
}

void trace_begin(void)
{
    steps = 0;
    records = true;
}

void trace_end(void)
{
    records = false;
    for (size_t i = 0; i < steps; i++)
        printf("%s %" PRIxPTR "\n", step[i].enters ? "enter" : "exit", step[i].function);
}
