#include "token.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "core/kind.h"

#define RANDOM_BYTES 20 /* 160 bits, as the published algorithm asks */
#define DIGITS       32 /* base32 digits for them */

static const char base32[] = "abcdefghijklmnopqrstuvwxyz234567";

bool rl_random_bytes(void *to, size_t len)
{
    uint8_t *bytes = to;
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

bool rl_token_make(const char *mark, const char *label,
                   char ret_token[REDLOCK_TOKEN_MAX + 1])
{
    uint8_t bytes[RANDOM_BYTES];
    char digits[DIGITS + 1];
    if (!rl_random_bytes(bytes, sizeof(bytes)))
        return false;
    for (int i = 0; i < DIGITS; i++) {
        int bit = 5 * i;
        unsigned pair = (unsigned)bytes[bit / 8] << 8;
        if (bit / 8 + 1 < RANDOM_BYTES)
            pair |= bytes[bit / 8 + 1];
        digits[i] = base32[pair >> (11 - bit % 8) & 31];
    }
    digits[DIGITS] = '\0';
    snprintf(ret_token, REDLOCK_TOKEN_MAX + 1, "%s%s%s%s", mark, digits, *label ? "@" : "",
             label);
    return true;
}

/* Where the digits end; NULL: it is none of ours. */
static const char *end_of_digits(const char *value)
{
    size_t len = strlen(value);
    const char *mark = rl_kind_of((struct rl_word){value, len})->mark;
    const char *digits = value + strlen(mark);
    if (strncmp(value, mark, strlen(mark)) != 0 || strspn(digits, base32) != DIGITS)
        return NULL;
    return digits + DIGITS;
}

bool rl_token_is_ours(const char *value)
{
    const char *end = end_of_digits(value);
    return end && (*end == '@' || *end == '\0');
}

const char *rl_token_label(const char *value)
{
    const char *end = end_of_digits(value);
    return end && *end == '@' ? end + 1 : NULL;
}
