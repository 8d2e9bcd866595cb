/* The nodes that failed, in the one line of redlock_last_error(). */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "sync/failed_nodes.h"

#define FAILED(code, nodes) text_of(code, nodes, sizeof(nodes) / sizeof((nodes)[0]))

static const char *text_of(redlock_code code, const redlock_node *nodes, size_t count)
{
    cr_assert_eq(rl_fail_by_nodes(code, REDLOCK_REASON_SILENT, nodes, count), code);
    cr_assert_eq(redlock_last_error()->reason, REDLOCK_REASON_SILENT);
    return redlock_last_error()->text;
}

static redlock_node failed(const char *uri, redlock_fault fault, const char *text)
{
    redlock_node node = {.uri = uri, .fault = fault, .remaining_us = REDLOCK_UNKNOWN};
    snprintf(node.text, sizeof(node.text), "%s", text);
    return node;
}

Test(failed_nodes, nodes_with_the_same_fault_stand_together)
{
    redlock_node nodes[] = {
        failed("a", REDLOCK_FAULT_CLOSED, "closed"),
        failed("b", REDLOCK_FAULT_NONE, ""),
        failed("c", REDLOCK_FAULT_TIMEOUT, "no reply"),
        failed("d", REDLOCK_FAULT_CLOSED, "closed"),
        failed("e", REDLOCK_FAULT_QUARANTINE, "quarantined"),
        failed("f", REDLOCK_FAULT_QUARANTINE, "quarantined"),
    };
    nodes[4].remaining_us = 7000;
    nodes[5].remaining_us = 9000;
    const char *all =
        "5 of 6 nodes failed: a, d: closed; c: no reply; "
        "e, f: quarantined, for another 9 ms";
    cr_assert_str_eq(FAILED(REDLOCK_NO_QUORUM, nodes), all);
    cr_assert_str_eq(FAILED(REDLOCK_DENIED, nodes), all);
    const char *release = FAILED(REDLOCK_UNCONFIRMED, nodes);
    size_t len = strlen(redlock_code_text(REDLOCK_UNCONFIRMED));
    cr_assert_eq(strncmp(release, redlock_code_text(REDLOCK_UNCONFIRMED), len), 0);
    cr_assert_str_eq(release + len,
                     ": 5 of 6 nodes failed: a, d: closed; c: no reply; "
                     "e, f: quarantined, for another 9 ms");
}

Test(failed_nodes, none_failed_or_none_is_connected_yet)
{
    redlock_node nodes[] = {
        failed("a", REDLOCK_FAULT_NONE, ""),
        failed("b", REDLOCK_FAULT_NONE, ""),
    };
    cr_assert(strstr(FAILED(REDLOCK_NO_QUORUM, nodes),
                     redlock_reason_text(REDLOCK_REASON_SILENT)));
    for (int i = 0; i < 2; i++) {
        nodes[i].fault = REDLOCK_FAULT_CONNECTING;
        strcpy(nodes[i].text, redlock_fault_text(REDLOCK_FAULT_CONNECTING));
    }
    cr_assert_str_eq(FAILED(REDLOCK_NO_QUORUM, nodes),
                     "2 of 2 nodes are not connected yet: a, b");
}

/* Of five nodes with long names none is missing. */
Test(failed_nodes, five_of_real_names)
{
    char uri[5][96];
    redlock_node nodes[5];
    for (int i = 0; i < 5; i++) {
        snprintf(
            uri[i], sizeof(uri[i]),
            "rediss://locks@redis-locks-%d.eu-central-1.infrastructure.example.com:6379",
            i + 1);
        nodes[i] = failed(uri[i], REDLOCK_FAULT_TIMEOUT + (i == 2),
                          i == 2 ? "the connection was closed" : "no reply in time");
    }
    const char *text = FAILED(REDLOCK_NO_QUORUM, nodes);
    for (int i = 0; i < 5; i++)
        cr_assert(strstr(text, uri[i]), "%s", text);
    cr_assert(strstr(text, "closed"));
}

/* Whatever has no room is counted, and each name that is there is whole. */
Test(failed_nodes, names_and_faults_without_room_are_counted)
{
    static char uri[REDLOCK_NODES_MAX][320];
    static redlock_node nodes[REDLOCK_NODES_MAX];
    for (unsigned len = 16; len < 318; len++)
        for (unsigned alike = 1; alike <= REDLOCK_NODES_MAX; alike++) {
            for (unsigned i = 0; i < REDLOCK_NODES_MAX; i++) {
                snprintf(uri[i], sizeof(uri[i]), "<%0*u>", (int)len, i);
                nodes[i] = failed(uri[i], REDLOCK_FAULT_CLOSED, "");
                snprintf(nodes[i].text, sizeof(nodes[i].text), "(%0*u)", (int)len % 250,
                         i / alike);
            }
            const char *text = FAILED(REDLOCK_UNCONFIRMED, nodes);
            cr_assert_lt(strlen(text), sizeof(redlock_last_error()->text));
            unsigned named = 0, open = 0, counted = 0, number;
            for (const char *c = text; *c; c++) {
                named += *c == '>';
                open += *c == '<';
                int end = 0;
                if ((sscanf(c, "and %u more%n", &number, &end) == 1 && end > 0) ||
                    (sscanf(c, "and %u other nodes%n", &number, &end) == 1 && end > 0))
                    counted += number;
            }
            cr_assert_eq(open, named);
            cr_assert_gt(named, 0);
            cr_assert_eq(named + counted, REDLOCK_NODES_MAX, "%s", text);
        }
}
