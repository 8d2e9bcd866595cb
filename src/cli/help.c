#include "help.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char globals[] =
    "\n"
    "Options of every command, before or after its name:\n"
    "  -N, --nodes URI[,URI...]  redis://[user[:pass]@]host[:port][/db], rediss://\n"
    "                            (TLS) or unix:///path[?db=N]: the Redis masters\n"
    "      --config FILE         lines \"key = value\"; default /etc/redlock.conf\n"
    "      --user NAME           the user for URIs that have none\n"
    "      --prefix TEXT         put before each key\n"
    "      --label TEXT          how others see the holder; default: host:pid\n"
    "      --timeout D           wait this long for a node; default: 4 x its round trip\n"
    "      --max-ttl D           the longest TTL that any client uses\n"
    "      --durable             the nodes keep their keys over a restart\n"
    "      --json                print one JSON object per line on stdout\n"
    "  -q, --quiet               print nothing about the outcome; use the exit code\n"
    "  -v, --verbose             print the reply of each node; -vv: what led to a loss\n"
    "      --color WHEN          auto, always or never\n"
    "  -V, --version             print the version\n"
    "  -h, --help                -h: a short help; --help: all of it; also of a command\n";

static const char more_globals[] =
    "      --tls                 redis:// means rediss://\n"
    "      --cacert FILE         the CAs that sign the nodes' certificates\n"
    "      --cacertdir DIR       a folder of them; with neither, the system's\n"
    "      --cert FILE           the client's certificate\n"
    "      --key FILE            its key; default: it is in the same file\n"
    "      --sni NAME            the name in the nodes' certificates; default: their "
    "hosts\n"
    "      --insecure            accept any certificate: for tests\n\n"
    "Durations: 250ms, 30s, 5m, 1h, 1d, 0.5s; a bare number is seconds.\n"
    "Environment: REDLOCK_NODES, REDLOCK_CONFIG, REDLOCK_USERNAME, REDLOCK_PASSWORD,\n"
    "REDLOCK_PASSWORD_FILE, REDLOCK_PREFIX, REDLOCK_LABEL, REDLOCK_CACERT,\n"
    "REDLOCK_CACERTDIR, REDLOCK_CERT, REDLOCK_CERT_KEY, REDLOCK_TTL, REDLOCK_WAIT,\n"
    "NO_COLOR. An option overrides it, and it overrides the file. A password in -N is\n"
    "visible in ps for a moment.\n\n"
    "Exit codes that commands share: 75 another client holds the lock, 69 no quorum\n"
    "reachable, 77 user or right refused, 64 usage, 78 configuration, 125 own failure,\n"
    "128+n ended by signal n.\n";

_Noreturn static void end_of_output(void)
{
    exit(cli_exit_printed(cli_flush(), CLI_OK));
}

void cli_end_help(bool brief)
{
    cli_print("%s%s", globals,
              brief ? "\nTLS, environment, exit codes: redlock --help\n" : "");
    if (!brief)
        cli_print(
            "%sMore: redlock COMMAND --help, and the manual: redlock(1), "
            "redlock-COMMAND(1)\n",
            more_globals);
    end_of_output();
}

void cli_print_help(const struct cli *cli)
{
    if (cli->brief_help)
        cli_print("%s\nOptions of every command: redlock -h. More: redlock %s --help\n",
                  cli->command->help->brief, cli->command->name);
    else
        cli_print("%s%s%s%s", cli->command->help->brief, cli->command->help->more, globals,
                  more_globals);
    end_of_output();
}

void cli_print_version(void)
{
    cli_print("redlock %s\n", redlock_version());
    end_of_output();
}
