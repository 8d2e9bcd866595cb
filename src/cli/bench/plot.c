/*
 * redlock bench, as a picture: the percentiles above, the timeline of the run below. Curves
 * are labelled at their ends.
 */
#include "plot.h"
#include "gnuplot.h"

#include <math.h>
#include <string.h>

/* The heights of the parts, in pixels. */
#define HEAD   78
#define CURVES 400
#define GAP    84 /* between two panels: the axis, and the title of the next panel */
#define FOOT   50

#define STEP     1.01 /* the ratio of x between two points of a curve */
#define HEAD_MAX 128

/* --- what is drawn --- */

/* The caller sets the name of the mark. */
static void add_curve(struct plot *plot, const struct histogram *latency, double width,
                      const char *color, const char *dash)
{
    struct picture_mark *mark = &plot->mark[plot->curves];
    if (latency->total == 0)
        return;
    mark->color = color;
    mark->dash = dash;
    mark->x = (double)(latency->total > 2 ? latency->total : 2);
    mark->end = picture_ms(latency->most);
    plot->curve[plot->curves++] = (struct plot_curve){width, latency};
}

static void lay_out(struct plot *plot)
{
    const struct bench_result *bench_result = &plot->bench->bench_result;
    char *name;
    for (unsigned i = 0; i < bench_result->n; i++) {
        picture_name(plot->bench->nodes[i].uri, plot->mark[plot->curves].name);
        add_curve(plot, &bench_result->node[i].latency, 1.6, picture_color(i),
                  picture_dash(i));
        plot->is_strip[i] = bench_result->node[i].fault;
        plot->strips += plot->is_strip[i];
    }
    name = plot->mark[plot->curves].name;
    snprintf(name, PICTURE_NAME, "the lock: %u of %u", bench_result->q, bench_result->n);
    add_curve(plot, &bench_result->acquire, 3, PICTURE_INK, NULL);
    plot->picture.height = HEAD + CURVES + GAP + PLOT_TIMES + FOOT;
    if (plot->strips > 0)
        plot->picture.height += GAP + PLOT_STRIP * (int)plot->strips;
}

/* --- script --- */

static void write_head(const struct plot *plot)
{
    const struct bench_result *bench_result = &plot->bench->bench_result;
    char cycles[BENCH_NUMBER], text[HEAD_MAX];
    double s = (double)bench_result->elapsed_us / 1e6;
    snprintf(text, sizeof(text), "redlock bench: %s cycle%s in %.1f %s, %lld at a time",
             bench_grouped(bench_result->cycles, cycles),
             bench_result->cycles == 1 ? "" : "s", s < 1 ? s * 1000 : s, s < 1 ? "ms" : "s",
             (long long)plot->bench->workers);
    picture_head(&plot->picture, text);
}

static void write_axis(struct plot *plot)
{
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < plot->curves; i++) {
        const struct histogram *latency = plot->curve[i].latency;
        least = fmin(least, picture_ms(histogram_at(latency, HISTOGRAM_ALL / 100)));
        most = fmax(most, picture_ms(latency->most));
    }
    if (plot->curves == 0) { /* any range: nothing is drawn */
        least = 0.1;
        most = 1;
    }
    picture_latency_axis(&plot->picture, least, most);
}

/*
 * x: the number of cycles of which one takes longer, 1 / (1 - percentile). A step ends
 * where the table's percentiles change; the curve reaches the largest value at the right
 * end.
 */
static void write_curve(const struct plot *plot, size_t index)
{
    const struct histogram *latency = plot->curve[index].latency;
    size_t buckets = histogram_buckets(latency);
    uint64_t seen = 0;
    double last = 0;
    fprintf(plot->to, "$curve%zu << EOD\n1 %g\n", index, picture_ms(latency->least));
    for (size_t i = 0; i < buckets; i++) {
        if (latency->count[i] == 0)
            continue;
        seen += latency->count[i];
        double longer = (double)(latency->total - seen);
        double x = longer > 0 ? (double)latency->total / longer : plot->mark[index].x;
        int64_t bound = histogram_bound(latency, i);
        if (x < last * STEP && seen < latency->total)
            continue;
        fprintf(plot->to, "%.10g %g\n", x,
                picture_ms(bound < latency->most ? bound : latency->most));
        last = x;
    }
    fprintf(plot->to, "EOD\n");
}

static void write_percentile_axis(const struct plot *plot)
{
    char nines[24] = "99";
    uint64_t most = 0;
    for (size_t i = 0; i < plot->curves; i++)
        if (most < plot->curve[i].latency->total)
            most = plot->curve[i].latency->total;
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

static void write_curves(struct plot *plot)
{
    picture_panel(&plot->picture, HEAD, CURVES,
                  "How long the lock takes to be held, and each node to grant it");
    write_head(plot);
    write_axis(plot);
    picture_place(&plot->picture, plot->mark, plot->curves, CURVES);
    for (size_t i = 0; i < plot->curves; i++) {
        write_curve(plot, i);
        picture_mark(&plot->picture, &plot->mark[i]);
    }
    write_percentile_axis(plot);
    if (plot->curves == 0) /* gnuplot draws no panel without a curve */
        fprintf(plot->to, "plot NaN\n");
    for (size_t i = 0; i < plot->curves; i++)
        fprintf(plot->to, "%s $curve%zu with fsteps lw %g lc rgb '%s' dt %s%s",
                i > 0 ? "," : "plot", i, plot->curve[i].width, plot->mark[i].color,
                plot->mark[i].dash ? plot->mark[i].dash : "solid",
                i + 1 == plot->curves ? "\n" : "");
}

/* --- the picture --- */

static void write_script(struct plot *plot)
{
    int times = HEAD + CURVES + GAP;
    lay_out(plot);
    picture_begin(&plot->picture);
    write_curves(plot);
    plot_timeline(plot, times);
    if (plot->strips > 0)
        plot_strips(plot, times + PLOT_TIMES + GAP);
    fprintf(plot->to, "unset multiplot\n");
}

static bool draw(const struct bench *bench, struct gnuplot *gnuplot)
{
    struct plot plot = {.bench = bench, .to = gnuplot->script};
    plot.picture.script = gnuplot->script;
    write_script(&plot);
    return gnuplot_end(gnuplot);
}

/* If the drawing fails, the file keeps its content. */
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
