/* The client for threads. Each of its parts has a header, and only that part changes it. */
#ifndef RL_SYNC_H
#define RL_SYNC_H

#include "observer.h"
#include "process_lease.h"
#include "single_flight.h"
#include "telemetry.h"

struct redlock_sync {
    struct rl_loop_owner loop; /* first: it begins the memory block */
    struct rl_process_leases leases;
    struct rl_single_flights flights;
    struct rl_sync_observers observers;
    struct rl_sync_telemetry telemetry;
    pthread_t thread;
    struct rl_job close;
    bool detached; /* the client's thread frees everything by itself */
    bool ended;    /* that thread calls nothing any more */
    size_t nodes;
    unsigned quorum;
    int64_t max_ttl_ms; /* of the client's options */
};

#endif
