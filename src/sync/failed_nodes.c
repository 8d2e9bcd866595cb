#include "failed_nodes.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define GROUP_TEXT (REDLOCK_TEXT_MAX + 64)
#define AND_MORE   " and %zu more"
#define OTHERS     "; and %zu other nodes"

/* One line; `left`: the nodes that it has no room for. */
struct line {
    char text[sizeof(redlock_last_error()->text)];
    size_t len, left;
};

/* Adds it whole, with room for `spare` more bytes; or not at all, and returns false. */
__attribute__((format(printf, 3, 4))) static bool add(struct line *line, size_t spare,
                                                      const char *format, ...)
{
    size_t room = sizeof(line->text) - line->len;
    va_list args;
    va_start(args, format);
    size_t len = (size_t)vsnprintf(line->text + line->len, room, format, args);
    va_end(args);
    bool fits = len + spare < room;
    line->len += fits ? len : 0;
    line->text[line->len] = '\0';
    return fits;
}

static bool is_faulty(const redlock_node *node)
{
    return node->fault != REDLOCK_FAULT_NONE;
}

static bool are_alike(const redlock_node *one, const redlock_node *other)
{
    return is_faulty(one) && is_faulty(other) && strcmp(one->text, other->text) == 0;
}

/* All failures are of the start: no connection has failed. */
static bool are_connecting(const redlock_node *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_faulty(&nodes[i]) && nodes[i].fault != REDLOCK_FAULT_CONNECTING)
            return false;
    return true;
}

/* ": the fault", and the longest quarantine of the nodes that have it. */
static void describe_group(const redlock_node *nodes, size_t count, size_t first,
                           char text[GROUP_TEXT])
{
    int64_t longest_us = REDLOCK_UNKNOWN;
    for (size_t i = first; i < count; i++)
        if (are_alike(&nodes[i], &nodes[first]) && nodes[i].remaining_us > longest_us)
            longest_us = nodes[i].remaining_us;
    int len = snprintf(text, GROUP_TEXT, ": %s", nodes[first].text);
    if (longest_us >= 0)
        snprintf(text + len, GROUP_TEXT - (size_t)len, ", for another %" PRId64 " ms",
                 longest_us / 1000);
}

/* The nodes that have the same fault as the first of them. */
static void add_group(struct line *line, const redlock_node *nodes, size_t count,
                      size_t first, const char *separator, const char *fault)
{
    size_t named = 0, more = 0, spare = strlen(fault) + sizeof(AND_MORE) + sizeof(OTHERS);
    for (size_t i = first; i < count; i++) {
        if (!are_alike(&nodes[i], &nodes[first]))
            continue;
        if (more == 0 &&
            add(line, spare, "%s%s", named > 0 ? ", " : separator, nodes[i].uri))
            named++;
        else
            more++;
    }
    if (named > 0 && more > 0)
        add(line, 0, AND_MORE, more);
    if (named > 0)
        add(line, 0, "%s", fault);
    else
        line->left += more;
}

static bool is_first_of_group(const redlock_node *nodes, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (are_alike(&nodes[i], &nodes[index]))
            return false;
    return is_faulty(&nodes[index]);
}

/* "3 of 5 nodes failed: redis://b, redis://c: cannot connect; redis://d: ..." */
static void add_faults(struct line *line, const redlock_node *nodes, size_t count,
                       size_t faulty)
{
    bool are_new = are_connecting(nodes, count);
    const char *separator = ": ";
    add(line, 0, "%zu of %zu nodes %s", faulty, count,
        are_new ? "are not connected yet" : "failed");
    for (size_t i = 0; i < count; i++) {
        if (!is_first_of_group(nodes, i))
            continue;
        char fault[GROUP_TEXT] = "";
        if (!are_new)
            describe_group(nodes, count, i, fault);
        add_group(line, nodes, count, i, separator, fault);
        separator = "; ";
    }
    if (line->left > 0)
        add(line, 0, OTHERS, line->left);
}

redlock_code rl_fail_by_nodes(redlock_code code, redlock_reason reason,
                              const redlock_node *nodes, size_t count)
{
    struct line line = {.len = 0};
    size_t faulty = 0;
    for (size_t i = 0; i < count; i++)
        faulty += is_faulty(&nodes[i]);
    if (faulty == 0)
        return rl_fail_by_reason(code, reason);
    if (code != REDLOCK_NO_QUORUM && code != REDLOCK_DENIED)
        add(&line, 0, "%s: ", redlock_code_text(code));
    add_faults(&line, nodes, count, faulty);
    return rl_fail(code, reason, "%s", line.text);
}
