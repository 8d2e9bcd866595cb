#include "chance.h"

/* splitmix64: https://prng.di.unimi.it/splitmix64.c */
uint64_t chance_bits(struct chance *chance)
{
    uint64_t z = chance->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

unsigned chance_below(struct chance *chance, unsigned below)
{
    return (unsigned)(chance_bits(chance) % below);
}

void chance_order(struct chance *chance, unsigned *order, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        unsigned j = chance_below(chance, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
}
