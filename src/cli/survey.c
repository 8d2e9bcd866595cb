#include "survey.h"

#include <stdio.h>
#include <string.h>

#define RED    "\033[31m"
#define GREEN  "\033[32m"
#define YELLOW "\033[33m"
#define PLAIN  "\033[0m"

void survey_take(redlock_client *client, const redlock_survey *found, void *arg)
{
    struct survey *survey = arg;
    (void)client;
    survey->found = *found;
    memcpy(survey->nodes, found->nodes, found->count * sizeof(*found->nodes));
    survey->found.nodes = survey->nodes;
    survey->done = true;
}

enum survey_state survey_state(const struct survey *survey)
{
    const redlock_survey *found = &survey->found;
    if (found->code == REDLOCK_DENIED)
        return SURVEY_DENIED;
    if (found->code != REDLOCK_OK)
        return SURVEY_NO_QUORUM;
    if (found->agreeing >= found->quorum)
        return SURVEY_HELD;
    return found->free >= found->quorum ? SURVEY_FREE : SURVEY_SPLIT;
}

const char *survey_name(enum survey_state state)
{
    static const char *const names[] = {
        [SURVEY_HELD] = "held",     [SURVEY_FREE] = "free",
        [SURVEY_SPLIT] = "split",   [SURVEY_NO_QUORUM] = "no_quorum",
        [SURVEY_DENIED] = "denied",
    };
    return names[state];
}

static bool is(const char *verdict, const redlock_node *node)
{
    return strcmp(node->verdict, verdict) == 0;
}

static void print_node(const struct cli *cli, const redlock_node *node, int width,
                       const char *word_for_held)
{
    char span[CLI_SPAN];
    const char *state = node->fault, *color = RED;
    if (is("held", node)) {
        state = word_for_held;
        color = YELLOW;
    } else if (is("gone", node)) {
        state = "free";
        color = GREEN;
    }
    printf("%-*s  %s%-10s%s", width, node->uri, cli->color ? color : "", state,
           cli->color ? PLAIN : "");
    if (is("held", node))
        printf("  %-10s  %s\n", cli_span(span, node->remaining_ms), node->holder);
    else if (!is("gone", node))
        printf("  %s\n", node->text);
    else
        printf("\n");
}

void survey_print_nodes(const struct cli *cli, const struct survey *survey,
                        const char *word_for_held)
{
    int width = 0;
    for (size_t i = 0; i < survey->found.count; i++)
        if (width < (int)strlen(survey->nodes[i].uri))
            width = (int)strlen(survey->nodes[i].uri);
    for (size_t i = 0; i < survey->found.count; i++)
        print_node(cli, &survey->nodes[i], width, word_for_held);
}

json_t *survey_json(const struct survey *survey, const char *key)
{
    const redlock_survey *found = &survey->found;
    const redlock_node *holder = cli_holder(survey->nodes, found->count);
    bool timed = holder && found->remaining_ms >= 0;
    return json_pack("{s:o, s:s, s:o, s:o, s:i, s:i, s:i, s:i, s:o}", "key",
                     cli_json_text(key), "state", survey_name(survey_state(survey)),
                     "holder", holder ? cli_json_text(holder->holder) : json_null(),
                     "remaining_ms",
                     timed ? json_integer(found->remaining_ms) : json_null(), "agreeing",
                     found->agreeing, "held", found->held, "free", found->free, "quorum",
                     found->quorum, "nodes", cli_nodes_json(survey->nodes, found->count));
}
