/*
 * redlock run: holds a lock while a command runs; the command never runs longer than the
 * lock is held.
 */
#include "run.h"
#include "writer.h"

#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define STUCK_MS 7000 /* a keeper without a deadline has ended by then */
#define TIMEOUT_SHARE                                                                      \
    2 /* of the lead: the keeper must reply within this part after the deadline */

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
    "exit code: child, signalled, held_elsewhere, timeout, no_quorum, denied, lost,\n"
    "nested, bad_ttl, cannot_execute, not_found, failed, taken, clock.\n\n"
    "Exit codes: CMD's own, 128+n if signal n ended it; 75 also: the wait ran out, or\n"
    "another host has the period; 124 the lock was lost: CMD was stopped, or had ended\n"
    "when that was noticed; 126 CMD cannot be executed; 127 CMD is not found.\n",
};

/* How long CMD may run, given the remaining validity of the lock. */
static int64_t left_of(const struct run *run, int64_t valid_ms)
{
    return valid_ms > run->lead_ms ? valid_ms - run->lead_ms : 0;
}

static int64_t left_us(const struct run *run)
{
    return run->deadline_us - keeper_clock();
}

/* If the keeper has not replied by then, it is stopped, or cannot kill all in time. */
static int64_t timeout_us(const struct run *run)
{
    return run->lead_ms * 1000 / TIMEOUT_SHARE;
}

/*
 * The keeper must have reported something new, or have ended everything, shortly after
 * this.
 */
static void expect_by(struct run *run, int64_t deadline_us)
{
    run->deadline_us = deadline_us;
    int64_t left = left_us(run);
    cli_timer_set(&run->timer, left > 0 ? left / 1000 + 1 : 0);
}

/*
 * Reads the clock before the validity, so that the deadline is rounded to the early side.
 */
static int64_t next_deadline_us(const struct run *run)
{
    int64_t now = keeper_clock();
    return now + left_of(run, redlock_valid_ms(run->lease)) * 1000;
}

static void finish(struct run *run)
{
    if (run->stage >= ENDING)
        return;
    run->stage = ENDING;
    child_finish(&run->child, run->kill_after_ms * 1000);
    if (run->deadline_us == 0)
        expect_by(run, keeper_clock() + STUCK_MS * 1000);
}

/* --- running --- */

static void command_is_late(struct run *run)
{
    run->lost = run->stopped = true;
    run->may_have_run = false;
    cli_complain(
        "%s: the lock expired before the command was started; the command is not run",
        run->key);
    cli_say_record(run->cli);
    run_conclude(run, CLI_LOST, BY_LOSS);
    finish(run);
}

/* 0: the lock has none, and an inherited one belongs to another lock. */
static size_t add_number(char environment[KEEPER_ENVIRONMENT], size_t size,
                         const char *name, int64_t number)
{
    return number > 0 ? child_add(environment, size, "%s=%" PRId64, name, number)
                      : child_add(environment, size, "%s", name);
}

static void no_process(struct run *run, int error);

/*
 * With this the keeper releases the lock if redlock is killed. A record must stay, and a
 * daemon that is spared may rely on the lock.
 */
static struct keeper_lock lock_of(const struct run *run, const char *token)
{
    bool stays = run->spare_daemons || (run->once.period_ms > 0 && !run->once.retry);
    struct keeper_lock lock = {
        .fence = run->fence,
        .slot = redlock_slot(run->lease),
        .release_us = stays ? KEEPER_NEVER : run->since_us + run->at_least_ms * 1000,
    };
    strcpy(lock.token, token);
    return lock;
}

