/*
 * Prints while a command waits for a lock, so that a wait without limit does not look like
 * a hang.
 */
#include "cli.h"

#include <stdlib.h>

#define TICK_MS        1000
#define TICKS_PER_LINE 10

/* Too many nodes failed: the others are no quorum, even if the lock is free. */
static bool lacks_quorum(const redlock_node *nodes, size_t count, unsigned quorum)
{
    return count - cli_count_faults(nodes, count) < quorum;
}

/* Prints in one line what an acquire waits for, and then what to do. */
static void say(const struct cli_waiting *waiting, const redlock_node *nodes, size_t count)
{
    const redlock_node *holder = cli_holder(nodes, count);
    char *faults = cli_faults(nodes, count);
    if (lacks_quorum(nodes, count, waiting->quorum))
        cli_say(waiting->cli, "%s: waiting: no quorum can be reached: %s", waiting->key,
                faults);
    else if (holder)
        cli_say(waiting->cli, "%s: waiting: %s is held by %s", waiting->key,
                cli_keys_taken(&waiting->cli->keys, "it", holder), holder->holder);
    else
        cli_say(waiting->cli, "%s: waiting: %s", waiting->key, faults);
    free(faults);
    cli_say_admission(waiting->cli, nodes, count, waiting->quorum);
}

/*
 * The nodes as of the last attempt; before the first attempt, the state of the connections.
 */
static size_t explain(const struct cli_waiting *waiting, redlock_node *nodes)
{
    size_t count = redlock_explain(*waiting->lease, nodes, REDLOCK_NODES_MAX);
    return count > 0
               ? count
               : redlock_client_explain(waiting->cli->client, nodes, REDLOCK_NODES_MAX);
}

/*
 * A problem that waiting alone does not solve is reported at the next second, everything
 * else every 10 s.
 */
static void waiting_tick(void *arg)
{
    struct cli_waiting *waiting = arg;
    redlock_node nodes[REDLOCK_NODES_MAX];
    size_t count = explain(waiting, nodes);
    bool is_due = ++waiting->ticks % TICKS_PER_LINE == 0;
    bool fails = lacks_quorum(nodes, count, waiting->quorum) ||
                 cli_wants_admission(nodes, count, waiting->quorum);
    if (is_due || (fails && !waiting->told))
        say(waiting, nodes, count);
    waiting->told = fails || (waiting->told && !is_due); /* at most twice in 10 s */
}

void cli_waiting_begin(struct cli_waiting *waiting, const struct cli *cli, const char *key,
                       redlock_lease *const *lease)
{
    *waiting = (struct cli_waiting){.cli = cli, .key = key, .lease = lease};
    waiting->quorum = redlock_client_quorum(cli->client);
    cli_timer_begin(&waiting->timer, cli->base, TICK_MS, waiting_tick, waiting);
}

void cli_waiting_end(struct cli_waiting *waiting)
{
    cli_timer_end(&waiting->timer);
}
