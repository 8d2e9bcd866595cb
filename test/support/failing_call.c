#include "failing_call.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "alloc_faults.h"

bool fails(const char *call, redlock_code code, redlock_code expected, const char *text)
{
    const redlock_error *error = redlock_last_error();
    if (code == expected && error->code == expected && strcmp(error->text, text) == 0)
        return true;
    fprintf(stderr, "%s: %s, last error %s: %s\n", call, redlock_code_name(code),
            redlock_code_name(error->code), error->text);
    return false;
}

bool all_fail(const struct call *call, size_t count, redlock_code code, const char *text)
{
    bool all = true;
    for (size_t i = 0; i < count; i++)
        all &= fails(call[i].name, call[i].call(), code, text);
    return all;
}

bool fails_for(const char *call, redlock_code code, redlock_code expected,
               redlock_reason reason)
{
    char text[256];
    snprintf(text, sizeof(text), "%s: %s", redlock_code_text(expected),
             redlock_reason_text(reason));
    return fails(call, code, expected, text) && redlock_last_error()->reason == reason;
}

bool all_fail_for(const struct call *call, size_t count, redlock_code code,
                  redlock_reason reason)
{
    bool all = true;
    for (size_t i = 0; i < count; i++)
        all &= fails_for(call[i].name, call[i].call(), code, reason);
    return all;
}

void fail_each_allocation(const struct call *call, void (*undo)(void))
{
    bool failed = true;
    for (size_t after = 0; failed; after++) {
        alloc_faults_begin(after, 1);
        alloc_faults_enter();
        redlock_code code = call->call();
        alloc_faults_leave();
        failed = alloc_faults_end();
        if (code == REDLOCK_OK)
            undo();
        else if (code == REDLOCK_SYSTEM) /* libevent had no memory for the timer */
            cr_assert(strstr(redlock_last_error()->text, strerror(ENOMEM)));
        else
            cr_assert(fails(call->name, code, REDLOCK_NO_MEMORY,
                            redlock_code_text(REDLOCK_NO_MEMORY)));
    }
}
