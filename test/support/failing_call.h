/* Calls that must fail with a code, and with a text in redlock_last_error(). */
#ifndef TEST_FAILING_CALL_H
#define TEST_FAILING_CALL_H

#include <stdbool.h>

#include "redlock/redlock.h"

/* Also for a child process and for callbacks, which have no test framework. */
bool fails(const char *call, redlock_code code, redlock_code expected, const char *text);

#define FAILS(call, code, text) cr_assert(fails(#call, call, REDLOCK_##code, text))
#define SUCCEEDS(call)          cr_assert_eq(call, REDLOCK_OK, "%s", redlock_last_error()->text)

struct call {
    const char *name;
    redlock_code (*call)(void);
};

/* For a list of X(name, call): the functions, and the rows. */
#define CALL(name, ...)                                                                    \
    static redlock_code name(void)                                                         \
    {                                                                                      \
        return __VA_ARGS__;                                                                \
    }
#define CALL_ROW(name, ...) {#name, name},

bool all_fail(const struct call *call, size_t count, redlock_code code, const char *text);

/* The same, for a reason, whose text follows that of the code. */
bool fails_for(const char *call, redlock_code code, redlock_code expected,
               redlock_reason reason);
bool all_fail_for(const struct call *call, size_t count, redlock_code code,
                  redlock_reason reason);

#define FAILS_FOR(call, code, reason)                                                      \
    cr_assert(fails_for(#call, call, REDLOCK_##code, REDLOCK_REASON_##reason))
#define ALL_FAIL_FOR(calls, code, reason)                                                  \
    all_fail_for(calls, sizeof(calls) / sizeof((calls)[0]), REDLOCK_##code,                \
                 REDLOCK_REASON_##reason)
#define ALL_FAIL_BY_CODE(calls, code)                                                      \
    all_fail(calls, sizeof(calls) / sizeof((calls)[0]), REDLOCK_##code,                    \
             redlock_code_text(REDLOCK_##code))

/*
 * One allocation after the other fails, until the call needs no further one: it succeeds,
 * and is undone; or it fails with NO_MEMORY.
 */
void fail_each_allocation(const struct call *call, void (*undo)(void));

#endif
