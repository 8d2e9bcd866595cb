/*
 * "We" of a story: a process with a client and one lease, in virtual time. What it does is
 * called by the words of the story.
 */
#ifndef STORY_HOLDER_H
#define STORY_HOLDER_H

#include "core/lease.h"
#include "lease/handle.h"
#include "sim/virtual/process.h"

#define REPORTS 7 /* of enum rl_report */

/* The client's clock may be ahead by less than this (core/clock.h), so it acts as early. */
#define EARLY (100 * VIRTUAL_US)

struct terms {
    unsigned n;
    redlock_options client;
    redlock_lease_options lease;
    bool is_subscribed; /* it has waited before, so nodes can notify it */
};

struct holder {
    struct terms terms;
    struct process process;
    redlock_client *client;
    redlock_lease *lease;       /* NULL: none yet */
    redlock_code refused;       /* what the last call returned */
    unsigned reports;           /* callbacks since they were taken, as enum rl_report */
    redlock_code code[REPORTS]; /* that each got */
};

extern struct holder holder;

/* Begins with greeted nodes; ends with nothing left of it. */
void holder_begin(const struct terms *terms);
void holder_end(void);

/* "acquire the lock" and so on; `ms`: its "to" or "until". False: it is no verb. */
bool holder_do(const char *words, int64_t ms);

/* The last attempt; NULL: none yet. */
const struct rl_attempt *holder_attempt(void);

/* Everything happens that is due until this time of the story, ns. */
void holder_run(int64_t until);

/* The client's time as ms of the story. */
int64_t holder_ms(rl_time time);

#endif
