/* What the library of a wheel has besides, because it is linked to static libraries. */
#include <stdio.h>

/*
 * Debian builds libevent_core.a for programs. In a library all of it works but its use of
 * stderr; -Wl,--wrap=stderr makes that a variable of the library.
 */
extern FILE *__real_stderr;
FILE *__wrap_stderr;

__attribute__((constructor)) static void set_stderr(void)
{
    __wrap_stderr = __real_stderr;
}
