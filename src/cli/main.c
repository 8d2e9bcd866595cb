/* redlock: hold a lock on a majority of independent Redis masters. */
#include "args.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    int (*main)(struct cli *cli, int argc, char **argv);
    const char *help;
    const char *summary;
    int operands_least, operands_most;
    bool alone;
} commands[] = {
    {"run", cli_run, cli_run_help, "hold a lock while a command runs", 2, INT_MAX, false},
    {"acquire", cli_acquire, cli_acquire_help, "take a lock and print its token", 1, 1,
     false},
    {"extend", cli_extend, cli_extend_help, "hold a lock for longer, by its token", 1, 1,
     false},
    {"release", cli_release, cli_release_help, "give a lock back, by its token", 1, 1,
     false},
    {"break", cli_break, cli_break_help, "remove a lock, whoever holds it", 1, 1, false},
    {"status", cli_status, cli_status_help, "show who holds a lock, node by node", 1, 1,
     false},
    {"check", cli_check, cli_check_help, "look whether the nodes are fit to hold locks", 0,
     0, false},
    {"admit", cli_admit, cli_admit_help, "make the nodes fit for fenced locks", 0, 0,
     false},
    {"bench", cli_bench, cli_bench_help, "measure how long the nodes take to hold a lock",
     0, 0, false},
    {"local", cli_local, cli_local_help, "start private nodes, for development", 0, INT_MAX,
     true},
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const char usage[] =
    "Usage: redlock [OPTION]... COMMAND [OPTION]... KEY\n"
    "Hold a lock on a majority of N independent Redis masters (Linux only).\n";

static const char globals[] =
    "\n"
    "Options of every command, before or after its name:\n"
    "  -N, --nodes URI[,URI...]  the Redis masters; said twice, the lists are joined\n"
    "                            redis://[user[:pass]@]host[:port][/db], "
    "unix:///path[?db=N]\n"
    "      --config FILE         lines \"key = value\"; keys: nodes, ttl, wait, username,\n"
    "                            password-file, prefix, timeout, max-ttl, drift-ppm, "
    "durable\n"
    "      --user NAME           the user, where the URI has none\n"
    "      --prefix TEXT         put before the key\n"
    "      --timeout D           wait this long for a node; 0 or unset: 4 x its round "
    "trip,\n"
    "                            at least 50ms, at most a tenth of the TTL\n"
    "      --max-ttl D           the longest TTL that anyone uses; a longer one is "
    "refused\n"
    "      --durable             the nodes never forget: appendfsync always, no replicas\n"
    "      --json                print one JSON object per line on stdout\n"
    "  -q, --quiet               say nothing about how it went; the exit code tells\n"
    "  -v, --verbose             say what each node answered, on stderr\n"
    "      --color WHEN          auto, always or never\n"
    "  -V, --version             print the version\n"
    "  -h, --help                print this, or the help of a command\n"
    "\n"
    "Durations: 250ms, 30s, 5m, 1h, 0.5s; a bare number is seconds.\n"
    "Environment: REDLOCK_NODES, REDLOCK_CONFIG, REDLOCK_USERNAME, REDLOCK_PASSWORD,\n"
    "REDLOCK_PASSWORD_FILE, REDLOCK_TTL, REDLOCK_WAIT, NO_COLOR.\n"
    "An option goes before the environment, and that before the file.\n"
    "A password in -N can be seen by ps until redlock has overwritten it, and stays in "
    "the\n"
    "shell's history: put it into the environment or a password file.\n";

static const char codes[] =
    "\n"
    "Exit codes: 75 held elsewhere, 69 no quorum reachable, 77 user or right refused,\n"
    "64 usage, 78 configuration, 125 own failure, 128+n ended by signal n.\n"
    "More: redlock COMMAND --help\n";

_Noreturn static void end_of_output(void)
{
    if (!cli_flush())
        cli_fail(CLI_FAILED, "stdout: %s", strerror(errno));
    exit(CLI_OK);
}

void cli_print_help(const struct cli *cli)
{
    if (cli->help) {
        printf("%s%s", cli->help, globals);
    } else {
        printf("%s\nCommands:\n", usage);
        for (size_t i = 0; i < COMMANDS; i++)
            printf("  %-8s  %s\n", commands[i].name, commands[i].summary);
        printf("%s%s", globals, codes);
    }
    end_of_output();
}

void cli_print_version(void)
{
    printf("redlock %s\n", REDLOCK_VERSION);
    end_of_output();
}

static void ignore(int signal)
{
    (void)signal;
}

/*
 * A reader that goes away must not kill us with a lock in hand: the write fails instead. A
 * handler, unlike SIG_IGN, is undone by exec, so a child gets the default back.
 */
static void survive_broken_pipes(void)
{
    struct sigaction old, new = {.sa_handler = ignore, .sa_flags = SA_RESTART};
    if (sigaction(SIGPIPE, NULL, &old) == 0 && old.sa_handler == SIG_DFL)
        sigaction(SIGPIPE, &new, NULL);
}

/*
 * Where the caller closed a standard descriptor, the next socket would take its number and
 * a token could be printed to a server. What fills the gap fails at each use.
 */
static void fill_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) != -1 || errno != EBADF)
            continue;
        if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            cli_fail(CLI_FAILED, "/dev/null: %s", strerror(errno));
    }
}

int main(int argc, char **argv)
{
    static struct cli cli;
    fill_standard_descriptors();
    survive_broken_pipes();
    cli_init(&cli);
    int first = cli_read_options(&cli, argc, argv, NULL);
    if (cli.version)
        cli_print_version();
    if (first >= argc && cli.wants_help)
        cli_print_help(&cli);
    if (first >= argc)
        cli_fail(CLI_USAGE, "no command; redlock --help lists them");
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(argv[first], commands[i].name) != 0)
            continue;
        cli.command = commands[i].name;
        cli.help = commands[i].help;
        cli.operands_least = commands[i].operands_least;
        cli.operands_most = commands[i].operands_most;
        cli.alone = commands[i].alone;
        return commands[i].main(&cli, argc - first, argv + first);
    }
    cli_fail(CLI_USAGE, "unknown command \"%s\"; redlock --help lists them", argv[first]);
}
