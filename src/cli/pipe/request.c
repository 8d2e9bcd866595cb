#include "request.h"

#include <stdio.h>
#include <string.h>

#define NUMBER_MAX ((INT64_C(1) << 53) - 1)
#define FLAGS      (JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL)

static const char *const ops[OPS] = {"lock", "cancel", "unlock", "extend", "beat"};

/* A number is read as a real: so one that is too large for an integer is refused by name.
 */
static const struct member {
    const char *name;
    json_type type; /* JSON_TRUE: a boolean */
    int least;      /* of a number */
} members[] = {
    {"id", JSON_REAL, 0},      {"op", JSON_STRING, 0},        {"key", JSON_STRING, 0},
    {"keys", JSON_ARRAY, 0},   {"kind", JSON_STRING, 0},      {"fence", JSON_TRUE, 0},
    {"slots", JSON_REAL, 1},   {"ttl_ms", JSON_REAL, 1},      {"wait_ms", JSON_REAL, 0},
    {"beat_ms", JSON_REAL, 1}, {"max_hold_ms", JSON_REAL, 1}, {"lock", JSON_REAL, 0},
    {"hold", JSON_REAL, 0},
};
#define MEMBERS (sizeof(members) / sizeof(members[0]))

static void set_fault(struct request *request, redlock_code code, const char *name,
                      const char *text)
{
    request->code = code;
    snprintf(request->text, sizeof(request->text), "%.64s %s", name, text);
}

static bool is_integer(const json_t *value)
{
    double number = json_number_value(value);
    return json_is_real(value) && number >= 0 && number <= NUMBER_MAX &&
           number == (double)(int64_t)number;
}

static bool is_possible(const json_t *value, const struct member *member)
{
    if (member->type == JSON_REAL)
        return is_integer(value) && json_real_value(value) >= member->least;
    return json_typeof(value) == member->type ||
           (member->type == JSON_TRUE && json_is_false(value));
}

static void check_member(struct request *request, const char *name, const json_t *value)
{
    size_t i = 0;
    while (i < MEMBERS && strcmp(members[i].name, name) != 0)
        i++;
    if (i == MEMBERS)
        set_fault(request, REDLOCK_UNSUPPORTED, name, "is no member of a request");
    else if (!json_is_null(value) && !is_possible(value, &members[i]))
        set_fault(request, REDLOCK_BAD_OPTION, name, "has a value that is not possible");
}

static void take_key(struct request *request, const json_t *key)
{
    size_t len = json_string_length(key);
    if (json_is_string(key) && !memchr(json_string_value(key), '\0', len) &&
        request->keys < REDLOCK_KEYS_MAX)
        request->key[request->keys++] = (redlock_key){json_string_value(key), len};
    else
        set_fault(request, REDLOCK_BAD_KEY, "keys", "are up to 16 strings without NUL");
}

static void take_lock(struct request *request)
{
    const char *kind = json_string_value(json_object_get(request->object, "kind"));
    const json_t *key = json_object_get(request->object, "key");
    const json_t *keys = json_object_get(request->object, "keys");
    int64_t slots = request_number(request, "slots", 0);
    if (json_is_string(key))
        take_key(request, key);
    if (request->keys > 0 && json_array_size(keys) > 0)
        set_fault(request, REDLOCK_BAD_KEY, "keys", "excludes key");
    for (size_t i = 0; i < json_array_size(keys); i++)
        take_key(request, json_array_get(keys, i));
    if (request->keys == 0 && request->code == REDLOCK_OK)
        set_fault(request, REDLOCK_BAD_KEY, "key", "is missing");
    if (slots > REDLOCK_SLOTS_MAX)
        set_fault(request, REDLOCK_BAD_OPTION, "slots", "is too large");
    if (!kind)
        kind = slots > 0 ? "slot" : "exclusive";
    while (request->kind < REDLOCK_KIND_SET &&
           strcmp(redlock_kind_name(request->kind), kind) != 0)
        request->kind++;
    if (request->kind == REDLOCK_KIND_SET || request->kind == REDLOCK_KIND_RECORD)
        set_fault(request, REDLOCK_BAD_OPTION, "kind", "is none of redlock pipe");
}

static void take_op(struct request *request)
{
    const char *op = json_string_value(json_object_get(request->object, "op"));
    while (op && request->op < OPS && strcmp(ops[request->op], op) != 0)
        request->op++;
    if (!op || request->op == OPS)
        set_fault(request, REDLOCK_UNSUPPORTED, "op", "is none of this version");
    else if (request->op == OP_LOCK)
        take_lock(request);
    else if (request_number(request, request->op == OP_CANCEL ? "lock" : "hold", -1) < 0)
        set_fault(request, REDLOCK_BAD_OPTION, op, "names no hold or lock");
}

bool request_read(const char *line, size_t len, struct request *ret_request)
{
    const char *name;
    json_t *value;
    struct request request = {
        .object = json_loadb(line, len, FLAGS, NULL),
    };
    request.id = request_number(&request, "id", -1);
    if (request.id < 0) {
        json_decref(request.object);
        return false;
    }
    take_op(&request);
    json_object_foreach(request.object, name, value) check_member(&request, name, value);
    *ret_request = request;
    return true;
}

int64_t request_number(const struct request *request, const char *name, int64_t otherwise)
{
    const json_t *value = json_object_get(request->object, name);
    return is_integer(value) ? (int64_t)json_real_value(value) : otherwise;
}
