#include "token.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define RANDOM_BYTES 20 /* 160 bits, as the published algorithm asks */
#define DIGITS       32 /* base32 digits for them */

static const char base32[] = "abcdefghijklmnopqrstuvwxyz234567";

static bool fill(uint8_t *bytes, size_t len)
{
    while (len > 0) {
        ssize_t got = getrandom(bytes, len, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        bytes += got;
        len -= (size_t)got;
    }
    return true;
}

bool rl_token_make(char letter, const char *label, char ret_token[REDLOCK_TOKEN_MAX + 1])
{
    uint8_t bytes[RANDOM_BYTES];
    char digits[DIGITS + 1];
    if (!fill(bytes, sizeof(bytes)))
        return false;
    for (int i = 0; i < DIGITS; i++) {
        int bit = 5 * i;
        unsigned pair = (unsigned)bytes[bit / 8] << 8;
        if (bit / 8 + 1 < RANDOM_BYTES)
            pair |= bytes[bit / 8 + 1];
        digits[i] = base32[pair >> (11 - bit % 8) & 31];
    }
    digits[DIGITS] = '\0';
    snprintf(ret_token, REDLOCK_TOKEN_MAX + 1, "%c%s%s%s", letter, digits,
             *label ? "@" : "", label);
    return true;
}

const char *rl_token_label(const char *value)
{
    size_t digits = strlen(value) > 1 ? strspn(value + 1, base32) : 0;
    if (digits != DIGITS || value[1 + DIGITS] != '@')
        return NULL;
    return value + 1 + DIGITS + 1;
}
