/* redlock run: what it tells of its nodes while it holds the lock, and when that is lost.
 */
#include "run.h"

#include <stdlib.h>
#include <string.h>

void run_tell_nodes(struct run *run)
{
    redlock_node nodes[REDLOCK_NODES_MAX];
    size_t count = redlock_explain(run->lease, nodes, REDLOCK_NODES_MAX);
    cli_say_nodes(run->cli, nodes, count);
    json_decref(run->nodes);
    run->nodes = run->cli->json ? cli_nodes_json(nodes, count) : NULL;
}

/* Which nodes failed in the last extension; `otherwise` if none did. */
static char *faults_or(const struct run *run, const char *otherwise)
{
    redlock_node nodes[REDLOCK_NODES_MAX];
    size_t count = redlock_explain(run->lease, nodes, REDLOCK_NODES_MAX);
    return cli_count_faults(nodes, count) > 0 ? cli_faults(nodes, count)
                                              : cli_need_memory(strdup(otherwise));
}

char *run_why_lost(const struct run *run, redlock_code code)
{
    const char *text = redlock_code_text(code);
    return code == REDLOCK_EXPIRED ? faults_or(run, text) : cli_need_memory(strdup(text));
}

static void say_not_extended(struct run *run)
{
    char *why = faults_or(run, "too few nodes granted it"), span[CLI_SPAN];
    cli_say(run->cli,
            "%s: an extension failed, the lock ends in %s unless the next one succeeds: %s",
            run->key, cli_span(span, redlock_valid_ms(run->lease)), why);
    free(why);
}

void run_note_event(const redlock_event *event, void *arg)
{
    struct run *run = arg;
    if (run->lost || (run->stage != RUNNING && run->stage != ENDING))
        return;
    if (strcmp(event->name, "renewal_failed") == 0)
        say_not_extended(run);
    else if (strcmp(event->name, "renewal_recovered") == 0)
        cli_say(run->cli, "%s: the lock is extended again", run->key);
}
