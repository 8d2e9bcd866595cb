#include "holding.h"
#include "learn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct cli_help cli_release_help = {
    "Usage: redlock release [OPTION]... KEY\n"
    "Release the lock KEY.\n" TOKEN_SOURCES
    "\n"
    "      --token-file F        the file that acquire wrote\n" SLOT_HELP
    "\n"
    "Example:\n"
    "  echo \"$token\" | redlock release backup\n",
    "\n"
    "Exit codes: 0 released; 1 gone: it had ended before; 2 another client holds it;\n"
    "69 too few nodes confirmed the release: what is left on the others expires.\n",
};

/* Its times are by the clock that this process reads. */
static bool is_of_this_boot(const struct tokenfile *file)
{
    int64_t left;
    return tokenfile_left(file, &left) != TOKENFILE_OTHER_BOOT;
}

static int report_released(struct holding *holding)
{
    if (holding_print_code(holding, REDLOCK_OK))
        return CLI_OK;
    cli_complain("stdout: %s; %s is released", strerror(errno), holding->key);
    return CLI_FAILED;
}

int cli_release(struct cli *cli, int argc, char **argv)
{
    struct holding holding = {.cli = cli, .slot = CLI_UNSAID};
    const struct cli_option own[] = {
        {"token-file", 0, CLI_TEXT, &holding.path},
        {"slot", 0, CLI_NUMBER, &holding.slot},
        {CLI_KEYS_OPTION(cli)},
        {NULL, 0, CLI_FLAG, NULL},
    };
    holding_read(&holding, argc, argv, own);
    if (holding.path)
        cli->lease.ttl_ms = holding.file.ttl_ms;
    if (cli->options.max_ttl_ms > 0 && cli->lease.ttl_ms > cli->options.max_ttl_ms)
        cli->lease.ttl_ms = cli->options.max_ttl_ms; /* a release asks for no time */
    cli->lease.watchdog = false;

    cli_connect(cli);
    if (holding.file.begun_us > 0 && is_of_this_boot(&holding.file))
        learn_tell(cli, holding.file.begun_us, holding.file.ttl_ms);
    redlock_code code = holding_adopt(&holding, 0); /* a release needs no deadline */
    if (code == REDLOCK_OK)
        code = redlock_release(holding.lease, cli_note_outcome, &holding.outcome);
    cli_need_start(code, holding.key);
    holding_wait(&holding);
    int exit_code = holding.outcome.result.code == REDLOCK_OK
                        ? report_released(&holding)
                        : holding_report_failure(&holding);
    cli_drain(cli);
    redlock_lease_free(holding.lease);
    cli_disconnect(cli);
    free((void *)holding.slot_key.bytes);
    return exit_code;
}
