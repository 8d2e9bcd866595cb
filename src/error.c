#include "redlock/redlock.h"

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
