/*
 * story FILE: plays a story and compares; story -w FILE: plays it and writes it again.
 *
 * A story is prose with steps in it. A step is a line "120 ms  EVENT; OUTCOME": the event
 * is executed, and the outcome is what the client did, so the file is the script and the
 * expectation in one. What happens before a step is shown, too: "time passes". "with 5
 * nodes, ttl 10000 ms" begins a story anew, with a client that has greeted its nodes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "holder.h"
#include "nodes.h"
#include "outcome.h"

#define LINES_MAX 400
#define LINE_MAX_ 512

struct text {
    char *line[LINES_MAX];
    size_t lines;
};

static struct text shown_story;
static const char *where = "";
static int64_t played; /* until this time of the story, ns */

static void fail(const char *why, const char *what)
{
    fprintf(stderr, "%s: %s\n", why, what);
    exit(2);
}

static void add_line(const char *line)
{
    if (shown_story.lines == LINES_MAX)
        fail("too long a story", where);
    shown_story.line[shown_story.lines++] = strdup(line);
}

/* --- the beginning --- */

static int64_t number_after(const char *text, const char *word, int64_t otherwise)
{
    const char *at = strstr(text, word);
    return at ? strtoll(at + strlen(word), NULL, 10) : otherwise;
}

static void begin(const char *line)
{
    struct terms terms = {.n = (unsigned)number_after(line, "with ", 5)};
    holder_end();
    redlock_options_init(&terms.client);
    redlock_lease_options_init(&terms.lease);
    terms.client.quorum = (unsigned)number_after(line, "quorum ", REDLOCK_AUTO);
    terms.client.node_timeout_ms = number_after(line, "timeout ", REDLOCK_AUTO);
    terms.client.max_ttl_ms = number_after(line, "longest ttl ", REDLOCK_AUTO);
    terms.client.durable = strstr(line, "durable");
    terms.lease.ttl_ms = number_after(line, "ttl ", 10000);
    terms.lease.margin_ms = number_after(line, "margin ", 0);
    terms.lease.min_validity_ms = number_after(line, "least validity ", 0);
    terms.lease.max_hold_ms = number_after(line, "held at most ", REDLOCK_UNLIMITED);
    terms.lease.watchdog = strstr(line, "watchdog");
    terms.is_subscribed = strstr(line, "subscribed");
    holder_begin(&terms);
    played = 0;
    outcome_begin();
    outcome_look(0);
}

/* --- events --- */

/* Reads "node 1 " or "nodes 1 2 3 "; what follows is the verb. */
static rl_node_set read_nodes(const char **text)
{
    rl_node_set nodes = 0;
    if (strncmp(*text, "node", 4) != 0)
        return 0;
    *text += strcspn(*text, " ") + 1;
    while (**text >= '0' && **text <= '9') {
        char *end;
        unsigned long node = strtoul(*text, &end, 10);
        if (node < 1 || node > holder.terms.n)
            fail("no such node", where);
        nodes |= rl_bit((unsigned)node - 1);
        *text = end + (*end == ' ');
    }
    return nodes;
}

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Another client's key, and for how many ms more. */
#define ANOTHERS "*2\r\n$39\r\np23456723456723456723456723456723@other\r\n:%d\r\n"

/* The words of a reply, the command to which it replies, and what the node writes. */
static const struct {
    const char *verb;
    enum rl_command command;
    const char *reply;
} answers[] = {
    {"grant", RL_CMD_ACQUIRE, "+OK\r\n"},
    {"refuse", RL_CMD_ACQUIRE, "$-1\r\n"},
    {"extend", RL_CMD_EXTEND, ":1\r\n"},
    {"recreate", RL_CMD_EXTEND, ":2\r\n"},
    {"lost it", RL_CMD_EXTEND, ":0\r\n"},
    {"has another's key", RL_CMD_EXTEND, ANOTHERS},
    {"have another's key", RL_CMD_EXTEND, ANOTHERS},
    {"delete", RL_CMD_RELEASE, ":1\r\n"},
    {"had nothing", RL_CMD_RELEASE, ":0\r\n"},
    {"found another's key", RL_CMD_RELEASE, ANOTHERS},
};

static void answer(unsigned node, const char *verb)
{
    char reply[128];
    enum rl_command command = nodes_next_command(node);
    if (starts(verb, "fail")) {
        const char *error = strstr(verb, "with ");
        if (command == RL_COMMANDS || !error)
            fail("it has no pending command, or no error", where);
        snprintf(reply, sizeof(reply), "-%s of the story\r\n", error + 5);
        nodes_reply(node, reply);
        return;
    }
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        if (!starts(verb, answers[i].verb))
            continue;
        if (command != answers[i].command)
            fail("its oldest command is another", where);
        snprintf(reply, sizeof(reply), answers[i].reply,
                 (int)number_after(verb, "for ", -1));
        nodes_reply(node, reply);
        return;
    }
    fail("unknown verb of a node", where);
}

static void greet(unsigned node, const char *verb)
{
    if (holder.client->nodes.node[node].link.state != RL_LINK_GREETING)
        fail("it has no connection attempt", where);
    nodes_greet(node, strstr(verb, "replica")                ? GUISE_REPLICA
                      : strstr(verb, "cluster")              ? GUISE_CLUSTER
                      : strstr(verb, "the server of node 1") ? GUISE_FIRST
                                                             : GUISE_MASTER);
}

