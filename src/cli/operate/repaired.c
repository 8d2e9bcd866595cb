/*
 * A node that restarted stores a lock again at an extension of its holder, and counts at
 * the next one. So each token that a quorum stores must be on all nodes at two looks, which
 * are so far apart that the second extension lies between them (safety.md, rule 7).
 */
#include "repaired.h"

#include <stdlib.h>
#include <string.h>

#include "look.h"
#include "progress.h"

/*
 * The looks are this share of the longest remaining TTL apart, and LOOKS_LEAST besides:
 * right after an extension two thirds of a TTL are left at least, and the second extension
 * follows within a sixth of it.
 */
#define LOOKS_SHARE 4
#define LOOKS_LEAST 200 /* ms */
#define RETRY_DELAY 500 /* ms, between two looks while a lock is missing */

struct repaired {
    struct cli *cli;
    struct look base, last;
    redlock_node nodes[REDLOCK_NODES_MAX]; /* at the last look */
    size_t nodes_count;
    size_t locks, missing;           /* missing: on some node, at one of the looks */
    size_t lacks[REDLOCK_NODES_MAX]; /* how many of these each node lacks */
    struct cli_timer pause, limit;
    bool woken; /* the pause is over */
    bool ends, is_late;
};

/* --- one look --- */

/* A node without a marker, of a list that has none, holds plain locks only. */
static bool is_fit(const redlock_node *node)
{
    return node->fault == REDLOCK_FAULT_UNMARKED || node->verdict == REDLOCK_VERDICT_ACTIVE;
}

static void look(struct repaired *repaired)
{
    repaired->nodes_count = 0; /* their texts end with the client */
    look_take(&repaired->last, repaired->cli);
    repaired->nodes_count =
        redlock_client_members(repaired->cli->client, repaired->nodes, REDLOCK_NODES_MAX);
    repaired->last.is_whole = repaired->last.code == REDLOCK_OK;
    for (size_t i = 0; i < repaired->nodes_count; i++)
        repaired->last.is_whole &= is_fit(&repaired->nodes[i]);
}

/* --- two looks --- */

/* Counts the tokens of both looks that some node lacked at one of them. */
static void compare_looks(struct repaired *repaired)
{
    const struct look *base = &repaired->base, *look = &repaired->last;
    memset(repaired->lacks, 0, sizeof(repaired->lacks));
    repaired->locks = look->count;
    repaired->missing = 0;
    for (size_t i = 0; i < look->count; i++) {
        const struct stored *now = &look->stored[i];
        const struct stored *before = base->ended > 0 ? look_find(base, now->id) : now;
        uint32_t nodes = before ? before->lacking | now->lacking : 0;
        repaired->missing += nodes != 0;
        for (size_t n = 0; n < repaired->nodes_count && nodes != LACKING_SOME; n++)
            repaired->lacks[n] += nodes >> n & 1;
    }
}

static int64_t looks_apart_us(const struct look *base)
{
    return (base->remaining_ms / LOOKS_SHARE + LOOKS_LEAST) * 1000;
}

/* The last look becomes the base, unless both show all locks on all nodes so far. */
static bool is_repaired(struct repaired *repaired)
{
    struct look *base = &repaired->base, *last = &repaired->last;
    bool is_whole =
        base->ended > 0 && base->is_whole && last->is_whole && repaired->missing == 0;
    if (is_whole)
        return last->began >= base->ended + looks_apart_us(base);
    struct look old = *base;
    *base = *last;
    *last = old;
    return false;
}

/* A lock that is being acquired or released may be on some nodes for a moment: an early
   look shows whether it stays so. */
static int64_t next_look(const struct repaired *repaired)
{
    const struct look *base = &repaired->base;
    bool is_early = !base->is_whole || look_shows_gaps(base);
    int64_t left = base->ended + looks_apart_us(base) - cli_clock_us(CLOCK_BOOTTIME);
    left = left > 0 ? left / 1000 + 1 : 1;
    return is_early && left > RETRY_DELAY ? RETRY_DELAY : left;
}

/* --- the command --- */

static void wake(void *arg)
{
    ((struct repaired *)arg)->woken = true;
}

static void end(void *arg)
{
    struct repaired *repaired = arg;
    repaired->ends = repaired->woken = true;
    repaired->last.ends = repaired->last.done = true;
}

static void end_late(void *arg)
{
    ((struct repaired *)arg)->is_late = true;
    end(arg);
}

