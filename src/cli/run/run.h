/*
 * A redlock run or a term of redlock elect: acquires the lock, runs CMD, and releases it.
 *
 *     run --> once -----> lock --> ending
 *       `---> cmd ----------^
 *
 * Each part calls those to its right; run.c hands them its callbacks.
 */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include "cmd.h"
#include "once.h"
#include "stats_file.h"

struct run {
    struct lock lock;
    struct cmd cmd;
    struct ending ending;
    struct once once;
    struct stats_file stats_file;
};

/* --max-hold */
#define MAX_HOLD_OPTION(cli) "max-hold", 0, CLI_DURATION, &(cli)->lease.max_hold_ms

/* Sets the key and CMD, from `argv[first]` on; ends the process if they are missing. */
void run_read_command(struct run *run, char **argv, int first, int argc);

/* Plays it, and sets `ending`. CMD gets KILL `kill_after_ms` after TERM, or earlier. */
void run_play(struct run *run, int64_t kill_after_ms);

/* In the keeper, as of struct keeper_plan: `arg` is the struct cli. */
void run_release_orphan(void *arg, const struct keeper_lock *lock);

#endif
