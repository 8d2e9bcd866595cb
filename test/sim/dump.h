/*
 * A dump of the flight recorder, as docs/recorder.md describes it: lines of text. Each has
 * a time, a name, and values with names.
 */
#ifndef SIM_DUMP_H
#define SIM_DUMP_H

#include "core/types.h"

#define DUMP_VALUE 640 /* bytes of a value, at most: a key is written as up to 512 */

struct line {
    rl_time at;
    const char *name;   /* "reply" */
    const char *values; /* "lease=7 node=2 ...": what follows the name */
};

struct lines {
    struct line *line;
    size_t count;
};

struct dump {
    struct line record, client;
    struct lines lease, event, node;
};

/*
 * Parses a text, which is changed and must outlive the dump. Lines before the last line
 * "record" are skipped. Returns NULL, or why it is no dump. dump_free() in both cases.
 */
const char *dump_parse(struct dump *dump, char *text);
void dump_free(struct dump *dump);

/*
 * Of a dump whose first events were overwritten: one that begins with the client, and with
 * the locks that can be played; dump_begin.c. The caller frees the text.
 */
char *dump_from_start(const struct dump *dump);

/* What such a dump has in the line of a lease that began before. */
#define DUMP_MISSING "missing_at_begin"

/* The TTL with which a round that began at `start` has the deadline of this result. */
int64_t dump_ttl_ms(const struct dump *dump, rl_time start, const struct line *result);

/* A value of a line; NULL or `missing`: the line has none of this name. */
const char *line_value(const struct line *line, const char *name,
                       char ret_value[DUMP_VALUE]);
int64_t line_number(const struct line *line, const char *name, int64_t missing);
rl_node_set line_nodes(const struct line *line, const char *name);

bool line_is_named(const struct line *line, const char *name);

/* Whether it has this value. */
bool line_is(const struct line *line, const char *name, const char *value);

/* The bytes that a value stands for: \xNN is one. Returns their number. */
size_t line_bytes(const struct line *line, const char *name, char ret_bytes[DUMP_VALUE]);

/* Whether two events are the same. Their times may differ by `tolerance`. */
bool line_same(const struct line *line, const struct line *other, rl_time tolerance);

#endif
