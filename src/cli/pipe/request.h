/* A request to redlock pipe: one line of JSON, checked. Pure. */
#ifndef CLI_PIPE_REQUEST_H
#define CLI_PIPE_REQUEST_H

#include <jansson.h>
#include <redlock/redlock.h>

enum request_op { OP_LOCK, OP_CANCEL, OP_UNLOCK, OP_EXTEND, OP_BEAT, OPS };

struct request {
    json_t *object;
    int64_t id;
    enum request_op op;
    redlock_kind kind;
    redlock_key key[REDLOCK_KEYS_MAX]; /* their bytes are those of the object */
    size_t keys;
    redlock_code code; /* OK, or what is wrong with it: `text` */
    char text[128];
};

/* False: it is no request, because it is no JSON object or has no `id`. */
bool request_read(const char *line, size_t len, struct request *ret_request);

/* A number of the request; `otherwise` if it is not there, or null. */
int64_t request_number(const struct request *request, const char *name, int64_t otherwise);

#endif
