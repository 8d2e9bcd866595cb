/* All locks on the nodes, as the last scan found them. */
#ifndef CLI_MONITOR_LOCKS_H
#define CLI_MONITOR_LOCKS_H

#include "cli.h"

struct monitor_locks;

/* Ends the process if there is no memory. */
struct monitor_locks *monitor_locks_new(struct cli *cli);

/* After cli_disconnect(), which ends a scan that runs. */
void monitor_locks_free(struct monitor_locks *locks);

/* Call it once a second: asks again for the locks that somebody looks at. */
void monitor_locks_refresh(void *locks);

/* Prometheus' text: the locks of the last scan, unless it failed. May begin one. */
void monitor_locks_metrics(struct monitor_locks *locks, FILE *to);

#endif
