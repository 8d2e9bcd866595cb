#include "changes.h"

#include <stdlib.h>
#include <string.h>

static int64_t wall_ms(void)
{
    return cli_clock_us(CLOCK_REALTIME) / 1000;
}

/* Takes over the text. If there are too many, the oldest one is dropped. */
static void add(struct changes *changes, redlock_level level, const char *uri, char *text)
{
    struct change *place = &changes->last[changes->count++ % CHANGES_MAX];
    free(place->text);
    *place = (struct change){wall_ms(), level, uri, text};
}

void changes_free(struct changes *changes)
{
    for (size_t i = 0; i < CHANGES_MAX; i++)
        free(changes->last[i].text);
    for (size_t i = 0; i < REDLOCK_NODES_MAX; i++)
        free(changes->node[i].text);
}

/* --- nodes --- */

static bool tells(redlock_fault fault)
{
    return fault != REDLOCK_FAULT_NONE && fault != REDLOCK_FAULT_CONNECTING;
}

static bool is_connecting(const char *state)
{
    return strcmp(state, redlock_verdict_name(REDLOCK_VERDICT_CONNECTING)) == 0;
}

/* The client tries for the first time. */
static bool begins(const struct changes_node *kept)
{
    return !kept->state || is_connecting(kept->state);
}

static const char *state_of(const struct changes_node *kept, const redlock_node *node,
                            const redlock_node_stats *stats)
{
    if (stats->connected)
        return redlock_verdict_name(node->verdict);
    return redlock_verdict_name(begins(kept) && !tells(node->fault)
                                    ? REDLOCK_VERDICT_CONNECTING
                                    : REDLOCK_VERDICT_DOWN);
}

static void keep_fault(struct changes_node *kept, const redlock_node *node, bool connected)
{
    if (!connected && !tells(node->fault))
        return;
    free(kept->text);
    kept->fault = node->fault;
    kept->text = node->fault == REDLOCK_FAULT_NONE ? NULL : cli_format("%s", node->text);
}

/* That a node votes is no event when the monitor begins. */
static void note_node(struct changes *changes, struct changes_node *kept,
                      const redlock_node *node, const redlock_node_stats *stats)
{
    const char *state = state_of(kept, node, stats);
    bool votes = stats->connected && stats->votes;
    bool is_new = !kept->state || strcmp(kept->state, state) != 0;
    bool is_event = is_new && !is_connecting(state) && !(begins(kept) && votes);
    keep_fault(kept, node, stats->connected);
    kept->state = state;
    if (is_new)
        kept->since_ms = wall_ms();
    if (!is_event)
        return;
    redlock_level level = !stats->connected ? REDLOCK_LEVEL_ERROR
                          : votes           ? REDLOCK_LEVEL_INFO
                                            : REDLOCK_LEVEL_WARNING;
    add(changes, level, node->uri,
        kept->text ? cli_format("%s: %s", state, kept->text) : cli_format("%s", state));
}

static void note_fenced(struct changes *changes, struct changes_node *kept,
                        const redlock_node *node, bool votes)
{
    if (votes == kept->votes_fenced)
        return;
    kept->votes_fenced = votes;
    add(changes, votes ? REDLOCK_LEVEL_INFO : REDLOCK_LEVEL_WARNING, node->uri,
        cli_format("%s on fenced locks", votes ? "votes" : "has no vote"));
}

void changes_note_nodes(struct changes *changes, const redlock_node *nodes,
                        const redlock_node_stats *stats, size_t count, bool fenced)
{
    for (size_t i = 0; i < count; i++) {
        note_node(changes, &changes->node[i], &nodes[i], &stats[i]);
        if (fenced)
            note_fenced(changes, &changes->node[i], &nodes[i], stats[i].votes_fenced);
    }
}

/* --- findings --- */

static const char *code_of(const json_t *finding)
{
    return json_string_value(json_object_get(finding, "code"));
}

static bool has_finding(const json_t *node, const char *code)
{
    const json_t *found;
    size_t i;
    json_array_foreach(json_object_get(node, "findings"), i,
                       found) if (strcmp(code_of(found), code) == 0) return true;
    return false;
}

static void note_begin(struct changes *changes, const char *uri, const json_t *finding)
{
    const char *severity = json_string_value(json_object_get(finding, "severity"));
    const char *detail = json_string_value(json_object_get(finding, "detail"));
    redlock_level level =
        strcmp(severity, cli_severity(REDLOCK_NOTE)) == 0     ? REDLOCK_LEVEL_INFO
        : strcmp(severity, cli_severity(REDLOCK_DEFECT)) == 0 ? REDLOCK_LEVEL_ERROR
                                                              : REDLOCK_LEVEL_WARNING;
    add(changes, level, uri,
        cli_format("%s %s%s%s", severity, code_of(finding), detail ? ": " : "",
                   detail ? detail : ""));
}

void changes_note_findings(struct changes *changes, const redlock_node *nodes,
                           const json_t *before, const json_t *after)
{
    const json_t *node, *found;
    size_t i, k;
    json_array_foreach(after, i, node)
    {
        const json_t *old = json_array_get(before, i);
        json_array_foreach(json_object_get(node, "findings"), k,
                           found) if (!has_finding(old, code_of(found)))
            note_begin(changes, nodes[i].uri, found);
        json_array_foreach(json_object_get(old, "findings"), k,
                           found) if (!has_finding(node, code_of(found)))
            add(changes, REDLOCK_LEVEL_INFO, nodes[i].uri,
                cli_format("no longer %s", code_of(found)));
    }
}

void changes_note_health(struct changes *changes, const char *reason)
{
    add(changes, reason ? REDLOCK_LEVEL_ERROR : REDLOCK_LEVEL_INFO, NULL,
        reason ? cli_format("no lock can be taken: %s", reason)
               : cli_format("locks can be taken"));
}

/* --- JSON --- */

json_t *changes_json(const struct changes *changes)
{
    json_t *array = json_array();
    for (size_t i = changes->count; i > 0 && changes->count - i < CHANGES_MAX; i--) {
        const struct change *it = &changes->last[(i - 1) % CHANGES_MAX];
        json_array_append_new(
            array, json_pack("{s:I, s:s, s:o, s:o}", "at_ms", (json_int_t)it->at_ms,
                             "level", redlock_level_name(it->level), "node",
                             it->uri ? cli_json_text(it->uri) : json_null(), "text",
                             cli_json_text(it->text)));
    }
    return array;
}
