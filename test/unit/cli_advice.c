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

Test(cli_advice, only_nodes_without_any_marker_are_admitted_anew)
{
    cr_assert_str_eq(advice(3, 3), "; run redlock admit --new, once for all clients");
    cr_assert_str_eq(advice(3, 2),
                     "; correct the faults of the other nodes first: they may "
                     "have markers");
    cr_assert_str_eq(advice(3, 1), "");
}
