#include "cmd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "writer.h"

#define STUCK_MS 7000 /* a keeper without a deadline has ended by then */
#define TIMEOUT_SHARE                                                                      \
    2 /* of the lead: the keeper must reply within this part after the deadline */

/* How long CMD may run, given the remaining validity of the lock. */
static int64_t left_of(const struct cmd *cmd, int64_t valid_ms)
{
    return valid_ms > cmd->lead_ms ? valid_ms - cmd->lead_ms : 0;
}

static int64_t left_us(const struct cmd *cmd)
{
    return cmd->deadline_us - keeper_clock();
}

/* If the keeper has not replied by then, it is stopped, or cannot kill all in time. */
static int64_t timeout_us(const struct cmd *cmd)
{
    return cmd->lead_ms * 1000 / TIMEOUT_SHARE;
}

/*
 * The keeper must have reported something new, or have ended everything, shortly after
 * this.
 */
static void expect_by(struct cmd *cmd, int64_t deadline_us)
{
    cmd->deadline_us = deadline_us;
    int64_t left = left_us(cmd);
    cli_timer_set(&cmd->timer, left > 0 ? left / 1000 + 1 : 0);
}

/*
 * Reads the clock before the validity, so that the deadline is rounded to the early side.
 */
static int64_t next_deadline_us(const struct cmd *cmd)
{
    int64_t now = keeper_clock();
    return now + left_of(cmd, redlock_valid_ms(cmd->lock->lease)) * 1000;
}

void cmd_finish(struct cmd *cmd)
{
    if (cmd->stage >= ENDING)
        return;
    cmd->stage = ENDING;
    child_finish(&cmd->child, cmd->kill_after_ms * 1000);
    if (cmd->deadline_us == 0)
        expect_by(cmd, keeper_clock() + STUCK_MS * 1000);
}

/* --- the start --- */

static void never_ran(struct cmd *cmd, int code, enum run_cause cause)
{
    cmd->ending->fate = NEVER_RAN;
    ending_conclude(cmd->ending, code, cause);
    cmd_finish(cmd);
}

static void is_late(struct cmd *cmd)
{
    cmd->lock->state = LOCK_LOST;
    cmd->ending->stopped = true;
    cli_complain(
        "%s: the lock expired before the command was started; the command is not run",
        cmd->lock->key);
    cli_say_record(cmd->lock->cli);
    never_ran(cmd, CLI_LOST, BY_LOSS);
}

/* No process could be made for CMD: that says nothing about CMD. */
static void no_process(struct cmd *cmd, int error)
{
    cmd->ending->fate = NEVER_RAN;
    if (error == EPIPE)
        return; /* the keeper has ended: its report says why */
    cli_complain("%s: no process could be made for the command: %s; the command is not run",
                 cmd->lock->key, strerror(error));
    never_ran(cmd, CLI_FAILED, BY_FAILURE);
}

static void was_refused(struct cmd *cmd, int error)
{
    const char *program = cmd->plan.argv[0];
    bool missing = error == ENOENT;
    if (missing && cmd->key_follows_dashes)
        cli_complain("%s: %s: \"%s\" was taken for the key: KEY comes before --", program,
                     strerror(error), cmd->lock->key);
    else
        cli_complain("%s: %s%s", program, strerror(error),
                     missing && strchr(program, ' ') ? ": no shell is used: sh -c '...'"
                                                     : "");
    never_ran(cmd, missing ? CLI_NOT_FOUND : CLI_CANNOT_EXECUTE,
              missing ? BY_ABSENCE : BY_EXECUTION);
}

/* 0: the lock has none, and an inherited one belongs to another lock. */
static size_t add_number(char environment[KEEPER_ENVIRONMENT], size_t size,
                         const char *name, int64_t number)
{
    return number > 0 ? child_add(environment, size, "%s=%" PRId64, name, number)
                      : child_add(environment, size, "%s", name);
}

/* What CMD gets; returns its size. */
static size_t write_environment(char text[KEEPER_ENVIRONMENT], const struct lock *lock,
                                int64_t left_ms)
{
    const struct cli *cli = lock->cli;
    const char *outer = nesting_outer(), *token = redlock_token(lock->lease);
    bool leads = cli->lease.kind == REDLOCK_KIND_ELECTION;
    size_t size = child_add(text, 0, "REDLOCK_KEY=%s", (const char *)cli->keys.of[0].bytes);
    size = child_add(text, size, "REDLOCK_TOKEN=%s", token);
    size = child_add(text, size, "REDLOCK_TTL_MS=%" PRId64, cli->lease.ttl_ms);
    size = child_add(text, size, "REDLOCK_VALID_MS=%" PRId64, left_ms);
    size =
        child_add(text, size, NESTING_VARIABLE "=%s%s%s", outer, *outer ? " " : "", token);
    size = add_number(text, size, "REDLOCK_SLOT", redlock_slot(lock->lease));
    size = add_number(text, size, "REDLOCK_TERM", leads ? lock->fence : 0);
    return add_number(text, size, "REDLOCK_FENCE", lock->fence);
}

