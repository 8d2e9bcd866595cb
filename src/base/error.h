/* Why the last call of this thread failed: the text of redlock_last_error(). */
#ifndef RL_ERROR_H
#define RL_ERROR_H

#include "redlock/redlock.h"

/*
 * Sets this thread's last error; returns `code`. `field`: the argument or option at fault,
 * whose name comes before the text, or NULL; `value` broke `bound`, or equals it.
 */
redlock_code rl_fail_bound(redlock_code code, redlock_reason reason, const char *field,
                           int64_t value, int64_t bound, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
#define rl_fail_field(code, reason, field, ...)                                            \
    rl_fail_bound(code, reason, field, 0, 0, __VA_ARGS__)
#define rl_fail(code, reason, ...) rl_fail_bound(code, reason, NULL, 0, 0, __VA_ARGS__)

/* Uses the texts of code and reason. OK: changes nothing. */
redlock_code rl_fail_by_reason(redlock_code code, redlock_reason reason);
redlock_code rl_fail_by_code(redlock_code code);

/* Fails as another call did, perhaps in another thread. */
redlock_code rl_fail_again(const redlock_error *error);

/* BAD_OPTION if the value is not in the range, which includes its limits. */
redlock_code rl_check_range(const char *name, int64_t value, int64_t low, int64_t high);

/* TOO_LONG or EMPTY if it has not from 1 to `most` bytes. */
redlock_code rl_check_len(redlock_code code, const char *name, size_t len, size_t most);

/* OUT_OF_RANGE or EMPTY if these are not from 1 to `most`. */
redlock_code rl_check_count(redlock_code code, const char *name, size_t count, size_t most);

/* BAD_OPTION: the callback is NULL. */
redlock_code rl_fail_no_callback(void);

/* BAD_OPTION if it is below 0, unless it is UNKNOWN. */
redlock_code rl_check_valid_ms(int64_t valid_ms);

/* BAD_TOKEN if it is empty or too long; NULL counts as empty. */
redlock_code rl_check_token(const char *token);

#endif
