/*
 * redlock bench, as a picture: above the percentiles, below the time of the run, and a
 * strip for each node that did not always grant. Curves are labelled where they end.
 */
#include "bench.h"
#include "gnuplot.h"
#include "picture.h"

#include <math.h>
#include <string.h>

/* How high each part is, in pixels. */
#define HEAD   78
#define CURVES 400
#define GAP    84 /* between two panels: the axis, and the next one's title */
#define TIMES  170
#define STRIP  20
#define FOOT   50

#define STEP      1.01 /* points of a curve are this far apart, of its x */
#define BAND      "#c3d2e6"
#define DEEP      "#5b7ba6" /* of the band's name */
#define ALARM     "#d64545"
#define DULL      "#9aa5b1"
#define ALARM_RGB "0xd64545" /* the same in a column of data */
#define DULL_RGB  "0x9aa5b1"
#define SHADE_RGB "0xf1f3f5"

static const char *const colors[] = {
    "#3d6fb4", "#e07b39", "#3f9c5a", "#9467bd", "#1f9aa5", "#a0624e", "#cf5f9b", "#7d8b2e",
};
#define COLORS (sizeof(colors) / sizeof(colors[0]))

struct curve {
    double width;
    const struct histogram *latency;
};

struct plot {
    const struct bench *bench;
    struct picture picture;
    FILE *to; /* the script of the picture */
    struct curve curve[REDLOCK_NODES_MAX + 1];
    struct picture_mark mark[REDLOCK_NODES_MAX + 1]; /* of each curve */
    size_t curves, strips;
    bool is_strip[REDLOCK_NODES_MAX];
};

/* --- words --- */

/* A long one loses its middle; nothing in it may end gnuplot's string, or call a shell. */
static void name_node(const char *uri, char ret_name[PICTURE_NAME])
{
    const char *scheme = strstr(uri, "://");
    const char *name = scheme ? scheme + 3 : uri;
    size_t len = strlen(name), half = PICTURE_NAME_SHOWN / 2;
    if (len > PICTURE_NAME_SHOWN)
        snprintf(ret_name, PICTURE_NAME, "%.*s…%s", (int)half, name, name + len - half);
    else
        snprintf(ret_name, PICTURE_NAME, "%s", name);
    for (char *at = ret_name; *at; at++)
        if (*at == '"' || *at == '\\' || *at == '`' || (unsigned char)*at < ' ')
            *at = '?';
}

static const char *color_of(unsigned node)
{
    return colors[node % COLORS];
}

static double ms_of(int64_t us)
{
    return (double)(us > 0 ? us : 1) / 1000;
}

/* --- what is to be drawn --- */

static void add_curve(struct plot *plot, const char *name, const char *color, double width,
                      const struct histogram *latency)
{
    struct picture_mark *mark = &plot->mark[plot->curves];
    if (latency->total == 0)
        return;
    snprintf(mark->name, sizeof(mark->name), "%s", name);
    mark->color = color;
    mark->x = (double)latency->total;
    mark->end = ms_of(latency->most);
    plot->curve[plot->curves] = (struct curve){width, latency};
    plot->picture.least =
        fmin(plot->picture.least, ms_of(histogram_at(latency, HISTOGRAM_ALL / 100)));
    plot->picture.most = fmax(plot->picture.most, ms_of(latency->most));
    plot->curves++;
}

static void lay_out(struct plot *plot)
{
    const struct tally *tally = &plot->bench->tally;
    char name[PICTURE_NAME];
    plot->picture.least = INFINITY;
    for (unsigned i = 0; i < tally->n; i++) {
        name_node(plot->bench->nodes[i].uri, name);
        add_curve(plot, name, color_of(i), 1.6, &tally->node[i].latency);
        plot->is_strip[i] = tally->node[i].fault;
        plot->strips += plot->is_strip[i];
    }
    snprintf(name, sizeof(name), "the lock: %u of %u", tally->q, tally->n);
    add_curve(plot, name, PICTURE_INK, 3, &tally->acquire);
    if (plot->curves == 0) { /* any: there is nothing to be drawn */
        plot->picture.least = 0.1;
        plot->picture.most = 1;
    }
    plot->picture.least /= 1.15;
    plot->picture.most *= 1.15;
    picture_place(&plot->picture, plot->mark, plot->curves, CURVES);
    plot->picture.height = HEAD + CURVES + GAP + TIMES + FOOT;
    if (plot->strips > 0)
        plot->picture.height += GAP + STRIP * (int)plot->strips;
}

