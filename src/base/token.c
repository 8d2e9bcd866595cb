#include "token.h"

#include <endian.h>
#include <string.h>

#include "core/kind.h"
#include "io/system.h"

#define GROUP_BYTES  5 /* encoded as GROUP_DIGITS base32 digits */
#define GROUP_DIGITS 8
#define GROUPS       (RL_TOKEN_BYTES / GROUP_BYTES)
#define DIGITS       (GROUPS * GROUP_DIGITS)
#define SECOND_AT                                                                          \
    (RL_TOKEN_BYTES - GROUP_BYTES) /* of the last group, which no word is in */

#define SINCE_LEAST  INT64_C(1767225600) /* 2026: no token is older */
#define SINCE_FUTURE 60                  /* seconds by which clocks may differ */

_Static_assert(DIGITS == RL_TOKEN_DIGITS && REDLOCK_LABEL_MAX == RL_LABEL_MAX,
               "core/kind.c looks at them");

#define EACH_BYTE(byte) (UINT64_C(0x0101010101010101) * (byte))

/*
 * Encodes all digits at once: spreads 40 bits to five bits per byte, by repeated halving.
 * Then it maps each byte to its base32 digit. It reads RL_TOKEN_BEYOND bytes more.
 */
static void write_group(const uint8_t *bytes, char digits[GROUP_DIGITS])
{
    uint64_t bits;
    memcpy(&bits, bytes, sizeof(bits));
    bits = be64toh(bits) >> 8 * (sizeof(bits) - GROUP_BYTES);
    bits = (bits << 12 & 0x000fffff00000000) | (bits & 0x00000000000fffff);
    bits = (bits << 6 & 0x03ff000003ff0000) | (bits & 0x000003ff000003ff);
    bits = (bits << 3 & 0x1f001f001f001f00) | (bits & 0x001f001f001f001f);
    uint64_t is_number = (bits + EACH_BYTE(0x80 - 26)) >> 7 & EACH_BYTE(1);
    bits += EACH_BYTE('a') - is_number * ('a' + 26 - '2');
    bits = htobe64(bits);
    memcpy(digits, &bits, GROUP_DIGITS);
}

static uint8_t *take_bits(struct rl_token_bits *bits)
{
    if (bits->used == bits->drawn) {
        unsigned count = bits->wanted < RL_TOKEN_BATCH ? bits->wanted : RL_TOKEN_BATCH;
        count += count == 0;
        bits->drawn = bits->used = 0;
        if (!rl_system_random(bits->byte, count * RL_TOKEN_BYTES, true))
            return NULL;
        bits->drawn = count;
        bits->wanted -= count < bits->wanted ? count : bits->wanted;
    }
    return bits->byte + RL_TOKEN_BYTES * bits->used++;
}

void rl_token_bits_drop(struct rl_token_bits *bits)
{
    bits->drawn = bits->used = bits->wanted = 0;
}

size_t rl_token_len(const char *mark, const char *label)
{
    return strlen(mark) + DIGITS + (*label ? 1 + strlen(label) : 0);
}

/* The clock is read once a second: a clock that is set is noticed by the next one. */
static uint32_t second_at(struct rl_token_bits *bits, rl_time now)
{
    if (now >= bits->second_ends) {
        int64_t us = rl_system_clock_ns(CLOCK_REALTIME) / 1000;
        bits->second = (uint32_t)(us / RL_SECOND);
        bits->second_ends = now + RL_SECOND - us % RL_SECOND;
    }
    return bits->second;
}

bool rl_token_make(struct rl_token_bits *bits, rl_time now, const char *mark,
                   const char *label, char *ret_token)
{
    uint8_t *bytes = take_bits(bits);
    if (!bytes)
        return false;
    uint32_t second = htobe32(second_at(bits, now));
    memcpy(bytes + SECOND_AT, &second, sizeof(second));
    char *at = stpcpy(ret_token, mark);
    for (int i = 0; i < GROUPS; i++, at += GROUP_DIGITS)
        write_group(bytes + i * GROUP_BYTES, at);
    if (*label)
        *at++ = '@';
    strcpy(at, label);
    return true;
}

void rl_token_mark(const char *mark, const char *word, char *token)
{
    memcpy(token + strlen(mark), word, strlen(word));
}

const char *redlock_kind_name(redlock_kind kind)
{
    static const char *const names[] = {
#define X(kind, name) name,
        REDLOCK_KINDS(X)
#undef X
    };
    return (unsigned)kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "foreign";
}

static const struct rl_kind *kind_of(const char *value)
{
    return value ? rl_kind_of((struct rl_word){value, strlen(value)}) : NULL;
}

redlock_kind redlock_token_kind(const char *token, bool *ret_fenced)
{
    const struct rl_kind *kind = kind_of(token);
    if (ret_fenced)
        *ret_fenced = kind && kind->is_fenced;
    return kind ? kind->type : REDLOCK_KIND_FOREIGN;
}

/* That a set has several keys follows from the call. */
redlock_kind rl_token_kind_to_adopt(const char *token, bool *ret_fenced)
{
    redlock_kind kind = redlock_token_kind(token, ret_fenced);
    bool is_usual = kind == REDLOCK_KIND_FOREIGN || kind == REDLOCK_KIND_SET;
    return is_usual ? REDLOCK_KIND_EXCLUSIVE : kind;
}

bool rl_token_is_ours(const char *value)
{
    return kind_of(value) != NULL;
}

int64_t rl_token_since(const char *value)
{
    const struct rl_kind *kind = kind_of(value);
    if (!kind)
        return REDLOCK_UNKNOWN;
    const char *digits = value + strlen(kind->mark) + DIGITS - GROUP_DIGITS;
    int64_t bits = 0;
    for (int i = 0; i < GROUP_DIGITS; i++)
        bits = bits << 5 | (digits[i] >= 'a' ? digits[i] - 'a' : digits[i] - '2' + 26);
    int64_t since = bits >> 8, now = rl_system_clock_ns(CLOCK_REALTIME) / 1000 / RL_SECOND;
    return since >= SINCE_LEAST && since <= now + SINCE_FUTURE ? since : REDLOCK_UNKNOWN;
}

const char *rl_token_label(const char *value)
{
    const struct rl_kind *kind = kind_of(value);
    const char *end = kind ? value + strlen(kind->mark) + DIGITS : "";
    return *end == '@' ? end + 1 : NULL;
}
