/* Requests to redlock pipe: one that is right has all that it needs, others name a fault.
 */
#include "cli/pipe/request.h"

#include <string.h>

#include "fuzz.h"

#define EXACT_MAX ((INT64_C(1) << 53) - 1)

static void check_key(const redlock_key *key)
{
    FUZZ_CHECK(key->bytes && strlen(key->bytes) == key->len);
}

static void check_numbers(const struct request *request)
{
    static const char *const names[] = {"slots", "ttl_ms",      "wait_ms", "hold",
                                        "lock",  "max_hold_ms", "beat_ms"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        int64_t number = request_number(request, names[i], -1);
        FUZZ_CHECK(number >= -1 && number <= EXACT_MAX);
        FUZZ_CHECK(request_number(request, names[i], 5) == (number < 0 ? 5 : number));
    }
    FUZZ_CHECK(request_number(request, "slots", 0) <= REDLOCK_SLOTS_MAX);
}

static void check_right(const struct request *request)
{
    FUZZ_CHECK(request->op < OPS && !request->text[0]);
    FUZZ_CHECK((request->keys > 0) == (request->op == OP_LOCK));
    for (size_t i = 0; i < request->keys; i++)
        check_key(&request->key[i]);
    if (request->op == OP_LOCK)
        FUZZ_CHECK(request->kind < REDLOCK_KIND_SET &&
                   request->kind != REDLOCK_KIND_RECORD);
    else
        FUZZ_CHECK(
            request_number(request, request->op == OP_CANCEL ? "lock" : "hold", -1) >= 0);
    check_numbers(request);
}

/* The line is not ended by NUL: `data` ends where the input ends. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct request request = {.id = -1};
    if (!request_read((const char *)data, size, &request)) {
        FUZZ_CHECK(request.id == -1 && !request.object);
        return 0;
    }
    FUZZ_CHECK(json_is_object(request.object) && request.keys <= REDLOCK_KEYS_MAX);
    FUZZ_CHECK(request.id >= 0 && request.id <= EXACT_MAX);
    if (request.code == REDLOCK_OK)
        check_right(&request);
    else
        FUZZ_CHECK(request.text[0] && strlen(request.text) < sizeof(request.text));
    json_decref(request.object);
    return 0;
}
