/*
 * A simulated process: its clocks, its random numbers and its event loop. process.c is what
 * the library finds behind io/system.h and io/timer.h.
 *
 * What becomes ready is processed in iterations, as libevent does it: everything that is
 * ready, in order, and then the end of the iteration.
 */
#ifndef SIM_PROCESS_H
#define SIM_PROCESS_H

#include "events.h"

struct event_base;

/* Work for an iteration. Part of what it belongs to. */
struct ready {
    void (*run)(void *arg);
    void *arg;
    struct ready *next, **link; /* link: NULL: it is not ready */
};

/* A clock that runs evenly from one change to the next. */
struct virtual_clock {
    int64_t since, value; /* true time, and what the clock said then; ns */
    int64_t ppm;          /* how much too fast */
};

struct process {
    const char *host;
    long pid;
    unsigned forks;
    const char *password; /* what any password file says; NULL: it cannot be read */
    struct virtual_clock raw, slewed; /* CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC */
    int64_t suspended;                /* CLOCK_BOOTTIME - CLOCK_MONOTONIC */
    int64_t stopped_until;
    uint64_t iterations;
    struct ready *first, **last; /* what is ready */
    struct event wake;
    struct rl_timer *timer; /* all of its timers */
};

void process_begin(struct process *process, const char *host, long pid);

/* What is ready is forgotten, as if it had been killed. Its memory stays with the caller.
 */
void process_end(struct process *process);

/* What a client is made on. */
struct event_base *process_loop(struct process *process);
struct process *process_of(struct event_base *base);

/* The process whose code runs; NULL: none. */
struct process *process_now(void);

/* Calls a function as code of this process, outside of its event loop. */
void process_call(struct process *process, void (*run)(void *arg), void *arg);

/* It runs in the next iteration; does nothing if it is ready already. */
void process_make_ready(struct process *process, struct ready *ready);
void ready_forget(struct process *process, struct ready *ready);

/* Nothing of it runs before this time. */
void process_stop(struct process *process, int64_t until);

/* From now on its clocks err by so much: the raw one, and the one that is slewed. */
void process_set_clocks(struct process *process, int64_t raw_ppm, int64_t slewed_ppm);

#endif
