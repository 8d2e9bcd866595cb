/* Waiting for a lock: a wait without bound must not look like a hang. */
#include "cli.h"

#include <stdlib.h>

#define TICKS_PER_LINE 10 /* of a second each */

/* What an acquire that has not ended waits for, in one line, and what would help. */
static void say(const struct cli_waiting *waiting, const redlock_node *nodes, size_t count)
{
    const redlock_node *holder = cli_holder(nodes, count);
    char *faults = cli_faults(nodes, count);
    if (holder)
        cli_say(waiting->cli, "%s: waiting: it is held by %s", waiting->key,
                holder->holder);
    else
        cli_say(waiting->cli, "%s: waiting: %s", waiting->key, faults);
    free(faults);
    cli_say_admission(waiting->cli, nodes, count, waiting->quorum);
}

/* Nobody admits nodes by chance: that they are not is told at once, and all else later. */
static void tick(evutil_socket_t fd, short what, void *arg)
{
    struct cli_waiting *waiting = arg;
    redlock_node nodes[REDLOCK_NODES_MAX];
    size_t count = redlock_explain(*waiting->lease, nodes, REDLOCK_NODES_MAX);
    bool first = waiting->ticks++ == 0;
    (void)fd;
    (void)what;
    if (waiting->ticks % TICKS_PER_LINE == 0 ||
        (first && cli_wants_admission(nodes, count, waiting->quorum)))
        say(waiting, nodes, count);
}

void cli_waiting_begin(struct cli_waiting *waiting, struct event_base *base)
{
    const struct timeval every = {1, 0};
    waiting->timer = event_new(base, -1, EV_PERSIST, tick, waiting);
    if (waiting->timer)
        evtimer_add(waiting->timer, &every);
}

void cli_waiting_end(struct cli_waiting *waiting)
{
    if (waiting->timer)
        event_free(waiting->timer);
    waiting->timer = NULL;
}
