/*
 * The numbers of a client for threads, and its `log` and `trace`: the loop owner may be any
 * thread, and they are called in the client's thread.
 */
#ifndef RL_SYNC_TELEMETRY_H
#define RL_SYNC_TELEMETRY_H

#include "loop_owner.h"
#include "redlock/stats.h"

struct rl_sync_telemetry {
    struct rl_loop_owner *loop;
    redlock_log_fn *log;
    redlock_trace_fn *trace;
    void *log_arg, *trace_arg;
    unsigned waiting; /* to be called */
    uint64_t dropped;
};

/* Takes the place of both callbacks in the options of the asynchronous client. */
void rl_sync_telemetry_init(struct rl_sync_telemetry *telemetry, struct rl_loop_owner *loop,
                            redlock_options *options);

#endif