/* Reads the clock after everything that may take time. The keeper reads it again. */
static void start_command(struct run *run)
{
    char text[KEEPER_ENVIRONMENT];
    const char *outer = nesting_outer(), *token = redlock_token(run->lease);
    int64_t left_ms = left_of(run, redlock_valid_ms(run->lease));
    size_t size =
        child_add(text, 0, "REDLOCK_KEY=%s", (const char *)run->cli->keys.of[0].bytes);
    size = child_add(text, size, "REDLOCK_TOKEN=%s", token);
    size = child_add(text, size, "REDLOCK_TTL_MS=%" PRId64, run->cli->lease.ttl_ms);
    size = child_add(text, size, "REDLOCK_VALID_MS=%" PRId64, left_ms);
    size =
        child_add(text, size, NESTING_VARIABLE "=%s%s%s", outer, *outer ? " " : "", token);
    bool leads = run->cli->lease.kind == REDLOCK_KIND_ELECTION;
    size = add_number(text, size, "REDLOCK_SLOT", redlock_slot(run->lease));
    size = add_number(text, size, "REDLOCK_TERM", leads ? run->fence : 0);
    size = add_number(text, size, "REDLOCK_FENCE", run->fence);
    struct keeper_lock lock = lock_of(run, token);
    if (left_ms == 0) {
        command_is_late(run);
        return;
    }
    run->stage = RUNNING;
    run->may_have_run = true;
    event_del(run->signals); /* until CMD runs and can receive signals */
    expect_by(run, next_deadline_us(run));
    if (!child_start(&run->child, run->deadline_us, &lock, text, size))
        no_process(run, errno);
}

/* TERM now, unless the end is reached; KILL at the end. */
static void stop_command(struct run *run, int64_t valid_ms, redlock_code code)
{
    int64_t deadline_us = keeper_clock() + left_of(run, valid_ms) * 1000;
    expect_by(run, deadline_us < run->deadline_us ? deadline_us : run->deadline_us);
    child_hold(&run->child, run->deadline_us);
    child_keep_lock(&run->child);
    char *why = run_why_lost(run, code);
    if (run->stage == RUNNING || run->ran)
        cli_complain("%s: the lock is lost: %s; %s", run->key, why,
                     run->stage == RUNNING ? "the command is stopped"
                                           : "processes that the command left are killed");
    free(why);
    if (run->stage == ENDING)
        return;
    run->stopped = true;
    run_conclude(run, CLI_LOST, BY_LOSS);
    run->stage = STOPPING;
    if (left_us(run) > 0) {
        child_signal(&run->child, SIGTERM);
        child_signal(&run->child, SIGCONT); /* a stopped process does not handle SIGTERM */
    }
}

/* --max-hold is over. `since_us` is a little later than the begin of the lock. */
static bool is_max_hold_over(const struct run *run)
{
    const redlock_lease_options *lease = &run->cli->lease;
    int64_t held_ms = (keeper_clock() - run->since_us) / 1000;
    return lease->max_hold_ms > 0 &&
           held_ms >= lease->max_hold_ms - lease->margin_ms - run->lead_ms;
}

/*
 * The lock is lost or about to expire: `valid_ms` is its remaining validity.
 */
static void lose(struct run *run, int64_t valid_ms, redlock_code code)
{
    bool is_first = !run->lost;
    run->lost = true;
    if (!is_first)
        return;
    if (code == REDLOCK_EXPIRED && is_max_hold_over(run)) /* the keeper was first */
        code = REDLOCK_MAX_HOLD;
    if (run->stage == RUNNING || run->stage == ENDING)
        stop_command(run, valid_ms, code);
    run_tell_nodes(run);
    cli_say_record(run->cli);
}

/* The keeper did not reply in time after the deadline. A stopped keeper cannot kill. */
static void give_up_keeper(struct run *run)
{
    if (run->stage == RUNNING && left_of(run, redlock_valid_ms(run->lease)) == 0)
        lose(run, 0, REDLOCK_EXPIRED);
    if (run->stage == RUNNING) {
        cli_complain("%s: the keeper process does not reply; the command is stopped",
                     run->key);
        run_conclude(run, CLI_FAILED, BY_FAILURE);
    }
    run->gave_up = true;
    child_signal(&run->child, SIGKILL);
    child_give_up(&run->child);
}

