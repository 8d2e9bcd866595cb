#include "shorten.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "world.h"

static void pass(int number)
{
    (void)number;
    _exit(INVARIANT_NONE);
}

/* Runs in a child: a shorter run may fail an assertion, which ends the process. */
static bool still_breaks(uint64_t seed, const struct cut *cut, enum invariant invariant)
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, pass);
        if (!freopen("/dev/null", "w", stderr))
            _exit(INVARIANT_NONE);
        world_play(seed, cut);
        _exit((int)world.verdict.broken);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == (int)invariant;
}

/* Nothing of the storm is needed that comes after the break. */
static bool cut_storm(uint64_t seed, struct cut *cut, enum invariant invariant)
{
    static const unsigned parts[] = {2, 4, 8, 16, 64};
    const uint64_t events = cut->events;
    for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        struct cut less = *cut;
        less.events -= less.events / parts[i];
        if (less.events > 0 && still_breaks(seed, &less, invariant))
            *cut = less;
    }
    return cut->events < events;
}

static bool cut_faults(uint64_t seed, struct cut *cut, enum invariant invariant,
                       uint64_t present)
{
    const uint64_t without = cut->without;
    for (unsigned i = 0; i < FAULT_COUNT; i++) {
        struct cut less = *cut;
        less.without |= UINT64_C(1) << i;
        bool is_there = present & ~cut->without & (UINT64_C(1) << i);
        if (is_there && still_breaks(seed, &less, invariant))
            *cut = less;
    }
    return cut->without != without;
}

struct cut shorten(uint64_t seed, struct cut cut)
{
    FILE *to = world.trace.to;
    world.trace.to = NULL;
    world_play(seed, &cut);
    const enum invariant invariant = world.verdict.broken;
    uint64_t present = 0;
    for (unsigned i = 0; i < FAULT_COUNT; i++)
        present |= (uint64_t)(world.plan.weight[i] > 0) << i;
    cut.events = world.events < world.plan.events ? world.events : world.plan.events;
    bool is_shorter = invariant != INVARIANT_NONE;
    while (is_shorter) {
        is_shorter = cut_storm(seed, &cut, invariant);
        is_shorter |= cut_faults(seed, &cut, invariant, present);
    }
    world.trace.to = to;
    return cut;
}

const char *shorten_arguments(const struct cut *cut)
{
    static char text[512];
    int len = 0;
    text[0] = '\0';
    if (cut->events > 0)
        len = snprintf(text, sizeof(text), " --storm %" PRIu64, cut->events);
    const char *before = " --without ";
    for (unsigned i = 0; i < FAULT_COUNT; i++)
        if (cut->without >> i & 1) {
            len += snprintf(text + len, sizeof(text) - (size_t)len, "%s%s", before,
                            fault_name((enum fault)i));
            before = ",";
        }
    return text;
}

static bool read_name(const char *name, size_t len, uint64_t *ret_without)
{
    for (unsigned i = 0; i < FAULT_COUNT; i++) {
        const char *known = fault_name((enum fault)i);
        if (strlen(known) != len || memcmp(known, name, len) != 0)
            continue;
        *ret_without |= UINT64_C(1) << i;
        return true;
    }
    return false;
}

bool shorten_read_names(const char *names, uint64_t *ret_without)
{
    *ret_without = 0;
    while (names) {
        size_t len = strcspn(names, ",");
        if (!read_name(names, len, ret_without))
            return false;
        names = names[len] ? names + len + 1 : NULL;
    }
    return *ret_without != 0;
}
