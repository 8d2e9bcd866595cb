/*
 * sim --seeds N [--from S|fresh] [--json FILE] [--stop]
 * sim --seed S [--trace]
 * sim --hash N [--from S]
 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "world.h"

static const char usage_text[] =
    "usage: sim --seeds N [--from S|fresh] [--json FILE] [--stop]\n"
    "           plays N seeds, from 1 or S on, or from one that nobody has seen;\n"
    "           --stop: until the first that breaks something\n"
    "       sim --seed S [--trace]    plays one, and tells its story\n"
    "       sim --hash N [--from S]   prints one hash of the traces of N seeds\n";

#define REPORTS_MAX 10
#define FRESH_SEEDS UINT64_C(1000000000000)

static struct world world;
static struct figures figures;

static double seconds(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

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
        .years = (double)figures.time / 1e6 / second_per_year,
        .events = (double)figures.events / n,
        .acquisitions = (double)figures.acquisitions / n,
        .clients = (double)figures.clients_that_acquired / n,
    };
}

static void print_line(uint64_t from, double took)
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

static bool write_json(const char *path, uint64_t from, double took)
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
            ", \"mishaps\": {",
            from, figures.schedules, per.schedules_per_s, per.years, per.events_per_s,
            per.events, per.acquisitions, per.clients, figures.alone, figures.violations,
            figures.outside[BOUND_CLOCK], figures.nearest_ppm, figures.outside[BOUND_STEP],
            figures.outside[BOUND_MEMORY]);
    static const char *const names[] = {
#define X(name, text) #name,
        MISHAPS(X)
#undef X
    };
    for (unsigned i = 0; i < MISHAP_COUNT; i++)
        fprintf(file, "%s\"%s\": %" PRIu64, i > 0 ? ", " : "", names[i],
                figures.mishaps[i]);
    fprintf(file, "}}\n");
    return fclose(file) == 0;
}

static void report(uint64_t seed)
{
    const struct verdict *verdict = &world.verdict;
    printf("seed %" PRIu64
           ": %s: %s (%s, at %.3f ms)\n"
           "    ./dev sim --seed %" PRIu64 " --trace\n",
           seed, invariant_name(verdict->broken), invariant_text(verdict->broken),
           verdict->text, (double)(verdict->at - RL_SECOND) / 1000, seed);
}

/* An assertion of the core that fails names the seed, too. */
static void on_abort(int number)
{
    char text[64];
    int len = snprintf(text, sizeof(text), "seed %" PRIu64 ": ASSERTION\n", world.seed);
    (void)!write(STDOUT_FILENO, text, (size_t)len);
    (void)number;
    _exit(3);
}

static bool play_many(uint64_t from, uint64_t count, bool stop)
{
    for (uint64_t i = 0; i < count; i++) {
        world_play(&world, from + i);
        if (world.verdict.broken == INVARIANT_NONE)
            continue;
        if (figures.violations <= REPORTS_MAX)
            report(from + i);
        if (stop)
            return false;
    }
    return figures.violations == 0;
}

static int usage(void)
{
    fputs(usage_text, stderr);
    return 64;
}

static bool read_number(const char *text, uint64_t *ret)
{
    char *end;
    *ret = strtoull(text ? text : "", &end, 10);
    return text && *text >= '0' && *text <= '9' && *end == '\0';
}

static bool read_from(const char *text, uint64_t *ret)
{
    if (!text || strcmp(text, "fresh") != 0)
        return read_number(text, ret);
    if (getrandom(ret, sizeof(*ret), 0) != sizeof(*ret))
        return false;
    *ret %= FRESH_SEEDS;
    return true;
}

struct arguments {
    uint64_t seeds, from, seed, hash;
    const char *json;
    bool trace, stop, has_seed;
};

static bool read_arguments(char **argv, struct arguments *arguments)
{
    *arguments = (struct arguments){.from = 1};
    for (char **at = argv + 1; *at; at++) {
        if (strcmp(*at, "--trace") == 0) {
            arguments->trace = true;
            continue;
        }
        if (strcmp(*at, "--stop") == 0) {
            arguments->stop = true;
            continue;
        }
        const char *name = *at++;
        bool read = false;
        if (strcmp(name, "--seeds") == 0)
            read = read_number(*at, &arguments->seeds);
        else if (strcmp(name, "--from") == 0)
            read = read_from(*at, &arguments->from);
        else if (strcmp(name, "--hash") == 0)
            read = read_number(*at, &arguments->hash);
        else if (strcmp(name, "--seed") == 0)
            read = arguments->has_seed = read_number(*at, &arguments->seed);
        else if (strcmp(name, "--json") == 0)
            read = (arguments->json = *at) != NULL;
        if (!read) /* also where the value is missing: there the words end */
            return false;
    }
    return arguments->seeds > 0 || arguments->has_seed || arguments->hash > 0;
}

static int play_one(uint64_t seed, bool trace)
{
    world.trace.to = trace ? stdout : NULL;
    world_play(&world, seed);
    if (!trace) {
        if (world.verdict.broken != INVARIANT_NONE)
            report(seed);
        printf("seed %" PRIu64 ": %u acquisitions, hash %016" PRIx64 "\n", seed,
               world.acquisitions, world.trace.hash);
    }
    return world.verdict.broken == INVARIANT_NONE ? 0 : 1;
}

static int hash_many(uint64_t from, uint64_t count)
{
    uint64_t hash = 0;
    for (uint64_t i = 0; i < count; i++) {
        world_play(&world, from + i);
        hash = (hash ^ world.trace.hash) * UINT64_C(0x100000001b3);
    }
    printf("%016" PRIx64 "\n", hash);
    return 0;
}

int main(int argc, char **argv)
{
    struct arguments arguments;
    (void)argc;
    if (!read_arguments(argv, &arguments))
        return usage();
    world.figures = &figures;
    signal(SIGABRT, on_abort);
    setvbuf(stdout, NULL, _IOLBF, 0); /* what was told before an assertion fails is read */
    if (arguments.has_seed)
        return play_one(arguments.seed, arguments.trace);
    if (arguments.hash > 0)
        return hash_many(arguments.from, arguments.hash);
    double start = seconds();
    bool well = play_many(arguments.from, arguments.seeds, arguments.stop);
    double took = seconds() - start;
    print_line(arguments.from, took);
    if (arguments.json && !write_json(arguments.json, arguments.from, took))
        return 2;
    return well ? 0 : 1;
}
