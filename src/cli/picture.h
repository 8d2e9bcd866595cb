/*
 * A picture of panels one below the other, for gnuplot: titles, axes of latency, and the
 * names of curves where they end.
 */
#ifndef CLI_PICTURE_H
#define CLI_PICTURE_H

#include <stddef.h>
#include <stdio.h>

#define PICTURE_INK   "#1f2933"
#define PICTURE_FAINT "#8a94a0"
#define PICTURE_NAMES "graph 1.037" /* where they stand, right of a panel */

#define PICTURE_NAME_SHOWN 26 /* characters of a name, of at most 4 bytes */
#define PICTURE_NAME       (4 * PICTURE_NAME_SHOWN + 4)
#define PICTURE_MARKS      33

struct picture {
    FILE *script;
    int height;         /* pixels */
    double least, most; /* of the latency axes, ms */
};

/* The name of a curve at its right end, or as near to it as others leave room. */
struct picture_mark {
    char name[PICTURE_NAME];
    const char *color;
    const char *dash;     /* as gnuplot has it; NULL: none */
    double x, end, label; /* where the curve ends, and how high the name stands, in ms */
};

/* A long text loses its middle. What is no UTF-8, or no text to gnuplot, becomes "?". */
void picture_name(const char *text, char ret_name[PICTURE_NAME]);

void picture_begin(const struct picture *picture);

/* What it is about, over all panels. */
void picture_head(const struct picture *picture, const char *text);

/* A panel between these pixels from above, with a title over it. */
void picture_panel(const struct picture *picture, int top, int height, const char *title);

/* What a colour means, beside the title, so many pixels from its left. */
void picture_key(const struct picture *picture, int top, int right, const char *text,
                 const char *color);

/* For the panels from here on: from the least to the most latency that they show, in ms. */
void picture_latency_axis(struct picture *picture, double least, double most);

/* Finds room for the names of at most PICTURE_MARKS curves, then writes one. */
void picture_place(const struct picture *picture, struct picture_mark *mark, size_t count,
                   int height);
void picture_mark(const struct picture *picture, const struct picture_mark *mark);

#endif
