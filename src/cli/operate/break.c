#include "inspection.h"

#include <stdlib.h>
#include <string.h>

const struct cli_help cli_break_help = {
    "Usage: redlock break --yes KEY\n"
    "Remove the lock KEY from every node that can be reached, even if a client holds it,\n"
    "and print the holder. A holder that still runs learns of it only at its next\n"
    "extension, up to a third of its TTL later: stop it first, or wait that long.\n\n"
    "      --yes                 confirm; required\n\n"
    "Example:\n"
    "  redlock status backup; redlock break --yes backup\n",
    "\n"
    "Exit codes: 0 a quorum replied, and the lock is removed; 69 no quorum reachable:\n"
    "the lock may still be held.\n",
};

static int break_exit_of(enum inspection_state state)
{
    if (state == INSPECTION_DENIED)
        return CLI_DENIED;
    return state == INSPECTION_NO_QUORUM ? CLI_NO_QUORUM : CLI_OK;
}

/*
 * By when the holder knows. What was left is at most its TTL, and it extends at a third of
 * that: so its next extension comes within a third of what was left. A holder that does
 * not extend stops at its deadline, within the rest.
 */
static void print_notice(const struct inspection *inspection)
{
    char third[CLI_SPAN], rest[CLI_SPAN];
    int64_t left_us = 0;
    for (size_t i = 0; i < inspection->found.count; i++)
        if (inspection->nodes[i].remaining_us > left_us)
            left_us = inspection->nodes[i].remaining_us;
    if (left_us > 0)
        cli_print(
            "a holder that still runs acts until its next extension, up to %s, or if "
            "it does not extend, up to %s: stop it, or start nothing before that\n",
            cli_span(third, left_us / 3000), cli_span(rest, left_us / 1000));
    else
        cli_print(
            "a holder that still runs acts until its next extension: stop it first\n");
}

/* Prints the result. The caller also prints a failure on stderr. */
static bool break_print(const struct cli *cli, const char *key,
                        const struct inspection *inspection)
{
    const redlock_inspection *found = &inspection->found;
    const redlock_node *holder = cli_holder(inspection->nodes, found->count);
    if (cli->json) {
        json_t *object = inspection_json(inspection, key);
        json_object_del(object,
                        "state"); /* the state before the removal; `held` has the count */
        json_object_set_new(object, "cause", cli_cause(found->code));
        return cli_print_json(cli, object);
    }
    if (cli->quiet)
        return true;
    char *name = cli_printable(key);
    inspection_print_nodes(cli, inspection, "removed");
    if (found->held > 0)
        cli_print("%s: removed from %u of %zu nodes; %s was on %u of them\n", name,
                  found->held, found->count, holder ? holder->holder : "another",
                  found->agreeing);
    else
        cli_print("%s: nothing to remove\n", name);
    if (found->held > 0)
        print_notice(inspection);
    free(name);
    return cli_flush();
}

int cli_break(struct cli *cli, int argc, char **argv)
{
    static struct inspection inspection;
    bool yes = false;
    const struct cli_option own[] = {
        {"yes", 0, CLI_FLAG, &yes},
        {NULL, 0, CLI_FLAG, NULL},
    };
    const char *key = argv[cli_parse(cli, argc, argv, own)];
    if (!yes)
        cli_fail(CLI_USAGE,
                 "break: removes the lock even if a client holds it: confirm with --yes");

    cli_connect(cli);
    redlock_code code =
        redlock_break(cli->client, key, strlen(key), inspection_take, &inspection);
    cli_need_start(code, key);
    cli_wait(cli->base, &inspection.done);
    int exit_code = break_exit_of(inspection_state(&inspection));
    cli_say_nodes(cli, inspection.nodes, inspection.found.count);
    if (exit_code != CLI_OK)
        cli_say_faults(cli, key, " may still be held", inspection.nodes,
                       inspection.found.count);
    exit_code = cli_exit_printed(break_print(cli, key, &inspection), exit_code);
    cli_disconnect(cli);
    return exit_code;
}
