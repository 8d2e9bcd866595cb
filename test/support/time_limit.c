/*
 * Linked into each program of criterion: a case that hangs is killed after CASE_S, and so
 * fails by its name; what it forked dies with it. Criterion's own --timeout cannot do that:
 * in 2.4.1 it often ends nothing, and meson's limit ends only the program that starts the
 * cases.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#define CASE_S 300 /* REDLOCK_CASE_SECONDS sets another number */

static void die_with_the_case(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

__attribute__((constructor)) static void limit_the_case(void)
{
    const char *seconds = getenv("REDLOCK_CASE_SECONDS");
    if (!getenv("BXFI_MAP")) /* not the process of a case */
        return;
    alarm(seconds ? (unsigned)atoi(seconds) : CASE_S);
    pthread_atfork(NULL, NULL, die_with_the_case);
}
