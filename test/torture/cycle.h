/*
 * What the programs of this folder share. Each runs one cycle of a lock: PROGRAM KIND KEY
 * URI..., while test/torture/torture.py lets one allocation or system call fail. Every step
 * that fails is printed and made again: only one fails, so it must succeed then. Lines on
 * stdout; where the program has the lock it waits until the driver, which looks at the
 * nodes, replies on stdin:
 *
 *     held TOKEN, extended TOKEN, released TOKEN
 *     failed STEP CODE REASON TEXT
 *     left N descriptors
 *     end
 */
#ifndef TORTURE_CYCLE_H
#define TORTURE_CYCLE_H

#include "redlock/redlock.h"

#define TTL_MS     10000
#define LONGER_MS  20000 /* the nodes' max_ttl */
#define NODES_MAX  8
#define TIMES      3 /* that a step is made, at most */
#define TIMEOUT_MS 2000

struct kind {
    const char *name;
    redlock_kind kind;
    bool fenced;
    unsigned slots, keys;
};

/* Ends the program if there is none of this name. */
struct kind cycle_kind(const char *name);

redlock_options cycle_options(void);

/* KEY, KEY:2 and KEY:3: they must outlive the result. */
void cycle_keys(const char *name, unsigned count, redlock_key *ret_keys);

/* Prints, and waits for the driver's reply. */
void cycle_tell(const char *what, const char *token);

/* `nodes`: what each replied. */
void cycle_failed(const char *step, redlock_code code, redlock_reason reason,
                  const redlock_node *nodes, size_t count);

/* The call failed: prints redlock_last_error(). Ends the program after the last time. */
void cycle_again(const char *step, unsigned time);

/* How many descriptors are open. */
unsigned cycle_descriptors(void);

/* The last lines. A thread that still resolves a name may have a descriptor for a while. */
void cycle_end(unsigned before);

bool cycle_are_ready(const redlock_node *nodes, size_t count);

#endif
