#include "cli.h"
#include "learn.h"
#include "nesting.h"
#include "tokenfile.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

const struct cli_help cli_acquire_help = {
    "Usage: redlock acquire [OPTION]... KEY\n"
    "Take the lock KEY, print its token on stdout, and exit without releasing the lock.\n"
    "No process extends it: it expires after the TTL unless you call extend or release.\n\n"
    "  -t, --ttl TTL             how long it lasts; default 30s; auto: "
    "learned\n" CLI_WAIT_HELP CLI_KIND_HELP
    "      --fence               a fenced lock, on admitted nodes; its \"fence\" is in F\n"
    "      --slots N             a semaphore, the same N for all; \"slot\" is in F\n"
    "      --token-file F        write token, fence and deadline to F, as JSON\n\n"
    "Example:\n"
    "  redlock acquire -n -t 1m --token-file /run/backup.lock backup >/dev/null || exit\n",
    "  token=$(redlock acquire -t 1m -w 10s backup) || exit\n"
    "  REDLOCK_TOKEN=$token redlock release backup\n\n"
    "-t auto is twice the longest of the last holds, from the default to --max-ttl or\n"
    "1m. release learns from the token file, which it needs, how long each was.\n\n"
    "Exit codes: 0 the lock is held and its token was printed; 75 also: the wait ran\n"
    "out; 64 also: a redlock run around this command has the lock. The lock is held only\n"
    "if the exit code is 0.\n",
};

struct acquire {
    struct cli *cli;
    const char *key, *token_file;
    redlock_lease *lease;
    struct cli_outcome outcome;
    struct nesting nesting;
    struct learn learn;
    int64_t begun_us; /* -t auto: not later than it was acquired */
};

static void acquire_interrupted(void *arg)
{
    struct acquire *acquire = arg;
    redlock_cancel(acquire->lease);
}

static void wait_for_end(struct acquire *acquire)
{
    struct cli_waiting waiting;
    cli_waiting_begin(&waiting, acquire->cli, acquire->key, &acquire->lease);
    nesting_begin(&acquire->nesting, acquire->cli, &acquire->lease);
    cli_wait(acquire->cli->base, &acquire->outcome.done);
    cli_waiting_end(&waiting);
    nesting_end(&acquire->nesting);
    if (acquire->cli->ttl_learns)
        acquire->begun_us =
            cli_clock_us(CLOCK_BOOTTIME) - acquire->outcome.result.took_ms * 1000;
}

/* Prints the JSON of any outcome, without a flush; `cause` is its name. */
static bool print_outcome(const struct acquire *acquire, redlock_code code, json_t *object)
{
    json_object_set_new(object, "cause", cli_cause(code));
    json_object_set_new(object, "attempts", json_integer(acquire->outcome.result.attempts));
    cli_add_outcome(object, &acquire->outcome);
    return cli_write_json(acquire->cli, object, cli_stdout());
}

static void print_failure(const struct acquire *acquire, redlock_code code)
{
    const redlock_result *result = &acquire->outcome.result;
    const redlock_node *holder = cli_holder(acquire->outcome.nodes, acquire->outcome.count);
    if (!acquire->cli->json)
        return;
    json_t *object = cli_keys_json(&acquire->cli->keys);
    json_object_set_new(object, "holder",
                        holder ? cli_json_text(holder->holder) : json_null());
    json_object_set_new(object, "remaining_ms", cli_json_known(result->remaining_ms));
    print_outcome(acquire, code, object);
    cli_flush(); /* the exit code reports the same */
}

static int report_expired(const struct acquire *acquire)
{
    cli_say(acquire->cli, "%s is not held: %s", acquire->key,
            redlock_code_text(REDLOCK_EXPIRED));
    cli_say_record(acquire->cli);
    return CLI_NO_QUORUM;
}

static void run_loop(void *base)
{
    event_base_loop(base, EVLOOP_NONBLOCK);
}

/* While no reader takes the token, the lock is extended. */
static bool print_token(const struct acquire *acquire, const struct tokenfile *held)
{
    const struct cli *cli = acquire->cli;
    bool printed = true;
    if (cli->json)
        printed = print_outcome(acquire, REDLOCK_OK, tokenfile_json(held, &cli->keys));
    else
        cli_print("%s\n", held->token);
    return printed && cli_flush_with(run_loop, cli->base);
}

/* Stdout could not be written (errno), or a signal ends the wait for its reader. */
static int report_unprinted(const struct acquire *acquire)
{
    int exit_code = errno == EINTR ? cli_exit_printed(false, CLI_OK) : CLI_FAILED;
    if (exit_code == CLI_FAILED)
        cli_complain("stdout: %s; %s is released", strerror(errno), acquire->key);
    else
        cli_say(acquire->cli, "%s: %s; the lock is not held", acquire->key,
                strsignal(exit_code - CLI_SIGNALLED));
    return exit_code;
}

