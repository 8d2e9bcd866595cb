/* gnuplot, which draws what it is told on its stdin. */
#ifndef CLI_GNUPLOT_H
#define CLI_GNUPLOT_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct gnuplot {
    pid_t pid;
    FILE *script; /* what is written here is drawn */
};

/* 0, or why it cannot be started. The picture goes to `fd`. */
int gnuplot_begin(struct gnuplot *gnuplot, int fd);

/* Whether it took the whole script. */
bool gnuplot_end(struct gnuplot *gnuplot);

#endif
