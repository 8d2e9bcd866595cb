/*
 * A picture for gnuplot, of panels one below the other: titles, latency axes, and the names
 * of curves at their ends.
 */
#ifndef CLI_PICTURE_H
#define CLI_PICTURE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PICTURE_INK   "#1f2933"
#define PICTURE_FAINT "#8a94a0"
#define PICTURE_NAMES "graph 1.037" /* position of the names, right of a panel */

#define PICTURE_NAME_SHOWN 26 /* characters of a name, of at most 4 bytes */
#define PICTURE_NAME       (4 * PICTURE_NAME_SHOWN + 4)
#define PICTURE_MARKS      33

struct picture {
    FILE *script;
    int height;         /* pixels */
    double least, most; /* of the latency axes, ms */
};

/* The name of a curve, at its right end or as near to it as other names allow. */
struct picture_mark {
    char name[PICTURE_NAME];
    const char *color;
    const char *dash;     /* in gnuplot's syntax; NULL: none */
    double x, end, label; /* where the curve ends, and the height of the name, in ms */
};

/* The curve of a node. If there are more nodes than colours, some curves are dashed. */
const char *picture_color(unsigned node);
const char *picture_dash(unsigned node);

/* On a logarithmic axis: at least 0.001. */
double picture_ms(int64_t us);

/*
 * Leaves out a URI's scheme. Shortens a long text in the middle. Bytes that are not UTF-8,
 * or that gnuplot would interpret, become "?".
 */
void picture_name(const char *text, char ret_name[PICTURE_NAME]);

void picture_begin(const struct picture *picture);

/* A title for the whole picture. */
void picture_head(const struct picture *picture, const char *text);

/*
 * A panel at `top` pixels from the top of the picture, `height` pixels high, with a title
 * above it.
 */
void picture_panel(const struct picture *picture, int top, int height, const char *title);

/* Explains a colour: a text beside the title, `right` pixels from the title's left end. */
void picture_key(const struct picture *picture, int top, int right, const char *text,
                 const char *color);

/*
 * Sets the latency axis of the panels that follow: from the least to the most latency, in
 * ms.
 */
void picture_latency_axis(struct picture *picture, double least, double most);

/*
 * picture_place() finds room for the names of at most PICTURE_MARKS curves; picture_mark()
 * writes one name.
 */
void picture_place(const struct picture *picture, struct picture_mark *mark, size_t count,
                   int height);
void picture_mark(const struct picture *picture, const struct picture_mark *mark);

#endif
