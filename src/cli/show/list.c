/* redlock list: all locks on these nodes. */
#include "table.h"

#include <stdlib.h>

const struct cli_help cli_list_help = {
    "Usage: redlock list [--foreign] [PREFIX]\n"
    "Print all locks whose keys begin with PREFIX (by default, all), as they are found.\n\n"
    "      --foreign             also keys without a token of redlock, as with a PREFIX\n\n"
    "Example:\n"
    "  redlock list --json | jq -r 'select(.state != \"held\") | .key'\n",
    "\n"
    "NODES is how many store what most of them store. A lock is \"split\" if no quorum\n"
    "stores one token and no quorum is free; \"orphaned\" if nobody holds it and keys\n"
    "are left on some nodes, until they expire; \"unknown\" if too few nodes replied\n"
    "(\"held\": null). AGE is for how long its holder has it, by the holder's clock; FOR\n"
    "is the time until a quorum can be free; WAIT is how many wait, up to 100,\n"
    "and WAITED for how long the first of them has. A key that comes or goes meanwhile\n"
    "may be missed, or be there twice. The user needs two rights besides: +scan "
    "+exists.\n\n"
    "Exit codes: 0 all locks were found; 69 too few nodes were scanned, so locks may\n"
    "be missing, or some are unknown.\n",
};

struct list {
    const struct cli *cli;
    struct table sets; /* rows of locks of several keys */
    redlock_code code;
    size_t unknown; /* keys */
    bool done;
    int failed; /* the exit code if stdout could not be written; or 0 */
};

static void print(struct list *list, const struct row *row)
{
    if (list->failed)
        return;
    bool printed = true;
    if (list->cli->json)
        printed = cli_write_json(list->cli, row_json(row), cli_stdout());
    else
        row_print(row, list->cli->color);
    list->failed = cli_exit_streamed(printed && cli_hand_on());
    list->done |= list->failed != 0;
}

static void found(redlock_client *client, const redlock_listed *listed, void *arg)
{
    struct list *list = arg;
    struct row row;
    (void)client;
    if (!listed->inspection) {
        list->code = listed->code;
        list->done = true;
        return;
    }
    row_take(&row, listed);
    list->unknown += row.state == ROW_UNKNOWN;
    if (row.kind == REDLOCK_KIND_SET) {
        table_add(&list->sets, &row);
        return;
    }
    print(list, &row);
    row_free(&row);
}

static int list_exit_of(struct list *list, int signal)
{
    if (!list->failed)
        list->failed = cli_exit_streamed(cli_flush());
    if (list->failed)
        return list->failed;
    if (signal != 0)
        return CLI_SIGNALLED + signal;
    if (list->code == REDLOCK_OK && list->unknown == 0)
        return CLI_OK;
    char *why = row_why_not_all(list->cli, list->code, list->unknown);
    cli_complain("list: %s", why);
    free(why);
    return list->code == REDLOCK_OK ? CLI_NO_QUORUM
                                    : cli_acquire_exit(list->code, CLI_FAILED);
}

int cli_list(struct cli *cli, int argc, char **argv)
{
    struct list list = {.cli = cli};
    struct cli_signals signals;
    bool foreign = false;
    const struct cli_option own[] = {
        {"foreign", 0, CLI_FLAG, &foreign},
        {NULL, 0, CLI_FLAG, NULL},
    };
    int first = cli_parse(cli, argc, argv, own);
    const char *prefix = first < argc ? argv[first] : "";
    cli_step_back();
    cli_connect(cli);
    redlock_code code =
        redlock_list(cli->client, prefix, strlen(prefix),
                     foreign || *prefix ? REDLOCK_LIST_FOREIGN : 0, found, &list);
    cli_need_start(code, prefix);
    if (!cli->json)
        row_print_head();
    cli_signals_begin(&signals, cli->base, cli_set, &list.done);
    cli_wait(cli->base, &list.done);
    table_join(&list.sets);
    for (size_t i = 0; i < list.sets.count; i++)
        print(&list, &list.sets.row[i]);
    table_free(&list.sets);
    int exit_code = list_exit_of(&list, signals.number);
    cli_signals_end(&signals);
    cli_disconnect(cli);
    return exit_code;
}
