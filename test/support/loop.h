/* An event loop that runs until something is so, or the test fails. */
#ifndef TEST_LOOP_H
#define TEST_LOOP_H

#include <event2/event.h>
#include <stdint.h>

/* How long anything may take before the test fails. */
#define LOOP_PATIENCE_MS 30000

int64_t loop_clock_ms(void);

/* One pass of the loop, which waits for a few milliseconds at most. */
void loop_pass(struct event_base *base);

/* A pass that fails the test once `end` has come. */
void loop_pass_before(struct event_base *base, int64_t end, const char *file, int line,
                      const char *condition);

#define LOOP_UNTIL(base, condition)                                                        \
    do {                                                                                   \
        int64_t loop_end = loop_clock_ms() + LOOP_PATIENCE_MS;                             \
        while (!(condition))                                                               \
            loop_pass_before(base, loop_end, __FILE__, __LINE__, #condition);              \
    } while (0)

/* Nothing runs for so long, or a little longer. */
void loop_block(int64_t ms);

/* For what must not happen: the loop runs on for a while. */
void loop_run_for(struct event_base *base, int64_t ms);

#endif
