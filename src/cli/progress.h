/* Prints the progress of a long command on stderr while it runs. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "cli.h"

/* Writes the progress: whole lines for a terminal, else the text after "redlock: ". */
typedef void progress_fn(const void *arg, bool is_terminal, FILE *stream);

/*
 * On a terminal it is redrawn 5 times a second; else one line is printed soon, and then one
 * every 10 s.
 */
struct progress {
    const struct cli *cli;
    progress_fn *write;
    const void *arg;
    struct cli_timer timer;
    bool redraws;
    unsigned ticks;
    size_t lines; /* currently on the terminal */
};
void progress_begin(struct progress *progress, const struct cli *cli, progress_fn *write,
                    const void *arg);
void progress_end(struct progress *progress);

#endif
