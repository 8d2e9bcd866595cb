/* Seeded random numbers for the tests: the same sequence in every run, on every machine. */
#ifndef RL_TEST_PRNG_H
#define RL_TEST_PRNG_H

#include <stdint.h>

struct prng {
    uint64_t state;
};

uint64_t prng_bits(struct prng *prng);

/* A number of [0, below). */
unsigned prng_below(struct prng *prng, unsigned below);

/* The numbers 0 .. n - 1 in a random order. */
void prng_shuffle(struct prng *prng, unsigned *order, unsigned n);

#endif
