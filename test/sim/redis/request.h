/* Requests in a stream of bytes: arrays of bulk strings, as every client library sends. */
#ifndef SIM_REDIS_REQUEST_H
#define SIM_REDIS_REQUEST_H

#include "bytes.h"

/* Its words point into the bytes that were read. */
struct request {
    struct rl_word *word;
    size_t words, room;
    char error[64]; /* what is wrong with a broken one */
};

enum request_state {
    REQUEST_PARTIAL, /* the rest has not come yet */
    REQUEST_WHOLE,
    REQUEST_BROKEN, /* the server replies the error, and hangs up */
};

/* Reads the first request of `bytes`. `ret_used`: how long a whole one is. */
enum request_state request_read(struct request *request, struct rl_word bytes,
                                size_t *ret_used);

void request_add(struct request *request, struct rl_word word);
void request_free(struct request *request);

#endif
