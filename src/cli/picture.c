#include "picture.h"

#include <math.h>
#include <stdbool.h>

/* In pixels. */
#define WIDTH       1000
#define LEFT        70  /* PICTURE_LEFT */
#define RIGHT       250 /* where the names stand */
#define TITLE       22  /* so far above its panel */
#define LABEL_LEAST 17  /* from one name to the next */

#define GRID "#e4e7eb"

void picture_begin(const struct picture *picture)
{
    fprintf(picture->script,
            "set terminal svg size %d,%d font 'sans-serif,13' background '#ffffff'\n"
            "set multiplot\n"
            "set encoding utf8\n"
            "unset key\n"
            "set border 0\n"
            "set grid x y lc rgb '" GRID
            "' lt 1 lw 1\n"
            "set tics scale 0 textcolor rgb '" PICTURE_FAINT
            "'\n"
            "set lmargin at screen %f\n"
            "set rmargin at screen %f\n",
            WIDTH, picture->height, (double)LEFT / WIDTH, 1 - (double)RIGHT / WIDTH);
}

void picture_panel(const struct picture *picture, int top, int height, const char *title)
{
    double screen = picture->height;
    fprintf(picture->script,
            "unset label\nunset arrow\n"
            "set tmargin at screen %f\nset bmargin at screen %f\n"
            "set label \"%s\" at screen %f, screen %f left font ',15' textcolor rgb "
            "'" PICTURE_INK "'\n",
            1 - top / screen, 1 - (top + height) / screen, title, (double)LEFT / WIDTH,
            1 - (top - TITLE) / screen);
}

void picture_key(const struct picture *picture, int top, int right, const char *text,
                 const char *color)
{
    fprintf(picture->script,
            "set label \"%s\" at screen %f, screen %f left textcolor rgb '%s'\n", text,
            (double)(LEFT + right) / WIDTH, 1 - (double)(top - TITLE) / picture->height,
            color);
}

/* 1, 2 and 5 of each power of ten; where there are many, only the powers. */
void picture_latency_axis(const struct picture *picture)
{
    static const int steps[] = {1, 2, 5};
    bool wide = picture->most / picture->least > 1000;
    const char *between = "";
    fprintf(picture->script, "set logscale y\nset yrange [%g:%g]\nset ytics (",
            picture->least, picture->most);
    for (double power = 0.001; power < picture->most; power *= 10) {
        for (size_t i = 0; i < (wide ? 1 : 3); i++) {
            double at = power * steps[i];
            if (at < picture->least || at > picture->most)
                continue;
            fprintf(picture->script, "%s\"%g ms\" %g", between, at, at);
            between = ", ";
        }
    }
    fprintf(picture->script, ")\n");
}

/* In order of their ends; then each is pushed up from the one below, and back from above.
 */
void picture_place(const struct picture *picture, struct picture_mark *mark, size_t count,
                   int height)
{
    double apart = exp(log(picture->most / picture->least) * LABEL_LEAST / height);
    double limit = picture->most;
    struct picture_mark *by_end[PICTURE_MARKS];
    for (size_t i = 0; i < count; i++) {
        size_t at = i;
        for (; at > 0 && by_end[at - 1]->end > mark[i].end; at--)
            by_end[at] = by_end[at - 1];
        by_end[at] = &mark[i];
    }
    for (size_t i = 0; i < count; i++)
        by_end[i]->label =
            i > 0 ? fmax(by_end[i]->end, by_end[i - 1]->label * apart) : by_end[i]->end;
    for (size_t i = count; i-- > 0; limit = by_end[i]->label / apart)
        by_end[i]->label = fmin(by_end[i]->label, limit);
}

void picture_mark(const struct picture *picture, const struct picture_mark *mark)
{
    fprintf(
        picture->script,
        "set arrow from %.10g, %g to graph 1.0, first %g nohead lc rgb '%s' lw 0.8 dt 3\n"
        "set arrow from graph 1.0, first %g to graph 1.018, first %g nohead "
        "lc rgb '%s' lw 0.8\n"
        "set label \"%s\" at graph 1.025, first %g left noenhanced "
        "textcolor rgb '%s'\n",
        mark->x, mark->end, mark->end, mark->color, mark->end, mark->label, mark->color,
        mark->name, mark->label, mark->color);
}
