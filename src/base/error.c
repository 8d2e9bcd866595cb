#include "error.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/fault.h"
#include "redlock/admin.h"

static _Thread_local redlock_error last;

const redlock_error *redlock_last_error(void)
{
    return &last;
}

redlock_code rl_fail_again(const redlock_error *error)
{
    last = *error;
    return error->code;
}

redlock_code rl_fail_bound(redlock_code code, redlock_reason reason, const char *field,
                           int64_t value, int64_t bound, const char *format, ...)
{
    redlock_error error = {code, reason, field, value, bound, ""};
    size_t len = 0;
    va_list args;
    if (field)
        len = (size_t)snprintf(error.text, sizeof(error.text), "%s ", field);
    va_start(args, format);
    vsnprintf(error.text + len, sizeof(error.text) - len, format, args);
    va_end(args);
    return rl_fail_again(&error);
}

redlock_code rl_fail_by_reason(redlock_code code, redlock_reason reason)
{
    if (code == REDLOCK_OK)
        return code;
    if (reason == REDLOCK_REASON_NONE)
        return rl_fail(code, reason, "%s", redlock_code_text(code));
    return rl_fail(code, reason, "%s: %s", redlock_code_text(code),
                   redlock_reason_text(reason));
}

redlock_code rl_fail_by_code(redlock_code code)
{
    return rl_fail_by_reason(code, REDLOCK_REASON_NONE);
}

redlock_code rl_check_range(const char *name, int64_t value, int64_t low, int64_t high)
{
    if (value >= low && value <= high)
        return REDLOCK_OK;
    int64_t bound = value < low ? low : high;
    return rl_fail_bound(REDLOCK_BAD_OPTION, REDLOCK_REASON_OUT_OF_RANGE, name, value,
                         bound, "is %" PRId64 ", and must be at %s %" PRId64, value,
                         value < low ? "least" : "most", bound);
}

redlock_code rl_check_len(redlock_code code, const char *name, size_t len, size_t most)
{
    if (len == 0)
        return rl_fail_bound(code, REDLOCK_REASON_EMPTY, name, 0, 1, "is empty");
    if (len > most)
        return rl_fail_bound(code, REDLOCK_REASON_TOO_LONG, name, (int64_t)len,
                             (int64_t)most, "has %zu bytes, and must have at most %zu", len,
                             most);
    return REDLOCK_OK;
}

redlock_code rl_check_count(redlock_code code, const char *name, size_t count, size_t most)
{
    if (count >= 1 && count <= most)
        return REDLOCK_OK;
    return rl_fail_bound(code, count ? REDLOCK_REASON_OUT_OF_RANGE : REDLOCK_REASON_EMPTY,
                         name, (int64_t)count, count ? (int64_t)most : 1,
                         "are %zu, and must be from 1 to %zu", count, most);
}

redlock_code rl_fail_no_callback(void)
{
    return rl_fail_field(REDLOCK_BAD_OPTION, REDLOCK_REASON_NOT_SET, "callback",
                         "is NULL, and must be a function");
}

redlock_code rl_check_valid_ms(int64_t valid_ms)
{
    return valid_ms == REDLOCK_UNKNOWN ? REDLOCK_OK
                                       : rl_check_range("valid_ms", valid_ms, 0, INT64_MAX);
}

redlock_code rl_check_token(const char *token)
{
    return rl_check_len(REDLOCK_BAD_TOKEN, "token", token ? strlen(token) : 0,
                        REDLOCK_TOKEN_MAX);
}

const char *redlock_fault_name(redlock_fault fault)
{
    return rl_fault_name((enum rl_fault)fault);
}

const char *redlock_fault_text(redlock_fault fault)
{
    return rl_fault_text((enum rl_fault)fault);
}

#define NAMED(type, LIST, NAME, TEXT, unknown)                                             \
    const char *type##_name(type value)                                                    \
    {                                                                                      \
        static const char *const names[] = {LIST(NAME)};                                   \
        bool is_known = value < sizeof(names) / sizeof(names[0]) && names[value];          \
        return is_known ? names[value] : "?";                                              \
    }                                                                                      \
    const char *type##_text(type value)                                                    \
    {                                                                                      \
        static const char *const texts[] = {LIST(TEXT)};                                   \
        bool is_known = value < sizeof(texts) / sizeof(texts[0]) && texts[value];          \
        return is_known ? texts[value] : unknown;                                          \
    }
#define CODE_NAME(name, number, text) [number] = #name,
#define CODE_TEXT(name, number, text) [number] = text,
#define REASON_NAME(name, text)       #name,
#define REASON_TEXT(name, text)       text,
#define NAME(value, name, text)       name,
#define TEXT(value, name, text)       text,

NAMED(redlock_code, REDLOCK_CODES, CODE_NAME, CODE_TEXT, "not a code of this library")
NAMED(redlock_reason, REDLOCK_REASONS, REASON_NAME, REASON_TEXT,
      "not a reason of this library")
NAMED(redlock_verdict, REDLOCK_VERDICTS, NAME, TEXT, "?")
NAMED(redlock_member_state, REDLOCK_MEMBER_STATES, NAME, TEXT, "?")
