/*
 * redlock bench, as a picture: the timeline of the run, for the lock, and as a strip for
 * each node that did not always grant.
 */
#include "plot.h"

#include <math.h>

#define BAND  "#c3d2e6"
#define DEEP  "#5b7ba6" /* for the name of the band */
#define ALARM "#d64545"
#define DULL  "#9aa5b1"

#define LEAST_LINE 0.008 /* the least length of a line, as a part of the panel */
#define STRIP_HALF 0.38  /* half the height of a strip, as a part of its row */
#define DOTS_BELOW 1.1   /* the top of the axis divided by the height of the dots */

enum state { GRANTED, SILENT, OTHER };

/* Values of a data column. */
static const char *const state_rgb[] = {
    [GRANTED] = "0xf1f3f5", [SILENT] = "0xd64545", [OTHER] = "0x9aa5b1"};

static const struct timeline *timeline_of(const struct plot *plot)
{
    return &plot->bench->bench_result.timeline;
}

static double seconds_of(const struct plot *plot, double slot)
{
    return slot * (double)timeline_of(plot)->interval_ms / 1000;
}

static void write_time_axis(const struct plot *plot)
{
    fprintf(plot->to,
            "unset logscale x\nset xrange [0:%g]\nset xtics autofreq format '%%g s'\n",
            seconds_of(plot, (double)timeline_of(plot)->used));
}

/* --- the lock --- */

static void write_time(const struct plot *plot, size_t slot, double at)
{
    const struct histogram *acquire = &timeline_of(plot)->slot[slot].acquire;
    fprintf(plot->to, "%g %g %g %g\n", seconds_of(plot, at),
            picture_ms(histogram_at(acquire, 500000)),
            picture_ms(histogram_at(acquire, 990000)), picture_ms(acquire->most));
}

/*
 * Covers the whole first and last interval, and more if the line would be too short to see.
 */
static void write_line(const struct plot *plot, size_t first, size_t last)
{
    const struct timeline *timeline = timeline_of(plot);
    double half = first < last ? 0.5 : fmax(0.5, (double)timeline->used * LEAST_LINE / 2);
    write_time(plot, first, (double)first + 0.5 - half);
    for (size_t i = first; i <= last; i++)
        if (timeline->slot[i].acquire.total > 0)
            write_time(plot, i, (double)i + 0.5);
    write_time(plot, last, (double)last + 0.5 + half);
    fprintf(plot->to, "\n");
}

/* A line continues over intervals without a cycle, and ends where all cycles failed. */
static void write_lines(const struct plot *plot)
{
    const struct timeline *timeline = timeline_of(plot);
    bool is_line = false;
    size_t first = 0, last = 0;
    for (size_t i = 0; i < timeline->used; i++) {
        if (timeline->slot[i].acquire.total > 0) {
            first = is_line ? first : i;
            last = i;
            is_line = true;
        } else if (is_line && timeline->slot[i].failed > 0) {
            write_line(plot, first, last);
            is_line = false;
        }
    }
    if (is_line)
        write_line(plot, first, last);
}

static void write_failures(const struct plot *plot)
{
    const struct timeline *timeline = timeline_of(plot);
    for (size_t i = 0; i < timeline->used; i++)
        if (timeline->slot[i].failed > 0)
            fprintf(plot->to, "%g\n", seconds_of(plot, (double)i + 0.5));
}

/* At the last interval in which a cycle was held. */
static void write_time_marks(const struct plot *plot)
{
    static const struct {
        const char *name, *color;
        uint32_t parts;
    } lines[] = {{"p50", PICTURE_INK, 500000},
                 {"p99", DEEP, 990000},
                 {"slowest", PICTURE_FAINT, HISTOGRAM_ALL}};
    enum { LINES = sizeof(lines) / sizeof(lines[0]) };
    const struct timeline *timeline = timeline_of(plot);
    struct picture_mark mark[LINES];
    size_t last = timeline->used - 1;
    while (last > 0 && timeline->slot[last].acquire.total == 0)
        last--;
    for (size_t i = 0; i < LINES; i++) {
        mark[i] = (struct picture_mark){.color = lines[i].color,
                                        .x = seconds_of(plot, (double)last + 1)};
        mark[i].end =
            picture_ms(histogram_at(&timeline->slot[last].acquire, lines[i].parts));
        picture_name(lines[i].name, mark[i].name);
    }
    picture_place(&plot->picture, mark, LINES, PLOT_TIMES);
    for (size_t i = 0; i < LINES; i++)
        picture_mark(&plot->picture, &mark[i]);
}