static void catch_up(struct run *run);

/* Handles the keeper's reports first, even if the timer runs late. */
static void on_timer(void *arg)
{
    struct run *run = arg;
    catch_up(run);
    if (run->child.over)
        return;
    int64_t left = left_us(run);
    if (run->stage == STOPPING && left <= 0)
        child_signal(&run->child, SIGKILL);
    if (left > 0)
        expect_by(run, run->deadline_us);
    else if (left > -timeout_us(run))
        cli_timer_set(&run->timer, (left + timeout_us(run)) / 1000 + 1);
    else
        give_up_keeper(run);
}

static void command_ended(struct run *run, int status)
{
    run->ran = true;
    if (WIFSIGNALED(status))
        run_conclude(run, CLI_SIGNALLED + WTERMSIG(status), BY_SIGNAL);
    else
        run_conclude(run, WEXITSTATUS(status), BY_CHILD);
    finish(run);
}

static void command_refused(struct run *run, int error)
{
    bool missing = error == ENOENT;
    run->may_have_run = false;
    if (missing && run->key_follows_dashes)
        cli_complain("%s: %s: \"%s\" was taken for the key: KEY comes before --",
                     run->argv[0], strerror(error), run->key);
    else
        cli_complain(
            "%s: %s%s", run->argv[0], strerror(error),
            missing && strchr(run->argv[0], ' ') ? ": no shell is used: sh -c '...'" : "");
    run_conclude(run, missing ? CLI_NOT_FOUND : CLI_CANNOT_EXECUTE,
                 missing ? BY_ABSENCE : BY_EXECUTION);
    finish(run);
}

/* No process could be made for CMD: that says nothing about CMD. */
static void no_process(struct run *run, int error)
{
    run->may_have_run = false;
    if (error == EPIPE)
        return; /* the keeper has ended: its report says why */
    cli_complain("%s: no process could be made for the command: %s; the command is not run",
                 run->key, strerror(error));
    run_conclude(run, CLI_FAILED, BY_FAILURE);
    finish(run);
}

/* The keeper could not read from redlock, and ended everything as if redlock were gone. */
static void keeper_left(struct run *run)
{
    run->may_have_run &= run->child.pid > 0;
    cli_complain("%s: the keeper process lost redlock%s", run->key,
                 run->may_have_run ? ", and has ended the command"
                                   : "; the command is not run");
    run_conclude(run, CLI_FAILED, BY_FAILURE);
}

/* A confirmed deadline applies only if no earlier one was set. */
static void keeper_holds(struct run *run, int64_t deadline_us)
{
    if (!run->lost)
        expect_by(run, deadline_us);
}

static void resumed(struct run *run);

static void handle_report(struct run *run, struct keeper_report report)
{
    switch (report.news) {
    case KEEPER_STARTED:
        event_add(run->signals, NULL);
        if (run->stage == RUNNING)
            run_notify_ready(run);
        if (run->stage == STOPPING)
            child_signal(&run->child, left_us(run) > 0 ? SIGTERM : SIGKILL);
        break;
    case KEEPER_LATE: command_is_late(run); break;
    case KEEPER_REFUSED: command_refused(run, (int)report.value); break;
    case KEEPER_FAILED: no_process(run, (int)report.value); break;
    case KEEPER_HELD: keeper_holds(run, report.value); break;
    case KEEPER_STOPPED:
        if (run->stage == RUNNING && child_suspend(&run->child, (int)report.value))
            resumed(run);
        break;
    case KEEPER_EXPIRED: lose(run, 0, REDLOCK_EXPIRED); break;
    case KEEPER_ENDED: command_ended(run, (int)report.value); break;
    case KEEPER_KILLED:
        if (run->child.failed)
            cli_complain(
                "%s: the keeper process could not begin: %s; the command is not run",
                run->key, strerror(run->child.failed));
        else if (!run->gave_up)
            cli_complain("%s: the keeper process was killed%s", run->key,
                         run->may_have_run ? ", and the command with it"
                                           : "; the command is not run");
        run_conclude(run, CLI_FAILED, BY_FAILURE);
        run_leave(run, report.value ? NULL : &report.left);
        break;
    case KEEPER_SWEPT:
        if (run->cause == NOT_CONCLUDED)
            keeper_left(run);
        run_leave(run, report.value ? NULL : &report.left);
        break;
    default: break;
    }
}

