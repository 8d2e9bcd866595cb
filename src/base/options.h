/* Options: defaults, bounds, and the client's own copy. */
#ifndef RL_OPTIONS_H
#define RL_OPTIONS_H

#include "core/lease.h"
#include "core/retry.h"
#include "error.h"

#define RL_DRIFT_PPM_MAX 500000
#define RL_MS_MAX        (INT64_C(366) * 24 * 3600 * 1000) /* of any time of the options */

/* Copies what fits between two versions of a struct, and clears the rest. */
void rl_copy_sized(void *to, size_t size, const void *from, size_t from_size);

/* Copies as much as the caller's version of the struct has. False: `size` is not set. */
bool rl_options_take(void *copy, size_t room, const void *options, size_t size);

/* Copies the options that the caller's version of the struct has; the rest are defaults. */
redlock_code rl_options_copy(const redlock_options *options, size_t nodes,
                             redlock_options *ret_options);
void rl_options_clear(redlock_options *options);

/* Copies and checks the options but for the kind. Use the copy only if the code is OK. */
redlock_code rl_lease_options_read(const redlock_lease_options *options,
                                   redlock_lease_options *copy);

/* BAD_TTL: it broke this bound. */
redlock_code rl_fail_ttl(redlock_reason reason, int64_t ttl_ms, int64_t bound_ms);

/*
 * Checks that kind, `fenced`, `slots` and the number of keys go together. Sets `fenced` if
 * the kind always is.
 */
redlock_code rl_kind_check(redlock_lease_options *options, bool of_set);

/*
 * A TTL minus the drift must be larger than both margin_ms and min_validity_ms. `is_kept`:
 * of a record, which may be kept for longer than any lock.
 */
redlock_code rl_ttl_check(const redlock_options *client, const redlock_lease_options *lease,
                          int64_t ttl_ms, bool is_kept);

/* Converts the options to the parameters of the lease machine. */
void rl_lease_params_of(const redlock_lease_options *options, const redlock_options *client,
                        unsigned n, unsigned q, struct rl_lease_params *ret_params);

#endif