static void node_does(unsigned node, const char *verb)
{
    if (starts(verb, "is cut off") || starts(verb, "are cut off"))
        nodes_cut(node);
    else if (starts(verb, "restart"))
        nodes_restart(node);
    else if (starts(verb, "is greeted") || starts(verb, "are greeted"))
        greet(node, verb);
    else
        answer(node, verb);
}

static void add_step(int64_t ms, const char *event, const char *outcome)
{
    char line[4 * LINE_MAX_];
    snprintf(line, sizeof(line), "%9lld ms  %s%s%s", (long long)ms, event,
             *outcome ? "; " : "", outcome);
    add_line(line);
}

/* Time passes until then; a ms in which something changes is shown. Returns the last. */
static int64_t pass(int64_t until)
{
    int64_t shown = -1;
    while (played < until) {
        int64_t ms = (played + EARLY) / VIRTUAL_MS, end = (ms + 1) * VIRTUAL_MS - EARLY;
        played = end < until ? end : until;
        outcome_begin();
        holder_run(played - 1);
        outcome_look(0);
        const char *outcome = outcome_end();
        if (*outcome)
            add_step(shown = ms, "time passes", outcome);
    }
    return shown;
}

static void look(rl_node_set greeted)
{
    holder_run(played);
    outcome_look(greeted);
}

/* "120 ms  EVENT; OUTCOME"; the outcome is not read. */
static void step(const char *line, int64_t ms)
{
    char event[LINE_MAX_];
    snprintf(event, sizeof(event), "%s", strstr(line, " ms  ") + 5);
    event[strcspn(event, ";")] = '\0';
    if (strcmp(event, "time passes") == 0) {
        if (pass((ms + 1) * VIRTUAL_MS - EARLY) != ms)
            add_step(ms, event, "");
        return;
    }
    pass(ms * VIRTUAL_MS);
    outcome_begin();
    const char *verb = event;
    rl_node_set nodes = read_nodes(&verb);
    for (rl_node_set rest = nodes; rest; rest &= rest - 1) {
        unsigned node = rl_first(rest);
        node_does(node, verb);
        look(strstr(verb, "greeted") ? rl_bit(node) : 0);
    }
    if (!nodes) {
        int64_t to = number_after(verb, "until ", number_after(verb, "to ", 0));
        if (!starts(verb, "we ") || !holder_do(verb + 3, to))
            fail("unknown event", where);
        look(0);
    }
    add_step(ms, event, outcome_end());
}

/* --- files --- */

static struct text read_text(const char *path)
{
    struct text text = {0};
    char line[LINE_MAX_];
    FILE *file = fopen(path, "r");
    if (!file)
        fail("cannot read", path);
    while (fgets(line, sizeof(line), file) && text.lines < LINES_MAX) {
        line[strcspn(line, "\n")] = '\0';
        text.line[text.lines++] = strdup(line);
    }
    fclose(file);
    return text;
}

static void play(const struct text *text)
{
    for (size_t i = 0; i < text->lines; i++) {
        char *end;
        where = text->line[i];
        int64_t ms = strtoll(where, &end, 10);
        if (end != where && starts(end, " ms  ")) {
            step(where, ms);
            continue;
        }
        if (starts(where, "    with "))
            begin(where);
        add_line(where);
    }
}

/* The longest common subsequence, walked from the front. */
static void print_diff(const struct text *old, const struct text *new)
{
    static unsigned short common[LINES_MAX + 1][LINES_MAX + 1];
    for (size_t i = old->lines; i-- > 0;)
        for (size_t j = new->lines; j-- > 0;)
            common[i][j] = strcmp(old->line[i], new->line[j]) == 0
                               ? common[i + 1][j + 1] + 1
                           : common[i + 1][j] > common[i][j + 1] ? common[i + 1][j]
                                                                 : common[i][j + 1];
    for (size_t i = 0, j = 0; i < old->lines || j < new->lines;) {
        bool more_old = i < old->lines, more_new = j < new->lines;
        if (more_old && more_new && strcmp(old->line[i], new->line[j]) == 0) {
            printf("  %s\n", old->line[i++]);
            j++;
        } else if (more_old && (!more_new || common[i + 1][j] >= common[i][j + 1])) {
            printf("- %s\n", old->line[i++]);
        } else {
            printf("+ %s\n", new->line[j++]);
        }
    }
}

static bool same(const struct text *a, const struct text *b)
{
    if (a->lines != b->lines)
        return false;
    for (size_t i = 0; i < a->lines; i++)
        if (strcmp(a->line[i], b->line[i]) != 0)
            return false;
    return true;
}

static void write_text(const char *path, const struct text *text)
{
    FILE *file = fopen(path, "w");
    if (!file)
        fail("cannot write", path);
    for (size_t i = 0; i < text->lines; i++)
        fprintf(file, "%s\n", text->line[i]);
    fclose(file);
}

static void forget(struct text *text)
{
    while (text->lines > 0)
        free(text->line[--text->lines]);
}

int main(int argc, char **argv)
{
    bool anew = argc == 3 && strcmp(argv[1], "-w") == 0;
    if (argc != 2 && !anew)
        fail("usage", "story [-w] FILE");
    struct text golden = read_text(argv[argc - 1]);
    play(&golden);
    holder_end();
    bool equal = same(&golden, &shown_story);
    if (anew)
        write_text(argv[2], &shown_story);
    else if (!equal)
        print_diff(&golden, &shown_story);
    forget(&golden);
    forget(&shown_story);
    return equal || anew ? 0 : 1;
}
