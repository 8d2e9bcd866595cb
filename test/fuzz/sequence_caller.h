/*
 * The callers of a sequence: two processes with a client each, their leases, and what they
 * are told. It aborts if a callback comes twice, inside the call, for a freed lease or
 * never; if a lease is reported as held without the grants of a quorum, or while another
 * one excludes it; or if a code is none of those that the header lists.
 */
#ifndef TEST_FUZZ_SEQUENCE_CALLER_H
#define TEST_FUZZ_SEQUENCE_CALLER_H

#include "redlock/admin.h"
#include "sim/virtual/process.h"

#define CALLERS        2
#define LEASES         3
#define OPERATIONS_MAX 256

enum operation_type { ACQUIRE, EXTEND, RELEASE, DRAIN, ADMIT, INSPECT, LIST, CHECK, ASK };

/* What was started: the argument of its callback. */
struct operation {
    enum operation_type type;
    struct caller *caller;
    struct handle *handle; /* NULL: it is one of the client */
    const redlock_client *client;
    bool is_told;
    bool is_freed; /* with its lease: nothing may be told */
};

struct handle {
    struct caller *caller;
    redlock_lease *lease; /* NULL: none */
    const redlock_client *client;
    redlock_kind kind;
    bool fenced, may_be_lost;
    unsigned keys; /* a bit for each */
    int64_t ttl_ms;
};

struct caller {
    struct process process;
    redlock_client *client; /* NULL: it was freed */
    struct handle handle[LEASES];
    redlock_observer *observer;
};

extern struct caller callers[CALLERS];

/* What the sequence does inside of callbacks; it may do nothing. */
extern void (*caller_inside)(struct caller *caller);

void callers_begin(void);
void callers_end(void);

/* In the process of the caller: */
void caller_make_client(struct caller *caller);
void caller_free_client(struct caller *caller);
void caller_free_lease(struct handle *handle);

/* A new operation, whose call follows: NULL: no more. Then its code. */
struct operation *operation_begin(enum operation_type type, struct caller *caller,
                                  struct handle *handle);
void operation_started(struct operation *operation, redlock_code code);

/* Callbacks; their argument is the operation. */
redlock_lease_fn on_result;
redlock_drain_fn on_drained;
redlock_admit_fn on_admitted;
redlock_inspect_fn on_inspected;
redlock_list_fn on_listed;
redlock_check_fn on_checked;
redlock_hold_time_fn on_hold_time;

/* Their argument is the handle. */
redlock_lease_fn on_lost;
redlock_lease_fn on_extended;

/* Its argument is the caller. */
redlock_leader_fn on_leader;

#endif
