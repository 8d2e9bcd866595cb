#include "prng.h"

/* splitmix64: https://prng.di.unimi.it/splitmix64.c */
uint64_t prng_bits(struct prng *prng)
{
    uint64_t z = prng->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

unsigned prng_below(struct prng *prng, unsigned below)
{
    return (unsigned)(prng_bits(prng) % below);
}

void prng_shuffle(struct prng *prng, unsigned *order, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        unsigned j = prng_below(prng, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}
