#include "trace.h"

#include <inttypes.h>
#include <stdarg.h>

#include "world.h"

void trace_mix(uint64_t value)
{
    uint64_t hash =
        (world.trace.hash ^ value ^ (uint64_t)events_now()) * UINT64_C(0x100000001b3);
    world.trace.hash = hash ^ hash >> 29;
}

void trace_line(const char *format, ...)
{
    va_list arguments;
    fprintf(world.trace.to, "%12.3f ms  ", (double)(events_now() - VIRTUAL_S) / 1e6);
    va_start(arguments, format);
    vfprintf(world.trace.to, format, arguments);
    va_end(arguments);
    fputc('\n', world.trace.to);
}

const char *trace_set(uint32_t set)
{
    static char texts[2][128];
    static unsigned which;
    char *text = texts[which = !which];
    int len = 0;
    text[0] = '\0';
    for (; set; set &= set - 1)
        len += snprintf(text + len, sizeof(texts[0]) - (size_t)len, "%s%u",
                        len > 0 ? " " : "", rl_first(set) + 1);
    return text[0] ? text : "none";
}

void trace_begin(void)
{
    const struct plan *plan = &world.plan;
    FILE *to = world.trace.to;
    if (!to)
        return;
    fprintf(to,
            "Seed %" PRIu64
            ": %u clients with %u users each, %u resources, %u nodes, quorum %u%s%s%s.\n",
            world.seed, plan->clients, plan->users, plan->resources, plan->n, plan->q,
            plan->fenced    ? ", fenced"
            : plan->durable ? ", durable"
            : plan->records ? ", records"
                            : "",
            plan->duplicate ? ", of which two are the same server" : "",
            plan->wild ? ", and clocks beyond the bounds" : "");
    fprintf(to, "TTLs of %.0f to %.0f ms, drift %u ppm, ways of %.3f to %.3f ms.\n",
            (double)plan->ttl_min / 1e6, (double)plan->ttl_max / 1e6, plan->drift_ppm,
            (double)plan->near / 1e6, (double)plan->far / 1e6);
    fprintf(to, "Faults:\n");
    for (unsigned i = 0; i < FAULT_COUNT; i++)
        if (plan->weight[i] > 0)
            fprintf(to, "  %s\n", fault_text((enum fault)i));
    if (plan->weights == 0)
        fprintf(to, "  none\n");
    fputc('\n', to);
}

void trace_end(void)
{
    const struct verdict *verdict = &world.verdict;
    if (!world.trace.to)
        return;
    if (verdict->broken == INVARIANT_NONE)
        fprintf(world.trace.to,
                "\n%u acquisitions, %" PRIu64 " events, %" PRIu64 " commands\n",
                world.acquisitions, world.events, world.commands);
    else
        fprintf(world.trace.to, "\n%s: %s\n%s\n", invariant_name(verdict->broken),
                invariant_text(verdict->broken), verdict->text);
}
