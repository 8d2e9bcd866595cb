/*
 * redlock run: holds a lock while a command runs; the command never runs longer than the
 * lock is held.
 */
#include "run.h"
#include "config.h"

#include <inttypes.h>
#include <string.h>

const struct cli_help cli_run_help = {
    "Usage: redlock run [OPTION]... KEY [--] CMD [ARG...]\n"
    "Take the lock KEY, run CMD while it is held, and release it. CMD never runs without\n"
    "the lock. Options end at KEY. There is no shell: use sh -c '...'.\n\n"
    "  -t, --ttl TTL             how long it lasts if this host dies; default "
    "30s\n" CLI_WAIT_HELP CLI_KIND_HELP
    "      --fence               a fenced lock, on admitted nodes; CMD gets REDLOCK_FENCE\n"
    "      --slots N             a semaphore, the same N for all: "
    "REDLOCK_SLOT\n" CLI_KILL_HELP
    "      --at-least D          keep the lock for D, even if CMD ends sooner\n"
    "      --once-per D          run CMD once in each period among all hosts: 1s to 31d\n"
    "      --once-id TEXT        the name of the period: \"$(date +%F)\" is the local day\n"
    "      --retry               until one run of the period succeeds\n" CLI_STATS_FILE_HELP
    "\n"
    "Example:\n"
    "  redlock run -w 10s nightly -- ./backup.sh\n",
    "  redlock run -n -E 0 nightly -- ./backup.sh   # skip it if another host does it\n"
    "  redlock run -q -E 0 --once-per 1d nightly -- ./backup.sh   # cron on many hosts\n\n"
    "CMD gets REDLOCK_KEY, REDLOCK_TOKEN, REDLOCK_TTL_MS, REDLOCK_VALID_MS and\n"
    "REDLOCK_HELD, the tokens of all runs around it, and the signals TERM, INT, HUP,\n"
    "QUIT, USR1, USR2 and WINCH. When it has ended, redlock ends all its descendants,\n"
    "first by TERM, then by KILL, and releases the lock. A process that another\n"
    "service starts for CMD (cron, systemd, docker) is no descendant.\n\n"
    "CMD and its descendants, daemons too, are killed if the lock is lost, if redlock\n"
    "is killed (its keeper process then releases the lock), or if redlock or the\n"
    "keeper is stopped for longer than the lock lasts: without TERM if the nodes do\n"
    "not store the lock any more (redlock break).\n\n"
    "--once-per takes the lock KEY@ID, which stays as a record to the end of the next\n"
    "period, on durable nodes. It is stored before CMD starts, or with --retry after\n"
    "CMD has ended with 0. A host whose clock is off by more than D/4 is refused.\n\n"
    "With --json one object on stderr (stdout belongs to CMD) has the \"cause\" of the\n"
    "exit code: child, signalled, taken, timeout, no_quorum, denied, lost, nested,\n"
    "bad_ttl, cannot_execute, not_found, failed, period_taken, clock.\n\n"
    "Exit codes: CMD's own, 128+n if signal n ended it; 75 also: the wait ran out, or\n"
    "another host has the period; 124 the lock was lost: CMD was stopped, or had ended\n"
    "when that was noticed; 126 CMD cannot be executed; 127 CMD is not found.\n",
};

/* --- what the lock and CMD report --- */

/*
 * When the keeper may release the lock of a redlock that was killed. A record must stay,
 * and a daemon that is spared may rely on the lock.
 */
static int64_t release_us(const struct run *run)
{
    bool stays =
        run->cmd.plan.spare_daemons || (run->once.period_ms > 0 && !run->once.retry);
    return stays ? KEEPER_NEVER : run->lock.since_us + run->lock.at_least_ms * 1000;
}

/* Unless it is concluded, the lock is held. */
static void proceed(void *arg)
{
    struct run *run = arg;
    if (run->ending.cause != NOT_CONCLUDED)
        cmd_finish(&run->cmd);
    else
        cmd_start(&run->cmd, release_us(run));
}

