/*
 * sim --seeds N [--from S|fresh] [--kind KIND] [--jobs N] [--json FILE] [--stop]
 * sim --minutes M [--from S] [--kind KIND] [--jobs N] [--json FILE]
 * sim --seed S [--trace] [--storm N] [--without FAULTS] [--model MODEL]
 * sim --hash N [--from S]
 * sim --lua-lines N [--from S]
 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "redis/script_lines.h"
#include "report.h"
#include "shorten.h"
#include "world.h"

static const char usage_text[] =
    "usage: sim --seeds N [--from S|fresh] [--kind KIND] [--jobs N] [--json FILE] "
    "[--stop]\n"
    "           plays N seeds, from 1 or S on, or from one that nobody has seen;\n"
    "           --kind: those of this kind: single, set, redisson, shared, slot, members;\n"
    "           --stop: until the first that breaks something\n"
    "       sim --minutes M [--from S] [--kind KIND] [--jobs N] [--json FILE]\n"
    "           plays new seeds for so long\n"
    "       sim --seed S [--trace] [--storm N] [--without FAULTS] [--model MODEL]\n"
    "           plays one, and tells its story; if it breaks something, it is shortened:\n"
    "           to the first N events of the storm, without some of the faults;\n"
    "           --model: a run that does no more than this model has: round, marker\n"
    "       sim --hash N [--from S]   prints one hash of the traces of N seeds\n"
    "       sim --lua-lines N [--from S]\n"
    "           prints the lines of the scripts that N seeds do not execute\n";

#define REPORTS_MAX 10
#define JOBS_MAX    64
#define FRESH_SEEDS UINT64_C(1000000000000)

static double seconds(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

static void report(uint64_t seed)
{
    const struct verdict *verdict = &world.verdict;
    printf("seed %" PRIu64
           ": %s: %s (%s, at %.3f ms)\n"
           "    ./dev sim --seed %" PRIu64 " --trace\n",
           seed, invariant_name(verdict->broken), invariant_text(verdict->broken),
           verdict->text, (double)(verdict->at - VIRTUAL_S) / 1e6, seed);
}

#define STORY_MAX 200 /* lines, the last */

static void tell_end(const char *story, size_t len)
{
    const char *from = story + len;
    for (unsigned lines = 0; from > story && lines <= STORY_MAX; from--)
        lines += from[-1] == '\n';
    fputs(from > story ? from + 1 : story, stdout);
}

