/* A client's needs of an event loop besides sockets: a timer, and the iteration's end. */
#ifndef RL_TIMER_H
#define RL_TIMER_H

#include <stdbool.h>
#include <stdint.h>

struct event_base;
struct rl_timer;

/*
 * `fired`: the time has come. `ended`: the present iteration of the event loop ends, after
 * the events that are active now.
 */
struct rl_timer_handler {
    void (*fired)(void *arg);
    void (*ended)(void *arg);
};

/* Returns NULL if there is no memory or no descriptor. */
struct rl_timer *rl_timer_new(struct event_base *base, const struct rl_timer_handler *owner,
                              void *arg);

/* Sets the timer, in us of CLOCK_BOOTTIME; it fires once. False: it is set as before. */
bool rl_timer_set(struct rl_timer *timer, int64_t at);

/* `ended` is called once. */
void rl_timer_want_end(struct rl_timer *timer);

/* Also in a forked child, where the timer neither fires nor ends an iteration. */
void rl_timer_free(struct rl_timer *timer);

#endif
