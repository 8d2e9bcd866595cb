#include "survey.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char cli_break_help[] =
    "Usage: redlock break --yes KEY\n"
    "Remove the lock KEY from every node that can be reached, whoever holds it, and say "
    "who\n"
    "that was. For operators: a holder that lives is told at its next extension only, and\n"
    "until then believes that it holds the lock.\n"
    "\n"
    "      --yes                 it is meant\n"
    "\n"
    "Example:\n"
    "  redlock status backup; redlock break --yes backup\n"
    "\n"
    "Exit codes: 0 a quorum answered, and what was there is removed; 69 no quorum "
    "reachable:\n"
    "the lock may still be held; 77 refused; 64 usage; 78 configuration; 125 own "
    "failure.\n";

static int exit_of(enum survey_state state)
{
    if (state == SURVEY_DENIED)
        return CLI_DENIED;
    return state == SURVEY_NO_QUORUM ? CLI_NO_QUORUM : CLI_OK;
}

/* The results; a failure is told on stderr as well. */
static bool print(const struct cli *cli, const char *key, const struct survey *survey)
{
    const redlock_survey *found = &survey->found;
    const redlock_node *holder = cli_holder(survey->nodes, found->count);
    if (cli->json) {
        json_t *object = survey_json(survey, key);
        json_object_del(object, "state"); /* it is over; what there was is in `held` */
        json_object_set_new(object, "cause", cli_cause(found->code));
        return cli_print_json(cli, object);
    }
    char *name = cli_printable(key);
    survey_print_nodes(cli, survey, "removed");
    if (found->held > 0)
        printf("%s: removed from %u of %zu nodes; %s was on %u of them\n", name,
               found->held, found->count, holder ? holder->holder : "another",
               found->agreeing);
    else
        printf("%s: nothing to remove\n", name);
    free(name);
    return cli_flush();
}

int cli_break(struct cli *cli, int argc, char **argv)
{
    static struct survey survey;
    bool yes = false;
    const struct cli_option own[] = {
        {"yes", 0, CLI_FLAG, &yes},
        {NULL, 0, CLI_FLAG, NULL},
    };
    const char *key = argv[cli_parse(cli, argc, argv, own)];
    if (!yes)
        cli_fail(CLI_USAGE, "break: removes the lock whoever holds it: say --yes if meant");

    struct event_base *base = cli_new_loop(cli);
    redlock_client *client = cli_connect(cli, base);
    redlock_code code = redlock_break(client, key, strlen(key), survey_take, &survey);
    if (code != REDLOCK_OK)
        cli_fail_start(cli, client, code, key);
    cli_wait(base, &survey.done);
    int exit_code = exit_of(survey_state(&survey));
    cli_say_nodes(cli, survey.nodes, survey.found.count);
    if (!print(cli, key, &survey)) {
        cli_complain("stdout: %s", strerror(errno));
        exit_code = CLI_FAILED;
    } else if (exit_code != CLI_OK) {
        char *faults = cli_faults(survey.nodes, survey.found.count);
        cli_say(cli, "%s may still be held: %s", key, faults);
        free(faults);
    }
    redlock_client_free(client);
    event_base_free(base);
    return exit_code;
}
