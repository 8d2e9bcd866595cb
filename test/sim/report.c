#include "report.h"

#include <inttypes.h>

#include "world.h"

static const double second_per_year = 365.25 * 24 * 3600;

struct per_schedule {
    double schedules_per_s, events_per_s, years, events, acquisitions, clients;
};

static struct per_schedule derive(double took)
{
    double n = figures.schedules > 0 ? (double)figures.schedules : 1;
    return (struct per_schedule){
        .schedules_per_s = (double)figures.schedules / took,
        .events_per_s = (double)figures.events / took,
        .years = (double)figures.time / 1e9 / second_per_year,
        .events = (double)figures.events / n,
        .acquisitions = (double)figures.acquisitions / n,
        .clients = (double)figures.clients_that_acquired / n,
    };
}

void report_print(uint64_t from, double took)
{
    struct per_schedule per = derive(took);
    printf("%" PRIu64 " schedules from seed %" PRIu64
           " on, %.0f schedules/s, %.2f simulated years, %.0f events/s, "
           "%.0f events, %.1f acquisitions and %.1f acquiring clients per schedule, "
           "%" PRIu64 " violations (outside the bounds: %" PRIu64
           " by clocks, from %d ppm beyond on, %" PRIu64
           " by clocks that were set, and %" PRIu64 " by lost memory)\n",
           figures.schedules, from, per.schedules_per_s, per.years, per.events_per_s,
           per.events, per.acquisitions, per.clients, figures.violations,
           figures.outside[BOUND_CLOCK], figures.nearest_ppm, figures.outside[BOUND_STEP],
           figures.outside[BOUND_MEMORY]);
}

bool report_write_json(const char *path, uint64_t from, double took)
{
    struct per_schedule per = derive(took);
    FILE *file = fopen(path, "w");
    if (!file) {
        fprintf(stderr, "sim: cannot write %s\n", path);
        return false;
    }
    fprintf(file,
            "{\"first_seed\": %" PRIu64 ", \"schedules\": %" PRIu64
            ", \"schedules_per_s\": %.1f, \"simulated_years\": %.4f, "
            "\"events_per_s\": %.0f, \"events_per_schedule\": %.1f, "
            "\"acquisitions_per_schedule\": %.2f, \"clients_per_schedule\": %.2f, "
            "\"schedules_of_one_client\": %" PRIu64 ", \"violations\": %" PRIu64
            ", \"outside_by_clocks\": %" PRIu64
            ", \"outside_from_ppm\": %d"
            ", \"outside_by_steps\": %" PRIu64 ", \"outside_by_memory\": %" PRIu64
            ", \"faults\": {",
            from, figures.schedules, per.schedules_per_s, per.years, per.events_per_s,
            per.events, per.acquisitions, per.clients, figures.alone, figures.violations,
            figures.outside[BOUND_CLOCK], figures.nearest_ppm, figures.outside[BOUND_STEP],
            figures.outside[BOUND_MEMORY]);
    for (unsigned i = 0; i < FAULT_COUNT; i++)
        fprintf(file, "%s\"%s\": %" PRIu64, i > 0 ? ", " : "", fault_name((enum fault)i),
                figures.faults[i]);
    fprintf(file, "}}\n");
    return fclose(file) == 0;
}

#define ENOUGH 2000 /* schedules: in so many each fault strikes */

bool report_print_faults(bool all_kinds)
{
    bool all = true;
    for (unsigned i = 0; i < FAULT_COUNT; i++) {
        bool never = all_kinds && figures.faults[i] == 0 && figures.schedules >= ENOUGH;
        printf("%12" PRIu64 "  %s%s\n", figures.faults[i], fault_text((enum fault)i),
               never ? ": NEVER" : "");
        all = all && !never;
    }
    return all;
}

void report_add(const struct figures *more)
{
    int32_t nearest = figures.nearest_ppm;
    uint64_t *to = (uint64_t *)&figures;
    const uint64_t *from = (const uint64_t *)more;
    for (size_t i = 0; i < FIGURES_SUMS; i++)
        to[i] += from[i];
    if (nearest == 0 || (more->nearest_ppm > 0 && more->nearest_ppm < nearest))
        figures.nearest_ppm = more->nearest_ppm;
}
