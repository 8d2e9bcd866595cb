/*
 * The end of a redlock run, after its command: releases the lock, or keeps it for
 * --at-least, and prints the result.
 */
#include "run.h"

#include <stdlib.h>

void run_was_lost(struct run *run)
{
    if (!run->ran || run->stopped)
        return;
    run->lost = true;
    run->exit = CLI_LOST;
    run->cause = BY_LOSS;
    cli_complain(
        "%s: the lock was lost while the command ran: another client may have "
        "held it",
        run->key);
}

/* So many nodes did not store the lock any more that another client may have held it. */
static bool is_missing(const redlock_lease *lease)
{
    redlock_node nodes[REDLOCK_NODES_MAX];
    size_t missing = 0, count = redlock_explain(lease, nodes, REDLOCK_NODES_MAX);
    for (size_t i = 0; i < count; i++)
        missing += nodes[i].verdict == REDLOCK_VERDICT_GONE ||
                   nodes[i].verdict == REDLOCK_VERDICT_HELD ||
                   nodes[i].verdict == REDLOCK_VERDICT_UNASKED;
    return missing > count / 2;
}

static void say_not_released(struct run *run, const redlock_result *result)
{
    redlock_node nodes[REDLOCK_NODES_MAX];
    size_t count = redlock_explain(run->lease, nodes, REDLOCK_NODES_MAX);
    run_tell_nodes(run);
    cli_say_not_released(run->cli, run->key, run->ran ? "the command has ended, but " : "",
                         result, nodes, count);
}

/* After the deadline the nodes may have let the lock expire. */
static void on_released(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct run *run = arg;
    if (keeper_clock() < run->valid_until_us && run->ran && is_missing(lease)) {
        run_tell_nodes(run);
        run_was_lost(run);
    } else if (result->code == REDLOCK_UNCONFIRMED && !run->lost) {
        say_not_released(run, result);
    } else if (result->code != REDLOCK_OK && run->ran && !run->lost) {
        cli_say(run->cli, "%s: the command has ended, but %s", run->key,
                redlock_code_text(result->code));
    }
    run->done = true;
}

static void release(struct run *run)
{
    run->valid_until_us = keeper_clock() + redlock_valid_ms(run->lease) * 1000;
    if (redlock_release(run->lease, on_released, run) != REDLOCK_OK)
        run->done = true;
}

static int64_t left_of_at_least(const struct run *run)
{
    return run->at_least_ms - (keeper_clock() - run->since_us) / 1000;
}

static void on_kept(struct run *run, redlock_code code)
{
    char span[CLI_SPAN];
    int64_t valid_ms = redlock_valid_ms(run->lease);
    if (code == REDLOCK_GONE || code == REDLOCK_TAKEN) { /* run_was_lost() */
        release(run);
        return;
    }
    if (valid_ms < left_of_at_least(run)) {
        char *why = run_why_not_extended(run, redlock_code_text(code));
        cli_complain("%s: not kept for --at-least, it may be free in %s: %s", run->key,
                     cli_span(span, valid_ms), why);
        free(why);
    }
    redlock_disown(run->lease);
    run->done = true;
}

/*
 * A lock that lasts long enough is left to its TTL. Else it is extended; an extension never
 * ends a lock earlier.
 */
static void keep(struct run *run)
{
    int64_t left = left_of_at_least(run);
    int64_t wanted = run_ttl_for(run, left) + run->cli->lease.margin_ms;
    const struct cli *cli = run->cli;
    int64_t most = cli->lease.fenced             ? cli->lease.ttl_ms
                   : cli->options.max_ttl_ms > 0 ? cli->options.max_ttl_ms
                                                 : REDLOCK_TTL_MAX_MS;
    if (wanted > most)
        wanted = most;
    int64_t valid_ms = redlock_valid_ms(run->lease);
    if (left <= valid_ms) {
        run_check_and_disown(run, valid_ms);
        return;
    }
    run_extend_last(run, wanted, on_kept);
}

/* Prints the pids, as many as were recorded. */
static void say_left(const struct run *run, const struct kill_tree_left *left)
{
    char pids[KILL_TREE_LEFT * 12 + 1] = "";
    unsigned known = left->count < KILL_TREE_LEFT ? left->count : KILL_TREE_LEFT;
    for (unsigned i = 0, size = 0; i < known; i++)
        size += (unsigned)sprintf(pids + size, " %d", (int)left->pid[i]);
    cli_complain(
        "%s: not all processes of the command could be killed%s%s%s; the lock is "
        "left to its TTL",
        run->key, known > 0 ? ": pid" : "", pids, known < left->count ? " ..." : "");
}

void run_leave(struct run *run, const struct kill_tree_left *left)
{
    run->stage = LEAVING;
    cli_timer_stop(&run->timer);
    if (!run->held) {
        run->done = true;
        return;
    }
    run->held_ms = (keeper_clock() - run->since_us) / 1000;
    if (left) {
        say_left(run, left);
        redlock_disown(run->lease);
        run->done = true;
    } else if (run->may_have_run && run->once.period_ms > 0) {
        if (!run_keeps_once(run))
            release(run);
    } else if (run->ran && !run->lost && left_of_at_least(run) > 0) {
        keep(run);
    } else {
        release(run);
    }
}

void run_print_json(const struct run *run)
{
    json_t *object = cli_keys_json(&run->cli->keys);
    if (run->once.period_ms > 0)
        json_object_set_new(object, "once", run_once_json(run));
    json_object_update_new(
        object,
        json_pack("{s:s, s:b, s:o, s:s, s:i, s:I}", "kind",
                  redlock_kind_name(run->cli->keys.others > 0 ? REDLOCK_KIND_SET
                                                              : run->cli->lease.kind),
                  "fenced", run->cli->lease.fenced, "fence",
                  run->fence > 0 ? json_integer(run->fence) : json_null(), "cause",
                  run_cause_name(run->cause), "exit", run->exit, "held_ms",
                  (json_int_t)run->held_ms));
    if (run->nodes)
        json_object_set_new(object, "nodes", run->nodes);
    cli_tell_json(run->cli, object);
}
