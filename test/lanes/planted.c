/*
 * Planted mistakes: watched.py must make each test red; bite.py checks that.
 * Without watched.py nothing finds the mistakes, so the tests are skipped. A hang is found
 * in each lane; case_limit.py checks that.
 */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE 16

static void skip_unless_watched(void)
{
    if (!getenv("REDLOCK_WATCHED"))
        cr_skip_test("only the sanitizers and valgrind find planted mistakes");
}

Test(planted, nothing, .init = skip_unless_watched)
{
    char *block = malloc(SIZE);
    cr_assert(block);
    memset(block, 0, SIZE);
    free(block);
}

/* Size and function of criterion's own leak, which alone is suppressed. */
__attribute__((noinline)) static void planted_leak(void)
{
    char *volatile lost = strdup("tap:/dev/stdout");
    cr_assert(lost);
    lost = NULL;
}

Test(planted, leak, .init = skip_unless_watched)
{
    planted_leak();
}

__attribute__((noinline)) static void planted_overflow(void)
{
    volatile char *block = malloc(SIZE);
    volatile size_t behind = SIZE;
    cr_assert(block);
    block[behind] = 1;
    free((void *)block);
}

Test(planted, overflow, .init = skip_unless_watched)
{
    planted_overflow();
}

/* Only the sanitizers find this one. */
__attribute__((noinline)) static void planted_undefined(void)
{
    volatile int most = INT_MAX;
    most = most + 1;
}

Test(planted, undefined, .init = skip_unless_watched)
{
    planted_undefined();
}

Test(planted, hang)
{
    cr_assert_geq(fork(), 0);
    for (;;)
        pause();
}

Test(planted, no_hang)
{
}
