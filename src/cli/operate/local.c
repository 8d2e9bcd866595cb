/* redlock local: a private quorum that exists while a command, or redlock itself, runs. */
#include "certificates.h"
#include "cli.h"
#include "deployment.h"
#include "run/child.h"
#include "servers.h"
#include "writer.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define SERVERS_DEFAULT 5
#define START_MAX_US    (10 * INT64_C(1000000))
#define LOOK_AGAIN_MS   10
#define END_MAX_MS      10000 /* a keeper that has not ended by then is stuck */

const struct cli_help cli_local_help = {
    "Usage: redlock local [-n N] [--tls] [-- CMD [ARG...]]\n"
    "Start N private redis-servers (or valkey-servers) on unix sockets in a new folder,\n"
    "and run CMD with REDLOCK_NODES set to them. Without CMD, print the commands that set\n"
    "REDLOCK_NODES, and run until INT, TERM or HUP. At the end nothing is left.\n\n"
    "  -n, --count N             the number of servers, 1 to 32; default 5\n"
    "      --tls                 by TLS on ports of 127.0.0.1, with a new CA\n\n"
    "Example:\n"
    "  redlock local -n 3 -- bash\n",
    "\n"
    "The servers are admitted: they hold fenced locks, too, with TTLs up to\n"
    "--max-ttl. REDLOCK_LOCAL_DIR is their folder: redis-server\n"
    "$REDLOCK_LOCAL_DIR/3.conf starts a stopped server again, its log is 3.log. With\n"
    "--tls REDLOCK_CACERT, REDLOCK_CERT and REDLOCK_CERT_KEY name the files. The\n"
    "configuration file, user and password of other nodes are removed from CMD's\n"
    "environment.\n\n"
    "Exit codes: CMD's own, 128+n if signal n ended it; 0 without CMD; 78 no TLS in this\n"
    "build; 126 CMD cannot be executed; 127 CMD or redis-server is not found.\n",
};

enum stage {
    STARTING, /* the servers are starting */
    RUNNING,
    ENDING, /* everything is being killed */
    OVER,
};

struct local {
    const struct cli *cli;
    struct servers *servers;
    struct child child;
    char **argv; /* CMD; NULL: none */
    enum stage stage;
    bool begun;
    int ready; /* how many servers, counted from the first, have replied */
    int64_t give_up_us;
    int exit;
};

static void local_end(struct local *local, int code)
{
    if (local->stage >= ENDING)
        return;
    local->exit = code;
    local->stage = ENDING;
    child_finish(&local->child, 0);
}

static void fail(struct local *local, int code, const char *what, const char *why)
{
    if (local->stage < ENDING)
        cli_complain("%s: %s", what, why);
    local_end(local, code);
}

/* --- the servers answer --- */

#define TLS_FILES 3

/* The needs of a client of TLS servers, in the servers' folder. */
static const struct {
    const char *variable, *name, *key; /* `key` in JSON */
} tls_files[TLS_FILES] = {
    {"REDLOCK_CACERT", "ca.crt", "cacert"},
    {"REDLOCK_CERT", "client.crt", "cert"},
    {"REDLOCK_CERT_KEY", "client.key", "key"},
};

/*
 * These servers have no users and no passwords: those of other nodes must not reach them,
 * nor what else was set for other nodes.
 */
static void local_start_command(struct local *local, const char *list)
{
    char text[KEEPER_ENVIRONMENT];
    size_t size = child_add(text, 0, "REDLOCK_NODES=%s", list);
    size = child_add(text, size, "REDLOCK_LOCAL_DIR=%s", local->servers->folder);
    size = child_add(text, size, "REDLOCK_CONFIG=/dev/null");
    size = child_add(text, size, "REDLOCK_USERNAME");
    size = child_add(text, size, "REDLOCK_PASSWORD");
    size = child_add(text, size, "REDLOCK_PASSWORD_FILE");
    size = child_add(text, size, "REDLOCK_CACERTDIR");
    size = child_add(text, size, "REDLOCK_PREFIX");
    size = child_add(text, size, "REDLOCK_TTL");
    size = child_add(text, size, "REDLOCK_WAIT");
    for (int i = 0; i < TLS_FILES; i++)
        size = local->servers->tls
                   ? child_add(text, size, "%s=%s/%s", tls_files[i].variable,
                               local->servers->folder, tls_files[i].name)
                   : child_add(text, size, "%s", tls_files[i].variable);
    if (!child_start(&local->child, KEEPER_NEVER, NULL, text, size) && errno != EPIPE)
        fail(local, CLI_FAILED, "the keeper process", strerror(errno));
}

