/* The SHA-1 of a script, by which EVALSHA names it. */
#ifndef SIM_REDIS_SHA1_H
#define SIM_REDIS_SHA1_H

#include "core/types.h"

#define SHA1_DIGITS 40

/* Lower-case hexadecimal digits. */
void sha1_digits(struct rl_word text, char ret_digits[SHA1_DIGITS + 1]);

#endif
