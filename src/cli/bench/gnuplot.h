/* Runs gnuplot: it reads a script from stdin and draws an SVG, completely or not at all. */
#ifndef CLI_GNUPLOT_H
#define CLI_GNUPLOT_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct gnuplot {
    pid_t pid;
    FILE *script; /* gnuplot draws what is written here */
    int drawn;    /* in memory: no file is changed before the drawing is complete */
};

/*
 * Starts gnuplot, which ignores the user's and the system's gnuplot configuration. Returns
 * 0, or an errno.
 */
int gnuplot_begin(struct gnuplot *gnuplot);

/* False: gnuplot failed, or did not draw to the end, which gnuplot may not report. */
bool gnuplot_end(struct gnuplot *gnuplot);

/* Call it after the end: copies the drawing. A write error stays in the stream. */
void gnuplot_copy(const struct gnuplot *gnuplot, FILE *to);

void gnuplot_free(struct gnuplot *gnuplot);

#endif