static json_t *nodes_json(const char *list)
{
    json_t *nodes = json_array();
    for (size_t len; *list; list += len + (list[len] == ',')) {
        len = strcspn(list, ",");
        json_array_append_new(nodes, json_pack("{s:o}", "uri", json_stringn(list, len)));
    }
    return nodes;
}

static void print_nodes(struct local *local, const char *list)
{
    if (local->cli->json) {
        json_t *object = json_pack("{s:o, s:s}", "nodes", nodes_json(list), "folder",
                                   local->servers->folder);
        for (int i = 0; i < TLS_FILES && local->servers->tls; i++)
            json_object_set_new(
                object, tls_files[i].key,
                json_sprintf("%s/%s", local->servers->folder, tls_files[i].name));
        cli_print_json(local->cli, object);
        return;
    }
    cli_print("export REDLOCK_NODES=%s\nexport REDLOCK_LOCAL_DIR=%s\n", list,
              local->servers->folder);
    for (int i = 0; i < TLS_FILES && local->servers->tls; i++)
        cli_print("export %s=%s/%s\n", tls_files[i].variable, local->servers->folder,
                  tls_files[i].name);
    if (!cli_flush() && errno != EINTR) /* the signal follows */
        fail(local, CLI_FAILED, "stdout", strerror(errno));
    else
        cli_say(local->cli, "%d servers run until this command ends (Ctrl-C)",
                local->servers->count);
}

static void all_ready(struct local *local)
{
    char list[SERVERS_LIST];
    servers_list(local->servers, false, list);
    char *failure = deployment_found(local->cli, list);
    if (failure) {
        fail(local, CLI_FAILED, "local", failure);
        free(failure);
        return;
    }
    local->stage = RUNNING;
    servers_list(local->servers, local->servers->tls, list);
    if (local->argv)
        local_start_command(local, list);
    else
        print_nodes(local, list);
}

static void server_failed(struct local *local, const char *what)
{
    char last_line[256], text[sizeof(last_line) + 128];
    servers_last_words(local->servers, local->ready, last_line, sizeof(last_line));
    snprintf(text, sizeof(text), "server %d %s%s%s", local->ready + 1, what,
             last_line[0] ? ": " : "", last_line);
    fail(local, CLI_FAILED, local->servers->program, text);
}

static void check_servers(struct local *local)
{
    while (local->stage == STARTING && local->begun) {
        if (local->ready == local->servers->count) {
            all_ready(local);
            return;
        }
        switch (servers_look(local->servers, local->ready)) {
        case SERVERS_READY: local->ready++; break;
        case SERVERS_ENDED: server_failed(local, "ended"); break;
        case SERVERS_STRANGER:
            server_failed(local, "is not the process that replies at its socket");
            break;
        case SERVERS_STARTING:
            if (keeper_clock() >= local->give_up_us)
                server_failed(local, "does not reply");
            return;
        }
    }
}

/* --- reports and signals --- */

