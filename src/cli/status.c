#include "inspection.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WATCH_EVERY_MS 1000

const char cli_status_help[] =
    "Usage: redlock status [--watch] KEY\n"
    "Show who holds the lock KEY: for each node, and in total. Change nothing.\n"
    "The time after a node is the remaining time of its key. \"for another\" is the time\n"
    "until enough keys have expired that a quorum is free; a refused acquire prints the\n"
    "same time.\n"
    "\n"
    "      --watch               repeat once a second, until INT or TERM: redraw the\n"
    "                            screen on a terminal, else print a line per change\n"
    "\n"
    "Examples:\n"
    "  redlock status backup\n"
    "  redlock status --json backup | jq -r .holder\n"
    "\n"
    "Exit codes: 0 held; 1 free; 2 split: no majority stores the same value, and no\n"
    "majority is free; 69 no quorum reachable; 77 refused; 64 usage; 78 configuration;\n"
    "125 own failure.\n";

struct status {
    const struct cli *cli;
    const char *key;
    struct event *timer;
    struct inspection inspection;
    char seen[REDLOCK_TOKEN_MAX + 16]; /* the state and value that were printed last */
    bool watch, redraw, done, failed;
};

static int exit_of(enum inspection_state state)
{
    static const int codes[] = {
        [INSPECTION_HELD] = 0,
        [INSPECTION_FREE] = 1,
        [INSPECTION_SPLIT] = 2,
        [INSPECTION_NO_QUORUM] = CLI_NO_QUORUM,
        [INSPECTION_DENIED] = CLI_DENIED,
    };
    return codes[state];
}

/* "KEY: held by LABEL on 3 of 5 nodes, for another 12.3 s" */
static void print_summary(const struct status *status)
{
    const redlock_inspection *found = &status->inspection.found;
    const redlock_node *holder = cli_holder(status->inspection.nodes, found->count);
    char span[CLI_SPAN], *key = cli_printable(status->key);
    unsigned reached = found->held + found->free;
    switch (inspection_state(&status->inspection)) {
    case INSPECTION_HELD:
        if (found->readers > 0) {
            printf("%s: read by %u on %u of %zu nodes, for another %s\n", key,
                   found->readers, found->agreeing, found->count,
                   cli_span(span, found->remaining_ms));
            break;
        }
        printf("%s: held by %s on %u of %zu nodes, for another %s\n", key,
               holder ? holder->holder : "another", found->agreeing, found->count,
               cli_span(span, found->remaining_ms));
        break;
    case INSPECTION_FREE:
        printf("%s: free on %u of %zu nodes\n", key, found->free, found->count);
        break;
    case INSPECTION_SPLIT:
        printf(
            "%s: split: free on %u of %zu nodes, held on %u, of which %u agree; %u are "
            "needed\n",
            key, found->free, found->count, found->held, found->agreeing, found->quorum);
        break;
    default:
        printf("%s: unknown: %u of %zu nodes answered, %u are needed\n", key, reached,
               found->count, found->quorum);
    }
    free(key);
}

static bool print_json(const struct status *status)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    json_t *object = inspection_json(&status->inspection, status->key);
    json_object_set_new(object, "unix_ms",
                        json_integer(now.tv_sec * 1000LL + now.tv_nsec / 1000000));
    return cli_print_json(status->cli, object);
}

static void print_time(void)
{
    char text[32];
    time_t now = time(NULL);
    struct tm utc;
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    printf("%s ", text);
}

/* Whether the state or the holder differs from what was printed last. */
static bool has_changed(struct status *status)
{
    char now[sizeof(status->seen)];
    const redlock_node *holder =
        cli_holder(status->inspection.nodes, status->inspection.found.count);
    const char *value = !holder ? "" : holder->value[0] ? holder->value : holder->holder;
    snprintf(now, sizeof(now), "%d %s", (int)inspection_state(&status->inspection), value);
    bool changed = strcmp(now, status->seen) != 0;
    memcpy(status->seen, now, sizeof(now));
    return changed;
}

static bool show(struct status *status)
{
    bool is_log = status->watch && !status->redraw;
    if (is_log && !has_changed(status))
        return true;
    if (status->cli->json)
        return print_json(status);
    if (status->redraw) /* overwrites the previous output */
        printf("\033[H\033[J");
    if (is_log)
        print_time();
    else
        inspection_print_nodes(status->cli, &status->inspection, "held");
    print_summary(status);
    return cli_flush();
}

static void inspected(redlock_client *client, const redlock_inspection *found, void *arg)
{
    struct status *status = arg;
    const struct timeval pause = {WATCH_EVERY_MS / 1000, WATCH_EVERY_MS % 1000 * 1000};
    if (status->done)
        return;
    inspection_take(client, found, &status->inspection);
    status->failed = !show(status);
    if (status->failed)
        cli_complain("stdout: %s", strerror(errno));
    status->done = status->failed || !status->watch;
    if (!status->done)
        event_add(status->timer, &pause);
}

static void inspect(evutil_socket_t fd, short what, void *arg)
{
    struct status *status = arg;
    (void)fd;
    (void)what;
    redlock_code code = redlock_inspect(status->cli->client, status->key,
                                        strlen(status->key), inspected, status);
    if (code != REDLOCK_OK)
        cli_fail_start(code, status->key);
}

static void interrupted(void *arg)
{
    struct status *status = arg;
    status->done = true;
}

/* Prints one line on stderr if no quorum was reached, because stdout then has no result. */
static void report_failure(const struct status *status)
{
    const struct inspection *inspection = &status->inspection;
    if (exit_of(inspection_state(inspection)) < CLI_USAGE)
        return;
    char *faults = cli_faults(inspection->nodes, inspection->found.count);
    cli_say(status->cli, "%s: %s", status->key, faults);
    free(faults);
}

int cli_status(struct cli *cli, int argc, char **argv)
{
    static struct status status;
    const struct cli_option own[] = {
        {"watch", 0, CLI_FLAG, &status.watch},
        {NULL, 0, CLI_FLAG, NULL},
    };
    status.cli = cli;
    status.key = argv[cli_parse(cli, argc, argv, own)];
    status.redraw = status.watch && !cli->json && isatty(STDOUT_FILENO);

    struct cli_signals signals;
    cli_connect(cli);
    status.timer = cli_need_memory(evtimer_new(cli->base, inspect, &status));
    cli_signals_begin(&signals, cli->base, interrupted, &status);
    inspect(-1, 0, &status);
    cli_wait(cli->base, &status.done);

    int exit_code = CLI_SIGNALLED + signals.number;
    if (status.failed) {
        exit_code = CLI_FAILED;
    } else if (signals.number == 0) {
        cli_say_nodes(cli, status.inspection.nodes, status.inspection.found.count);
        report_failure(&status);
        exit_code = exit_of(inspection_state(&status.inspection));
    }
    event_free(status.timer);
    cli_signals_end(&signals);
    cli_disconnect(cli);
    return exit_code;
}
