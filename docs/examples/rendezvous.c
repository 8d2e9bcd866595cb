/*
 * Which of several quorums owns a key: rendezvous
 *
 * Prints how many of 30,000 keys each of three quorums gets, and how many keys change their
 * owner when a fourth quorum is added and when one is removed.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define KEYS 30000

/* FNV-1a: https://datatracker.ietf.org/doc/draft-eastlake-fnv */
static uint64_t add(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/*
 * Makes every bit depend on all bits: the last step of MurmurHash3. The high bits of FNV
 * alone do not.
 */
static uint64_t mix(uint64_t hash)
{
    hash = (hash ^ hash >> 33) * UINT64_C(0xff51afd7ed558ccd);
    hash = (hash ^ hash >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return hash ^ hash >> 33;
}

/* The weight of this quorum for this key. The NUL of the name separates the two. */
static uint64_t weight(const char *quorum, const void *key, size_t len)
{
    uint64_t hash = add(UINT64_C(0xcbf29ce484222325), quorum, strlen(quorum) + 1);
    return mix(add(hash, key, len));
}

/* The index of the quorum that owns the key: the one with the largest weight. */
static size_t owner(const char *const *quorums, size_t count, const void *key, size_t len)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (weight(quorums[i], key, len) > weight(quorums[best], key, len))
            best = i;
    return best;
}

/* --- the figures --- */

static const char *const names[] = {"amber", "birch", "coral", "delta"};

/* How many keys have different owners in the two sets of quorums. */
static int moved(const char *const *before, size_t count, const char *const *after,
                 size_t then)
{
    int keys = 0;
    for (int i = 0; i < KEYS; i++) {
        char key[32];
        size_t len = (size_t)snprintf(key, sizeof(key), "order:%d", i);
        keys +=
            before[owner(before, count, key, len)] != after[owner(after, then, key, len)];
    }
    return keys;
}

int main(void)
{
    int has[3] = {0};
    for (int i = 0; i < KEYS; i++) {
        char key[32];
        size_t len = (size_t)snprintf(key, sizeof(key), "order:%d", i);
        has[owner(names, 3, key, len)]++;
    }
    printf("amber has %d, birch %d, coral %d\n", has[0], has[1], has[2]);
    printf("delta is added: %d keys move\n", moved(names, 3, names, 4));
    printf("amber is removed: %d keys move\n", moved(names, 3, names + 1, 2));
}
