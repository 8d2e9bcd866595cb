/*
 * The state of nodes as members of a deployment of fenced locks, and what to do about it.
 */
#include "cli.h"

static bool votes(const redlock_node *node)
{
    return node->verdict == REDLOCK_VERDICT_ACTIVE;
}

const char *cli_member_state(const redlock_node *node, char buffer[CLI_MEMBER_STATE])
{
    char span[CLI_SPAN];
    if (votes(node))
        return "votes";
    if (node->remaining_us < 0)
        return node->text;
    snprintf(buffer, CLI_MEMBER_STATE, "another %s",
             cli_span(span, node->remaining_us / 1000));
    return buffer;
}

void cli_write_member_states(const redlock_node *nodes, size_t count, FILE *stream)
{
    char buffer[CLI_MEMBER_STATE];
    size_t voting = 0;
    for (size_t i = 0; i < count; i++)
        voting += votes(&nodes[i]);
    fprintf(stream, "%zu of %zu nodes vote", voting, count);
    for (size_t i = 0; i < count; i++)
        if (!votes(&nodes[i]))
            fprintf(stream, "; %s: %s", nodes[i].uri, cli_member_state(&nodes[i], buffer));
}

static size_t count_faults(const redlock_node *nodes, size_t count, redlock_fault fault)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += nodes[i].fault == fault;
    return found;
}

static const char *advice(const redlock_node *nodes, size_t count, unsigned quorum)
{
    size_t unmarked = count_faults(nodes, count, REDLOCK_FAULT_UNMARKED) +
                      count_faults(nodes, count, REDLOCK_FAULT_MARKER_LOST);
    size_t no_majority = count_faults(nodes, count, REDLOCK_FAULT_NO_MAJORITY);
    size_t other_deployment = count_faults(nodes, count, REDLOCK_FAULT_OTHER_DEPLOYMENT);
    size_t other_process = count_faults(nodes, count, REDLOCK_FAULT_OTHER_PROCESS) +
                           count_faults(nodes, count, REDLOCK_FAULT_OTHER_HISTORY);
    size_t quarantined = count_faults(nodes, count, REDLOCK_FAULT_MEMBER_QUARANTINE);
    size_t spare = count - quorum; /* this many nodes may be without a vote */
    if (unmarked > spare && no_majority + other_deployment == 0)
        return "the nodes vote on fenced locks only after they are admitted, once for all "
               "clients: run redlock admit --new";
    if (unmarked > spare && no_majority > 0)
        return "most nodes have lost their marker: if they are the right servers, "
               "readmit them by redlock admit --wait";
    if (other_deployment + no_majority > spare)
        return "all clients of a deployment must name the same nodes: compare the list "
               "with that of the other clients";
    if (unmarked + other_process > 0 && unmarked + other_process + quarantined > spare)
        return "readmit nodes that restarted, failed over or lost their marker by redlock "
               "admit --wait";
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
