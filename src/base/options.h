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

/* The size of a struct up to `last`, its last member in release 1.0. */
#define RL_FIRST_SIZE(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

/* Whether a struct, whose first member is its size, has a byte that is not 0 after these.
 */
bool rl_is_set_beyond(const void *given, size_t known);

/*
 * Checks a struct of the caller, whose first member is its size. BAD_OPTION: it was not
 * made by `init`, because it is shorter than `least`. UNSUPPORTED: the caller is newer than
 * this library, which knows `known` bytes, and sets what comes after them.
 */
redlock_code rl_check_sized(const void *given, size_t least, size_t known,
                            const char *init);

/* Copies what fits of a struct that passes this check over the defaults in `copy`. */
redlock_code rl_read_sized(const void *given, size_t least, void *copy, size_t known,
                           const char *init);

/* Reads the options; those that the caller does not know are defaults. NULL: all are. */
redlock_code rl_options_read(const redlock_options *options, redlock_options *copy);

/* Reads and checks the options, and copies their texts. */
redlock_code rl_options_copy(const redlock_options *options, size_t nodes,
                             redlock_options *ret_options);
void rl_options_clear(redlock_options *options);

/* A label is one word of printable ASCII, so that any program can print it. */
bool rl_label_is_fine(const char *label);

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
