/* What the command advises, by the faults of the nodes. */
#include "cli/cli.h"

#include <criterion/criterion.h>

/* Only cli_member_state() calls it. */
const char *cli_span(char buffer[CLI_SPAN], int64_t ms)
{
    (void)ms;
    return buffer;
}

static const char *advice(size_t count, unsigned unmarked)
{
    redlock_node nodes[3] = {{0}};
    for (unsigned i = 0; i < unmarked; i++)
        nodes[i].fault = REDLOCK_FAULT_UNMARKED;
    return cli_advice(nodes, count, 2);
}

Test(cli_advice, nodes_of_which_nothing_is_known_need_no_admission)
{
    cr_assert_str_eq(advice(0, 0), "");
    cr_assert_str_eq(advice(1, 1), "");
    cr_assert_str_eq(advice(3, 0), "");
}

/* 2 of 3 nodes have this fault, and a quarantine of the first one that ends at this client
   or not. */
static const char *advice_on(redlock_fault fault, int64_t remaining_us)
{
    redlock_node nodes[3] = {{0}};
    for (unsigned i = 0; i < 2; i++) {
        nodes[i].fault = i == 0 ? REDLOCK_FAULT_MEMBER_QUARANTINE : fault;
        nodes[i].remaining_us = REDLOCK_UNKNOWN;
    }
    nodes[0].remaining_us = remaining_us;
    return cli_advice(nodes, 3, 2);
}

Test(cli_advice, a_lost_majority_needs_an_operator_or_a_promise)
{
    const char *readmit =
        "; without the promise sole an operator has to readmit these "
        "nodes by redlock admit --readmit";
    cr_assert_str_eq(advice_on(REDLOCK_FAULT_OTHER_PROCESS, REDLOCK_UNKNOWN), readmit);
    cr_assert_str_eq(advice_on(REDLOCK_FAULT_MARKER_LOST, REDLOCK_UNKNOWN), readmit);
    cr_assert_str_eq(advice_on(REDLOCK_FAULT_MEMBER_QUARANTINE, REDLOCK_UNKNOWN), readmit);
    cr_assert_str_eq(advice_on(REDLOCK_FAULT_NONE, REDLOCK_UNKNOWN), "");
    cr_assert_str_eq(advice_on(REDLOCK_FAULT_OTHER_PROCESS, 1000), "");
}

Test(cli_advice, only_nodes_without_any_marker_are_admitted_anew)
{
    cr_assert_str_eq(advice(3, 3), "; run redlock admit --new, once for all clients");
    cr_assert_str_eq(advice(3, 2),
                     "; correct the faults of the other nodes first: they may "
                     "have markers");
    cr_assert_str_eq(advice(3, 1), "");
}
