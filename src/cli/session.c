/* A client for one command: its connections, its signals and its exit codes. */
#include "cli.h"

#include <signal.h>
#include <string.h>

#define STRAGGLERS_MAX_MS 250

static int exit_of_failed_start(redlock_code code)
{
    switch (code) {
    case REDLOCK_BAD_KEY:
    case REDLOCK_BAD_TTL:
    case REDLOCK_BAD_TOKEN: return CLI_USAGE;
    case REDLOCK_BAD_NODES:
    case REDLOCK_BAD_URI:
    case REDLOCK_DUPLICATE_NODE:
    case REDLOCK_NOT_BUILT:
    case REDLOCK_BAD_OPTION: return CLI_CONFIG;
    default: return CLI_FAILED;
    }
}

redlock_client *cli_connect(const struct cli *cli, struct event_base *base)
{
    redlock_client *client;
    redlock_error error = {.code = REDLOCK_OK};
    if (!base)
        cli_fail(CLI_FAILED, "no event loop: out of memory or descriptors");
    redlock_code code =
        redlock_client_new(base, cli->uris, cli->uri_count, &cli->client, &client, &error);
    if (code != REDLOCK_OK)
        cli_fail(exit_of_failed_start(code), "%s",
                 error.text[0] ? error.text : redlock_code_text(code));
    return client;
}

void cli_fail_start(redlock_code code, const char *key)
{
    cli_fail(exit_of_failed_start(code), "%s: %s", key, redlock_code_text(code));
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

void cli_drain(redlock_client *client, struct event_base *base)
{
    bool done = false;
    if (redlock_client_drain(client, -1, drained, &done) == REDLOCK_OK)
        cli_wait(base, &done);
}

/* How many nodes of the last round have not answered yet. */
static size_t count_waiting(const redlock_lease *lease)
{
    redlock_node nodes[REDLOCK_NODES_MAX];
    size_t waiting = 0, count = redlock_explain(lease, nodes, REDLOCK_NODES_MAX);
    for (size_t i = 0; i < count; i++)
        waiting += strcmp(nodes[i].verdict, "waiting") == 0;
    return waiting;
}

static void time_out(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    *(bool *)arg = true;
}

void cli_await_stragglers(const struct cli *cli, const redlock_lease *lease,
                          struct event_base *base)
{
    int64_t fixed = cli->client.node_timeout_ms;
    int64_t ms = fixed > 0 ? fixed : STRAGGLERS_MAX_MS;
    struct timeval patience = {ms / 1000, ms % 1000 * 1000};
    bool timed_out = false;
    struct event *timer = evtimer_new(base, time_out, &timed_out);
    if (timer && evtimer_add(timer, &patience) == 0)
        while (!timed_out && count_waiting(lease) > 0)
            if (event_base_loop(base, EVLOOP_ONCE) != 0)
                break;
    if (timer)
        event_free(timer);
}

static const int signal_numbers[CLI_SIGNALS] = {SIGHUP, SIGINT, SIGTERM};

static void caught(evutil_socket_t number, short what, void *arg)
{
    struct cli_signals *signals = arg;
    (void)what;
    if (signals->number != 0)
        cli_fail(CLI_SIGNALLED + (int)number, "%s again: ended at once",
                 strsignal((int)number));
    signals->number = (int)number;
    signals->caught(signals->arg);
}

void cli_signals_begin(struct cli_signals *signals, struct event_base *base,
                       void (*on_signal)(void *arg), void *arg)
{
    *signals = (struct cli_signals){.caught = on_signal, .arg = arg};
    for (int i = 0; i < CLI_SIGNALS; i++) {
        struct sigaction inherited;
        if (sigaction(signal_numbers[i], NULL, &inherited) == 0 &&
            inherited.sa_handler == SIG_IGN)
            continue;
        signals->events[i] = evsignal_new(base, signal_numbers[i], caught, signals);
        if (!signals->events[i] || evsignal_add(signals->events[i], NULL) != 0)
            cli_fail(CLI_FAILED, "signals cannot be caught");
    }
}

void cli_signals_end(struct cli_signals *signals)
{
    for (int i = 0; i < CLI_SIGNALS; i++)
        if (signals->events[i])
            event_free(signals->events[i]);
    memset(signals->events, 0, sizeof(signals->events));
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
    default: return CLI_FAILED;
    }
}