/* Handles the keeper's reports before anything that is concluded from the clock. */
static void catch_up(struct run *run)
{
    for (;;) {
        struct keeper_report report = child_next(&run->child);
        if (report.news == KEEPER_QUIET)
            break;
        handle_report(run, report);
    }
    if (run->child.over)
        event_del(run->reports);
}

static void on_reports(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    catch_up(arg);
}

/* Redlock may have been stopped for long: check the deadline before CMD continues. */
static void resumed(struct run *run)
{
    catch_up(run);
    if (run->stage != RUNNING)
        return;
    if (left_of(run, redlock_valid_ms(run->lease)) > 0)
        child_resume(&run->child);
    else
        lose(run, 0, REDLOCK_EXPIRED);
}

static void on_signal(evutil_socket_t fd, short what, void *arg)
{
    struct run *run = arg;
    (void)fd;
    (void)what;
    int number = child_next_signal(&run->child);
    bool ends = number == SIGTERM || number == SIGINT;
    bool ends_wait = ends || number == SIGHUP || number == SIGQUIT;
    if (run->stage == RUNNING ? ends : ends_wait)
        run->told_to_end = number;
    if (number == SIGTERM)
        writer_hurry();
    if (number == SIGCONT) {
        resumed(run);
    } else if (number > 0 && (run->stage == RUNNING || run->stage == STOPPING)) {
        child_signal(&run->child, number);
    } else if (run->stage == WAITING && number == SIGTSTP) {
        child_suspend(&run->child, number);
    } else if (run->stage == WAITING && ends_wait) {
        run->signal = number;
        redlock_cancel(run->lease);
    }
}

/* --- the lock --- */

static void on_lost(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct run *run = arg;
    (void)lease;
    catch_up(run);
    lose(run, result->valid_ms, result->code);
    if (result->code == REDLOCK_GONE || result->code == REDLOCK_TAKEN)
        run_was_lost(run);
}

static void on_extended(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct run *run = arg;
    (void)lease;
    (void)result;
    if (run->stage == RUNNING || run->stage == ENDING)
        child_hold(&run->child, next_deadline_us(run));
}

static enum run_cause cause_of(redlock_code code)
{
    switch (code) {
    case REDLOCK_TAKEN: return BY_HOLDER;
    case REDLOCK_TIMEOUT: return BY_TIMEOUT;
    case REDLOCK_NO_QUORUM:
    case REDLOCK_EXPIRED: return BY_NO_QUORUM;
    case REDLOCK_DENIED: return BY_DENIAL;
    case REDLOCK_BAD_TTL: return BY_TTL;
    default: return BY_FAILURE;
    }
}

/* Unless it is concluded, the lock is held. */
static void proceed(struct run *run)
{
    if (run->cause != NOT_CONCLUDED)
        finish(run);
    else
        start_command(run);
}