static void on_acquired(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct run *run = arg;
    const struct ending *ending = &run->ending;
    (void)lease;
    once_wait_ends(&run->once);
    lock_take(&run->lock, result, run->once.taken);
    if (ending->cause == NOT_CONCLUDED && run->lock.state == LOCK_NOT_HELD)
        once_judge(&run->once);
    if (ending->cause == NOT_CONCLUDED && run->once.period_ms > 0)
        once_record(&run->once, proceed, run);
    else
        proceed(run);
}

/* Prints the pids, as many as were recorded. */
static void say_left(const char *key, const struct kill_tree_left *left)
{
    char pids[KILL_TREE_LEFT * 12 + 1] = "";
    unsigned known = left->count < KILL_TREE_LEFT ? left->count : KILL_TREE_LEFT;
    for (unsigned i = 0, size = 0; i < known; i++)
        size += (unsigned)sprintf(pids + size, " %d", (int)left->pid[i]);
    cli_complain(
        "%s: not all processes of the command could be killed%s%s%s; the lock is "
        "left to its TTL",
        key, known > 0 ? ": pid" : "", pids, known < left->count ? " ..." : "");
}

static void on_gone(void *arg, const struct kill_tree_left *left)
{
    struct run *run = arg;
    struct lock *lock = &run->lock;
    if (lock->state == LOCK_NOT_HELD) {
        run->ending.done = true;
        return;
    }
    lock->held_ms = (keeper_clock() - lock->since_us) / 1000;
    if (left) {
        say_left(lock->key, left);
        lock_leave(lock);
    } else if (run->once.period_ms > 0 && once_keeps(&run->once)) {
        child_keep_lock(&run->cmd.child);
        once_keep(&run->once);
    } else {
        lock_end(lock);
    }
}

/* --- setup --- */

static void read_options(struct run *run, int64_t *kill_after_ms, int argc, char **argv)
{
    struct cli *cli = run->lock.cli;
    struct lock *lock = &run->lock;
    const struct cli_option own[] = {
        CLI_HOLD_OPTIONS(cli),
        {"kill-after", 0, CLI_DURATION, kill_after_ms},
        {MAX_HOLD_OPTION(cli)},
        {"at-least", 0, CLI_DURATION, &lock->at_least_ms},
        {"spare-daemons", 0, CLI_FLAG, &run->cmd.plan.spare_daemons},
        {STATS_FILE_OPTION(&run->stats_file)},
        ONCE_OPTIONS(&run->once),
        {NULL, 0, CLI_FLAG, NULL},
    };
    int first = cli_parse(cli, argc, argv, own);
    run_read_command(run, argv, first, argc);
    if (run->once.period_ms != CLI_UNSAID || run->once.id || run->once.retry)
        once_begin(&run->once, lock);
    if (lock->at_least_ms > REDLOCK_TTL_MAX_MS)
        cli_fail(CLI_USAGE, "run: --at-least is at most %d h",
                 REDLOCK_TTL_MAX_MS / 3600000);
    if (cli->lease.max_hold_ms > 0 && lock->at_least_ms >= cli->lease.max_hold_ms)
        cli_fail(CLI_USAGE, "run: --at-least must be shorter than --max-hold");
    int64_t least_ms = lock->at_least_ms > 0 ? lock_ttl_for(lock, lock->at_least_ms) : 0;
    if (cli->lease.fenced &&
        least_ms > cli->lease.ttl_ms) /* the nodes may allow no longer TTL */
        cli_fail(CLI_USAGE,
                 "run: with --fence, this --at-least requires --ttl %" PRId64 "ms",
                 least_ms);
    if (cli->options.max_ttl_ms > 0 && least_ms > cli->options.max_ttl_ms)
        cli_fail(CLI_USAGE,
                 "run: this --at-least requires a max-ttl of %" PRId64 "ms in all clients",
                 least_ms);
}

