#include "progress.h"

#include "writer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REDRAW_MS      200
#define TICK_MS        1000
#define TICKS_PER_LINE 10

/*
 * NARROW makes the terminal cut a long line. If it wrapped the line, UP would go up too few
 * lines.
 */
#define UP     "\033[%zuA"
#define CLEAR  "\033[K"
#define NARROW "\033[?7l"
#define WIDE   "\033[?7h"

/* The caller frees the text. */
static char *text_of(const struct progress *progress)
{
    struct cli_text text;
    progress->write(progress->arg, progress->redraws, cli_text_begin(&text));
    return cli_text_end(&text);
}

/*
 * Overwrites the previous output with one write, so that it does not flicker. What a
 * terminal does not take is not redrawn: none may be dropped, because UP counts its lines.
 */
static void redraw(struct progress *progress, char *lines)
{
    if (!writer_is_idle())
        return;
    char *line;
    size_t before = progress->lines, count = 0;
    struct cli_text text;
    FILE *stream = cli_text_begin(&text);
    fprintf(stream, NARROW);
    if (before > 0)
        fprintf(stream, UP, before);
    for (; (line = strsep(&lines, "\n")) && lines; count++)
        fprintf(stream, CLEAR "%s\n", line);
    for (size_t i = count; i < before; i++)
        fprintf(stream, CLEAR "\n");
    fprintf(stream, WIDE);
    cli_text_end(&text);
    writer_message(text.bytes, text.size);
    progress->lines = before > count ? before : count;
    free(text.bytes);
}

static void progress_tick(void *arg)
{
    struct progress *progress = arg;
    if (!progress->redraws && progress->ticks++ % TICKS_PER_LINE != 0)
        return;
    char *text = text_of(progress);
    if (progress->redraws)
        redraw(progress, text);
    else
        cli_say(progress->cli, "%s", text);
    free(text);
}

void progress_begin(struct progress *progress, const struct cli *cli, progress_fn *write,
                    const void *arg)
{
    *progress = (struct progress){
        .cli = cli,
        .write = write,
        .arg = arg,
        .redraws = isatty(STDERR_FILENO),
    };
    if (!cli->quiet)
        cli_timer_begin(&progress->timer, cli->base,
                        progress->redraws ? REDRAW_MS : TICK_MS, progress_tick, progress);
}

void progress_end(struct progress *progress)
{
    cli_timer_end(&progress->timer);
}
