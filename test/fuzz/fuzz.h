/*
 * A fuzz target: one file, one function, which is called with any bytes. It aborts if a
 * promise is broken. libFuzzer calls it (./dev check fuzz), or main.c with each file of the
 * target's corpus (./dev test).
 */
#ifndef TEST_FUZZ_H
#define TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* As assert(), in every build. */
#define FUZZ_CHECK(holds)                                                                  \
    do {                                                                                   \
        if (!(holds)) {                                                                    \
            fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #holds);            \
            abort();                                                                       \
        }                                                                                  \
    } while (0)

#endif
