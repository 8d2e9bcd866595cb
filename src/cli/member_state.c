/*
 * The state of nodes as members of a deployment of fenced locks, and what to do about nodes
 * that refuse a vote or a right.
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

/* Their quarantine does not end at this client as long as it knows no more. */
static size_t count_unwatched(const redlock_node *nodes, size_t count)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found +=
            nodes[i].fault == REDLOCK_FAULT_MEMBER_QUARANTINE && nodes[i].remaining_us < 0;
    return found;
}

const char *cli_advice(const redlock_node *nodes, size_t count, unsigned quorum)
{
    size_t unmarked = count_faults(nodes, count, REDLOCK_FAULT_UNMARKED);
    size_t lost = count_faults(nodes, count, REDLOCK_FAULT_MARKER_LOST);
    size_t replaced = count_faults(nodes, count, REDLOCK_FAULT_REPLACED);
    size_t no_majority = count_faults(nodes, count, REDLOCK_FAULT_NO_MAJORITY);
    size_t other_deployment = count_faults(nodes, count, REDLOCK_FAULT_OTHER_DEPLOYMENT);
    size_t other_process = count_faults(nodes, count, REDLOCK_FAULT_OTHER_PROCESS) +
                           count_faults(nodes, count, REDLOCK_FAULT_OTHER_HISTORY);
    size_t quarantined = count_faults(nodes, count, REDLOCK_FAULT_MEMBER_QUARANTINE);
    if (count < quorum)
        return "";                 /* nothing is known of the nodes */
    size_t spare = count - quorum; /* this many nodes may be without a vote */
    if (count_faults(nodes, count, REDLOCK_FAULT_NOPERM) > spare)
        return "; compare --prefix and the user's rights with redlock check --acl";
    if (unmarked == count)
        return "; run redlock admit --new, once for all clients";
    if (unmarked > spare)
        return "; correct the faults of the other nodes first: they may have markers";
    if (replaced > 0 && replaced + lost + other_process + quarantined > spare)
        return "; put the servers that replaced these into the list of nodes; if none did, "
               "delete the key !marker of these and run redlock admit --readmit";
    if (lost > spare && no_majority > 0)
        return "; if these are the right servers, readmit them by redlock admit --readmit";
    if (other_deployment + no_majority > spare)
        return "; compare the list of nodes with that of the other clients";
    if (lost + other_process + count_unwatched(nodes, count) > spare)
        return "; without the promise sole an operator has to readmit these nodes by "
               "redlock "
               "admit --readmit";
    return "";
}
