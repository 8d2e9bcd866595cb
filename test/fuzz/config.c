/* Configuration files. */
#include "cli/config.h"

#include <string.h>

#include "cli_input.h"
#include "fuzz.h"

static void check_settings(const struct cli *cli)
{
    FUZZ_CHECK(cli->uri_count > 0);
    for (size_t i = 0; i < cli->uri_count; i++)
        FUZZ_CHECK(cli->uris[i][0] && !strchr(cli->uris[i], ','));
    FUZZ_CHECK(cli->lease.ttl_ms >= 0 && cli->lease.wait_ms >= REDLOCK_FOREVER);
    FUZZ_CHECK(cli->options.node_timeout_ms >= 0 && cli->options.max_ttl_ms >= 0);
    FUZZ_CHECK(!cli->options.prefix || cli->options.prefix[0]);
    FUZZ_CHECK(!cli->options.password); /* a secret is not in this file */
}

/* `arg`: the options that were given; they override the file. */
static void configure(struct cli *cli, void *arg)
{
    unsigned given = *(const uint8_t *)arg;
    cli->config = INPUT_FILE;
    cli->nodes = given & 1 ? "redis://given" : NULL;
    cli->lease.ttl_ms = given & 2 ? 4711 : CLI_UNSAID;
    cli->options.prefix = given & 4 ? "given" : NULL;
    cli_configure(cli);
    check_settings(cli);
    FUZZ_CHECK(!(given & 1) || strcmp(cli->uris[0], "redis://given") == 0);
    FUZZ_CHECK(!(given & 2) || cli->lease.ttl_ms == 4711);
    FUZZ_CHECK(!(given & 4) || strcmp(cli->options.prefix, "given") == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    int code = cli_input_run((const char *)data + 1, size - 1, configure, (void *)data);
    FUZZ_CHECK(code == -1 || code == CLI_CONFIG);
    return 0;
}