/* --- script --- */

static void write_head(const struct plot *plot)
{
    char cycles[BENCH_NUMBER];
    const struct tally *tally = &plot->bench->tally;
    fprintf(plot->to,
            "set label \"redlock bench: %s cycles in %.1f s, %lld at a time\" "
            "at screen %f, screen %f left font ',12' textcolor rgb '" PICTURE_FAINT "'\n",
            bench_grouped(tally->cycles, cycles), (double)tally->elapsed_us / 1e6,
            (long long)plot->bench->lanes, PICTURE_LEFT, 1 - 24.0 / plot->picture.height);
}

/* x: how many cycles there are to one that takes longer; 1 / (1 - percentile). */
static void write_curve(const struct plot *plot, size_t index)
{
    const struct histogram *latency = plot->curve[index].latency;
    size_t buckets = histogram_buckets(latency);
    uint64_t seen = 0;
    double last = 0;
    fprintf(plot->to, "$curve%zu << EOD\n1 %g\n", index, ms_of(latency->least));
    for (size_t i = 0; i < buckets; i++) {
        if (latency->count[i] == 0)
            continue;
        seen += latency->count[i];
        double x = (double)latency->total / (double)(latency->total - (seen - 1));
        int64_t bound = histogram_bound(latency, i);
        if (x < last * STEP && seen < latency->total)
            continue;
        fprintf(plot->to, "%.10g %g\n", x,
                ms_of(bound < latency->most ? bound : latency->most));
        last = x;
    }
    fprintf(plot->to, "EOD\n");
}

static void write_percentile_axis(const struct plot *plot, uint64_t most)
{
    char nines[24] = "99";
    fprintf(plot->to, "set logscale x\nset xrange [1:%llu]\nset xtics (\"least\" 1",
            (unsigned long long)(most > 2 ? most : 2));
    if (most >= 2)
        fprintf(plot->to, ", \"p50\" 2");
    if (most >= 10)
        fprintf(plot->to, ", \"p90\" 10");
    for (uint64_t x = 100; x <= most; x *= 10) {
        fprintf(plot->to, ", \"p%s\" %llu", nines, (unsigned long long)x);
        strcat(nines, strchr(nines, '.') ? "9" : ".9");
    }
    fprintf(plot->to, ")\n");
}

static void write_curves(const struct plot *plot)
{
    const char *between = "";
    uint64_t most = 0;
    picture_panel(&plot->picture, HEAD, CURVES,
                  "How long the lock takes to be held, and each node to grant it");
    write_head(plot);
    for (size_t i = 0; i < plot->curves; i++) {
        write_curve(plot, i);
        picture_mark(&plot->picture, &plot->mark[i]);
        if (most < plot->curve[i].latency->total)
            most = plot->curve[i].latency->total;
    }
    write_percentile_axis(plot, most);
    if (plot->curves == 0) /* gnuplot draws no panel without a curve */
        fprintf(plot->to, "plot NaN\n");
    for (size_t i = 0; i < plot->curves; i++, between = ", ")
        fprintf(plot->to, "%s$curve%zu with lines lw %g lc rgb '%s'%s",
                i ? between : "plot ", i, plot->curve[i].width, plot->mark[i].color,
                i + 1 == plot->curves ? "\n" : "");
}

/* --- time --- */

static double seconds_of(const struct plot *plot, double slot)
{
    return slot * (double)plot->bench->tally.timeline.interval_ms / 1000;
}