/* What is not as it should be, after the first look. */
static void write_state(const struct repaired *repaired, FILE *stream)
{
    char buffer[CLI_MEMBER_STATE];
    if (repaired->missing > 0)
        fprintf(stream, "%zu of %zu locks are not on all nodes", repaired->missing,
                repaired->locks);
    else
        fprintf(stream, "%zu locks; they were not seen twice yet", repaired->locks);
    for (size_t i = 0; i < repaired->nodes_count; i++) {
        const redlock_node *node = &repaired->nodes[i];
        if (!is_fit(node))
            fprintf(stream, "; %s: %s", node->uri, cli_member_state(node, buffer));
        else if (repaired->lacks[i] > 0)
            fprintf(stream, "; %s: lacks %zu", node->uri, repaired->lacks[i]);
    }
}

/* A progress_fn. */
static void write_progress(const void *arg, bool is_terminal, FILE *stream)
{
    const struct repaired *repaired = arg;
    if (!is_terminal)
        fprintf(stream, "check: waiting: ");
    if (repaired->nodes_count > 0)
        write_state(repaired, stream);
    else
        fprintf(stream, "the locks are listed");
    if (is_terminal)
        fprintf(stream, "\n");
}

static bool repaired_print_json(const struct repaired *repaired, bool is_repaired)
{
    json_t *nodes = json_array();
    for (size_t i = 0; i < repaired->nodes_count; i++) {
        const redlock_node *node = &repaired->nodes[i];
        json_array_append_new(
            nodes, json_pack("{s:o, s:I, s:o}", "uri", cli_json_text(node->uri), "lacks",
                             (json_int_t)repaired->lacks[i], "fault",
                             is_fit(node) ? json_null()
                                          : json_string(redlock_fault_name(node->fault))));
    }
    return cli_print_json(repaired->cli,
                          json_pack("{s:b, s:I, s:I, s:o}", "repaired", is_repaired,
                                    "locks", (json_int_t)repaired->locks, "missing",
                                    (json_int_t)repaired->missing, "nodes", nodes));
}

static bool print_text(const struct repaired *repaired, bool is_repaired)
{
    if (is_repaired && !repaired->cli->quiet)
        cli_print("%zu locks are on all %zu nodes\n", repaired->locks,
                  repaired->nodes_count);
    return cli_flush();
}

static void report_failure(const struct repaired *repaired, int signal)
{
    struct cli_text text;
    write_state(repaired, cli_text_begin(&text));
    char *line = cli_text_end(&text);
    cli_say(repaired->cli, "check: %s: %s",
            signal              ? strsignal(signal)
            : repaired->is_late ? "the wait ran out"
                                : redlock_code_text(repaired->last.code),
            line);
    free(line);
}

static int exit_of(const struct repaired *repaired, bool is_repaired, int signal)
{
    if (is_repaired)
        return CLI_OK;
    if (signal != 0)
        return CLI_SIGNALLED + signal;
    if (repaired->is_late)
        return CLI_HELD_ELSEWHERE;
    return repaired->last.code == REDLOCK_DENIED ? CLI_DENIED : CLI_FAILED;
}

static int conclude(const struct repaired *repaired, bool is_repaired, int signal)
{
    if (!is_repaired)
        report_failure(repaired, signal);
    bool printed = repaired->cli->json ? repaired_print_json(repaired, is_repaired)
                                       : print_text(repaired, is_repaired);
    return cli_exit_printed(printed, exit_of(repaired, is_repaired, signal));
}

/* A node that is down comes back. */
static bool is_hopeless(redlock_code code)
{
    return code != REDLOCK_OK && code != REDLOCK_NO_QUORUM;
}

/* False: the wait ran out, a signal came, or the user lacks a right. */
static bool look_until_repaired(struct repaired *repaired)
{
    look(repaired);
    while (!repaired->ends && !is_hopeless(repaired->last.code)) {
        compare_looks(repaired);
        if (is_repaired(repaired))
            return true;
        cli_timer_set(&repaired->pause, next_look(repaired));
        repaired->woken = repaired->ends;
        cli_wait(repaired->cli->base, &repaired->woken);
        if (!repaired->ends)
            look(repaired);
    }
    return false;
}

int repaired_wait(struct cli *cli, int64_t wait_ms)
{
    static struct repaired repaired;
    struct cli_signals signals;
    struct progress progress;
    repaired.cli = cli;
    cli_timer_begin(&repaired.pause, cli->base, 0, wake, &repaired);
    cli_timer_begin(&repaired.limit, cli->base, 0, end_late, &repaired);
    cli_signals_begin(&signals, cli->base, end, &repaired);
    progress_begin(&progress, cli, write_progress, &repaired);
    if (wait_ms != CLI_UNSAID)
        cli_timer_set(&repaired.limit, wait_ms);
    bool is_repaired = look_until_repaired(&repaired);
    progress_end(&progress);
    int exit_code = conclude(&repaired, is_repaired, signals.number);
    cli_timer_end(&repaired.pause);
    cli_timer_end(&repaired.limit);
    cli_signals_end(&signals);
    look_free(&repaired.base);
    look_free(&repaired.last);
    return exit_code;
}
