/*
 * redlock run: the extension after the command has ended, which keeps the lock when redlock
 * has ended, too.
 */
#include "run.h"

int64_t run_ttl_for(const struct run *run, int64_t ms)
{
    return ms + ms * run->cli->options.drift_ppm / 500000 + 10;
}

static void extend_last(struct run *run);

static void on_pause_ended(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    extend_last(arg);
}

static bool tries_again(struct run *run, redlock_code code)
{
    int64_t pause_ms = run->cli->lease.ttl_ms / CLI_RETRY_SHARE;
    const struct timeval pause = {pause_ms / 1000, pause_ms % 1000 * 1000};
    return code == REDLOCK_NO_QUORUM && run->told_to_end == 0 &&
           redlock_valid_ms(run->lease) > 0 &&
           event_base_once(run->cli->base, -1, EV_TIMEOUT, on_pause_ended, run, &pause) ==
               0;
}

static void on_extended_last(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct run *run = arg;
    (void)lease;
    if (!tries_again(run, result->code))
        run->extended_last(run, result->code);
}

static void extend_last(struct run *run)
{
    redlock_code code = redlock_extend(run->lease, run->last_ttl_ms, on_extended_last, run);
    if (code != REDLOCK_OK)
        on_extended_last(run->lease, &(redlock_result){.code = code}, run);
}

void run_extend_last(struct run *run, int64_t ttl_ms,
                     void (*then)(struct run *run, redlock_code code))
{
    run->last_ttl_ms = ttl_ms;
    run->extended_last = then;
    extend_last(run);
}

/* If the lock is gone, on_lost has told it. An extension never ends a lock earlier. */
static void on_checked(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct run *run = arg;
    (void)result;
    redlock_disown(lease);
    run->done = true;
}

void run_check_and_disown(struct run *run, int64_t ttl_ms)
{
    if (redlock_extend(run->lease, ttl_ms, on_checked, run) != REDLOCK_OK)
        on_checked(run->lease, NULL, run);
}
