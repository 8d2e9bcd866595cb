#include "core/fault.h"
#include "redlock/admin.h"

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
