#include "inspection.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WATCH_EVERY_MS 1000

const struct cli_help cli_status_help = {
    "Usage: redlock status [OPTION]... KEY\n"
    "Show who holds the lock KEY: for each node, and in total. Change nothing.\n\n"
    "      --slots N             the slots of the semaphore KEY: held if all of them are\n"
    "      --and KEY2            the keys of a lock of several keys: held if one is\n"
    "      --watch               repeat once a second: redraw, or print a line per "
    "change\n\n"
    "Example:\n"
    "  redlock status --json backup | jq -r .holder\n",
    "\n"
    "The time after a node is the remaining time of its key; \"for another\" is the\n"
    "time until enough keys have expired that a quorum is free.\n\n"
    "Exit codes: 0 held; 1 free; 2 split: no majority stores the same value, and no\n"
    "majority is free.\n",
};

/* One key: KEY, one of a set, or a slot of a semaphore. */
struct part {
    struct inspection inspection;
    struct status *status;
    const char *key;
    char seen[REDLOCK_TOKEN_MAX + 16]; /* the state and value that were printed last */
};

struct status {
    const struct cli *cli;
    const char *name; /* of all keys */
    struct cli_timer timer;
    struct part *part;
    size_t parts, waiting;
    size_t slots_held; /* below a key that is free itself */
    bool watch, redraw, done;
    int failed; /* the exit code if stdout could not be written; or 0 */
};

static int status_exit_of(enum inspection_state state)
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

/*
 * All parts count. A set is held if one of its keys is, a semaphore is free if one slot is:
 * then it does not matter that another part is unknown. Otherwise it does. So an acquire is
 * refused if this is HELD.
 */
static enum inspection_state status_state_of(const struct status *status)
{
    bool is_semaphore = status->cli->lease.slots > 0;
    enum inspection_state decides = is_semaphore ? INSPECTION_FREE : INSPECTION_HELD;
    enum inspection_state state = inspection_state(&status->part[0].inspection);
    for (size_t i = 1; i < status->parts && state != decides; i++) {
        enum inspection_state other = inspection_state(&status->part[i].inspection);
        if (other == decides || other > state)
            state = other;
    }
    return state;
}

/* ": LABEL, LABEL" */
static void print_readers(const struct inspection *inspection)
{
    for (size_t i = 0; i < inspection->readers; i++) {
        char *label = cli_printable(inspection_label(inspection->reader[i]));
        cli_print("%s%s", i == 0 ? ": " : ", ", label);
        free(label);
    }
    cli_print("\n");
}

/* One key was asked for, not the slots of a semaphore. */
static bool is_one_key(const struct status *status)
{
    return status->parts == 1 && status->cli->lease.slots == 0;
}

/* A semaphore stores nothing below its own key. */
static void print_free(const struct part *part, const char *key)
{
    const redlock_inspection *found = &part->inspection.found;
    size_t slots = part->status->slots_held;
    cli_print("%s: free on %u of %zu nodes", key, found->free, found->count);
    if (is_one_key(part->status) && slots > 0)
        cli_print("; but it is a semaphore with %zu slot%s held: redlock status --slots N",
                  slots, slots == 1 ? "" : "s");
    cli_print("\n");
}

/* "KEY: held by LABEL on 3 of 5 nodes, for another 12.3 s" */
static void print_summary(const struct part *part)
{
    const redlock_inspection *found = &part->inspection.found;
    const redlock_node *holder = cli_holder(part->inspection.nodes, found->count);
    char span[CLI_SPAN], *key = cli_printable(part->key);
    unsigned reached = found->held + found->free;
    switch (inspection_state(&part->inspection)) {
    case INSPECTION_HELD:
        if (found->readers > 0) {
            cli_print("%s: read by %u on %u of %zu nodes, for another %s", key,
                      found->readers, found->agreeing, found->count,
                      cli_span(span, found->remaining_ms));
            print_readers(&part->inspection);
            break;
        }
        cli_print("%s: held by %s on %u of %zu nodes, for another %s", key,
                  holder ? holder->holder : "another", found->agreeing, found->count,
                  cli_span(span, found->remaining_ms));
        if (found->depth > 1)
            cli_print(", entered %u times", found->depth);
        cli_print("\n");
        break;
    case INSPECTION_FREE: print_free(part, key); break;
    case INSPECTION_SPLIT:
        cli_print(
            "%s: split: free on %u of %zu nodes, held on %u, of which %u agree; %u are "
            "needed\n",
            key, found->free, found->count, found->held, found->agreeing, found->quorum);
        break;
    default:
        cli_print("%s: unknown: %u of %zu nodes answered, %u are needed\n", key, reached,
                  found->count, found->quorum);
    }
    free(key);
}

