/*
 * Virtual time: events that happen in the order of their times. Nothing takes time by
 * itself, and nothing is random but what the seed draws, so every run can be repeated.
 */
#ifndef SIM_EVENTS_H
#define SIM_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VIRTUAL_US INT64_C(1000) /* true time is in ns, and begins with 0 */
#define VIRTUAL_MS (1000 * VIRTUAL_US)
#define VIRTUAL_S  (1000 * VIRTUAL_MS)

/* Part of what it happens to. Zeroed, it is not scheduled. */
struct event {
    void (*happen)(void *arg);
    void *arg;
    int64_t at;
    uint64_t order; /* of events at one time: the one that was scheduled first */
    size_t place;   /* in the queue, from 1 on; 0: not scheduled */
};

void events_begin(uint64_t seed);
void events_end(void);

int64_t events_now(void);

/* What events_now() says from now on, for a question that changes nothing; put it back. */
void events_pretend(int64_t at);

/* A number in [0, below). */
uint64_t events_random(uint64_t below);

/* A number of [low, high]; and one whose magnitude is drawn first. */
int64_t draw_between(int64_t low, int64_t high);
int64_t draw_span(int64_t low, int64_t high);

/* True once in `times`; 0: never. */
bool draw_once_in(unsigned times);

/* Schedules an event, or moves it. A time that has passed means now. */
void event_at(struct event *event, int64_t at);
void event_cancel(struct event *event);

static inline bool event_is_scheduled(const struct event *event)
{
    return event->place > 0;
}

/* The next event happens, if it is no later than `until`. False: there is none. */
bool events_step(int64_t until);

#endif