static void handle_report(struct local *local, struct keeper_report report)
{
    switch (report.news) {
    case KEEPER_BEGUN:
        local->begun = true;
        if (local->servers->error != 0)
            fail(local, CLI_FAILED, local->servers->folder,
                 strerror(local->servers->error));
        break;
    case KEEPER_REFUSED:
        fail(local, report.value == ENOENT ? CLI_NOT_FOUND : CLI_CANNOT_EXECUTE,
             local->argv[0], strerror((int)report.value));
        break;
    case KEEPER_FAILED:
        fail(local, CLI_FAILED, "no process could be made for the command",
             strerror((int)report.value));
        break;
    case KEEPER_STOPPED:
        if (child_suspend(&local->child, (int)report.value))
            child_resume(&local->child);
        break;
    case KEEPER_ENDED:
        local_end(local, WIFSIGNALED((int)report.value)
                             ? CLI_SIGNALLED + WTERMSIG((int)report.value)
                             : WEXITSTATUS((int)report.value));
        break;
    case KEEPER_KILLED:
        if (local->child.failed)
            fail(local, CLI_FAILED, "the keeper process could not begin",
                 strerror(local->child.failed));
        else
            fail(local, CLI_FAILED, "the keeper process",
                 "was killed, and all other processes with it");
        __attribute__((fallthrough));
    case KEEPER_SWEPT:
        if (local->stage < ENDING)
            fail(local, CLI_FAILED, "the keeper process",
                 "lost redlock, and has ended all other processes");
        local->stage = OVER;
        if (!report.value)
            cli_complain("some process could not be killed");
        break;
    default: break;
    }
}

/*
 * Forwards all signals to CMD. Without CMD, or before it runs, TERM, INT, HUP and QUIT end
 * redlock.
 */
static void handle_signal(struct local *local, int number)
{
    bool asks = number == SIGTERM || number == SIGINT || number == SIGHUP;
    if (number == SIGTERM)
        writer_hurry();
    if (number == SIGCONT)
        child_resume(&local->child);
    else if (local->child.pid > 0)
        child_signal(&local->child, number);
    else if (number == SIGTSTP)
        child_suspend(&local->child, number);
    else if (asks || number == SIGQUIT)
        local_end(local, asks && !local->argv && local->stage == RUNNING
                             ? CLI_OK
                             : CLI_SIGNALLED + number);
}

static int timeout_ms(const struct local *local)
{
    if (local->stage == ENDING)
        return END_MAX_MS;
    return local->stage == STARTING && local->begun ? LOOK_AGAIN_MS : -1;
}

static void run_loop(struct local *local)
{
    while (local->stage != OVER) {
        struct pollfd files[] = {{.fd = local->child.reports, .events = POLLIN},
                                 {.fd = local->child.signals, .events = POLLIN}};
        int ready = poll(files, 2, timeout_ms(local));
        if (ready == 0 && local->stage == ENDING)
            child_give_up(&local->child);
        struct keeper_report report = child_next(&local->child);
        if (report.news != KEEPER_QUIET)
            handle_report(local, report);
        int number = child_next_signal(&local->child);
        if (number > 0)
            handle_signal(local, number);
        check_servers(local);
    }
}

int cli_local(struct cli *cli, int argc, char **argv)
{
    int64_t count = SERVERS_DEFAULT;
    const struct cli_option own[] = {
        {"count", 'n', CLI_NUMBER, &count},
        {0},
    };
    cli->alone = true;
    int first = cli_parse(cli, argc, argv, own);
    const char *missing = cli->options.tls ? certificates_missing() : NULL;
    if (missing)
        cli_fail(CLI_CONFIG, "local: %s", missing);
    if (count < 1 || count > SERVERS_MAX)
        cli_fail(CLI_USAGE, "local: -n is 1 to %d", SERVERS_MAX);
    cli_need_files(cli, (size_t)count);
    struct local local = {.cli = cli, .argv = first < argc ? argv + first : NULL};
    local.servers = servers_new((int)count, cli->options.tls);
    struct keeper_plan plan = {local.argv, .begin = servers_begin, .end = servers_end};
    plan.arg = local.servers;
    sigprocmask(SIG_BLOCK, NULL, &plan.mask);
    local.give_up_us = keeper_clock() + START_MAX_US;
    if (!child_open(&local.child, &plan))
        cli_fail(CLI_FAILED, "local: %s", strerror(errno));
    run_loop(&local);
    child_close(&local.child);
    servers_free(local.servers);
    return local.exit;
}
