/* The client's clock never goes back, and is never behind the larger of the two steps
   (safety.md, The validity and the clock). */
#include "core/clock.h"

#include "proof.h"

#define CENTURY (36525 * INT64_C(86400) * RL_SECOND)

static rl_time any_time(void)
{
    rl_time time = nondet_i64();
    assume(time >= 0 && time <= CENTURY);
    return time;
}

/* All times count from a first look: since then the clock counted at least what each of the
   two clocks did. */
static bool is_in_step(const struct rl_clock *clock)
{
    return clock->base >= clock->boot && clock->base >= clock->raw;
}

/* By induction, so for any number of readings: what holds before one holds after it. */
/* cbmc: --unwind 2 */
void proof_clock_never_goes_back_nor_lags(void)
{
    struct rl_clock clock = {any_time(), any_time(), any_time(), any_time(), {0, 0}};
    assume(is_in_step(&clock));
    rl_time before = clock.now, boot = any_time(), raw = any_time();
    assume(boot >= clock.boot && raw >= clock.raw);
    assert(rl_clock_advance(&clock, boot, raw) >= before);
    assert(clock.now >= boot && clock.now >= raw && is_in_step(&clock));
}

/* Readings that go back, or come from a process that was stopped in between: no overflow,
   and the clock does not go back. */
/* cbmc: --unwind 5 */
void proof_clock_takes_any_reading(void)
{
    struct rl_clock clock;
    rl_clock_init(&clock, any_time(), any_time());
    for (int i = 0; i < 4; i++) {
        rl_time before = clock.now;
        rl_time boot = any_time(), raw = any_time();
        switch (nondet_unsigned() % 3) {
        case 0: rl_clock_advance(&clock, boot, raw); break;
        case 1: rl_clock_advance_apart(&clock, boot, raw); break;
        default: rl_clock_glance(&clock, boot);
        }
        assert(clock.now >= before);
    }
}

/* A glance is not behind a reading of both clocks, if the time daemon slows CLOCK_BOOTTIME
   by no more than the kernel allows. */
/* cbmc: --unwind 2 */
void proof_glance_is_not_behind(void)
{
    struct rl_clock clock;
    rl_time boot = any_time(), raw = any_time();
    rl_clock_init(&clock, boot, raw);
    rl_time boot_step = nondet_i64(), raw_step = nondet_i64();
    assume(boot_step >= 0 && boot_step <= 2 * RL_CLOCK_GLANCE);
    assume(raw_step >= 0 && raw_step <= 4 * RL_CLOCK_GLANCE);
    /* Rounded readings of a clock that is slowed by at most 10.05 %. */
    assume((raw_step - 1) * 8995 <= (boot_step + 1) * 10000);
    struct rl_clock both = clock;
    if (!rl_clock_glance(&clock, boot + boot_step))
        return;
    assert(clock.now >= rl_clock_advance(&both, boot + boot_step, raw + raw_step));
}
