/* Shared by the two halves of a picture of redlock bench. */
#ifndef CLI_PLOT_H
#define CLI_PLOT_H

#include "bench.h"
#include "picture.h"

/* The heights of panels, in pixels. */
#define PLOT_TIMES 170
#define PLOT_STRIP 20 /* for each node */

struct plot_curve {
    double width;
    const struct histogram *latency;
};

struct plot {
    const struct bench *bench;
    struct picture picture;
    FILE *to; /* the script of the picture */
    struct plot_curve curve[REDLOCK_NODES_MAX + 1];
    struct picture_mark mark[REDLOCK_NODES_MAX + 1]; /* of each curve */
    size_t curves, strips;
    bool is_strip[REDLOCK_NODES_MAX];
};

/* plot_time.c: panels that begin `top` pixels from the top of the picture. */
void plot_timeline(struct plot *plot, int top);
void plot_strips(const struct plot *plot, int top);

#endif
