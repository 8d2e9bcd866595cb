/* Tokens made from known bits, compared with digits that are looked up one by one. */
#include "base/token.h"

#include <stdio.h>
#include <time.h>

#include "lease_fixture.h"

#define DIGITS 32

static const char base32[] = "abcdefghijklmnopqrstuvwxyz234567";

static void set_digit(uint8_t byte[RL_TOKEN_BYTES], unsigned at, unsigned value)
{
    for (unsigned i = 0; i < 5; i++) {
        unsigned bit = 5 * at + i;
        if (value >> (4 - i) & 1)
            byte[bit / 8] |= (uint8_t)(0x80 >> bit % 8);
    }
}

/* The tokens made of these bits and this time, and of no others. */
static void expect(const uint8_t byte[RL_TOKEN_BYTES], const char *digits)
{
    struct rl_token_bits bits = {.drawn = 1, .second_ends = RL_NEVER};
    char token[2 + DIGITS + 6 + 1], wanted[sizeof(token)];
    memcpy(bits.byte, byte, 15);
    bits.byte[19] = byte[19];
    for (unsigned i = 15; i < 19; i++)
        bits.second = bits.second << 8 | byte[i];
    CHECK(rl_token_make(&bits, 0, "f:", "cron1", token), "no token");
    snprintf(wanted, sizeof(wanted), "f:%.32s@cron1", digits);
    cr_assert_str_eq(token, wanted);
    cr_assert_eq(bits.used, 1);
    cr_assert_eq(rl_token_len("f:", "cron1"), strlen(token));
    cr_assert(rl_token_is_ours(token));
    cr_assert_str_eq(rl_token_label(token), "cron1");
}

Test(token, has_each_digit_at_each_position)
{
    for (unsigned around = 0; around < 32; around += 31)
        for (unsigned at = 0; at < DIGITS; at++)
            for (unsigned value = 0; value < 32; value++) {
                uint8_t byte[RL_TOKEN_BYTES] = {0};
                char digits[DIGITS];
                for (unsigned i = 0; i < DIGITS; i++) {
                    set_digit(byte, i, i == at ? value : around);
                    digits[i] = base32[i == at ? value : around];
                }
                expect(byte, digits);
            }
}

/* Random bits drawn for one iteration are used once, and never in the next one. */
Test(token, never_reuses_the_bits_of_another)
{
    static char token[3 * RL_TOKEN_BATCH][DIGITS + 1];
    struct rl_token_bits bits = {.wanted = 2 * RL_TOKEN_BATCH - 3};
    unsigned made = 0;
    while (made < 3 * RL_TOKEN_BATCH) {
        cr_assert(rl_token_make(&bits, 0, "", "", token[made++]));
        if (made % 50 == 0) {
            rl_token_bits_drop(&bits);
            cr_assert_eq(bits.used, bits.drawn, "the rest is gone");
        }
    }
    for (unsigned i = 0; i < made; i++)
        for (unsigned j = 0; j < i; j++)
            cr_assert_str_neq(token[i], token[j]);
}

static int64_t since(uint32_t second, const char *mark, const char *label)
{
    struct rl_token_bits bits = {.second = second, .second_ends = RL_NEVER};
    char token[REDLOCK_TOKEN_MAX + 1];
    cr_assert(rl_token_make(&bits, 0, mark, label, token));
    rl_token_mark(mark, "MANY", token);
    return rl_token_since(token);
}

Test(token, tells_since_when_it_is_unless_that_cannot_be)
{
    uint32_t now = (uint32_t)time(NULL);
    for (uint32_t second = 1767225600; second <= now; second += 9973)
        cr_assert_eq(since(second, second % 2 ? "p" : "f:", second % 3 ? "" : "x"), second);
    cr_assert_eq(since(now + 60, "p", ""), now + 60);
    cr_assert_eq(since(now + 3600, "p", ""), REDLOCK_UNKNOWN);
    cr_assert_eq(since(UINT32_MAX, "p", ""), REDLOCK_UNKNOWN);
    cr_assert_eq(since(1767225600 - 1, "p", ""), REDLOCK_UNKNOWN);
    cr_assert_eq(rl_token_since("another program's"), REDLOCK_UNKNOWN);
    cr_assert_eq(rl_token_since(""), REDLOCK_UNKNOWN);
}

/* The time of day is read again when its second has ended. */
Test(token, has_the_time_of_day)
{
    struct rl_token_bits bits = {.second = 1};
    char token[1 + DIGITS + 1];
    for (rl_time now = 0; now < 10 * RL_SECOND; now += RL_SECOND) {
        int64_t before = time(NULL);
        cr_assert(rl_token_make(&bits, now, "p", "", token));
        int64_t after = time(NULL), found = rl_token_since(token);
        cr_assert(before <= found && found <= after);
        cr_assert(bits.second_ends > now && bits.second_ends <= now + RL_SECOND);
    }
    bits.second = 0;
    cr_assert(rl_token_make(&bits, bits.second_ends - 1, "p", "", token));
    cr_assert_eq(rl_token_since(token), REDLOCK_UNKNOWN);
}

Test(token, tells_its_kind_and_no_other_value_does)
{
    static const struct {
        const char *token, *name;
        bool fenced;
    } cases[] = {
        {"pabcdefghijklmnopqrstuvwxyz234567@host:1", "exclusive", false},
        {"f:TERMefghijklmnopqrstuvwxyz234567", "election", true},
        {"g:abcdefghijklmnopqrstuvwxyz234567", "shared", true},
        {"pONCEefghijklmnopqrstuvwxyz234567", "record", false},
        {"", "foreign", false},
        {"p", "foreign", false},
        {"f:1", "foreign", false},
        {"8c1d6f4e-6f0e-4a4e-9d0a-3d7f6a1f4c11:42", "foreign", false},
        {NULL, "foreign", false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool is_fenced = !cases[i].fenced;
        redlock_kind kind = redlock_token_kind(cases[i].token, &is_fenced);
        cr_assert_str_eq(redlock_kind_name(kind), cases[i].name);
        cr_assert_eq(is_fenced, cases[i].fenced, "%zu", i);
        cr_assert_eq(redlock_token_kind(cases[i].token, NULL), kind);
    }
    cr_assert_str_eq(redlock_kind_name((redlock_kind)1000), "foreign");
    cr_assert_str_eq(redlock_kind_name((redlock_kind)-2), "foreign");
}

/* A longer value is no token: a script may have read only its beginning. */
Test(token, has_a_label_of_64_bytes_at_most)
{
    char token[2 + DIGITS + 1 + 66 + 1];
    for (unsigned len = 63; len <= 66; len++) {
        snprintf(token, sizeof(token), "f:%s@%0*u", base32, (int)len, 1);
        cr_assert_eq(rl_token_is_ours(token), len <= REDLOCK_LABEL_MAX, "%u bytes", len);
    }
}
