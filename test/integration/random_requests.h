/*
 * Random requests to a Redis server: each command that the library and its scripts use, by
 * itself and in scripts, with valid and with invalid words. And what is stored.
 */
#ifndef TEST_RANDOM_REQUESTS_H
#define TEST_RANDOM_REQUESTS_H

#include "operations.h"
#include "sim/redis/bytes.h"

/* Call before the first is made. */
void random_requests_prepare(void);

/*
 * Appends one request; `now` is the time of the server, us, and `era` when the test began.
 * It never subscribes.
 */
void random_request(struct bytes *out, struct prng *prng, rl_time now, rl_time era);

/* Appends one request of these words. */
void request_of_words(struct bytes *out, const struct rl_word *word, size_t words);

/* Appends a text with blanks between the words; returns 1. */
unsigned request_of_text(struct bytes *out, const char *text);

/* Appends the requests that read all keys of this database; returns how many. */
unsigned requests_for_all_keys(struct bytes *out);

/* A command that a user may lack the right to. */
const char *random_right(struct prng *prng);

#endif