/* Reads the clock after everything that may take time. The keeper reads it again. */
void cmd_start(struct cmd *cmd, int64_t release_us)
{
    const struct lock *lock = cmd->lock;
    struct keeper_lock held = {
        .fence = lock->fence, .slot = redlock_slot(lock->lease), .release_us = release_us};
    strcpy(held.token, redlock_token(lock->lease));
    char text[KEEPER_ENVIRONMENT];
    int64_t left_ms = left_of(cmd, redlock_valid_ms(lock->lease));
    size_t size = write_environment(text, lock, left_ms);
    if (left_ms == 0) {
        is_late(cmd);
        return;
    }
    cmd->stage = RUNNING;
    cmd->ending->fate = MAY_HAVE_RUN;
    event_del(cmd->signals); /* until CMD runs and can receive signals */
    expect_by(cmd, next_deadline_us(cmd));
    if (!child_start(&cmd->child, cmd->deadline_us, &held, text, size))
        no_process(cmd, errno);
}

/* --- the loss of the lock --- */

/* TERM now, unless the end is reached; KILL at the end. */
static void stop(struct cmd *cmd, int64_t valid_ms, redlock_code code)
{
    int64_t deadline_us = keeper_clock() + left_of(cmd, valid_ms) * 1000;
    expect_by(cmd, deadline_us < cmd->deadline_us ? deadline_us : cmd->deadline_us);
    child_hold(&cmd->child, cmd->deadline_us);
    child_keep_lock(&cmd->child);
    char *why = lock_why_lost(cmd->lock, code);
    bool runs = cmd->stage == RUNNING;
    if (runs || cmd->ending->fate == HAS_ENDED)
        cli_complain("%s: the lock is lost: %s; %s", cmd->lock->key, why,
                     runs ? "the command is stopped"
                          : "processes that the command left are killed");
    free(why);
    if (cmd->stage == ENDING)
        return;
    cmd->ending->stopped = true;
    ending_conclude(cmd->ending, CLI_LOST, BY_LOSS);
    cmd->stage = STOPPING;
    if (left_us(cmd) > 0) {
        child_signal(&cmd->child, SIGTERM);
        child_signal(&cmd->child, SIGCONT); /* a stopped process does not handle SIGTERM */
    }
}

/* --max-hold is over. `since_us` is a little later than the begin of the lock. */
static bool is_max_hold_over(const struct cmd *cmd)
{
    const redlock_lease_options *lease = &cmd->lock->cli->lease;
    int64_t held_ms = (keeper_clock() - cmd->lock->since_us) / 1000;
    return lease->max_hold_ms > 0 &&
           held_ms >= lease->max_hold_ms - lease->margin_ms - cmd->lead_ms;
}

static void lose(struct cmd *cmd, int64_t valid_ms, redlock_code code)
{
    if (cmd->lock->state == LOCK_LOST)
        return;
    cmd->lock->state = LOCK_LOST;
    if (code == REDLOCK_EXPIRED && is_max_hold_over(cmd)) /* the keeper was first */
        code = REDLOCK_MAX_HOLD;
    if (cmd->stage == RUNNING || cmd->stage == ENDING)
        stop(cmd, valid_ms, code);
    lock_tell_nodes(cmd->lock);
    cli_say_record(cmd->lock->cli);
}

/* --- what the keeper reports --- */

/* The keeper did not reply in time after the deadline. A stopped keeper cannot kill. */
static void give_up_keeper(struct cmd *cmd)
{
    if (cmd->stage == RUNNING && left_of(cmd, redlock_valid_ms(cmd->lock->lease)) == 0)
        lose(cmd, 0, REDLOCK_EXPIRED);
    if (cmd->stage == RUNNING) {
        cli_complain("%s: the keeper process does not reply; the command is stopped",
                     cmd->lock->key);
        ending_conclude(cmd->ending, CLI_FAILED, BY_FAILURE);
    }
    cmd->gave_up = true;
    child_signal(&cmd->child, SIGKILL);
    child_give_up(&cmd->child);
}

