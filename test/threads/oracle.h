/*
 * Which thread holds what, as the threads themselves know it: two of them never hold a key
 * at once.
 *
 * It adds almost no order of its own between threads, so that it hides no race from the
 * tools: words are exchanged relaxed, and another thread's slot is read only to report an
 * error.
 */
#ifndef TEST_ORACLE_H
#define TEST_ORACLE_H

#include <redlock/sync.h>

#define ORACLE_KEYS 8
#define ORACLE_SLOTS                                                                       \
    256 /* one for each thread that may hold something: one thing at a time */

void oracle_begin(void);

/* Ends the program, and with it the servers: for the first thread that calls it. */
_Noreturn void oracle_fail(void);

/*
 * Right after it was locked. Two valid holds of one key end the program, and so does a
 * fence that does not rise.
 */
void oracle_enter(unsigned key, unsigned slot, redlock_hold *hold);

/* Right before it is unlocked, or freed. */
void oracle_leave(unsigned key, unsigned slot);

#endif