static void write_times(const struct plot *plot)
{
    const struct timeline *timeline = &plot->bench->tally.timeline;
    fprintf(plot->to, "$times << EOD\n");
    for (size_t i = 0; i < timeline->used; i++) {
        const struct histogram *acquire = &timeline->slot[i].acquire;
        if (acquire->total == 0)
            fprintf(plot->to, "\n"); /* nothing was held: the line is broken */
        else
            fprintf(plot->to, "%g %g %g %g\n", seconds_of(plot, (double)i + 0.5),
                    ms_of(histogram_at(acquire, 500000)),
                    ms_of(histogram_at(acquire, 990000)), ms_of(acquire->most));
    }
    fprintf(plot->to, "EOD\n$failed << EOD\n");
    for (size_t i = 0; i < timeline->used; i++)
        if (timeline->slot[i].failed > 0)
            fprintf(plot->to, "%g\n", seconds_of(plot, (double)i + 0.5));
    fprintf(plot->to, "EOD\n");
}

static void write_time_axis(const struct plot *plot)
{
    const struct timeline *timeline = &plot->bench->tally.timeline;
    fprintf(plot->to,
            "unset logscale x\nset xrange [0:%g]\nset xtics autofreq format '%%g s'\n",
            seconds_of(plot, (double)timeline->used));
}

/* Of the last interval in which something was held. */
static void write_time_marks(const struct plot *plot)
{
    static const struct {
        const char *name, *color;
        uint32_t parts;
    } lines[] = {{"p50", PICTURE_INK, 500000},
                 {"p99", DEEP, 990000},
                 {"slowest", PICTURE_FAINT, HISTOGRAM_ALL}};
    enum { LINES = sizeof(lines) / sizeof(lines[0]) };
    const struct timeline *timeline = &plot->bench->tally.timeline;
    struct picture_mark mark[LINES];
    size_t last = timeline->used - 1;
    while (last > 0 && timeline->slot[last].acquire.total == 0)
        last--;
    for (size_t i = 0; i < LINES; i++) {
        mark[i] = (struct picture_mark){.color = lines[i].color,
                                        .x = seconds_of(plot, (double)last + 0.5)};
        mark[i].end = ms_of(histogram_at(&timeline->slot[last].acquire, lines[i].parts));
        snprintf(mark[i].name, sizeof(mark[i].name), "%s", lines[i].name);
    }
    picture_place(&plot->picture, mark, LINES, TIMES);
    for (size_t i = 0; i < LINES; i++)
        picture_mark(&plot->picture, &mark[i]);
}

static void write_timeline(const struct plot *plot, int top)
{
    const struct tally *tally = &plot->bench->tally;
    picture_panel(&plot->picture, top, TIMES, "The lock, over the time of the run");
    write_times(plot);
    if (tally->held > 0)
        write_time_marks(plot);
    if (tally->held < tally->cycles)
        picture_key(&plot->picture, top, 270, "● not held", ALARM);
    write_time_axis(plot);
    if (tally->held > 0)
        fprintf(
            plot->to,
            "plot $times using 1:2:4 with filledcurves fs solid 0.35 noborder lc rgb '" BAND
            "', '' using 1:2:3 with filledcurves fs solid 1 noborder lc rgb '" BAND
            "', '' using 1:2 with lines lw 2 lc rgb '" PICTURE_INK "'");
    if (tally->held < tally->cycles)
        fprintf(plot->to,
                "%s $failed using 1:(%g) with points pt 7 ps 0.5 lc rgb '" ALARM "'",
                tally->held > 0 ? "," : "plot", plot->picture.most / 1.1);
    fprintf(plot->to, "\n");
}

/* --- nodes that did not grant --- */

