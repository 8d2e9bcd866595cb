/* Tokens made from known bits, compared with digits that are looked up one by one. */
#include "base/token.h"

#include <stdio.h>

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

/* The tokens made of these bits, and of no others. */
static void expect(const uint8_t byte[RL_TOKEN_BYTES], const char *digits)
{
    struct rl_token_bits bits = {.drawn = 1};
    char token[2 + DIGITS + 6 + 1], wanted[sizeof(token)];
    memcpy(bits.byte, byte, RL_TOKEN_BYTES);
    CHECK(rl_token_make(&bits, "f:", "cron1", token), "no token");
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
        cr_assert(rl_token_make(&bits, "", "", token[made++]));
        if (made % 50 == 0) {
            rl_token_bits_drop(&bits);
            cr_assert_eq(bits.used, bits.drawn, "the rest is gone");
        }
    }
    for (unsigned i = 0; i < made; i++)
        for (unsigned j = 0; j < i; j++)
            cr_assert_str_neq(token[i], token[j]);
}
