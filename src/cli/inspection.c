#include "inspection.h"

#include <string.h>

void inspection_take(redlock_client *client, const redlock_inspection *found, void *arg)
{
    struct inspection *inspection = arg;
    (void)client;
    inspection->found = *found;
    for (size_t i = 0; i < found->count; i++)
        inspection->nodes[i] = *found->nodes[i];
    inspection->readers = 0;
    for (size_t i = 0; found->reader && i < found->readers && i < INSPECTION_READERS; i++)
        strcpy(inspection->reader[inspection->readers++], found->reader[i]);
    inspection->found.reader = NULL; /* it ends with this call */
    inspection->done = true;
}

const char *inspection_label(const char *token)
{
    const char *at = strchr(token, '@');
    return at ? at + 1 : token;
}

enum inspection_state inspection_state(const struct inspection *inspection)
{
    const redlock_inspection *found = &inspection->found;
    if (found->code == REDLOCK_DENIED)
        return INSPECTION_DENIED;
    if (found->code != REDLOCK_OK)
        return INSPECTION_NO_QUORUM;
    if (found->agreeing >= found->quorum)
        return INSPECTION_HELD;
    return found->free >= found->quorum ? INSPECTION_FREE : INSPECTION_SPLIT;
}

const char *inspection_name(enum inspection_state state)
{
    static const char *const names[] = {
        [INSPECTION_HELD] = "held",     [INSPECTION_FREE] = "free",
        [INSPECTION_SPLIT] = "split",   [INSPECTION_NO_QUORUM] = "no_quorum",
        [INSPECTION_DENIED] = "denied",
    };
    return names[state];
}

static void print_node(const struct cli *cli, const redlock_node *node, int width,
                       const char *word_for_held)
{
    char span[CLI_SPAN];
    const char *state = redlock_fault_name(node->fault), *color = CLI_RED;
    bool held = node->verdict == REDLOCK_VERDICT_HELD;
    bool gone = node->verdict == REDLOCK_VERDICT_GONE;
    if (held) {
        state = word_for_held;
        color = CLI_YELLOW;
    } else if (gone) {
        state = "free";
        color = CLI_GREEN;
    }
    cli_print("%-*s  %s%-10s%s", width, node->uri, cli->color ? color : "", state,
              cli->color ? CLI_PLAIN : "");
    if (held)
        cli_print("  %-10s  %s\n", cli_span(span, cli_ms(node->remaining_us)),
                  node->holder);
    else if (!gone)
        cli_print("  %s\n", node->text);
    else
        cli_print("\n");
}

void inspection_print_nodes(const struct cli *cli, const struct inspection *inspection,
                            const char *word_for_held)
{
    int width = 0;
    for (size_t i = 0; i < inspection->found.count; i++)
        if (width < (int)strlen(inspection->nodes[i].uri))
            width = (int)strlen(inspection->nodes[i].uri);
    for (size_t i = 0; i < inspection->found.count; i++)
        print_node(cli, &inspection->nodes[i], width, word_for_held);
}

static json_t *reading_json(const struct inspection *inspection)
{
    json_t *reading = json_array();
    for (size_t i = 0; i < inspection->readers; i++)
        json_array_append_new(reading,
                              cli_json_text(inspection_label(inspection->reader[i])));
    return reading;
}

json_t *inspection_json(const struct inspection *inspection, const char *key)
{
    const redlock_inspection *found = &inspection->found;
    const redlock_node *holder = cli_holder(inspection->nodes, found->count);
    json_t *object = json_pack(
        "{s:o, s:s, s:o, s:o, s:i, s:o, s:i, s:o, s:i, s:i, s:i, s:i, s:o}", "key",
        cli_json_text(key), "state", inspection_name(inspection_state(inspection)),
        "holder", holder ? cli_json_text(holder->holder) : json_null(), "since_ms",
        cli_json_known(found->since_ms), "readers", found->readers, "reading",
        reading_json(inspection), "depth", found->depth, "remaining_ms",
        cli_json_known(holder ? found->remaining_ms : REDLOCK_UNKNOWN), "agreeing",
        found->agreeing, "held", found->held, "free", found->free, "quorum", found->quorum,
        "nodes", cli_nodes_json(inspection->nodes, found->count));
    json_object_update_new(object, cli_json_kind(holder ? holder->value : NULL));
    return object;
}