static void has_ended(struct cmd *cmd, int status)
{
    cmd->ending->fate = HAS_ENDED;
    if (WIFSIGNALED(status))
        ending_conclude(cmd->ending, CLI_SIGNALLED + WTERMSIG(status), BY_SIGNAL);
    else
        ending_conclude(cmd->ending, WEXITSTATUS(status), BY_CHILD);
    cmd_finish(cmd);
}

/* The keeper could not read from redlock, and ended everything as if redlock were gone. */
static void keeper_left(struct cmd *cmd)
{
    if (cmd->child.pid == 0)
        cmd->ending->fate = NEVER_RAN;
    cli_complain("%s: the keeper process lost redlock%s", cmd->lock->key,
                 cmd->ending->fate == NEVER_RAN ? "; the command is not run"
                                                : ", and has ended the command");
    ending_conclude(cmd->ending, CLI_FAILED, BY_FAILURE);
}

static void keeper_was_killed(struct cmd *cmd)
{
    const char *key = cmd->lock->key;
    if (cmd->child.failed)
        cli_complain("%s: the keeper process could not begin: %s; the command is not run",
                     key, strerror(cmd->child.failed));
    else if (!cmd->gave_up)
        cli_complain("%s: the keeper process was killed%s", key,
                     cmd->ending->fate == NEVER_RAN ? "; the command is not run"
                                                    : ", and the command with it");
    ending_conclude(cmd->ending, CLI_FAILED, BY_FAILURE);
}

static void leave(struct cmd *cmd, const struct keeper_report *report)
{
    cmd->stage = LEAVING;
    cli_timer_stop(&cmd->timer);
    cmd->gone(cmd->arg, report->value ? NULL : &report->left);
}

static void resumed(struct cmd *cmd);

static void handle_report(struct cmd *cmd, const struct keeper_report *report)
{
    switch (report->news) {
    case KEEPER_STARTED:
        event_add(cmd->signals, NULL);
        if (cmd->stage == RUNNING)
            cmd_notify_ready(cmd->lock->key);
        if (cmd->stage == STOPPING)
            child_signal(&cmd->child, left_us(cmd) > 0 ? SIGTERM : SIGKILL);
        break;
    case KEEPER_LATE: is_late(cmd); break;
    case KEEPER_REFUSED: was_refused(cmd, (int)report->value); break;
    case KEEPER_FAILED: no_process(cmd, (int)report->value); break;
    case KEEPER_HELD: /* only if no earlier deadline was set */
        if (cmd->lock->state != LOCK_LOST)
            expect_by(cmd, report->value);
        break;
    case KEEPER_STOPPED:
        if (cmd->stage == RUNNING && child_suspend(&cmd->child, (int)report->value))
            resumed(cmd);
        break;
    case KEEPER_EXPIRED: lose(cmd, 0, REDLOCK_EXPIRED); break;
    case KEEPER_ENDED: has_ended(cmd, (int)report->value); break;
    case KEEPER_KILLED:
        keeper_was_killed(cmd);
        leave(cmd, report);
        break;
    case KEEPER_SWEPT:
        if (cmd->ending->cause == NOT_CONCLUDED)
            keeper_left(cmd);
        leave(cmd, report);
        break;
    default: break;
    }
}

/* Handles the keeper's reports before anything that is concluded from the clock. */
static void catch_up(struct cmd *cmd)
{
    for (;;) {
        struct keeper_report report = child_next(&cmd->child);
        if (report.news == KEEPER_QUIET)
            break;
        handle_report(cmd, &report);
    }
    if (cmd->child.over)
        event_del(cmd->reports);
}

static void on_reports(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    catch_up(arg);
}

/* --- what the lock and its client report --- */

static void on_lost(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct cmd *cmd = arg;
    (void)lease;
    catch_up(cmd);
    lose(cmd, result->valid_ms, result->code);
    if (result->code == REDLOCK_GONE || result->code == REDLOCK_TAKEN)
        ending_replace_by_loss(cmd->ending, cmd->lock->key);
}

static void on_extended(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct cmd *cmd = arg;
    (void)lease;
    (void)result;
    if (cmd->stage == RUNNING || cmd->stage == ENDING)
        child_hold(&cmd->child, next_deadline_us(cmd));
}

static void note_event(const redlock_event *event, void *arg)
{
    const struct cmd *cmd = arg;
    if (cmd->lock->state == LOCK_HELD && (cmd->stage == RUNNING || cmd->stage == ENDING))
        lock_tell_event(cmd->lock, event);
}

