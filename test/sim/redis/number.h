/* Numbers in arguments and replies, as strictly as Redis reads and writes them. */
#ifndef SIM_REDIS_NUMBER_H
#define SIM_REDIS_NUMBER_H

#include "core/types.h"

#define NUMBER_ROOM 32

/* "-12", without blanks, a plus, or leading zeros. */
bool number_integer(struct rl_word word, int64_t *ret_value);

/* As strtod() without blanks before it, but no NaN. */
bool number_double(struct rl_word word, double *ret_value);

/* Return the length of what they write. */
size_t number_write(char buffer[NUMBER_ROOM], int64_t value);
size_t number_write_double(char buffer[NUMBER_ROOM], double value);

#endif
