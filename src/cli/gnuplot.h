/* gnuplot, which draws what it is told on its stdin: an SVG, whole or not at all. */
#ifndef CLI_GNUPLOT_H
#define CLI_GNUPLOT_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct gnuplot {
    pid_t pid;
    FILE *script; /* what is written here is drawn */
    int drawn;    /* in memory: nobody's file is touched before it is whole */
};

/* 0, or why it cannot be started. What somebody configured for gnuplot has no say. */
int gnuplot_begin(struct gnuplot *gnuplot);

/* False: it failed, or it did not draw to the end, which it may not tell. */
bool gnuplot_end(struct gnuplot *gnuplot);

/* After its end: what it drew. That this cannot be written is left to the stream. */
void gnuplot_copy(const struct gnuplot *gnuplot, FILE *to);

void gnuplot_free(struct gnuplot *gnuplot);

#endif
