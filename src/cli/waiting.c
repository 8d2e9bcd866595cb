/*
 * Prints while a command waits for a lock, so that a wait without limit does not look like
 * a hang.
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#define TICK_MS        1000
#define TICKS_PER_LINE 10

/* Too many nodes failed: the others are no quorum, even if the lock is free. */
static bool lacks_quorum(const redlock_node *nodes, size_t count, unsigned quorum)
{
    return count - cli_count_faults(nodes, count) < quorum;
}

/* Prints in one line what an acquire waits for, and what to do; only once. */
static void say(struct cli_waiting *waiting, const redlock_node *nodes, size_t count)
{
    const redlock_node *holder = cli_holder(nodes, count);
    char *faults = cli_faults(nodes, count), span[CLI_SPAN];
    struct cli_text text;
    FILE *stream = cli_text_begin(&text);
    if (holder && !lacks_quorum(nodes, count, waiting->quorum))
        fprintf(stream, "%s is held by %s",
                cli_keys_taken(&waiting->cli->keys, waiting->key, holder), holder->holder);
    else
        fprintf(stream, "%s%s", faults, cli_advice(nodes, count, waiting->quorum));
    free(faults);
    char *now = cli_text_end(&text);
    bool is_same = waiting->said && strcmp(waiting->said, now) == 0;
    free(waiting->said);
    waiting->said = now;
    cli_say(waiting->cli, is_same ? "%s: still waiting, for %s" : "%s: waiting: %s",
            waiting->key,
            is_same ? cli_span(span, (int64_t)waiting->ticks * TICK_MS) : now);
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
    bool fails = lacks_quorum(nodes, count, waiting->quorum);
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
    free(waiting->said);
    waiting->said = NULL;
}
