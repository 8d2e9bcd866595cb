/* A timer in the loop of a command. Zeroed, it does not run. */
#ifndef CLI_TIMER_H
#define CLI_TIMER_H

#include <event2/event.h>
#include <stdint.h>

struct cli_timer {
    struct event *event; /* NULL: it has not begun, or has ended */
    void (*ring)(void *arg);
    void *arg;
};

/*
 * Calls `ring` every so many ms; 0: only as cli_timer_set() says. Ends the process if there
 * is no memory.
 */
void cli_timer_begin(struct cli_timer *timer, struct event_base *base, int64_t every_ms,
                     void (*ring)(void *arg), void *arg);

/* Calls `ring` once, after so many ms. */
void cli_timer_set(const struct cli_timer *timer, int64_t ms);
void cli_timer_stop(const struct cli_timer *timer);

void cli_timer_end(struct cli_timer *timer);

#endif
