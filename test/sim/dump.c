#include "dump.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT 1
#define PREFIX "redlock: " /* of each line, if the command printed it */

static char problem[200];

/* --- values --- */

/* Copies what comes before one of `ends`. */
static void copy_until(const char *text, const char *ends, char ret_copy[DUMP_VALUE])
{
    size_t len = strcspn(text, ends);
    len = len < DUMP_VALUE ? len : DUMP_VALUE - 1;
    memcpy(ret_copy, text, len);
    ret_copy[len] = '\0';
}

/* The beginning of the next word, or the end. */
static const char *next_word(const char *at)
{
    at += strcspn(at, " ");
    return at + (*at == ' ');
}

const char *line_value(const struct line *line, const char *name,
                       char ret_value[DUMP_VALUE])
{
    size_t len = strlen(name);
    for (const char *at = line->values; *at; at = next_word(at)) {
        if (strncmp(at, name, len) != 0 || at[len] != '=')
            continue;
        copy_until(at + len + 1, " ", ret_value);
        return ret_value;
    }
    return NULL;
}

int64_t line_number(const struct line *line, const char *name, int64_t missing)
{
    char value[DUMP_VALUE], *end;
    if (!line_value(line, name, value))
        return missing;
    int64_t number = strtoll(value, &end, 10);
    return end == value || *end ? missing : number;
}

rl_node_set line_nodes(const struct line *line, const char *name)
{
    char value[DUMP_VALUE];
    rl_node_set nodes = 0;
    if (!line_value(line, name, value))
        return 0;
    for (char *at = strtok(value, ","); at; at = strtok(NULL, ","))
        if (isdigit((unsigned char)*at) && atoi(at) < RL_NODES_MAX)
            nodes |= rl_bit((unsigned)atoi(at));
    return nodes;
}

bool line_is_named(const struct line *line, const char *name)
{
    return strcmp(line->name, name) == 0;
}

bool line_is(const struct line *line, const char *name, const char *value)
{
    char mine[DUMP_VALUE];
    return line_value(line, name, mine) && strcmp(mine, value) == 0;
}

size_t line_bytes(const struct line *line, const char *name, char ret_bytes[DUMP_VALUE])
{
    char value[DUMP_VALUE];
    size_t len = 0;
    unsigned byte;
    if (!line_value(line, name, value))
        return 0;
    for (const char *at = value; *at; len++) {
        bool is_escaped = sscanf(at, "\\x%2x", &byte) == 1;
        ret_bytes[len] = is_escaped ? (char)byte : *at;
        at += is_escaped ? strcspn(at, "x") + 3 : 1;
    }
    return len;
}

/* --- comparing --- */

static bool is_near(int64_t a, int64_t b, int64_t tolerance)
{
    return a == b || (a >= 0 && b >= 0 && llabs(a - b) <= tolerance);
}

static bool same_value(const char *name, const char *value, const char *other,
                       rl_time tolerance)
{
    if (strcmp(name, "until") == 0 || strcmp(name, "valid_until") == 0)
        return is_near(atoll(value), atoll(other), tolerance);
    if (strcmp(name, "valid_ms") == 0) /* rounded down */
        return is_near(atoll(value), atoll(other), tolerance / RL_MS + 1);
    return strcmp(value, other) == 0;
}

/* A value that only one of them has is of another version of the recorder. */
bool line_same(const struct line *line, const struct line *other, rl_time tolerance)
{
    if (strcmp(line->name, other->name) != 0 || !is_near(line->at, other->at, tolerance))
        return false;
    for (const char *at = line->values; *at; at = next_word(at)) {
        char name[DUMP_VALUE], mine[DUMP_VALUE], its[DUMP_VALUE];
        copy_until(at, "= ", name);
        if (line_value(line, name, mine) && line_value(other, name, its) &&
            !same_value(name, mine, its, tolerance))
            return false;
    }
    return true;
}

/* --- parsing --- */

/* What a line must have, so that it can be played. Numbers of nodes are checked, too. */
static const struct {
    const char *name, *needs;
} needs[] = {
    {"record", "format full"},
    {"client", "nodes quorum drift_ppm node_timeout_ms connect_timeout_ms"},
    {"lease", "lease key fenced ttl_ms"},
    {"node", "node state fault"},
    {"link", "node by state fault"},
    {"startup", "ready"},
    {"asked", "lease what ms"},
    {"sent", "lease attempt command round nodes state"},
    {"reply", "lease attempt node command round vote fault pttl_ms"},
    {"step", "lease by state"},
    {"result", "lease of cause valid_until"},
    {"told", "lease what code"},
    {"delayed", "lease until"},
    {"notified", "lease node position"},
    {"subscribed", "node on"},
    {"members", "active"},
};

#define KINDS (sizeof(needs) / sizeof(needs[0]))

static size_t kind_of(const struct line *line)
{
    size_t kind = 0;
    while (kind < KINDS && strcmp(needs[kind].name, line->name) != 0)
        kind++;
    return kind;
}

