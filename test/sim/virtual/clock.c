#include "clock.h"

#define MILLION INT64_C(1000000)

/* `span` is split so that the product cannot overflow. */
static int64_t gained(int64_t span, int64_t ppm)
{
    return span / MILLION * ppm + span % MILLION * ppm / MILLION;
}

int64_t virtual_clock_read(const struct virtual_clock *clock, int64_t now)
{
    int64_t passed = now - clock->since;
    return clock->value + passed + (passed > 0 ? gained(passed, clock->ppm) : 0);
}

void virtual_clock_set_rate(struct virtual_clock *clock, int64_t now, int64_t ppm)
{
    *clock = (struct virtual_clock){
        .since = now,
        .value = virtual_clock_read(clock, now),
        .ppm = ppm,
        .changes = clock->changes + 1,
    };
}

void virtual_clock_step(struct virtual_clock *clock, int64_t by)
{
    clock->value += by;
    clock->changes++;
}

void virtual_clock_hold(struct virtual_clock *clock, int64_t now, int64_t until)
{
    *clock = (struct virtual_clock){
        .since = until,
        .value = virtual_clock_read(clock, now),
        .ppm = clock->ppm,
        .changes = clock->changes + 1,
    };
}

int64_t virtual_clock_when(const struct virtual_clock *clock, int64_t now, int64_t value)
{
    int64_t missing = value - virtual_clock_read(clock, now);
    int64_t rate = MILLION + clock->ppm;
    if (missing <= 0)
        return now;
    if (now < clock->since) {
        now = clock->since;
        missing = value - clock->value;
        if (missing <= 0)
            return now;
    }
    if (rate <= 0 || missing / rate >= CLOCK_NEVER / MILLION - now / MILLION - 1)
        return CLOCK_NEVER;
    return now + missing / rate * MILLION + missing % rate * MILLION / rate + 1;
}
