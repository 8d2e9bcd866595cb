/* Options: their defaults, their bounds, and our own copy of them. */
#ifndef RL_OPTIONS_H
#define RL_OPTIONS_H

#include "core/lease.h"
#include "core/retry.h"
#include "redlock/redlock.h"

/* Copies as much as the caller's version of the struct has; defaults fill the rest. */
redlock_code rl_options_copy(const redlock_options *options, size_t nodes,
                             redlock_options *ret_options, redlock_error *ret_error);
void rl_options_clear(redlock_options *options);

/* The copy is complete only if the code is OK. */
redlock_code rl_lease_options_read(const redlock_lease_options *options,
                                   redlock_lease_options *copy, redlock_error *ret_error);

/* A TTL must leave some validity after drift, margin and what the caller wants at least. */
redlock_code rl_ttl_check(const redlock_options *client, const redlock_lease_options *lease,
                          int64_t ttl_ms, redlock_error *ret_error);

/* What the core has to know of them. */
void rl_terms_of(const redlock_lease_options *options, const redlock_options *client,
                 unsigned n, unsigned q, struct rl_terms *ret_terms);

redlock_code rl_fail(redlock_error *ret_error, redlock_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
