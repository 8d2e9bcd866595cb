/*
 * A simulated process: its clocks, its random numbers, its memory and its event loop.
 * process.c and timer.c are what the library finds behind io/system.h and io/timer.h.
 *
 * What becomes ready is processed in iterations, as libevent does it: everything that is
 * ready, in order, and then the end of the iteration.
 */
#ifndef SIM_PROCESS_H
#define SIM_PROCESS_H

#include "clock.h"
#include "events.h"

struct event_base;

/* Work for an iteration. Part of what it belongs to. */
struct ready {
    void (*run)(void *arg);
    void *arg;
    struct ready *next, **link; /* link: NULL: it is not ready */
};

/* What may happen in it: once in so many times; 0: never. */
struct process_faults {
    unsigned stall;       /* it is stopped after it read a clock, or before it writes ... */
    int64_t stall_max;    /* ... for at most so long, in ns */
    unsigned early_timer; /* a timer fires too early */
    unsigned no_memory;   /* an allocation fails */
    unsigned no_random;   /* the kernel has no random numbers */
    unsigned no_file;     /* a file cannot be read */
};

struct process {
    const char *host;
    long pid;
    unsigned index; /* in the paths of the network */
    unsigned forks;
    bool is_powerless;    /* it ended with its machine: nobody hears of it */
    const char *password; /* what any password file has; NULL: it cannot be read */
    struct virtual_clock raw, slewed; /* CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC */
    int64_t suspended;                /* CLOCK_BOOTTIME - CLOCK_MONOTONIC */
    int64_t stopped_until, suspended_until;
    int64_t resumed;  /* when it last came back from standing still */
    int64_t wake_max; /* from what becomes ready to the iteration, in ns; 0: at once */
    uint64_t iterations;
    int64_t entered; /* when the present iteration or call began; true time */
    unsigned inside; /* calls that run in it, perhaps stopped in the middle */
    bool is_asked;   /* only a question: nothing fails, and nothing is stopped */
    struct process_faults faults;
    uint64_t (*jitter)(
        void); /* what it draws for delays; NULL: from the seed, as all else */
    unsigned stalls, early_timers, failed_allocations, failed_randoms; /* so far */
    size_t blocks;               /* of memory that the product has */
    void (*iterated)(void *arg); /* an iteration has ended; NULL: nobody wants to know */
    void *arg;
    struct ready *first, **last; /* what is ready */
    struct event wake;
    struct rl_timer *timer;     /* all of its timers */
    struct rl_resolve *resolve; /* and lookups, which are not its memory */
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

/* The same, for a question that changes nothing; also while it is stopped. */
void process_ask(struct process *process, void (*run)(void *arg), void *arg);

/* `ready` runs in the next iteration; does nothing if it is ready already. */
void process_make_ready(struct process *process, struct ready *ready);
void ready_forget(struct process *process, struct ready *ready);

/* Counts refusals of memory or random numbers. */
static inline unsigned process_failures(const struct process *process)
{
    return process->failed_allocations + process->failed_randoms;
}

/* Nothing of it runs before this time. */
void process_stop(struct process *process, int64_t until);

/* As process_stop(), and CLOCK_MONOTONIC and CLOCK_MONOTONIC_RAW stand still until then;
 * `unnoticed`: CLOCK_BOOTTIME, too. */
void process_suspend(struct process *process, int64_t until, bool unnoticed);

/* The process' clocks now err by so much: the raw one, and the one that is slewed. */
void process_set_clocks(struct process *process, int64_t raw_ppm, int64_t slewed_ppm);

/* Draws whether what happens once in so many times happens now. */
bool process_may_fail(const struct process *process, unsigned once_in);

/* The process may stop here, in the middle of a call, while all others go on. */
void process_may_stall(struct process *process);

/* The process has just come back from standing still in the middle of what it does: so what
   it read of a clock before may be old. If it stood still before it began, it is not. */
static inline bool process_was_interrupted(const struct process *process)
{
    return process->resumed == events_now() && process->resumed > process->entered;
}

/* Sets the timers anew. */
void process_reschedule(struct process *process);

/* Lookups end without an answer. */
void process_forget_lookups(struct process *process);

#endif