/* The run that is played anew counts nothing. */
static void tell_shortest(uint64_t seed, struct cut cut)
{
    const struct figures counted = figures;
    cut = shorten(seed, cut);
    printf("the shortest that breaks the same: %" PRIu64
           " events\n"
           "    ./dev sim --seed %" PRIu64 "%s --trace\n",
           cut.events, seed, shorten_arguments(&cut));
    char *story = NULL;
    size_t len = 0;
    world.trace.to = open_memstream(&story, &len);
    world_play(seed, &cut);
    if (world.trace.to && fclose(world.trace.to) == 0)
        tell_end(story, len);
    world.trace.to = NULL;
    free(story);
    figures = counted;
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

struct arguments {
    uint64_t seeds, from, seed, hash, minutes, jobs, lua_lines;
    const char *json;
    bool trace, stop, has_seed, has_kind;
    enum kind kind;
    struct cut cut;
};

/* The next one that is played, from `seed` on. */
static uint64_t next_seed(const struct arguments *arguments, uint64_t seed)
{
    while (arguments->has_kind && plan_kind(seed) != arguments->kind)
        seed++;
    return seed;
}

/* Every `step`-th seed. */
static void play_many(const struct arguments *arguments, uint64_t first, uint64_t step)
{
    double end = seconds() + 60.0 * (double)arguments->minutes;
    uint64_t seed = next_seed(arguments, arguments->from);
    for (uint64_t i = 0; arguments->minutes || i < arguments->seeds;
         i++, seed = next_seed(arguments, seed + 1)) {
        if (i % step != first)
            continue;
        if (arguments->minutes && seconds() >= end)
            return;
        world_play(seed, NULL);
        if (world.verdict.broken == INVARIANT_NONE)
            continue;
        if (figures.violations <= REPORTS_MAX)
            report(seed);
        if (arguments->stop)
            return;
        if (figures.violations == 1)
            tell_shortest(seed, (struct cut){0});
    }
}

/* A process for each job; what they have counted comes through pipes. */
static bool play_in_jobs(const struct arguments *arguments)
{
    int from[JOBS_MAX];
    bool well = true;
    for (uint64_t i = 0; i < arguments->jobs; i++) {
        int ends[2];
        if (pipe(ends) != 0)
            return false;
        from[i] = ends[0];
        pid_t pid = fork();
        if (pid == 0) {
            play_many(arguments, i, arguments->jobs);
            bool sent = write(ends[1], &figures, sizeof(figures)) == sizeof(figures);
            fflush(stdout);
            _exit(sent ? 0 : 2);
        }
        close(ends[1]);
    }
    for (uint64_t i = 0; i < arguments->jobs; i++) {
        struct figures more;
        bool whole = read(from[i], &more, sizeof(more)) == sizeof(more);
        well = well && whole;
        if (whole)
            report_add(&more);
        close(from[i]);
    }
    while (wait(NULL) > 0)
        ;
    return well;
}

static bool play(const struct arguments *arguments)
{
    if (arguments->jobs > 1)
        return play_in_jobs(arguments);
    play_many(arguments, 0, 1);
    return true;
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

static uint64_t cores(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > JOBS_MAX ? JOBS_MAX : (uint64_t)count;
}

static bool read_arguments(char **argv, struct arguments *arguments)
{
    *arguments = (struct arguments){0};
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
        else if (strcmp(name, "--minutes") == 0)
            read = read_number(*at, &arguments->minutes);
        else if (strcmp(name, "--jobs") == 0)
            read = read_number(*at, &arguments->jobs) && arguments->jobs > 0 &&
                   arguments->jobs <= JOBS_MAX;
        else if (strcmp(name, "--from") == 0)
            read = read_from(*at, &arguments->from);
        else if (strcmp(name, "--kind") == 0)
            read = arguments->has_kind = *at && plan_find_kind(*at, &arguments->kind);
        else if (strcmp(name, "--hash") == 0)
            read = read_number(*at, &arguments->hash);
        else if (strcmp(name, "--lua-lines") == 0)
            read = read_number(*at, &arguments->lua_lines);
        else if (strcmp(name, "--seed") == 0)
            read = arguments->has_seed = read_number(*at, &arguments->seed);
        else if (strcmp(name, "--storm") == 0)
            read = read_number(*at, &arguments->cut.events);
        else if (strcmp(name, "--without") == 0)
            read = *at && shorten_read_names(*at, &arguments->cut.without);
        else if (strcmp(name, "--model") == 0)
            read = plan_find_model(*at, &arguments->cut.model);
        else if (strcmp(name, "--json") == 0)
            read = (arguments->json = *at) != NULL;
        if (!read) /* also where the value is missing: there the words end */
            return false;
    }
    if (arguments->stop)
        arguments->jobs = 1;
    if (arguments->jobs == 0)
        arguments->jobs = cores();
    if (arguments->from == 0 &&
        !(arguments->minutes && read_from("fresh", &arguments->from)))
        arguments->from = 1;
    return arguments->seeds > 0 || arguments->minutes > 0 || arguments->has_seed ||
           arguments->hash > 0 || arguments->lua_lines > 0;
}

/* One that breaks something is shortened, unless it is traced. */
static int play_one(const struct arguments *arguments)
{
    uint64_t seed = arguments->seed;
    world.trace.to = arguments->trace ? stdout : NULL;
    world_play(seed, &arguments->cut);
    bool broken = world.verdict.broken != INVARIANT_NONE;
    if (arguments->trace)
        return broken;
    if (broken)
        report(seed);
    printf("seed %" PRIu64 ": %u acquisitions, hash %016" PRIx64 "\n", seed,
           world.acquisitions, world.trace.hash);
    if (broken)
        tell_shortest(seed, arguments->cut);
    return broken;
}

static int hash_many(uint64_t from, uint64_t count)
{
    uint64_t hash = 0;
    for (uint64_t i = 0; i < count; i++) {
        world_play(from + i, NULL);
        hash = (hash ^ world.trace.hash) * UINT64_C(0x100000001b3);
    }
    printf("%016" PRIx64 "\n", hash);
    return 0;
}

static int print_lines(uint64_t from, uint64_t count)
{
    script_lines_watch();
    for (uint64_t i = 0; i < count; i++)
        world_play(from + i, NULL);
    return scripts_print_lines(stdout) ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct arguments arguments;
    (void)argc;
    if (!read_arguments(argv, &arguments))
        return usage();
    signal(SIGABRT, on_abort);
    setvbuf(stdout, NULL, _IOLBF, 0); /* what was told before an assertion fails is read */
    if (arguments.has_seed)
        return play_one(&arguments);
    if (arguments.hash > 0)
        return hash_many(arguments.from, arguments.hash);
    if (arguments.lua_lines > 0)
        return print_lines(arguments.from, arguments.lua_lines);
    double start = seconds();
    bool well = play(&arguments);
    double took = seconds() - start;
    well = report_print_faults(!arguments.has_kind) && well && figures.violations == 0;
    report_print(arguments.from, took);
    if (arguments.json && !report_write_json(arguments.json, arguments.from, took))
        return 2;
    return well ? 0 : 1;
}
