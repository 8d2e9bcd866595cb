/* redlock: hold a lock on a majority of independent Redis masters. */
#include "args.h"
#include "help.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static const struct cli_command commands[] = {
    {"run", cli_run, &cli_run_help, "hold a lock while a command runs", 2, INT_MAX},
    {"elect", cli_elect, &cli_elect_help, "lead while a command runs, or see who leads", 1,
     INT_MAX},
    {"acquire", cli_acquire, &cli_acquire_help, "acquire a lock and print its token", 1, 1},
    {"extend", cli_extend, &cli_extend_help, "extend a lock, by its token", 1, 1},
    {"release", cli_release, &cli_release_help, "release a lock, by its token", 1, 1},
    {"pipe", cli_pipe, &cli_pipe_help, "lock for a program, by lines of JSON", 0, 0},
    {"break", cli_break, &cli_break_help, "remove a lock, even if a client holds it", 1, 1},
    {"status", cli_status, &cli_status_help, "show who holds a lock, for each node", 1, 1},
    {"wait", cli_wait_free, &cli_wait_help, "wait until a lock is free, and take nothing",
     1, 1},
    {"list", cli_list, &cli_list_help, "show all locks", 0, 1},
    {"check", cli_check, &cli_check_help, "check whether the nodes are fit to hold locks",
     0, 0},
    {"admit", cli_admit, &cli_admit_help, "make the nodes a deployment of fenced locks", 0,
     0},
    {"bench", cli_bench, &cli_bench_help, "measure the time to acquire and release a lock",
     0, 0},
    {"monitor", cli_monitor, &cli_monitor_help,
     "serve a page about the nodes and the locks, and metrics", 0, 0},
    {"local", cli_local, &cli_local_help, "start private nodes, for development", 0,
     INT_MAX},
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const char usage[] =
    "Usage: redlock [OPTION]... COMMAND [OPTION]... KEY\n"
    "Hold a lock on a majority of N independent Redis masters (Linux only).\n";

_Noreturn static void print_help(bool brief)
{
    cli_print("%s\nCommands:\n", usage);
    for (size_t i = 0; i < COMMANDS; i++)
        cli_print("  %-8s  %s\n", commands[i].name, commands[i].summary);
    cli_end_help(brief);
}

static void ignore(int signal)
{
    (void)signal;
}

/*
 * A reader that closes our output, or the limit of a file's size, must not kill us while we
 * hold a lock: the write fails instead. Exec resets a handler but keeps SIG_IGN, so a child
 * gets the default back.
 */
static void survive_failed_writes(void)
{
    static const int numbers[] = {SIGPIPE, SIGXFSZ};
    struct sigaction old, new = {.sa_handler = ignore, .sa_flags = SA_RESTART};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            sigaction(numbers[i], &new, NULL);
}

/*
 * If the caller closed a standard descriptor, the next socket would get its number, and a
 * token could be printed to a server. The file opened here instead fails at each use.
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
    survive_failed_writes();
    cli_json_begin();
    cli_init(&cli);
    int first = cli_read_options(&cli, argc, argv, NULL);
    if (cli.version)
        cli_print_version();
    if (first < argc && strcmp(argv[first], "help") == 0) { /* as many commands have it */
        cli.wants_help = true;
        first++;
    }
    if (first >= argc && cli.wants_help)
        print_help(cli.brief_help);
    if (first >= argc)
        cli_fail(CLI_USAGE, "no command; redlock --help lists them");
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(argv[first], commands[i].name) != 0)
            continue;
        cli.command = &commands[i];
        return commands[i].main(&cli, argc - first, argv + first);
    }
    cli_fail(CLI_USAGE, "unknown command \"%s\"; redlock --help lists them", argv[first]);
}
