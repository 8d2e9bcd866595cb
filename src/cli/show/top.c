/* redlock top: all locks, live. */
#include "screen.h"
#include "table.h"

#include <stdlib.h>
#include <unistd.h>

#define EVERY_MS     2000
#define EVERY_MIN_MS 100

#define BESIDE_KEY 39 /* columns: the holder and the age */
#define KEY_LEAST  8  /* columns */

const struct cli_help cli_top_help = {
    "Usage: redlock top [OPTION]... [PREFIX]\n"
    "Show all locks whose keys begin with PREFIX, again and again, until q, INT or "
    "TERM.\n\n"
    "      --sort BY             waiters (default): those that most wait for first; age;\n"
    "                            left: those whose time is over soonest first; key\n"
    "      --every D             the pause between two looks; default 2s, at least 100ms\n"
    "      --foreign             also keys without a token of redlock, as with a PREFIX\n\n"
    "Example:\n"
    "  redlock top --sort left nightly\n",
    "\n"
    "The columns are those of redlock list, and so are the rights that it needs.\n"
    "--sort age: a value whose age is unknown is as old as this command has seen it.\n\n"
    "Exit codes: 0 ended by q; 69 too few nodes could be scanned.\n",
};

struct top {
    struct cli *cli;
    const char *prefix, *sort;
    int64_t every_ms;
    unsigned how;
    int (*compare)(const void *, const void *);
    struct table shown, next; /* `shown` is sorted by `compare`; `next` is being read */
    redlock_code code;
    struct cli_timer timer;
    struct screen screen;
    bool redraws, quits, done;
    int failed; /* the exit code if stdout could not be written; or 0 */
};

/* --- the order --- */

static int by_number(int64_t one, int64_t other, const void *a, const void *b)
{
    return one < other ? -1 : one > other ? 1 : row_compare(a, b);
}

static int by_waiters(const void *a, const void *b)
{
    const struct row *one = a, *other = b;
    return by_number(other->waiting, one->waiting, a, b);
}

static int by_age(const void *a, const void *b)
{
    const struct row *one = a, *other = b;
    return by_number(one->since_us, other->since_us, a, b);
}

static int by_left(const void *a, const void *b)
{
    const struct row *one = a, *other = b;
    return by_number(one->remaining_ms, other->remaining_ms, a, b);
}

static const struct {
    const char *name;
    int (*compare)(const void *, const void *);
} orders[] = {
    {"waiters", by_waiters}, {"age", by_age}, {"left", by_left}, {"key", row_compare}};

static void choose_order(struct top *top)
{
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++)
        if (strcmp(top->sort, orders[i].name) == 0)
            top->compare = orders[i].compare;
    if (!top->compare)
        cli_fail(CLI_USAGE, "top: --sort is waiters, age, left or key");
}

/* --- showing --- */

static void write_title(const struct top *top, FILE *to)
{
    redlock_node nodes[REDLOCK_NODES_MAX];
    size_t count = redlock_client_explain(top->cli->client, nodes, REDLOCK_NODES_MAX);
    unsigned waited = 0, unknown = 0;
    for (size_t i = 0; i < top->shown.count; i++) {
        waited += top->shown.row[i].waiting > 0;
        unknown += top->shown.row[i].state == ROW_UNKNOWN;
    }
    fprintf(to, "redlock top%s%s: %zu locks, %u of them waited for",
            *top->prefix ? " " : "", top->prefix, top->shown.count, waited);
    if (unknown > 0)
        fprintf(to, ", %u unknown", unknown);
    fprintf(to, "; %zu of %zu nodes reply\n\n", count - cli_count_faults(nodes, count),
            count);
}

/* On a terminal the keys are cut, so that the holders and ages are seen. */
static size_t key_most_of(const struct top *top)
{
    size_t columns = top->redraws ? screen_columns() : SIZE_MAX;
    return columns > BESIDE_KEY + KEY_LEAST ? columns - BESIDE_KEY : KEY_LEAST;
}

static char *write_table(const struct top *top)
{
    size_t key_most = key_most_of(top);
    struct cli_text text;
    FILE *to = cli_text_begin(&text);
    write_title(top, to);
    row_print_head(to, key_most);
    for (size_t i = 0; i < top->shown.count; i++)
        row_print(&top->shown.row[i], key_most, false, to);
    return cli_text_end(&text);
}

