/* An event loop that runs until a condition holds, or the test fails. */
#ifndef TEST_LOOP_H
#define TEST_LOOP_H

#include <event2/event.h>
#include <stdint.h>

/* The test fails if a condition takes longer. */
#define LOOP_PATIENCE_MS 30000

int64_t loop_clock_ms(void);

/* One iteration of the loop, which waits for a few milliseconds at most. */
void loop_pass(struct event_base *base);

/* One iteration; fails the test once `end` has passed. */
void loop_pass_before(struct event_base *base, int64_t end, const char *file, int line,
                      const char *condition);

#define LOOP_UNTIL(base, condition)                                                        \
    do {                                                                                   \
        int64_t loop_end = loop_clock_ms() + LOOP_PATIENCE_MS;                             \
        while (!(condition))                                                               \
            loop_pass_before(base, loop_end, __FILE__, __LINE__, #condition);              \
    } while (0)

/* Sleeps for `ms` or a little longer; the loop does not run. */
void loop_block(int64_t ms);

/* For events that must not happen: runs the loop for `ms`. */
void loop_run_for(struct event_base *base, int64_t ms);

#endif