static unsigned count_held(const struct status *status)
{
    unsigned held = 0;
    for (size_t i = 0; i < status->parts; i++)
        held += inspection_state(&status->part[i].inspection) == INSPECTION_HELD;
    return held;
}

static unsigned count_unknown(const struct status *status)
{
    unsigned unknown = 0;
    for (size_t i = 0; i < status->parts; i++)
        unknown += inspection_state(&status->part[i].inspection) >= INSPECTION_NO_QUORUM;
    return unknown;
}

/* All keys have the same holder's token: they are one lock. */
static bool is_one_lock(const struct status *status)
{
    const redlock_node *first = NULL;
    for (size_t i = 0; i < status->parts; i++) {
        const struct inspection *inspection = &status->part[i].inspection;
        const redlock_node *holder = cli_holder(inspection->nodes, inspection->found.count);
        if (inspection_state(inspection) != INSPECTION_HELD || !holder ||
            !holder->value[0] || (first && strcmp(first->value, holder->value) != 0))
            return false;
        first = first ? first : holder;
    }
    return true;
}

/* "KEY: 2 of 3 slots are held, 1 is unknown", or "KEY, KEY2: held as one lock" */
static void print_total(const struct status *status)
{
    char *name = cli_printable(status->name);
    enum inspection_state state = status_state_of(status);
    unsigned held = count_held(status), unknown = count_unknown(status);
    if (state >= INSPECTION_NO_QUORUM)
        cli_print("%s: unknown", name);
    else if (is_one_lock(status) && status->cli->lease.slots == 0)
        cli_print("%s: held as one lock", name);
    else
        cli_print("%s: %u of %zu %s are held", name, held, status->parts,
                  status->cli->lease.slots > 0 ? "slots" : "keys");
    if (state < INSPECTION_NO_QUORUM && unknown > 0)
        cli_print(", %u %s unknown", unknown, unknown == 1 ? "is" : "are");
    cli_print("\n");
    free(name);
}

static json_t *to_json(const struct status *status)
{
    const struct cli *cli = status->cli;
    if (is_one_key(status)) {
        json_t *one = inspection_json(&status->part[0].inspection, status->name);
        json_object_set_new(one, "slots_held",
                            json_integer((json_int_t)status->slots_held));
        return one;
    }
    json_t *object = cli_keys_json(&cli->keys), *each = json_array();
    unsigned unknown = count_unknown(status);
    for (size_t i = 0; i < status->parts; i++)
        json_array_append_new(
            each, inspection_json(&status->part[i].inspection, status->part[i].key));
    if (cli->lease.slots > 0)
        json_object_set_new(object, "slots", json_integer(cli->lease.slots));
    else
        json_object_set_new(object, "one_lock",
                            unknown ? json_null() : json_boolean(is_one_lock(status)));
    json_object_set_new(object, "state",
                        json_string(inspection_name(status_state_of(status))));
    json_object_set_new(object, "held", json_integer(count_held(status)));
    json_object_set_new(object, "unknown", json_integer(unknown));
    json_object_set_new(object, "each", each);
    return object;
}

static bool status_print_json(const struct status *status)
{
    json_t *object = to_json(status);
    json_object_set_new(object, "unix_ms",
                        json_integer(cli_clock_us(CLOCK_REALTIME) / 1000));
    return cli_print_json(status->cli, object);
}

/* The state or the holder differs from what was printed last. */
static bool has_changed(struct part *part)
{
    char now[sizeof(part->seen)];
    const redlock_node *holder =
        cli_holder(part->inspection.nodes, part->inspection.found.count);
    const char *value = !holder ? "" : holder->value[0] ? holder->value : holder->holder;
    snprintf(now, sizeof(now), "%d %s", (int)inspection_state(&part->inspection), value);
    bool changed = strcmp(now, part->seen) != 0;
    memcpy(part->seen, now, sizeof(now));
    return changed;
}

/* For a log: a line for each key that has changed, or JSON if one has. */
static void show_changes(struct status *status)
{
    bool any = false;
    for (size_t i = 0; i < status->parts; i++) {
        bool changed = has_changed(&status->part[i]);
        any |= changed;
        if (!changed || status->cli->json || status->cli->quiet)
            continue;
        cli_print_time();
        print_summary(&status->part[i]);
    }
    if (any && status->cli->json)
        status_print_json(status);
}

static bool status_show(struct status *status)
{
    bool is_one = status->parts == 1;
    if (status->watch && !status->redraw) {
        show_changes(status);
        return cli_flush();
    }
    if (status->cli->json)
        return status_print_json(status);
    if (status->cli->quiet)
        return true;
    if (status->redraw) /* overwrites the previous output */
        cli_print("\033[H\033[J");
    if (is_one)
        inspection_print_nodes(status->cli, &status->part[0].inspection, "held");
    for (size_t i = 0; i < status->parts; i++)
        print_summary(&status->part[i]);
    if (!is_one)
        print_total(status);
    return cli_flush();
}