static void on_acquired(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct run *run = arg;
    redlock_node nodes[REDLOCK_NODES_MAX];
    size_t count = redlock_explain(lease, nodes, REDLOCK_NODES_MAX);
    cli_waiting_end(&run->waiting);
    nesting_end(&run->nesting);
    once_wait_ends(&run->once);
    run->held = result->code == REDLOCK_OK;
    run->fence = redlock_fence(lease);
    run->since_us = keeper_clock();
    run_tell_nodes(run);
    if (run->signal != 0) {
        cli_say(run->cli, "%s: %s; the lock is not held", run->key, strsignal(run->signal));
        run_conclude(run, CLI_SIGNALLED + run->signal, BY_SIGNAL);
    } else if (!run->held && run->nesting.found) {
        nesting_complain(run->key);
        run_conclude(run, CLI_USAGE, BY_NESTING);
    } else if (!run->held && run->once.taken) {
        run_judge_once(run);
    } else if (!run->held) {
        cli_say_not_acquired(run->cli, run->key, result, nodes, count);
        run_conclude(run, cli_acquire_exit(result->code, (int)run->cli->held_elsewhere),
                     cause_of(result->code));
    }
    if (run->cause == NOT_CONCLUDED && run->once.period_ms > 0)
        run_begin_once(run, proceed);
    else
        proceed(run);
}

/* --- setup --- */

static void read_options(struct run *run, int argc, char **argv)
{
    struct cli *cli = run->cli;
    int64_t kill_after_ms = KILL_AFTER_MS;
    const struct cli_option own[] = {
        CLI_HOLD_OPTIONS(cli),
        {"kill-after", 0, CLI_DURATION, &kill_after_ms},
        {MAX_HOLD_OPTION(cli)},
        {"at-least", 0, CLI_DURATION, &run->at_least_ms},
        {"spare-daemons", 0, CLI_FLAG, &run->spare_daemons},
        {STATS_FILE_OPTION(&run->stats_file)},
        ONCE_OPTIONS(&run->once),
        {NULL, 0, CLI_FLAG, NULL},
    };
    int first = cli_parse(cli, argc, argv, own);
    run_read_command(run, argv, first, argc);
    if (run->once.period_ms != CLI_UNSAID || run->once.id || run->once.retry)
        run_read_once(run);
    if (run->at_least_ms > REDLOCK_TTL_MAX_MS)
        cli_fail(CLI_USAGE, "run: --at-least is at most %d h",
                 REDLOCK_TTL_MAX_MS / 3600000);
    if (cli->lease.max_hold_ms > 0 && run->at_least_ms >= cli->lease.max_hold_ms)
        cli_fail(CLI_USAGE, "run: --at-least must be shorter than --max-hold");
    int64_t least_ms = run->at_least_ms > 0 ? run_ttl_for(run, run->at_least_ms) : 0;
    if (cli->lease.fenced &&
        least_ms > cli->lease.ttl_ms) /* the nodes may allow no longer TTL */
        cli_fail(CLI_USAGE,
                 "run: with --fence, this --at-least requires --ttl %" PRId64 "ms",
                 least_ms);
    if (cli->options.max_ttl_ms > 0 && least_ms > cli->options.max_ttl_ms)
        cli_fail(CLI_USAGE,
                 "run: this --at-least requires a max-ttl of %" PRId64 "ms in all clients",
                 least_ms);
    run_set_limits(run, kill_after_ms);
}

void run_read_command(struct run *run, char **argv, int first, int argc)
{
    const char *command = run->cli->command->name;
    run->key_follows_dashes = strcmp(argv[first - 1], "--") == 0;
    run->key = cli_keys_begin(&run->cli->keys, first < argc ? argv[first++] : "");
    if (first < argc && strcmp(argv[first], "--") == 0)
        first++;
    else if (first < argc && argv[first][0] == '-')
        cli_fail(
            CLI_USAGE,
            "%s: \"%s\" after the key is not an option: options go before the key, and "
            "a command that begins with \"-\" goes after --",
            command, argv[first]);
    if (first >= argc)
        cli_fail(CLI_USAGE, "%s: no command after the key; redlock %s --help", command,
                 command);
    run->argv = argv + first;
    cli_copy_words(run->cli);
    sigprocmask(SIG_BLOCK, NULL, &run->mask);
    stats_file_check(&run->stats_file);
}

