#include "picture.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* In pixels. */
#define WIDTH       1030
#define LEFT        92  /* left edge of the panels, with room for the longest axis label */
#define RIGHT       258 /* room for the names */
#define HEAD        24  /* distance from the top */
#define TITLE       22  /* distance above its panel */
#define LABEL_LEAST 17  /* the least distance between two names */

#define GRID    "#e4e7eb"
#define ROOM    1.15 /* how far an axis extends beyond its curves, as a factor */
#define EVENLY  3    /* an axis that spans less than this factor has evenly spaced ticks */
#define TICKS   6    /* the most ticks of an axis */
#define A_STEPS 7    /* steps in a power of ten */

/* --- names --- */

/* The bytes of the character; 0: it is no valid character, or not allowed in a picture. */
static size_t character(const char *text)
{
    /* The least code point for each number of bytes. Control characters are not allowed. */
    static const uint32_t least[] = {0x20, 0xa0, 0x800, 0x10000};
    const unsigned char *at = (const unsigned char *)text;
    size_t more = at[0] >= 0xf0 ? 3 : at[0] >= 0xe0 ? 2 : at[0] >= 0x80 ? 1 : 0;
    uint32_t code = more > 0 ? at[0] & (0x3fu >> more) : at[0];
    if ((at[0] & 0xc0) == 0x80 || at[0] >= 0xf8 || strchr("\"\\`\x7f", at[0]))
        return 0;
    for (size_t i = 1; i <= more; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (at[i] & 0x3f);
    }
    bool is_surrogate = code >> 11 == 0xd800 >> 11, is_none = code >> 1 == 0xfffe >> 1;
    bool is_text = code >= least[more] && code <= 0x10ffff && !is_surrogate && !is_none;
    return is_text ? more + 1 : 0;
}

static const char *after(const char *text)
{
    size_t len = character(text);
    return text + (len > 0 ? len : 1);
}

void picture_name(const char *text, char ret_name[PICTURE_NAME])
{
    const char *scheme = strstr(text, "://");
    size_t count = 0, half = PICTURE_NAME_SHOWN / 2;
    if (scheme)
        text = scheme + strlen("://");
    for (const char *at = text; *at; at = after(at))
        count++;
    bool is_long = count > PICTURE_NAME_SHOWN;
    for (size_t i = 0; *text; i++, text = after(text)) {
        size_t len = character(text);
        if (is_long && i == half)
            ret_name = stpcpy(ret_name, "…");
        if (is_long && i >= half && i < count - half)
            continue;
        ret_name = len > 0 ? mempcpy(ret_name, text, len) : stpcpy(ret_name, "?");
    }
    *ret_name = '\0';
}

/* --- curves --- */

static const char *const colors[] = {
    "#3d6fb4", "#e07b39", "#3f9c5a", "#9467bd", "#1f9aa5", "#a0624e", "#cf5f9b", "#7d8b2e",
};
static const char *const dashes[] = {"solid", "(10,5)", "(3,4)", "(10,4,3,4)"};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const char *picture_color(unsigned node)
{
    return colors[node % COUNT(colors)];
}

const char *picture_dash(unsigned node)
{
    return dashes[node / COUNT(colors) % COUNT(dashes)];
}

double picture_ms(int64_t us)
{
    return (double)(us > 0 ? us : 1) / 1000;
}

/* --- panels --- */

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

void picture_head(const struct picture *picture, const char *text)
{
    fprintf(picture->script,
            "set label \"%s\" at screen %f, screen %f left font ',12' textcolor rgb "
            "'" PICTURE_FAINT "'\n",
            text, (double)LEFT / WIDTH, 1 - (double)HEAD / picture->height);
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

/* --- axes of latency --- */

static void write_tick(const struct picture *picture, double at)
{
    if (at >= picture->least && at <= picture->most)
        fprintf(picture->script, "set ytics add (\"%g ms\" %g)\n", at, at);
}

/* The wider the axis, the fewer ticks in each power of ten. */
static void write_ticks_of_powers(const struct picture *picture, double factor)
{
    static const struct {
        double factor; /* used if the axis is wider */
        double step[A_STEPS];
    } ticks[] = {{1000, {1}}, {10, {1, 2, 5}}, {EVENLY, {1, 1.5, 2, 3, 4, 5, 7}}};
    size_t kind = 0;
    while (factor <= ticks[kind].factor)
        kind++;
    double power = pow(10, floor(log10(picture->least)));
    for (; power <= picture->most; power *= 10)
        for (size_t i = 0; i < A_STEPS && ticks[kind].step[i] > 0; i++)
            write_tick(picture, power * ticks[kind].step[i]);
}

static void write_even_ticks(const struct picture *picture)
{
    static const double steps[] = {1, 2, 5, 10};
    double least = (picture->most - picture->least) / TICKS;
    double power = pow(10, floor(log10(least)));
    size_t i = 0;
    while (i < 3 && power * steps[i] < least)
        i++;
    double step = power * steps[i];
    for (double at = ceil(picture->least / step); at * step <= picture->most; at++)
        write_tick(picture, at * step);
}

void picture_latency_axis(struct picture *picture, double least, double most)
{
    picture->least = least / ROOM;
    picture->most = most * ROOM;
    double factor = picture->most / picture->least;
    fprintf(picture->script, "set logscale y\nset yrange [%g:%g]\nset ytics ()\n",
            picture->least, picture->most);
    if (factor > EVENLY)
        write_ticks_of_powers(picture, factor);
    else
        write_even_ticks(picture);
}

/* --- names of curves --- */

/*
 * Sorts the names by the ends of their curves; then pushes each up from the one below, and
 * back down from the top.
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
        "set arrow from graph 1.0, first %g to graph 1.03, first %g nohead "
        "lc rgb '%s' lw 1 dt %s\n"
        "set label \"%s\" at " PICTURE_NAMES
        ", first %g left noenhanced "
        "textcolor rgb '%s'\n",
        mark->x, mark->end, mark->end, mark->color, mark->end, mark->label, mark->color,
        mark->dash ? mark->dash : "solid", mark->name, mark->label, mark->color);
}