static void write_strip(const struct plot *plot, unsigned index, double row)
{
    const struct timeline *timeline = &plot->bench->tally.timeline;
    char name[PICTURE_NAME];
    name_node(plot->bench->nodes[index].uri, name);
    fprintf(plot->to,
            "set label \"%s\" at graph 1.025, first %g left noenhanced textcolor rgb '%s'\n"
            "$strip%u << EOD\n",
            name, row, color_of(index), index);
    fprintf(plot->to, "%g %g %g %g %g %g " SHADE_RGB "\n", 0.0, row, 0.0,
            seconds_of(plot, (double)timeline->used), row - 0.38, row + 0.38);
    for (size_t i = 0; i < timeline->used; i++) {
        const struct timeline_slot *slot = &timeline->slot[i];
        if (slot->silent[index] + slot->other[index] > 0)
            fprintf(plot->to, "%g %g %g %g %g %g %s\n", seconds_of(plot, (double)i), row,
                    seconds_of(plot, (double)i), seconds_of(plot, (double)i + 1),
                    row - 0.38, row + 0.38, slot->silent[index] > 0 ? ALARM_RGB : DULL_RGB);
    }
    fprintf(plot->to, "EOD\n");
}

static void write_strips(const struct plot *plot, int top)
{
    const char *between = "plot ";
    double row = (double)plot->strips - 0.5;
    picture_panel(&plot->picture, top, STRIP * (int)plot->strips,
                  "Nodes that did not grant");
    picture_key(&plot->picture, top, 200, "■ no answer in time", ALARM);
    picture_key(&plot->picture, top, 350, "■ refused, or not asked", DULL);
    fprintf(plot->to, "unset logscale y\nset yrange [0:%zu]\nunset ytics\nunset grid\n",
            plot->strips);
    for (unsigned i = 0; i < plot->bench->tally.n; i++)
        if (plot->is_strip[i])
            write_strip(plot, i, row--);
    write_time_axis(plot);
    for (unsigned i = 0; i < plot->bench->tally.n; i++) {
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

/* --- the picture --- */

static void write_script(struct plot *plot)
{
    int times = HEAD + CURVES + GAP;
    lay_out(plot);
    picture_begin(&plot->picture);
    picture_latency_axis(&plot->picture);
    write_curves(plot);
    write_timeline(plot, times);
    if (plot->strips > 0)
        write_strips(plot, times + TIMES + GAP);
    fprintf(plot->to, "unset multiplot\n");
}

static bool draw(const struct bench *bench, struct gnuplot *gnuplot)
{
    struct plot plot = {.bench = bench, .to = gnuplot->script};
    plot.picture.script = gnuplot->script;
    write_script(&plot);
    return gnuplot_end(gnuplot);
}

/* A drawing that fails leaves the file as it is. */
bool bench_plot(struct bench *bench)
{
    struct gnuplot gnuplot;
    if (!bench->plot.path)
        return true;
    int error = gnuplot_begin(&gnuplot);
    if (error) {
        cli_complain("gnuplot: %s", strerror(error));
        return false;
    }
    bool drawn = draw(bench, &gnuplot);
    if (drawn) {
        outfile_begin(&bench->plot);
        gnuplot_copy(&gnuplot, bench->plot.stream);
        outfile_note(&bench->plot);
    } else {
        cli_complain("%s: gnuplot failed", bench->plot.path);
    }
    gnuplot_free(&gnuplot);
    return drawn && outfile_end(&bench->plot);
}

void bench_plot_check(const struct bench *bench)
{
    struct gnuplot gnuplot;
    if (!bench->plot.path)
        return;
    int error = gnuplot_begin(&gnuplot);
    if (error)
        cli_fail(CLI_CONFIG, "--plot needs gnuplot (package gnuplot-nox): %s",
                 strerror(error));
    fprintf(gnuplot.script,
            "set terminal svg\nset xrange [0:1]\nset yrange [0:1]\n"
            "plot NaN\n");
    if (!gnuplot_end(&gnuplot))
        cli_fail(CLI_CONFIG, "--plot: gnuplot cannot draw SVG");
    gnuplot_free(&gnuplot);
}
