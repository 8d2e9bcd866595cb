/*
 * The events and spans that wait to be passed to the caller's `log` and `trace`. Each part
 * of the client adds them where they happen. The loop passes them on when the iteration
 * ends: then the callbacks may do anything. A client without these callbacks queues
 * nothing.
 */
#ifndef RL_EVENTS_H
#define RL_EVENTS_H

#include "core/kind.h"
#include "redlock/redlock.h"

/* What a span is about: an operation of a caller, or how long the lock is held. */
enum rl_operation {
    RL_OPERATION_ACQUIRE,
    RL_OPERATION_EXTEND,
    RL_OPERATION_RELEASE,
    RL_OPERATION_HOLD,
};

/* One of a node has `node`, `uri` and `fault`; one of a lease the rest. The word behind it
   is the text of the fault, or the key. */
struct rl_event {
    redlock_event_type type;
    bool is_span, ended; /* for `trace`: then it has no type */
    unsigned node;
    const char *uri;
    enum rl_fault fault;

    enum rl_operation operation;
    uint64_t lease;
    const struct rl_kind *kind;
    redlock_code code;
    redlock_reason reason;
    unsigned attempts;
    rl_time took, valid;
    void *user;
    size_t word_len;
};

struct rl_events {
    redlock_log_fn *log;
    redlock_trace_fn *trace;
    void *log_arg, *trace_arg;
    char *bytes; /* those that wait: each an rl_event and its word */
    size_t at, len, room;
    uint64_t dropped;
};

void rl_events_free(struct rl_events *events);

/* Adds one, if the caller wants it. */
void rl_events_add(struct rl_events *events, const struct rl_event *event,
                   struct rl_word word);

/* Passes on those that wait. More that their callbacks add are left for the next time. */
void rl_events_pass_on(struct rl_events *events);

#endif
