/* A child process that a test forked, and that checks something itself. */
#ifndef TEST_CHILD_H
#define TEST_CHILD_H

#include <sys/types.h>

/* Waits for the child. Its exit code is the number of the check that failed, or 0. */
void child_expect(pid_t child);

#endif
