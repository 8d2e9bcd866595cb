#include "sha1.h"

#include <stdio.h>
#include <string.h>

#define BLOCK 64

static uint32_t rotate(uint32_t x, unsigned bits)
{
    return x << bits | x >> (32 - bits);
}

static void add_block(uint32_t hash[5], const unsigned char *block)
{
    uint32_t w[80], a = hash[0], b = hash[1], c = hash[2], d = hash[3], e = hash[4];
    for (unsigned i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (unsigned i = 16; i < 80; i++)
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    for (unsigned i = 0; i < 80; i++) {
        uint32_t f = i < 20   ? ((b & c) | (~b & d)) + UINT32_C(0x5a827999)
                     : i < 40 ? (b ^ c ^ d) + UINT32_C(0x6ed9eba1)
                     : i < 60 ? ((b & c) | (b & d) | (c & d)) + UINT32_C(0x8f1bbcdc)
                              : (b ^ c ^ d) + UINT32_C(0xca62c1d6);
        uint32_t next = rotate(a, 5) + f + e + w[i];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    hash[0] += a;
    hash[1] += b;
    hash[2] += c;
    hash[3] += d;
    hash[4] += e;
}

/* The last bytes, a one, zeros, and how many bits there were. */
static void add_end(uint32_t hash[5], struct rl_word text, size_t from)
{
    unsigned char end[2 * BLOCK] = {0};
    size_t rest = text.len - from, size = rest + 1 + 8 <= BLOCK ? BLOCK : 2 * BLOCK;
    if (rest > 0)
        memcpy(end, text.text + from, rest);
    end[rest] = 0x80;
    for (size_t i = 0; i < 8; i++)
        end[size - 1 - i] = (unsigned char)((uint64_t)text.len * 8 >> 8 * i);
    for (size_t i = 0; i < size; i += BLOCK)
        add_block(hash, end + i);
}

void sha1_digits(struct rl_word text, char ret_digits[SHA1_DIGITS + 1])
{
    uint32_t hash[5] = {UINT32_C(0x67452301), UINT32_C(0xefcdab89), UINT32_C(0x98badcfe),
                        UINT32_C(0x10325476), UINT32_C(0xc3d2e1f0)};
    size_t at = 0;
    for (; text.len - at >= BLOCK; at += BLOCK)
        add_block(hash, (const unsigned char *)text.text + at);
    add_end(hash, text, at);
    for (unsigned i = 0; i < 5; i++)
        snprintf(ret_digits + 8 * i, 9, "%08x", (unsigned)hash[i]);
}
