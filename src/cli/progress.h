/* How far the nodes are on their way to a vote on fenced locks, told on stderr. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "cli.h"

/* On a terminal a line per node, redrawn; else one line soon, and then every 10 s. */
struct progress {
    const struct cli *cli;
    redlock_client *client;
    struct event *timer;
    bool redraws;
    unsigned ticks;
    size_t lines; /* that are on the terminal */
};
void progress_begin(struct progress *progress, const struct cli *cli,
                    redlock_client *client, struct event_base *base);
void progress_end(struct progress *progress);

/* "3 of 5 nodes vote; redis://a: another 8.2 s; redis://b: ...". To be freed. */
char *progress_line(const redlock_node *nodes, size_t count);

#endif