/*
 * Writes the token to the file, then to stdout. After that the lock belongs to the caller.
 */
static int publish(const struct acquire *acquire)
{
    struct tokenfile held = {.slots = acquire->cli->lease.slots,
                             .begun_us = acquire->begun_us};
    const char *file = acquire->token_file;
    int64_t ttl_ms = acquire->cli->ttl_learns
                         ? learn_extend(&acquire->learn, acquire->cli, acquire->lease)
                         : acquire->cli->lease.ttl_ms;
    if (!tokenfile_fill(&held, acquire->lease, ttl_ms)) {
        print_failure(acquire, REDLOCK_EXPIRED);
        return report_expired(acquire);
    }
    if (file && !tokenfile_write(file, &held, &acquire->cli->keys)) {
        int exit_code = errno == ENOMEM ? CLI_FAILED : CLI_CONFIG;
        cli_complain("%s: %s; %s is released", file, strerror(errno), acquire->key);
        return exit_code;
    }
    bool printed = print_token(acquire, &held);
    if (printed && redlock_valid_ms(acquire->lease) > 0)
        return CLI_OK;
    int exit_code = printed ? report_expired(acquire) : report_unprinted(acquire);
    if (file)
        unlink(file);
    return exit_code;
}

/* Releases a lock that was not handed to the caller. */
static void give_back(struct acquire *acquire)
{
    struct cli_outcome outcome = {.done = false};
    if (redlock_release(acquire->lease, cli_note_outcome, &outcome) == REDLOCK_OK)
        cli_wait(acquire->cli->base, &outcome.done);
    if (outcome.result.code == REDLOCK_UNCONFIRMED)
        cli_say_not_released(acquire->cli, acquire->key, "", &outcome.result, outcome.nodes,
                             outcome.count);
}

static int conclude(struct acquire *acquire, int signal)
{
    const struct cli *cli = acquire->cli;
    redlock_code code = acquire->outcome.result.code;
    cli_say_nodes(cli, acquire->outcome.nodes, acquire->outcome.count);
    if (code == REDLOCK_OK && signal == 0) {
        int exit_code = publish(acquire);
        if (exit_code == CLI_OK)
            redlock_disown(acquire->lease);
        else
            give_back(acquire);
        return exit_code;
    }
    if (code == REDLOCK_OK)
        give_back(acquire);
    else if (acquire->nesting.found) {
        nesting_complain(acquire->key);
        print_failure(acquire, code);
        return CLI_USAGE;
    }
    if (signal != 0) {
        cli_say(cli, "%s: %s; the lock is not held", acquire->key, strsignal(signal));
        print_failure(acquire, REDLOCK_CANCELLED);
        return CLI_SIGNALLED + signal;
    }
    cli_say_not_acquired(cli, acquire->key, &acquire->outcome.result,
                         acquire->outcome.nodes, acquire->outcome.count);
    print_failure(acquire, code);
    return cli_acquire_exit(code, (int)cli->held_elsewhere);
}

int cli_acquire(struct cli *cli, int argc, char **argv)
{
    struct acquire acquire = {.cli = cli};
    const struct cli_option own[] = {
        CLI_HOLD_OPTIONS(cli),
        {"token-file", 0, CLI_TEXT, &acquire.token_file},
        {NULL, 0, CLI_FLAG, NULL},
    };
    acquire.key = cli_keys_begin(&cli->keys, argv[cli_parse(cli, argc, argv, own)]);
    if (acquire.token_file)
        tokenfile_check(acquire.token_file);
    if (cli->ttl_learns && (!acquire.token_file || cli->keys.others > 0))
        cli_fail(CLI_USAGE, "acquire: --ttl auto needs --token-file, and one key");

    cli_connect(cli);
    if (cli->ttl_learns)
        learn_ask(&acquire.learn, cli);
    redlock_code code = redlock_acquire_many(
        cli->client, cli->keys.of, cli_keys_count(&cli->keys), &cli->lease,
        cli_note_outcome, &acquire.outcome, &acquire.lease);
    cli_need_start(code, acquire.key);
    struct cli_signals signals;
    cli_signals_begin(&signals, cli->base, acquire_interrupted, &acquire);
    wait_for_end(&acquire);
    int exit_code = conclude(&acquire, signals.number);
    cli_drain(cli);
    redlock_lease_free(acquire.lease);
    cli_signals_end(&signals);
    cli_disconnect(cli);
    return exit_code;
}
