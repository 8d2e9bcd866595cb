#include "help.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char globals[] =
    "\n"
    "Options of every command, before or after its name:\n"
    "  -N, --nodes URI[,URI...]  the Redis masters. May be given more than once; the "
    "lists\n"
    "                            are concatenated\n"
    "                            redis://[user[:pass]@]host[:port][/db], rediss://... "
    "(TLS),\n"
    "                            unix:///path[?db=N]\n"
    "      --config FILE         lines \"key = value\"; keys: nodes, ttl, wait, username,\n"
    "                            password-file, prefix, timeout, max-ttl, drift-ppm,\n"
    "                            durable, tls, cacert, cacertdir, cert, key, sni, "
    "insecure\n"
    "      --user NAME           the user for URIs that have none\n"
    "      --prefix TEXT         put before each key\n"
    "      --timeout D           wait this long for a node; 0 or unset: 4 x its round "
    "trip,\n"
    "                            at least 50ms, at most a tenth of the TTL\n"
    "      --max-ttl D           the longest TTL that any client uses; a longer one is\n"
    "                            refused\n"
    "      --durable             the nodes keep their keys over a restart: appendfsync\n"
    "                            always, no replicas\n"
    "      --tls                 redis:// means rediss://\n"
    "      --cacert FILE         the CAs that sign the nodes' certificates\n"
    "      --cacertdir DIR       a folder of them; with neither, the system's\n"
    "      --cert FILE           the client's certificate\n"
    "      --key FILE            its key; default: it is in the same file\n"
    "      --sni NAME            the name in the nodes' certificates; default: their "
    "hosts\n"
    "      --insecure            accept any certificate: for tests\n"
    "      --json                print one JSON object per line on stdout\n"
    "  -q, --quiet               print nothing about the outcome; use the exit code\n"
    "  -v, --verbose             print the reply of each node on stderr; -vv: if the lock\n"
    "                            is lost, also the client's last 256 events\n"
    "      --color WHEN          auto, always or never\n"
    "  -V, --version             print the version\n"
    "  -h, --help                print this help, or the help of a command\n"
    "\n"
    "Durations: 250ms, 30s, 5m, 1h, 1d, 0.5s; a bare number is seconds.\n"
    "Environment: REDLOCK_NODES, REDLOCK_CONFIG, REDLOCK_USERNAME, REDLOCK_PASSWORD,\n"
    "REDLOCK_PASSWORD_FILE, REDLOCK_CACERT, REDLOCK_CACERTDIR, REDLOCK_CERT,\n"
    "REDLOCK_CERT_KEY, REDLOCK_TTL, REDLOCK_WAIT, NO_COLOR.\n"
    "An option overrides the environment; the environment overrides the file.\n"
    "A password in -N is visible in ps until redlock has overwritten it, and stays in the\n"
    "shell's history: put it into the environment or a password file.\n";

_Noreturn static void end_of_output(void)
{
    if (!cli_flush())
        cli_fail(CLI_FAILED, "stdout: %s", strerror(errno));
    exit(CLI_OK);
}

void cli_end_help(const char *more)
{
    printf("%s%s", globals, more);
    end_of_output();
}

void cli_print_help(const struct cli *cli)
{
    printf("%s", cli->help);
    for (const char *const *more = cli->more_help; more && *more; more++)
        printf("%s", *more);
    cli_end_help("");
}

void cli_print_version(void)
{
    printf("redlock %s\n", redlock_version());
    end_of_output();
}
