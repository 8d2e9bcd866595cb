/* What has changed lately: the state of each node, and the last events. */
#ifndef CLI_MONITOR_CHANGES_H
#define CLI_MONITOR_CHANGES_H

#include <redlock/stats.h>

#include "cli.h"

#define CHANGES_MAX 50

struct change {
    int64_t at_ms; /* of the time of day */
    redlock_level level;
    const char *uri; /* of the node; NULL: of none */
    char *text;
};

/* A node that is down stays so until it has replied, however often the client tries. */
struct changes_node {
    const char *state; /* NULL: it was not looked at yet */
    int64_t since_ms;
    redlock_fault fault; /* the last one that told something */
    char *text;          /* of that; NULL: none */
    bool votes_fenced;
};

/* Zeroed, nothing has happened yet. */
struct changes {
    struct changes_node node[REDLOCK_NODES_MAX];
    struct change last[CHANGES_MAX];
    size_t count; /* since the beginning */
};

void changes_free(struct changes *changes);

/* How the nodes are now. `fenced`: their votes on fenced locks are watched. */
void changes_note_nodes(struct changes *changes, const redlock_node *nodes,
                        const redlock_node_stats *stats, size_t count, bool fenced);

/* What a check found of them, as cli_health_json(), and the one before; NULL: none. */
void changes_note_findings(struct changes *changes, const redlock_node *nodes,
                           const json_t *before, const json_t *after);

/* Why no lock can be taken; NULL: one can. Call it when that changes. */
void changes_note_health(struct changes *changes, const char *reason);

/* The last events, the newest one first. */
json_t *changes_json(const struct changes *changes);

#endif
