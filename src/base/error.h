/* Why the last call of this thread failed: the text of redlock_last_error(). */
#ifndef RL_ERROR_H
#define RL_ERROR_H

#include "redlock/redlock.h"

/* Sets this thread's last error; returns `code`. */
redlock_code rl_fail(redlock_code code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Uses the text of the code. OK: changes nothing. */
redlock_code rl_fail_by_code(redlock_code code);

/* BAD_OPTION if the value is not in the range, which includes its limits. */
redlock_code rl_check_range(const char *name, int64_t value, int64_t low, int64_t high);

/* BAD_TOKEN if it is empty or too long; NULL counts as empty. */
redlock_code rl_check_token(const char *token);

#endif
