/* A request to redlock pipe: one line of JSON, checked. Pure. */
#ifndef CLI_PIPE_REQUEST_H
#define CLI_PIPE_REQUEST_H

#include <jansson.h>
#include <redlock/redlock.h>

enum request_op {
    REQUEST_LOCK = 1,
    REQUEST_CANCEL = 2,
    REQUEST_UNLOCK = 4,
    REQUEST_EXTEND = 8,
    REQUEST_BEAT = 16,
};

/* A number that is not given is REDLOCK_UNKNOWN, except `slots`, which is 0. */
struct request {
    json_t *object; /* has the bytes of the keys */
    int64_t id;
    enum request_op op;
    int64_t hold, lock;
    redlock_key key[REDLOCK_KEYS_MAX];
    size_t keys;
    redlock_kind kind;
    int64_t slots, ttl_ms, wait_ms, max_hold_ms, beat_ms;
    bool fence;
};

/* What is wrong with a request; `code` is OK if nothing is. */
struct request_fault {
    redlock_code code;
    char text[128];
};

/* False: it is no request, because it is no JSON object or has no `id`. */
bool request_read(const char *line, size_t len, struct request *ret_request,
                  struct request_fault *ret_fault);

void request_free(struct request *request);

#endif
