#include "request.h"

#include <stdio.h>
#include <string.h>

#define NUMBER_MAX ((INT64_C(1) << 53) - 1)

static const struct {
    const char *name;
    enum request_op op;
} ops[] = {
    {"lock", REQUEST_LOCK},     {"cancel", REQUEST_CANCEL}, {"unlock", REQUEST_UNLOCK},
    {"extend", REQUEST_EXTEND}, {"beat", REQUEST_BEAT},
};

enum member_type { NUMBER, FLAG, KIND, KEY, KEYS };

#define ON_A_HOLD (REQUEST_UNLOCK | REQUEST_EXTEND | REQUEST_BEAT)

/* What a request may have besides `id` and `op`. */
static const struct member {
    const char *name;
    unsigned ops;
    enum member_type type;
    size_t offset; /* of a number */
} members[] = {
    {"key", REQUEST_LOCK, KEY, 0},
    {"keys", REQUEST_LOCK, KEYS, 0},
    {"kind", REQUEST_LOCK, KIND, 0},
    {"fence", REQUEST_LOCK, FLAG, 0},
    {"slots", REQUEST_LOCK, NUMBER, offsetof(struct request, slots)},
    {"wait_ms", REQUEST_LOCK, NUMBER, offsetof(struct request, wait_ms)},
    {"max_hold_ms", REQUEST_LOCK, NUMBER, offsetof(struct request, max_hold_ms)},
    {"beat_ms", REQUEST_LOCK, NUMBER, offsetof(struct request, beat_ms)},
    {"ttl_ms", REQUEST_LOCK | REQUEST_EXTEND, NUMBER, offsetof(struct request, ttl_ms)},
    {"lock", REQUEST_CANCEL, NUMBER, offsetof(struct request, lock)},
    {"hold", ON_A_HOLD, NUMBER, offsetof(struct request, hold)},
};
#define MEMBERS (sizeof(members) / sizeof(members[0]))

static bool take_number(const json_t *value, int64_t *ret_number)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) > NUMBER_MAX)
        return false;
    *ret_number = json_integer_value(value);
    return true;
}

static bool take_kind(const json_t *value, redlock_kind *ret_kind)
{
    static const redlock_kind kinds[] = {REDLOCK_KIND_EXCLUSIVE, REDLOCK_KIND_SHARED,
                                         REDLOCK_KIND_SLOT, REDLOCK_KIND_ELECTION,
                                         REDLOCK_KIND_REDISSON};
    for (size_t i = 0; json_is_string(value) && i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(json_string_value(value), redlock_kind_name(kinds[i])) == 0) {
            *ret_kind = kinds[i];
            return true;
        }
    return false;
}

static bool take_key(const json_t *value, struct request *request)
{
    if (!json_is_string(value) || request->keys == REDLOCK_KEYS_MAX)
        return false;
    request->key[request->keys++] =
        (redlock_key){json_string_value(value), json_string_length(value)};
    return true;
}

static bool take_keys(const json_t *value, struct request *request)
{
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!take_key(json_array_get(value, i), request))
            return false;
    return json_array_size(value) > 0;
}

static bool take_member(const struct member *member, const json_t *value,
                        struct request *request)
{
    switch (member->type) {
    case NUMBER:
        return take_number(value, (int64_t *)(void *)((char *)request + member->offset));
    case FLAG: request->fence = json_is_true(value); return json_is_boolean(value);
    case KIND: return take_kind(value, &request->kind);
    case KEY: return take_key(value, request);
    case KEYS: return take_keys(value, request);
    }
    return false;
}

static const struct member *find_member(const char *name, enum request_op op)
{
    for (size_t i = 0; i < MEMBERS; i++)
        if (strcmp(members[i].name, name) == 0 && members[i].ops & op)
            return &members[i];
    return NULL;
}

static enum request_op find_op(const json_t *value)
{
    for (size_t i = 0; json_is_string(value) && i < sizeof(ops) / sizeof(ops[0]); i++)
        if (strcmp(json_string_value(value), ops[i].name) == 0)
            return ops[i].op;
    return 0;
}

static struct request_fault fault_of(redlock_code code, const char *name, const char *text)
{
    struct request_fault fault = {.code = code};
    snprintf(fault.text, sizeof(fault.text), "%.64s %s", name, text);
    return fault;
}

/* null is as if the member were not there. */
static struct request_fault read_members(struct request *request)
{
    const char *name;
    json_t *value;
    json_object_foreach(request->object, name, value)
    {
        const struct member *member = find_member(name, request->op);
        if (strcmp(name, "id") == 0 || strcmp(name, "op") == 0)
            continue;
        if (!member)
            return fault_of(REDLOCK_UNSUPPORTED, name, "is no member of this request");
        if (!json_is_null(value) && !take_member(member, value, request))
            return fault_of(REDLOCK_BAD_OPTION, name, "has a value that is not possible");
    }
    if (request->op == REQUEST_LOCK && request->keys == 0)
        return fault_of(REDLOCK_BAD_KEY, "key", "is missing");
    if (request->op == REQUEST_CANCEL && request->lock < 0)
        return fault_of(REDLOCK_BAD_OPTION, "lock", "is missing");
    if (request->op & ON_A_HOLD && request->hold < 0)
        return fault_of(REDLOCK_BAD_OPTION, "hold", "is missing");
    if (request->slots > REDLOCK_SLOTS_MAX)
        return fault_of(REDLOCK_BAD_OPTION, "slots", "is too large");
    if (request->slots > 0 && request->kind == REDLOCK_KIND_EXCLUSIVE)
        request->kind = REDLOCK_KIND_SLOT;
    return (struct request_fault){.code = REDLOCK_OK};
}

bool request_read(const char *line, size_t len, struct request *ret_request,
                  struct request_fault *ret_fault)
{
    struct request request = {
        .object = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL),
        .hold = REDLOCK_UNKNOWN,
        .lock = REDLOCK_UNKNOWN,
        .kind = REDLOCK_KIND_EXCLUSIVE,
        .ttl_ms = REDLOCK_UNKNOWN,
        .wait_ms = REDLOCK_UNKNOWN,
        .max_hold_ms = REDLOCK_UNKNOWN,
        .beat_ms = REDLOCK_UNKNOWN,
    };
    if (!take_number(json_object_get(request.object, "id"), &request.id)) {
        request_free(&request);
        return false;
    }
    request.op = find_op(json_object_get(request.object, "op"));
    *ret_fault = request.op
                     ? read_members(&request)
                     : fault_of(REDLOCK_UNSUPPORTED, "op", "is none of this version");
    *ret_request = request;
    return true;
}

void request_free(struct request *request)
{
    json_decref(request->object);
    request->object = NULL;
}
