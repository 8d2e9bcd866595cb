/* Single flight: the leader does the work, and its followers get the result. */
#ifndef RL_SINGLE_FLIGHT_H
#define RL_SINGLE_FLIGHT_H

#include "hold.h"

/* A client's flights. Only single_flight.c changes them. */
struct rl_single_flights {
    LIST_HEAD(, rl_single_flight) all;
};

/* A thread that waits for the result of the leader. */
struct rl_follower {
    struct rl_wait wait;
    TAILQ_ENTRY(rl_follower) link;
    const redlock_stop *stop;
    int returned;
    bool leader_failed; /* the leader did not get the lock, or its thread has ended */
};

/* On the leader's stack. */
struct rl_single_flight {
    LIST_ENTRY(rl_single_flight) link;
    TAILQ_HEAD(, rl_follower) followers;
    redlock_sync *sync;
    redlock_hold *hold;
    pthread_t leader;
    const void *key;
    size_t key_len;
};

/* Ends the waits of followers that name this stop; `all`: each wait. Needs the mutex. */
void rl_single_flights_dismiss(struct rl_single_flights *flights, const redlock_stop *stop,
                               bool all);

#endif
