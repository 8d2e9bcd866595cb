/* Seeded chance for the tests: the same run every time, on every machine. */
#ifndef RL_TEST_CHANCE_H
#define RL_TEST_CHANCE_H

#include <stdint.h>

struct chance {
    uint64_t state;
};

uint64_t chance_bits(struct chance *chance);

/* A number of [0, below). */
unsigned chance_below(struct chance *chance, unsigned below);

/* The numbers 0 .. n - 1 in some order. */
void chance_order(struct chance *chance, unsigned *order, unsigned n);

#endif