void run_read_command(struct run *run, char **argv, int first, int argc)
{
    struct cli *cli = run->lock.cli;
    const char *name = cli->command->name;
    run->cmd.key_follows_dashes = strcmp(argv[first - 1], "--") == 0;
    run->lock.key = cli_keys_begin(&cli->keys, first < argc ? argv[first++] : "");
    if (first < argc && strcmp(argv[first], "--") == 0)
        first++;
    else if (first < argc && argv[first][0] == '-')
        cli_fail(
            CLI_USAGE,
            "%s: \"%s\" after the key is not an option: options go before the key, and "
            "a command that begins with \"-\" goes after --",
            name, argv[first]);
    if (first >= argc)
        cli_fail(CLI_USAGE, "%s: no command after the key; redlock %s --help", name, name);
    run->cmd.plan.argv = argv + first;
    cli_copy_words(cli);
    sigprocmask(SIG_BLOCK, NULL, &run->cmd.plan.mask);
    stats_file_check(&run->stats_file);
}

/* --- from beginning to end --- */

static void begin(struct run *run)
{
    struct cli *cli = run->lock.cli;
    cli_connect(cli);
    stats_file_begin(&run->stats_file, cli, run->lock.key);
    cmd_watch(&run->cmd);
    if (run->once.period_ms > 0)
        once_ask(&run->once);
    if (run->ending.cause != NOT_CONCLUDED) {
        cmd_finish(&run->cmd);
        return;
    }
    lock_acquire(&run->lock, on_acquired, run);
    if (run->once.period_ms > 0)
        once_wait(&run->once);
}

static void end(struct run *run)
{
    cmd_close(&run->cmd);
    redlock_lease_free(run->lock.lease); /* releases what it still holds, unless disowned */
    cli_drain(run->lock.cli);
    stats_file_end(&run->stats_file);
    cli_disconnect(run->lock.cli);
}

/* On stderr: stdout belongs to CMD. */
static void print_json(const struct run *run)
{
    const struct cli *cli = run->lock.cli;
    const struct lock *lock = &run->lock;
    json_t *object = cli_keys_json(&cli->keys);
    if (run->once.period_ms > 0)
        json_object_set_new(object, "once", once_json(&run->once));
    json_object_update_new(
        object, json_pack("{s:s, s:b, s:o, s:s, s:i, s:I}", "kind",
                          redlock_kind_name(cli->keys.others > 0 ? REDLOCK_KIND_SET
                                                                 : cli->lease.kind),
                          "fenced", cli->lease.fenced, "fence",
                          lock->fence > 0 ? json_integer(lock->fence) : json_null(),
                          "cause", ending_cause(&run->ending), "exit", run->ending.exit,
                          "held_ms", (json_int_t)lock->held_ms));
    if (lock->nodes)
        json_object_set_new(object, "nodes", lock->nodes);
    cli_tell_json(cli, object);
}

void run_play(struct run *run, int64_t kill_after_ms)
{
    const struct cli *cli = run->lock.cli;
    struct cmd *cmd = &run->cmd;
    run->lock.ending = cmd->ending = &run->ending;
    cmd->lock = &run->lock;
    cmd->plan.release = run_release_orphan;
    cmd->plan.arg = run->lock.cli;
    cmd->gone = on_gone;
    cmd->arg = run;
    cmd_open(cmd, kill_after_ms); /* before connections are opened */
    begin(run);
    cli_wait(cli->base, &run->ending.done);
    end(run);
    if (cli->json)
        print_json(run);
}

int cli_run(struct cli *cli, int argc, char **argv)
{
    struct run run = {.lock.cli = cli, .once.period_ms = CLI_UNSAID};
    int64_t kill_after_ms = KILL_AFTER_MS;
    read_options(&run, &kill_after_ms, argc, argv);
    run_play(&run, kill_after_ms);
    return run.ending.exit;
}