static void show_all(struct status *status)
{
    status->failed = cli_exit_streamed(status_show(status));
    status->done = status->failed || !status->watch;
    if (!status->done)
        cli_timer_set(&status->timer, WATCH_EVERY_MS);
}

static void slot_inspected(redlock_client *client, const redlock_inspection *found,
                           void *arg)
{
    static struct inspection slot;
    struct status *status = arg;
    if (status->done)
        return;
    inspection_take(client, found, &slot);
    status->slots_held += inspection_state(&slot) == INSPECTION_HELD;
    if (--status->waiting == 0)
        show_all(status);
}

/* How many slots a semaphore has, only its users know: KEY!1 to KEY!128 are looked at. */
static void inspect_slots(struct status *status)
{
    for (unsigned i = 1; i <= REDLOCK_SLOTS_MAX; i++) {
        char *key = cli_format("%s!%u", status->part[0].key, i);
        status->waiting += redlock_inspect(status->cli->client, key, strlen(key),
                                           slot_inspected, status) == REDLOCK_OK;
        free(key);
    }
    if (status->waiting == 0) /* the key is too long for one with slots */
        show_all(status);
}

static void inspected(redlock_client *client, const redlock_inspection *found, void *arg)
{
    struct part *part = arg;
    struct status *status = part->status;
    if (status->done)
        return;
    inspection_take(client, found, &part->inspection);
    if (--status->waiting > 0)
        return;
    if (is_one_key(status) && inspection_state(&part->inspection) == INSPECTION_FREE)
        inspect_slots(status);
    else
        show_all(status);
}

static void inspect(void *arg)
{
    struct status *status = arg;
    status->waiting = status->parts;
    status->slots_held = 0;
    for (size_t i = 0; i < status->parts; i++) {
        const char *key = status->part[i].key;
        redlock_code code = redlock_inspect(status->cli->client, key, strlen(key),
                                            inspected, &status->part[i]);
        cli_need_start(code, key);
    }
}

/* Prints one line on stderr if no quorum was reached, because stdout then has no result. */
static void report_failure(const struct status *status)
{
    const struct part *part = status->part;
    if (status_exit_of(status_state_of(status)) < CLI_USAGE)
        return;
    while (inspection_state(&part->inspection) < INSPECTION_NO_QUORUM)
        part++;
    cli_say_faults(status->cli, part->key, "", part->inspection.nodes,
                   part->inspection.found.count);
}

/* The key of a part: KEY, one of --and, or "KEY!3". */
static const char *key_of(const struct cli *cli, size_t number)
{
    const char *key = cli->keys.of[0].bytes;
    return cli->lease.slots == 0 ? cli->keys.of[number].bytes
                                 : cli_format("%s!%zu", key, number + 1);
}

static void make_parts(struct status *status)
{
    const struct cli *cli = status->cli;
    status->parts = cli->lease.slots > 0 ? cli->lease.slots : cli_keys_count(&cli->keys);
    status->part = cli_need_memory(calloc(status->parts, sizeof(*status->part)));
    for (size_t i = 0; i < status->parts; i++) {
        status->part[i].status = status;
        status->part[i].key = key_of(cli, i);
    }
}

int cli_status(struct cli *cli, int argc, char **argv)
{
    static struct status status;
    const struct cli_option own[] = {
        {"watch", 0, CLI_FLAG, &status.watch},
        {CLI_SLOTS_OPTION(cli)},
        {CLI_KEYS_OPTION(cli)},
        {NULL, 0, CLI_FLAG, NULL},
    };
    status.cli = cli;
    status.name = cli_keys_begin(&cli->keys, argv[cli_parse(cli, argc, argv, own)]);
    make_parts(&status);
    status.redraw = status.watch && !cli->json && isatty(STDOUT_FILENO);

    struct cli_signals signals;
    cli_connect(cli);
    cli_timer_begin(&status.timer, cli->base, 0, inspect, &status);
    cli_signals_begin(&signals, cli->base, cli_set, &status.done);
    inspect(&status);
    cli_wait(cli->base, &status.done);

    int exit_code = CLI_SIGNALLED + signals.number;
    if (status.failed) {
        exit_code = status.failed;
    } else if (signals.number == 0) {
        const struct inspection *first = &status.part[0].inspection;
        cli_say_nodes(cli, first->nodes, first->found.count);
        report_failure(&status);
        exit_code = status_exit_of(status_state_of(&status));
    }
    cli_timer_end(&status.timer);
    cli_signals_end(&signals);
    cli_disconnect(cli);
    return exit_code;
}