void run_set_limits(struct run *run, int64_t kill_after_ms)
{
    struct cli *cli = run->cli;
    int64_t most_ms = cli->lease.max_hold_ms, ttl_ms = cli->lease.ttl_ms;
    int64_t span_ms = most_ms > 0 && most_ms < ttl_ms ? most_ms : ttl_ms;
    int64_t most = span_ms / KILL_AFTER_SHARE, lead_ms = span_ms / LEAD_SHARE;
    run->lead_ms = lead_ms < LEAD_MS ? lead_ms : LEAD_MS;
    run->kill_after_ms = kill_after_ms < most ? kill_after_ms : most;
    cli->lease.margin_ms = run->lead_ms + run->kill_after_ms;
    cli->lease.on_lost = on_lost;
    cli->lease.on_extended = on_extended;
    cli->lease.lost_arg = cli->lease.extended_arg = run;
}

static void run_begin(struct run *run)
{
    struct cli *cli = run->cli;
    cli->options.log = run_note_event;
    cli->options.log_arg = run;
    cli_connect(cli);
    stats_file_begin(&run->stats_file, cli, run->key);
    run->reports =
        event_new(cli->base, run->child.reports, EV_READ | EV_PERSIST, on_reports, run);
    run->signals =
        event_new(cli->base, run->child.signals, EV_READ | EV_PERSIST, on_signal, run);
    cli_timer_begin(&run->timer, cli->base, 0, on_timer, run);
    if (!run->reports || !run->signals || event_add(run->reports, NULL) != 0 ||
        event_add(run->signals, NULL) != 0)
        cli_fail(CLI_FAILED, "run: no events: out of memory or descriptors");
}

static void acquire(struct run *run)
{
    struct cli *cli = run->cli;
    redlock_code code =
        redlock_acquire_many(cli->client, cli->keys.of, cli_keys_count(&cli->keys),
                             &cli->lease, on_acquired, run, &run->lease);
    cli_need_start(code, run->key);
    cli_waiting_begin(&run->waiting, cli, run->key, &run->lease);
    nesting_begin(&run->nesting, cli, &run->lease);
    if (run->once.period_ms > 0)
        once_wait(&run->once, &run->lease);
}

static void end(struct run *run)
{
    child_close(&run->child);
    redlock_lease_free(run->lease); /* releases what it still holds, unless disowned */
    cli_drain(run->cli);
    stats_file_end(&run->stats_file);
    event_free(run->reports);
    event_free(run->signals);
    cli_timer_end(&run->timer);
    cli_disconnect(run->cli);
}

void run_play(struct run *run)
{
    const struct cli *cli = run->cli;
    struct keeper_plan plan = {.argv = run->argv,
                               .mask = run->mask,
                               .spare_daemons = run->spare_daemons,
                               .release = run_release_orphan,
                               .arg = run};
    if (!child_open(&run->child, &plan)) /* before connections are opened */
        cli_fail(CLI_FAILED, "%s: no keeper process could be made: %s", cli->command->name,
                 strerror(errno));
    if (!kill_tree_can_see())
        cli_say(cli,
                "%s: /proc does not show this pid namespace: processes that leave the "
                "command's process group cannot be killed; if one outlives it, the lock "
                "ends with its TTL",
                run->key);
    run_begin(run);
    if (run->once.period_ms > 0)
        run_ask_once(run);
    if (run->cause != NOT_CONCLUDED)
        finish(run);
    else
        acquire(run);
    cli_wait(cli->base, &run->done);
    end(run);
    if (cli->json)
        run_print_json(run);
}

int cli_run(struct cli *cli, int argc, char **argv)
{
    struct run run = {.cli = cli, .once.period_ms = CLI_UNSAID};
    read_options(&run, argc, argv);
    run_play(&run);
    return run.exit;
}
