#include "canary.h"

#include <stdlib.h>
#include <unistd.h>

#define NAME "redlock-monitor"
/* The pause after the nodes have refused its user: in ticks, and the longest. */
#define DENIED_TICKS  60
#define DENIED_MAX_MS INT64_C(60000)

#define OVERDUE_MS INT64_C(15000) /* besides three times `every_ms` */

static bool may_begin(void *arg, struct cycle *cycle)
{
    struct canary *canary = arg;
    bool may = canary->may_begin;
    cycle->counted = true;
    canary->may_begin = false;
    return may;
}

/* The last bucket has all that are longer. */
static void count(redlock_histogram *histogram, int64_t us)
{
    unsigned low = 0, high = REDLOCK_BUCKETS - 1;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (us >= redlock_histogram_bound(middle))
            low = middle + 1;
        else
            high = middle;
    }
    histogram->bucket[low]++;
    histogram->sum_us += (uint64_t)us;
}

/* The nodes are those of the acquire, or of the release that failed. */
static char *explain(const struct canary *canary, const struct cycle *cycle)
{
    const struct workers *workers = &canary->workers;
    const redlock_result *result = &cycle->acquired;
    bool is_release = cycle_is_held(cycle);
    const char *text = redlock_code_text(canary->code);
    if (is_release && canary->code != REDLOCK_UNCONFIRMED)
        return cli_format("the release: %s", text);
    if (!is_release && result->code != REDLOCK_NO_QUORUM && result->code != REDLOCK_DENIED)
        return cli_format("%s", text);
    char *faults = is_release ? cli_faults(workers->nodes, workers->node_count)
                              : cli_too_few(result, workers->nodes, workers->node_count);
    char *why =
        cli_format("%s%s%s%s", is_release ? text : "", is_release ? ": " : "", faults,
                   cli_advice(workers->nodes, workers->node_count, result->quorum));
    free(faults);
    return why;
}

static void ended(void *arg, const struct cycle *cycle)
{
    struct canary *canary = arg;
    bool was_denied = canary->is_denied;
    canary->ended_us = cli_clock_us(CLOCK_MONOTONIC);
    canary->code = cycle_is_held(cycle) ? cycle->released : cycle->acquired.code;
    canary->is_denied = canary->code == REDLOCK_DENIED;
    free(canary->why);
    canary->why = canary->code == REDLOCK_OK ? NULL : explain(canary, cycle);
    if (canary->is_denied && !was_denied)
        cli_say(canary->workers.cli, "monitor: it only watches, and takes no lock: %s",
                canary->why);
    canary->results[canary->code]++;
    if (cycle_is_held(cycle))
        count(&canary->release, cycle->release_us);
    history_add(&canary->history, cycle);
}

bool canary_is_busy(const struct canary *canary)
{
    return canary->workers.busy > 0;
}

static bool is_pausing(const struct canary *canary, int64_t now)
{
    int64_t pause_ms = DENIED_TICKS * canary->every_ms;
    if (pause_ms > DENIED_MAX_MS)
        pause_ms = DENIED_MAX_MS;
    return canary->is_denied && now - canary->begun_us < pause_ms * 1000;
}

/* One cycle at a time: if the last one still runs, this one is left out. */
static void tick(void *arg)
{
    struct canary *canary = arg;
    int64_t now = cli_clock_us(CLOCK_MONOTONIC);
    if (canary_is_busy(canary) || is_pausing(canary, now))
        return;
    canary->begun_us = now;
    canary->may_begin = true;
    workers_begin(&canary->workers, 0, 1);
}

void canary_begin(struct canary *canary, const struct cli *cli, int64_t every_ms,
                  size_t room)
{
    char host[64] = "", *name;
    *canary = (struct canary){.every_ms = every_ms};
    canary->workers =
        (struct workers){.cli = cli, .may_begin = may_begin, .ended = ended, .arg = canary};
    gethostname(host, sizeof(host) - 1);
    name = cli_format("%s:%s", NAME, host);
    workers_init(&canary->workers, 1, name);
    free(name);
    if (!history_init(&canary->history, (unsigned)redlock_client_nodes(cli->client), room))
        cli_fail(CLI_FAILED, "out of memory");
    canary->since_us = canary->ended_us = cli_clock_us(CLOCK_MONOTONIC);
    cli_timer_begin(&canary->timer, cli->base, every_ms, tick, canary);
    tick(canary);
}

void canary_step(struct canary *canary)
{
    workers_step(&canary->workers);
}

const char *canary_key(const struct canary *canary)
{
    return workers_key(&canary->workers, 0);
}

const char *canary_failure(const struct canary *canary)
{
    int64_t now = cli_clock_us(CLOCK_MONOTONIC);
    int64_t since_us = canary_is_busy(canary) ? canary->begun_us : canary->ended_us;
    if (!is_pausing(canary, now) &&
        now - since_us > (3 * canary->every_ms + OVERDUE_MS) * 1000)
        return "no cycle of the canary has ended in time";
    if (canary->code == REDLOCK_DENIED || canary->code == REDLOCK_TAKEN)
        return NULL;
    return canary->why;
}

void canary_stop(struct canary *canary)
{
    cli_timer_end(&canary->timer);
    workers_cancel(&canary->workers);
}

void canary_end(struct canary *canary)
{
    workers_free(&canary->workers);
    history_free(&canary->history);
    free(canary->why);
}
