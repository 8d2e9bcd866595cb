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

redlock_code rl_fail(redlock_code code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    last.code = code;
    vsnprintf(last.text, sizeof(last.text), format, args);
    va_end(args);
    return code;
}

redlock_code rl_fail_by_code(redlock_code code)
{
    return code == REDLOCK_OK ? code : rl_fail(code, "%s", redlock_code_text(code));
}

redlock_code rl_check_range(const char *name, int64_t value, int64_t low, int64_t high)
{
    if (value < low && high == INT64_MAX)
        return rl_fail(REDLOCK_BAD_OPTION,
                       "%s is %" PRId64 ", and must be at least %" PRId64, name, value,
                       low);
    if (value < low || value > high)
        return rl_fail(REDLOCK_BAD_OPTION,
                       "%s is %" PRId64 ", and must be from %" PRId64 " to %" PRId64, name,
                       value, low, high);
    return REDLOCK_OK;
}

redlock_code rl_check_token(const char *token)
{
    size_t len = token ? strlen(token) : 0;
    if (len > 0 && len <= REDLOCK_TOKEN_MAX)
        return REDLOCK_OK;
    return rl_fail(REDLOCK_BAD_TOKEN, "the token has %zu bytes, and must have from 1 to %d",
                   len, REDLOCK_TOKEN_MAX);
}

const char *redlock_code_name(redlock_code code)
{
    switch (code) {
#define X(name, number, text)                                                              \
    case REDLOCK_##name: return #name;
        REDLOCK_CODES(X)
#undef X
    }
    return "?";
}

const char *redlock_code_text(redlock_code code)
{
    switch (code) {
#define X(name, number, text)                                                              \
    case REDLOCK_##name: return text;
        REDLOCK_CODES(X)
#undef X
    }
    return "not a code of this library";
}

const char *redlock_fault_name(redlock_fault fault)
{
    return rl_fault_name((enum rl_fault)fault);
}

const char *redlock_fault_text(redlock_fault fault)
{
    return rl_fault_text((enum rl_fault)fault);
}

#define NAMED(type, LIST)                                                                  \
    const char *type##_name(type value)                                                    \
    {                                                                                      \
        static const char *const names[] = {LIST(NAME)};                                   \
        return value < sizeof(names) / sizeof(names[0]) ? names[value] : "?";              \
    }                                                                                      \
    const char *type##_text(type value)                                                    \
    {                                                                                      \
        static const char *const texts[] = {LIST(TEXT)};                                   \
        return value < sizeof(texts) / sizeof(texts[0]) ? texts[value] : "?";              \
    }
#define NAME(value, name, text) name,
#define TEXT(value, name, text) text,

NAMED(redlock_verdict, REDLOCK_VERDICTS)
NAMED(redlock_member_state, REDLOCK_MEMBER_STATES)

const char *redlock_version(void)
{
    return RL_VERSION;
}