static bool top_print_json(const struct top *top)
{
    bool printed = true;
    for (size_t i = 0; printed && i < top->shown.count; i++) {
        const struct row *row = &top->shown.row[i];
        json_t *object = row_json(row);
        int64_t age_us = cli_clock_us(CLOCK_BOOTTIME) - row->since_us;
        json_object_set_new(object, "age_ms", json_integer(age_us / 1000));
        printed = cli_write_json(top->cli, object, cli_stdout());
    }
    return printed && cli_flush();
}

static void show(void *arg)
{
    struct top *top = arg;
    if (top->failed)
        return;
    if (top->cli->json) {
        top->failed = cli_exit_streamed(top_print_json(top));
    } else {
        char *text = write_table(top);
        top->failed =
            cli_exit_streamed(top->redraws ? screen_show(text) : cli_print_text(text));
        free(text);
    }
    top->done |= top->failed != 0;
}

/* --- looking --- */

static void sort(const struct table *table, int (*compare)(const void *, const void *))
{
    if (table->count > 0)
        qsort(table->row, table->count, sizeof(*table->row), compare);
}

static void found(redlock_client *client, const redlock_listed *listed, void *arg)
{
    struct top *top = arg;
    struct row row;
    (void)client;
    if (listed->inspection) {
        row_take(&row, listed);
        table_add(&top->next, &row);
        return;
    }
    top->code = listed->code;
    top->done |= top->code != REDLOCK_OK;
    if (top->done)
        return;
    struct table old = top->shown;
    sort(&old, row_compare);
    table_join(&top->next);
    table_keep_ages(&top->next, &old);
    table_empty(&old);
    top->shown = top->next;
    top->next = old;
    sort(&top->shown, top->compare);
    show(top);
    cli_timer_set(&top->timer, top->every_ms);
}

static void top_look(void *arg)
{
    struct top *top = arg;
    redlock_code code = redlock_list(top->cli->client, top->prefix, strlen(top->prefix),
                                     top->how, found, top);
    top->code = code;
    top->done = code != REDLOCK_OK;
}

static void quit(void *arg)
{
    struct top *top = arg;
    top->quits = top->done = true;
}

static int top_exit_of(const struct top *top, int signal)
{
    if (top->quits)
        return CLI_OK;
    if (top->failed)
        return top->failed;
    if (signal != 0)
        return CLI_SIGNALLED + signal;
    if (top->code != REDLOCK_DENIED && top->code != REDLOCK_NO_QUORUM)
        cli_need_start(top->code, top->prefix);
    return row_complain(top->cli, top->code, 0);
}

int cli_top(struct cli *cli, int argc, char **argv)
{
    struct top top = {.cli = cli, .sort = "waiters", .every_ms = EVERY_MS};
    struct cli_signals signals;
    bool foreign = false;
    const struct cli_option own[] = {
        {"sort", 0, CLI_TEXT, &top.sort},
        {"every", 0, CLI_DURATION, &top.every_ms},
        {"foreign", 0, CLI_FLAG, &foreign},
        {NULL, 0, CLI_FLAG, NULL},
    };
    int first = cli_parse(cli, argc, argv, own);
    top.prefix = first < argc ? argv[first] : "";
    top.how = foreign || *top.prefix ? REDLOCK_LIST_FOREIGN : 0;
    choose_order(&top);
    if (top.every_ms < EVERY_MIN_MS)
        cli_fail(CLI_USAGE, "top: --every is at least %dms", EVERY_MIN_MS);
    cli_step_back();
    cli_connect(cli);
    cli_timer_begin(&top.timer, cli->base, 0, top_look, &top);
    cli_signals_begin(&signals, cli->base, cli_set, &top.done);
    top.redraws = !cli->json && isatty(STDOUT_FILENO);
    if (top.redraws)
        screen_begin(&top.screen, cli->base, show, quit, &top);
    top_look(&top);
    cli_wait(cli->base, &top.done);
    if (top.redraws)
        screen_end(&top.screen);
    int exit_code = top_exit_of(&top, signals.number);
    cli_signals_end(&signals);
    cli_timer_end(&top.timer);
    cli_disconnect(cli);
    table_free(&top.shown);
    table_free(&top.next);
    return exit_code;
}
