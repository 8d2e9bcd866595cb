/* The client of one command: connections, signals and exit codes. */
#include "cli.h"
#include "writer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/*
 * File descriptors that a command needs: of a node its connection, or before that the
 * sockets of two lookups of its name, for IPv4 and for IPv6. Besides, 3 of the event loop,
 * the client's timer, one that wakes it after a lookup, and those that are open briefly.
 */
#define FILES_OF_NODE 2
#define FILES_BESIDE  9
#define FILES_MAX     (FILES_BESIDE + FILES_OF_NODE * REDLOCK_NODES_MAX + CLI_MORE_FILES_MAX)

#define NICE 19

static int exit_of_failed_start(redlock_code code)
{
    switch (code) {
    case REDLOCK_BAD_KEY:
    case REDLOCK_BAD_TTL:
    case REDLOCK_BAD_TOKEN: return CLI_USAGE;
    case REDLOCK_BAD_NODES:
    case REDLOCK_BAD_URI:
    case REDLOCK_DUPLICATE_NODE:
    case REDLOCK_UNSUPPORTED:
    case REDLOCK_BAD_OPTION: return CLI_CONFIG;
    default: return CLI_FAILED;
    }
}

void cli_need_files(const struct cli *cli, size_t nodes)
{
    int file[FILES_MAX];
    size_t most = nodes < REDLOCK_NODES_MAX ? nodes : REDLOCK_NODES_MAX;
    size_t needed = FILES_BESIDE + FILES_OF_NODE * most + cli->more_files;
    size_t opened = 0;
    while (opened < needed &&
           (file[opened] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0)) >= 0)
        opened++;
    int error = errno;
    for (size_t i = 0; i < opened; i++)
        close(file[i]);
    if (opened < needed)
        cli_fail(cli->own_failure,
                 "%s: %zu file descriptors are needed, %zu are free; raise the limit "
                 "(ulimit -n)",
                 strerror(error), needed, opened);
}

static int exit_code_of_loop;

/* Prints libevent's warnings, and the error with which it ends the process. */
static void log_line(int severity, const char *text)
{
    if (severity >= EVENT_LOG_WARN)
        cli_complain("libevent: %s", text);
}

/* Libevent would exit with 1, which is a result code of some commands. */
static void end_process(int error)
{
    (void)error;
    exit(exit_code_of_loop);
}

struct event_base *cli_new_loop(const struct cli *cli)
{
    exit_code_of_loop = cli->own_failure;
    event_set_log_callback(log_line);
    event_set_fatal_callback(end_process);
    cli_need_files(cli, cli->uri_count);
    struct event_base *base = event_base_new();
    if (!base)
        cli_fail(cli->own_failure, "no event loop: out of memory");
    return base;
}

void cli_connect(struct cli *cli)
{
    cli->base = cli_new_loop(cli);
    redlock_code code = redlock_client_new(cli->base, cli->uris, cli->uri_count,
                                           &cli->options, &cli->client);
    int exit_code = exit_of_failed_start(code);
    char why[CLI_ERROR];
    if (code != REDLOCK_OK)
        cli_fail(exit_code == CLI_FAILED ? cli->own_failure : exit_code, "%s",
                 cli_error(why, redlock_last_error()));
}

void cli_step_back(void)
{
    int priority = nice(NICE);
    (void)priority; /* if that fails, it goes on as it is */
}

void cli_sleep(int64_t ms)
{
    const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

void cli_disconnect(struct cli *cli)
{
    redlock_client_free(cli->client);
    event_base_free(cli->base);
}

void cli_need_start(redlock_code code, const char *key)
{
    char why[CLI_ERROR];
    /* The options of a lock are those of the command line. */
    int exit_code = code == REDLOCK_BAD_OPTION ? CLI_USAGE : exit_of_failed_start(code);
    if (code != REDLOCK_OK)
        cli_fail(exit_code, "%s: %s", key, cli_error(why, redlock_last_error()));
}

void cli_note_outcome(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct cli_outcome *outcome = arg;
    outcome->result = *result;
    outcome->count = redlock_explain(lease, outcome->nodes, REDLOCK_NODES_MAX);
    outcome->done = true;
}

void cli_wait(struct event_base *base, const bool *done)
{
    while (!*done)
        if (event_base_loop(base, EVLOOP_ONCE) != 0)
            cli_fail(CLI_FAILED, "the event loop failed");
}

static void drained(redlock_client *client, bool clean, void *arg)
{
    (void)client;
    (void)clean;
    *(bool *)arg = true;
}

void cli_drain(const struct cli *cli)
{
    bool done = false;
    if (redlock_client_drain(cli->client, REDLOCK_NODE_TIMEOUT, drained, &done) ==
        REDLOCK_OK)
        cli_wait(cli->base, &done);
}

void cli_set(void *flag)
{
    *(bool *)flag = true;
}

/* 0: none has come. */
static int next_signal(const struct cli_signals *signals)
{
    struct signalfd_siginfo signal;
    ssize_t size = read(signals->fd, &signal, sizeof(signal));
    return size == (ssize_t)sizeof(signal) ? (int)signal.ssi_signo : 0;
}

static void caught(evutil_socket_t fd, short what, void *arg)
{
    struct cli_signals *signals = arg;
    int number = next_signal(signals);
    (void)fd;
    (void)what;
    if (number == 0)
        return;
    if (number == SIGTERM || signals->number != 0)
        writer_hurry();
    if (signals->number != 0)
        cli_fail(CLI_SIGNALLED + number, "%s again: ended at once", strsignal(number));
    signals->number = number;
    signals->caught(signals->arg);
}

void cli_signals_begin(struct cli_signals *signals, struct event_base *base,
                       void (*on_signal)(void *arg), void *arg)
{
    sigset_t ends;
    writer_signals(&ends);
    *signals = (struct cli_signals){.caught = on_signal, .arg = arg};
    sigprocmask(SIG_BLOCK, &ends, &signals->before);
    signals->fd = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals->fd < 0)
        cli_fail(CLI_FAILED, "signals cannot be caught: %s", strerror(errno));
    signals->event = cli_need_memory(
        event_new(base, signals->fd, EV_READ | EV_PERSIST, caught, signals));
    event_add(signals->event, NULL);
}

/* What came meanwhile came too late. */
void cli_signals_end(struct cli_signals *signals)
{
    while (next_signal(signals) != 0) {
    }
    event_free(signals->event);
    close(signals->fd);
    sigprocmask(SIG_SETMASK, &signals->before, NULL);
}

int cli_acquire_exit(redlock_code code, int held_elsewhere)
{
    switch (code) {
    case REDLOCK_OK: return CLI_OK;
    case REDLOCK_TAKEN:
    case REDLOCK_TIMEOUT: return held_elsewhere;
    case REDLOCK_NO_QUORUM:
    case REDLOCK_EXPIRED:
    case REDLOCK_UNCONFIRMED: return CLI_NO_QUORUM;
    case REDLOCK_DENIED: return CLI_DENIED;
    case REDLOCK_BAD_TTL: return CLI_USAGE;
    default: return CLI_FAILED;
    }
}