/* --- time and signals --- */

/* Handles the keeper's reports first, even if the timer runs late. */
static void on_timer(void *arg)
{
    struct cmd *cmd = arg;
    catch_up(cmd);
    if (cmd->child.over)
        return;
    int64_t left = left_us(cmd);
    if (cmd->stage == STOPPING && left <= 0)
        child_signal(&cmd->child, SIGKILL);
    if (left > 0)
        expect_by(cmd, cmd->deadline_us);
    else if (left > -timeout_us(cmd))
        cli_timer_set(&cmd->timer, (left + timeout_us(cmd)) / 1000 + 1);
    else
        give_up_keeper(cmd);
}

/* Redlock may have been stopped for long: check the deadline before CMD continues. */
static void resumed(struct cmd *cmd)
{
    catch_up(cmd);
    if (cmd->stage != RUNNING)
        return;
    if (left_of(cmd, redlock_valid_ms(cmd->lock->lease)) > 0)
        child_resume(&cmd->child);
    else
        lose(cmd, 0, REDLOCK_EXPIRED);
}

static void on_signal(evutil_socket_t fd, short what, void *arg)
{
    struct cmd *cmd = arg;
    (void)fd;
    (void)what;
    int number = child_next_signal(&cmd->child);
    bool ends = number == SIGTERM || number == SIGINT;
    bool ends_wait = ends || number == SIGHUP || number == SIGQUIT;
    if (cmd->stage == RUNNING ? ends : ends_wait)
        cmd->ending->signal = number;
    if (number == SIGTERM)
        writer_hurry();
    if (number == SIGCONT)
        resumed(cmd);
    else if (number > 0 && (cmd->stage == RUNNING || cmd->stage == STOPPING))
        child_signal(&cmd->child, number);
    else if (cmd->stage == WAITING && number == SIGTSTP)
        child_suspend(&cmd->child, number);
    else if (cmd->stage == WAITING && ends_wait)
        redlock_cancel(cmd->lock->lease);
}

/* --- from beginning to end --- */

static void set_limits(struct cmd *cmd, int64_t kill_after_ms)
{
    redlock_lease_options *lease = &cmd->lock->cli->lease;
    int64_t most_ms = lease->max_hold_ms, ttl_ms = lease->ttl_ms;
    int64_t span_ms = most_ms > 0 && most_ms < ttl_ms ? most_ms : ttl_ms;
    int64_t most = span_ms / KILL_AFTER_SHARE, lead_ms = span_ms / LEAD_SHARE;
    cmd->lead_ms = lead_ms < LEAD_MS ? lead_ms : LEAD_MS;
    cmd->kill_after_ms = kill_after_ms < most ? kill_after_ms : most;
    lease->margin_ms = cmd->lead_ms + cmd->kill_after_ms;
}

void cmd_open(struct cmd *cmd, int64_t kill_after_ms)
{
    struct cli *cli = cmd->lock->cli;
    set_limits(cmd, kill_after_ms);
    cli->options.log = note_event;
    cli->lease.on_lost = on_lost;
    cli->lease.on_extended = on_extended;
    cli->options.log_arg = cli->lease.lost_arg = cli->lease.extended_arg = cmd;
    if (!child_open(&cmd->child, &cmd->plan))
        cli_fail(CLI_FAILED, "%s: no keeper process could be made: %s", cli->command->name,
                 strerror(errno));
    if (!kill_tree_can_see())
        cli_say(cli,
                "%s: /proc does not show this pid namespace: processes that leave the "
                "command's process group cannot be killed; if one outlives it, the lock "
                "ends with its TTL",
                cmd->lock->key);
}

void cmd_watch(struct cmd *cmd)
{
    struct event_base *base = cmd->lock->cli->base;
    struct child *child = &cmd->child;
    cmd->reports = event_new(base, child->reports, EV_READ | EV_PERSIST, on_reports, cmd);
    cmd->signals = event_new(base, child->signals, EV_READ | EV_PERSIST, on_signal, cmd);
    cli_timer_begin(&cmd->timer, base, 0, on_timer, cmd);
    if (!cmd->reports || !cmd->signals || event_add(cmd->reports, NULL) != 0 ||
        event_add(cmd->signals, NULL) != 0)
        cli_fail(CLI_FAILED, "run: no events: out of memory or descriptors");
}

void cmd_close(struct cmd *cmd)
{
    event_free(cmd->reports);
    event_free(cmd->signals);
    cli_timer_end(&cmd->timer);
    child_close(&cmd->child);
}