/* Returns the name of a value that the line needs and does not have; NULL: none. */
static const char *missing_value(const struct line *line)
{
    static char name[DUMP_VALUE];
    char value[DUMP_VALUE];
    for (const char *at = needs[kind_of(line)].needs; *at; at = next_word(at)) {
        copy_until(at, " ", name);
        if (!line_value(line, name, value))
            return name;
    }
    return NULL;
}

/* "TIME NAME VALUES". False: it is no such line. */
static bool read_line(char *text, struct line *ret_line)
{
    char *end;
    if (!isdigit((unsigned char)*text))
        return false;
    ret_line->at = strtoll(text, &end, 10);
    if (*end != ' ' || !islower((unsigned char)end[1]))
        return false;
    ret_line->name = end + 1;
    end += 1 + strcspn(end + 1, " ");
    ret_line->values = *end ? end + 1 : end;
    *end = '\0';
    return true;
}

static void add(struct lines *lines, const struct line *line)
{
    lines->line = realloc(lines->line, (lines->count + 1) * sizeof(*line));
    if (!lines->line)
        abort();
    lines->line[lines->count++] = *line;
}

static const char *fail(unsigned number, const char *what, const char *which)
{
    snprintf(problem, sizeof(problem), "line %u: %s%.80s", number, what, which);
    return problem;
}

static const char *take_line(struct dump *dump, unsigned number, const struct line *line)
{
    size_t kind = kind_of(line);
    int64_t nodes = dump->client.name ? line_number(&dump->client, "nodes", 0) : 0;
    if (kind == KINDS)
        return fail(number, "an unknown event: ", line->name);
    if (missing_value(line))
        return fail(number, "no value of ", missing_value(line));
    if (strcmp(line->name, "record") == 0) {
        dump->record = *line;
        return line_number(line, "format", 0) == FORMAT
                   ? NULL
                   : fail(number, "another format than 1", "");
    }
    if (strcmp(line->name, "client") == 0) {
        dump->client = *line;
        nodes = line_number(line, "nodes", 0);
        return nodes > 0 && nodes <= RL_NODES_MAX ? NULL
                                                  : fail(number, "no number of nodes", "");
    }
    int64_t node = line_number(line, "node", 0);
    if (strcmp(line->name, "step") != 0 && (node < 0 || node >= nodes))
        return fail(number, "there is no such node, or no line \"client\" before", "");
    if (line_number(line, "lease", 1) < 1)
        return fail(number, "there is no such lease", "");
    struct lines *of = strcmp(line->name, "lease") == 0  ? &dump->lease
                       : strcmp(line->name, "node") == 0 ? &dump->node
                                                         : &dump->event;
    if (of == &dump->event && of->count > 0 && of->line[of->count - 1].at > line->at)
        return fail(number, "earlier than the event before", "");
    add(of, line);
    return NULL;
}

static bool is_complete(const struct dump *dump)
{
    return dump->client.name &&
           dump->node.count == (size_t)line_number(&dump->client, "nodes", 0);
}

/* The lines of the record that begins here. Those of other programs have no prefix. */
static const char *parse_lines(struct dump *dump, char *at, unsigned number)
{
    bool has_prefix = strncmp(at, PREFIX, strlen(PREFIX)) == 0;
    for (char *next; *at && !is_complete(dump); at = next, number++) {
        size_t len = strcspn(at, "\r\n");
        struct line line;
        next = at + len + strspn(at + len, "\r");
        next += *next == '\n';
        at[len] = '\0';
        if (has_prefix && strncmp(at, PREFIX, strlen(PREFIX)) != 0)
            continue;
        char *begin = at + (has_prefix ? strlen(PREFIX) : 0);
        if (!read_line(begin, &line))
            return fail(number, "not \"TIME NAME NAME=VALUE ...\": ", begin);
        const char *why = take_line(dump, number, &line);
        if (why)
            return why;
    }
    if (!is_complete(dump))
        return "its end is missing: there is not one line \"node\" for each node";
    return dump->event.count > 0 ? NULL : "it has no events";
}

const char *dump_parse(struct dump *dump, char *text)
{
    char *begin = NULL;
    unsigned number = 0, first = 0;
    *dump = (struct dump){0};
    for (char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        char *time = at + (strncmp(at, PREFIX, strlen(PREFIX)) == 0 ? strlen(PREFIX) : 0);
        size_t digits = strspn(time, "0123456789");
        number++;
        if (digits == 0 || strncmp(time + digits, " record ", 8) != 0)
            continue;
        begin = at;
        first = number;
    }
    if (!begin)
        return "no line \"TIME record ...\": it is no dump, or its beginning is missing";
    return parse_lines(dump, begin, first);
}

void dump_free(struct dump *dump)
{
    free(dump->lease.line);
    free(dump->event.line);
    free(dump->node.line);
    *dump = (struct dump){0};
}
