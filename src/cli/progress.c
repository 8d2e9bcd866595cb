#include "progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REDRAW_MS      200
#define TICK_MS        1000
#define TICKS_PER_LINE 10

static bool votes(const redlock_node *node)
{
    return strcmp(node->verdict, "sound") == 0;
}

/* "another 8.2 s", or why it does not vote. */
static const char *describe(const redlock_node *node, char buffer[CLI_SPAN + 16])
{
    char span[CLI_SPAN];
    if (votes(node))
        return "votes";
    if (node->remaining_ms < 0)
        return node->text;
    snprintf(buffer, CLI_SPAN + 16, "another %s", cli_span(span, node->remaining_ms));
    return buffer;
}

static size_t count_votes(const redlock_node *nodes, size_t count)
{
    size_t voting = 0;
    for (size_t i = 0; i < count; i++)
        voting += votes(&nodes[i]);
    return voting;
}

char *progress_line(const redlock_node *nodes, size_t count)
{
    char buffer[CLI_SPAN + 16], *text = NULL;
    size_t len = 0;
    FILE *stream = open_memstream(&text, &len);
    if (!stream)
        cli_fail(CLI_FAILED, "out of memory");
    fprintf(stream, "%zu of %zu nodes vote", count_votes(nodes, count), count);
    for (size_t i = 0; i < count; i++)
        if (!votes(&nodes[i]))
            fprintf(stream, "; %s: %s", nodes[i].uri, describe(&nodes[i], buffer));
    if (fclose(stream) != 0)
        cli_fail(CLI_FAILED, "out of memory");
    return text;
}

/* Over what stood there before; one write, so that it does not flicker. */
static void redraw(struct progress *progress, const redlock_node *nodes, size_t count)
{
    char buffer[CLI_SPAN + 16], *text = NULL;
    size_t len = 0;
    FILE *stream = open_memstream(&text, &len);
    if (!stream)
        return;
    if (progress->lines > 0)
        fprintf(stream, "\033[%zuA", progress->lines);
    for (size_t i = 0; i < count; i++)
        fprintf(stream, "\033[K%s  %s\n", nodes[i].uri, describe(&nodes[i], buffer));
    if (fclose(stream) == 0)
        (void)!write(STDERR_FILENO, text, len);
    progress->lines = count;
    free(text);
}

static void tick(evutil_socket_t fd, short what, void *arg)
{
    struct progress *progress = arg;
    redlock_node nodes[REDLOCK_NODES_MAX];
    size_t count = redlock_client_standing(progress->client, nodes, REDLOCK_NODES_MAX);
    (void)fd;
    (void)what;
    if (progress->redraws) {
        redraw(progress, nodes, count);
    } else if (progress->ticks++ % TICKS_PER_LINE == 0) {
        char *line = progress_line(nodes, count);
        cli_say(progress->cli, "admit: waiting: %s", line);
        free(line);
    }
}

void progress_begin(struct progress *progress, const struct cli *cli,
                    redlock_client *client, struct event_base *base)
{
    *progress = (struct progress){
        .cli = cli,
        .client = client,
        .redraws = isatty(STDERR_FILENO),
    };
    int ms = progress->redraws ? REDRAW_MS : TICK_MS;
    const struct timeval every = {ms / 1000, ms % 1000 * 1000};
    if (!cli->quiet)
        progress->timer = event_new(base, -1, EV_PERSIST, tick, progress);
    if (progress->timer)
        evtimer_add(progress->timer, &every);
}

void progress_end(struct progress *progress)
{
    if (progress->timer)
        event_free(progress->timer);
    progress->timer = NULL;
}
