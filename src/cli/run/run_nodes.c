/* redlock run: what it tells of its nodes while it holds the lock, and when that is lost.
 */
#include "run.h"

#include <stdlib.h>
#include <string.h>

#define LATE "not extended in time"

void run_tell_nodes(struct run *run)
{
    redlock_node nodes[REDLOCK_NODES_MAX];
    size_t count = redlock_explain(run->lease, nodes, REDLOCK_NODES_MAX);
    cli_say_nodes(run->cli, nodes, count);
    json_decref(run->nodes);
    run->nodes = run->cli->json ? cli_nodes_json(nodes, count) : NULL;
}

char *run_why_not_extended(const struct run *run, const char *otherwise)
{
    redlock_node nodes[REDLOCK_NODES_MAX];
    size_t count = redlock_explain(run->lease, nodes, REDLOCK_NODES_MAX);
    if (cli_count_faults(nodes, count) == 0)
        return cli_format("%s", otherwise);
    char *faults = cli_faults(nodes, count);
    char *why = cli_format("not extended: %s", faults);
    free(faults);
    return why;
}

char *run_why_lost(const struct run *run, redlock_code code)
{
    redlock_node nodes[REDLOCK_NODES_MAX];
    if (code == REDLOCK_EXPIRED)
        return run_why_not_extended(run, LATE);
    size_t count = redlock_explain(run->lease, nodes, REDLOCK_NODES_MAX);
    const redlock_node *holder = cli_holder(nodes, count);
    if (code != REDLOCK_TAKEN || !holder)
        return cli_format("%s", redlock_code_text(code));
    return cli_format("%s is held by %s", cli_keys_taken(&run->cli->keys, run->key, holder),
                      holder->holder);
}

static void say_not_extended(struct run *run)
{
    char *why = run_why_not_extended(run, LATE), span[CLI_SPAN];
    cli_say(run->cli, "%s: %s; the lock ends in %s unless the next extension succeeds",
            run->key, why, cli_span(span, redlock_valid_ms(run->lease)));
    free(why);
}

void run_note_event(const redlock_event *event, void *arg)
{
    struct run *run = arg;
    if (run->lost || (run->stage != RUNNING && run->stage != ENDING))
        return;
    if (event->type == REDLOCK_EVENT_RENEWAL_FAILED)
        say_not_extended(run);
    else if (event->type == REDLOCK_EVENT_RENEWAL_RECOVERED)
        cli_say(run->cli, "%s: the lock is extended again", run->key);
}
