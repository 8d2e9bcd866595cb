/* The callbacks of a caller that frees its lease, its client or both in each of them. */
#ifndef TEST_CALLER_H
#define TEST_CALLER_H

#include <criterion/criterion.h>

#include "quorum.h"

/* Each callback's action, and how often they were called. */
struct caller {
    struct quorum *quorum;
    bool frees_lease, frees_client;
    redlock_lease *lease;
    unsigned reported, lost, extended, other;
    redlock_code code;
};

redlock_lease_fn caller_on_reported, caller_on_lost, caller_on_extended;
redlock_drain_fn caller_on_drained;
redlock_inspect_fn caller_on_inspection;
redlock_admit_fn caller_on_admitted;
redlock_retry_fn caller_on_retry; /* tries again after 1 ms */

/* The loop goes on, nothing is called again, and everything can be freed. */
void caller_finish(struct quorum *s, struct caller *caller, unsigned calls);

/* Runs until `*times`, one of its counters, is not 0; finishes after this one callback. */
void caller_expect(struct quorum *s, struct caller *caller, const unsigned *times,
                   redlock_code code);

/* Starts to acquire the lock "job". */
void caller_acquire(struct quorum *s, struct caller *caller);

/* Holds the lock "job", with the callbacks above for its loss and its extensions. */
redlock_lease *caller_hold(struct quorum *s, struct caller *caller,
                           redlock_lease_options options);

/* Runs a block three times: it frees the lease, the client, and both. */
#define EACH_WAY(name, s)                                                                  \
    for (int way = 1; way <= 3; way++)                                                     \
        for (struct caller                                                                 \
                 name = {.quorum = &(s), .frees_lease = way & 1, .frees_client = way & 2}, \
                 *once = &name;                                                            \
             once; once = NULL)

#endif
