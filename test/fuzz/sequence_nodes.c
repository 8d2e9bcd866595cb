#include "sequence_nodes.h"

#include <string.h>

#include "fuzz.h"
#include "redlock/redlock.h"

#define SCRIPTED_MAX 8
#define REPLY_MAX    64
#define TOKEN_MIN    20 /* bytes: shorter words of a command are no tokens */

struct nodes nodes;

/* What the next commands of a node get. */
static struct scripted {
    char reply[REPLY_MAX];
    size_t len;
    bool executed;
} scripted[NODES_MAX][SCRIPTED_MAX];
static unsigned scripts[NODES_MAX];

static struct {
    char token[REDLOCK_TOKEN_MAX + 1];
    rl_node_set granted;
} known[TOKENS_MAX];
static size_t knowns;

/* --- grants --- */

static void note_grant(struct rl_word token, rl_node_set node)
{
    size_t i = 0;
    while (i < knowns && (strncmp(known[i].token, token.text, token.len) != 0 ||
                          known[i].token[token.len] != '\0'))
        i++;
    nodes.is_full |= i == TOKENS_MAX;
    if (i == TOKENS_MAX)
        return;
    if (i == knowns) {
        memcpy(known[knowns].token, token.text, token.len);
        known[knowns].token[token.len] = '\0';
        known[knowns++].granted = 0;
    }
    known[i].granted |= node;
}

/* OK, 1, or the numbers of a fenced lock; no error, nil, 0, or another's value. */
static bool is_grant(const char *reply)
{
    return reply[0] == '+' || (reply[0] == ':' && reply[1] != '0') ||
           (reply[0] == '$' && reply[1] != '-');
}

rl_node_set nodes_granted(const char *token)
{
    rl_node_set granted = nodes.liars;
    for (size_t i = 0; i < knowns; i++)
        if (strcmp(known[i].token, token) == 0)
            granted |= known[i].granted;
    return granted;
}

/* --- replies --- */

static unsigned index_of(const struct node_command *command)
{
    return command->node->index - 1;
}

void nodes_script(unsigned index, const char *reply, size_t len, bool executed)
{
    if (scripts[index] == SCRIPTED_MAX || len > REPLY_MAX)
        return;
    struct scripted *next = &scripted[index][scripts[index]++];
    memcpy(next->reply, reply, len);
    next->len = len;
    next->executed = executed;
}

static void take_script(unsigned index, struct bytes *out)
{
    bytes_add(out, scripted[index][0].reply, scripted[index][0].len);
    scripts[index]--;
    memmove(&scripted[index][0], &scripted[index][1],
            scripts[index] * sizeof(struct scripted));
    nodes.liars |= rl_bit(index);
    nodes.may_overlap = true;
}

static bool replaces(const struct node_command *command, struct bytes *out)
{
    unsigned index = index_of(command);
    if (scripts[index] == 0 || scripted[index][0].executed)
        return false;
    take_script(index, out);
    return true;
}

static void *executed(const struct node_command *command, struct bytes *out, size_t at)
{
    unsigned index = index_of(command);
    if (scripts[index] > 0 && scripted[index][0].executed) {
        out->len = at;
        take_script(index, out);
    }
    bytes_add(out, "", 1); /* ends it for is_grant() */
    for (size_t i = 2; is_grant(out->data + at) && i < command->words; i++)
        if (command->word[i].len >= TOKEN_MIN && command->word[i].len <= REDLOCK_TOKEN_MAX)
            note_grant(command->word[i], rl_bit(index));
    out->len--;
    return NULL;
}

static const struct node_class class = {.replaces = replaces, .executed = executed};

void nodes_begin(unsigned n)
{
    nodes = (struct nodes){.n = n};
    knowns = 0;
    for (unsigned i = 0; i < n; i++) {
        scripts[i] = 0;
        node_begin(&nodes.node[i], i + 1);
        node_watch(&nodes.node[i], &class);
    }
}

void nodes_end(void)
{
    for (unsigned i = 0; i < nodes.n; i++)
        node_end(&nodes.node[i]);
}
