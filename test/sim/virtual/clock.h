/* A clock that runs fast, slow or not at all against the true time, and can be stepped. */
#ifndef SIM_CLOCK_H
#define SIM_CLOCK_H

#include <stdint.h>

#define CLOCK_STOPPED (-1000000) /* ppm: it stands still */
#define CLOCK_NEVER   INT64_MAX

/* Runs evenly from one change to the next. All in ns. */
struct virtual_clock {
    int64_t since, value; /* true time, and what the clock read then */
    int64_t ppm;          /* how much too fast */
    uint32_t changes;     /* so far */
};

int64_t virtual_clock_read(const struct virtual_clock *clock, int64_t now);

/* The clock runs now at this rate, or reads `by` more. */
void virtual_clock_set_rate(struct virtual_clock *clock, int64_t now, int64_t ppm);
void virtual_clock_step(struct virtual_clock *clock, int64_t by);

/*
 * At `until` it reads what it reads now, and up to then less, at the true rate: the time
 * that a machine is suspended counts elsewhere.
 */
void virtual_clock_hold(struct virtual_clock *clock, int64_t now, int64_t until);

/* A true time at which it reads at least `value`, hardly later than the first; or NEVER. */
int64_t virtual_clock_when(const struct virtual_clock *clock, int64_t now, int64_t value);

#endif