static void draw_lock(const struct plot *plot, bool some_held, bool some_failed)
{
    if (some_held)
        fprintf(
            plot->to,
            "plot $times using 1:2:4 with filledcurves fs solid 0.35 noborder lc rgb '" BAND
            "', '' using 1:2:3 with filledcurves fs solid 1 noborder lc rgb '" BAND
            "', '' using 1:2 with lines lw 2 lc rgb '" PICTURE_INK "'");
    if (some_failed)
        fprintf(plot->to,
                "%s $failed using 1:(%g) with points pt 7 ps 0.5 lc rgb '" ALARM "'",
                some_held ? "," : "plot", plot->picture.most / DOTS_BELOW);
    fprintf(plot->to, "\n");
}

void plot_timeline(struct plot *plot, int top)
{
    const struct bench_result *bench_result = &plot->bench->bench_result;
    const struct histogram *acquire = &bench_result->acquire;
    bool some_held = bench_result->held > 0,
         some_failed = bench_result->held < bench_result->cycles;
    picture_panel(&plot->picture, top, PLOT_TIMES, "The lock, over the time of the run");
    fprintf(plot->to, "$times << EOD\n");
    write_lines(plot);
    fprintf(plot->to, "EOD\n$failed << EOD\n");
    write_failures(plot);
    fprintf(plot->to, "EOD\n");
    if (some_held) {
        picture_latency_axis(&plot->picture, picture_ms(acquire->least),
                             picture_ms(acquire->most));
        write_time_marks(plot);
    }
    if (some_failed)
        picture_key(&plot->picture, top, 270, "● not held", ALARM);
    write_time_axis(plot);
    draw_lock(plot, some_held, some_failed);
}

/* --- nodes that did not grant --- */

static bool has_cycle(const struct timeline_slot *slot)
{
    return slot->acquire.total + slot->failed > 0;
}

/* If no cycle began in the interval, the node keeps its state. */
static enum state plot_time_state_of(const struct timeline_slot *slot, unsigned node,
                                     enum state before)
{
    if (!has_cycle(slot))
        return before;
    if (slot->silent[node] > 0)
        return SILENT;
    return slot->other[node] > 0 ? OTHER : GRANTED;
}

static void write_box(const struct plot *plot, double row, size_t from, size_t until,
                      enum state state)
{
    double left = seconds_of(plot, (double)from), right = seconds_of(plot, (double)until);
    fprintf(plot->to, "%g %g %g %g %g %g %s\n", left, row, left, right, row - STRIP_HALF,
            row + STRIP_HALF, state_rgb[state]);
}

/*
 * Starts at the first cycle. Writes one box per state, as long as the state lasts; the
 * light box lies under all others.
 */
static void write_boxes(const struct plot *plot, unsigned node, double row)
{
    const struct timeline *timeline = timeline_of(plot);
    enum state state = GRANTED;
    size_t from = 0;
    while (from < timeline->used && !has_cycle(&timeline->slot[from]))
        from++;
    write_box(plot, row, from, timeline->used, GRANTED);
    for (size_t i = from; i < timeline->used; i++) {
        enum state next = plot_time_state_of(&timeline->slot[i], node, state);
        if (next != state && state != GRANTED)
            write_box(plot, row, from, i, state);
        if (next != state)
            from = i;
        state = next;
    }
    if (state != GRANTED)
        write_box(plot, row, from, timeline->used, state);
}

static void write_strip(const struct plot *plot, unsigned node, double row)
{
    char name[PICTURE_NAME];
    picture_name(plot->bench->nodes[node].uri, name);
    fprintf(plot->to,
            "set label \"%s\" at " PICTURE_NAMES
            ", first %g left noenhanced "
            "textcolor rgb '%s'\n"
            "$strip%u << EOD\n",
            name, row, picture_color(node), node);
    write_boxes(plot, node, row);
    fprintf(plot->to, "EOD\n");
}

void plot_strips(const struct plot *plot, int top)
{
    const char *between = "plot ";
    double row = (double)plot->strips - 0.5;
    picture_panel(&plot->picture, top, PLOT_STRIP * (int)plot->strips,
                  "Nodes that did not grant");
    picture_key(&plot->picture, top, 200, "■ no answer in time", ALARM);
    picture_key(&plot->picture, top, 350, "■ refused, lost or not asked", DULL);
    fprintf(plot->to, "unset logscale y\nset yrange [0:%zu]\nunset ytics\nunset grid\n",
            plot->strips);
    for (unsigned i = 0; i < plot->bench->bench_result.n; i++)
        if (plot->is_strip[i])
            write_strip(plot, i, row--);
    write_time_axis(plot);
    for (unsigned i = 0; i < plot->bench->bench_result.n; i++) {
        if (!plot->is_strip[i])
            continue;
        fprintf(plot->to,
                "%s$strip%u using 1:2:3:4:5:6:7 with boxxyerror fs solid 1 noborder "
                "lc rgb variable",
                between, i);
        between = ", ";
    }
    fprintf(plot->to, "\n");
}
