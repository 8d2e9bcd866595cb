/* How nodes stand as members of a deployment of fenced locks, and what would help. */
#include "cli.h"

#include <string.h>

static bool votes(const redlock_node *node)
{
    return strcmp(node->verdict, "sound") == 0;
}

const char *cli_standing(const redlock_node *node, char buffer[CLI_STANDING])
{
    char span[CLI_SPAN];
    if (votes(node))
        return "votes";
    if (node->remaining_ms < 0)
        return node->text;
    snprintf(buffer, CLI_STANDING, "another %s", cli_span(span, node->remaining_ms));
    return buffer;
}

void cli_write_standing(const redlock_node *nodes, size_t count, FILE *stream)
{
    char buffer[CLI_STANDING];
    size_t voting = 0;
    for (size_t i = 0; i < count; i++)
        voting += votes(&nodes[i]);
    fprintf(stream, "%zu of %zu nodes vote", voting, count);
    for (size_t i = 0; i < count; i++)
        if (!votes(&nodes[i]))
            fprintf(stream, "; %s: %s", nodes[i].uri, cli_standing(&nodes[i], buffer));
}

static size_t count_faults(const redlock_node *nodes, size_t count, const char *fault)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += strcmp(nodes[i].fault, fault) == 0;
    return found;
}

static const char *advice(const redlock_node *nodes, size_t count, unsigned quorum)
{
    size_t unmarked = count_faults(nodes, count, "UNMARKED");
    size_t alone = count_faults(nodes, count, "ALONE");
    size_t elsewhere = count_faults(nodes, count, "ELSEWHERE");
    size_t foreign = count_faults(nodes, count, "FOREIGN");
    size_t barred = count_faults(nodes, count, "BARRED");
    size_t spare = count - quorum; /* so many may be without a vote */
    if (unmarked > spare && alone + elsewhere == 0)
        return "no node votes on fenced locks before all are admitted, once for all "
               "clients, by redlock admit --new";
    if (unmarked > spare && alone > 0)
        return "most nodes have lost their marker: they are seated anew by redlock admit "
               "--wait, if they are the right ones";
    if (elsewhere + alone > spare)
        return "all clients of a deployment name the same nodes: compare the list with "
               "that of the others";
    if (unmarked + foreign > 0 && unmarked + foreign + barred > spare)
        return "nodes that restarted or lost their marker are seated anew by redlock admit "
               "--wait";
    return NULL;
}

bool cli_wants_admission(const redlock_node *nodes, size_t count, unsigned quorum)
{
    return count > 0 && advice(nodes, count, quorum);
}

void cli_say_admission(const struct cli *cli, const redlock_node *nodes, size_t count,
                       unsigned quorum)
{
    if (cli_wants_admission(nodes, count, quorum))
        cli_say(cli, "%s", advice(nodes, count, quorum));
}
