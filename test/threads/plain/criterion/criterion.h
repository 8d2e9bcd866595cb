/*
 * The part of criterion that test/support/servers.c uses, for programs that cannot use
 * criterion: it runs each test in its own process, which tools for threads do not follow.
 * The program defines what happens when a check has failed.
 */
#ifndef TEST_PLAIN_CRITERION_H
#define TEST_PLAIN_CRITERION_H

#include <stdio.h>
#include <stdlib.h>

#define PLAIN_1(a, ...)    (a)
#define PLAIN_2(a, b, ...) (b)

_Noreturn void plain_fail(void);

static inline void plain_check(int holds, const char *file, int line, const char *text)
{
    if (holds)
        return;
    fprintf(stderr, "%s:%d: %s\n", file, line, text);
    plain_fail();
}

#define PLAIN_CHECK(holds, text) plain_check(holds, __FILE__, __LINE__, text)
#define PLAIN_COMPARE(how, text, ...)                                                      \
    PLAIN_CHECK(PLAIN_1(__VA_ARGS__, 0) how PLAIN_2(__VA_ARGS__, 0), text)

#define cr_assert(...)           PLAIN_CHECK(!!PLAIN_1(__VA_ARGS__, 0), #__VA_ARGS__)
#define cr_assert_fail(...)      PLAIN_CHECK(0, #__VA_ARGS__)
#define cr_assert_not_null(...)  PLAIN_CHECK(PLAIN_1(__VA_ARGS__, 0) != NULL, #__VA_ARGS__)
#define cr_assert_str_empty(...) PLAIN_CHECK(!PLAIN_1(__VA_ARGS__, 0)[0], #__VA_ARGS__)
#define cr_assert_eq(...)        PLAIN_COMPARE(==, #__VA_ARGS__, __VA_ARGS__)
#define cr_assert_neq(...)       PLAIN_COMPARE(!=, #__VA_ARGS__, __VA_ARGS__)
#define cr_assert_lt(...)        PLAIN_COMPARE(<, #__VA_ARGS__, __VA_ARGS__)
#define cr_assert_leq(...)       PLAIN_COMPARE(<=, #__VA_ARGS__, __VA_ARGS__)
#define cr_assert_geq(...)       PLAIN_COMPARE(>=, #__VA_ARGS__, __VA_ARGS__)

#endif
