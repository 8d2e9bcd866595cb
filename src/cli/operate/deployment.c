#include "deployment.h"

#include <stdlib.h>
#include <string.h>

#define FOUND_MAX_MS  10000
#define RETIRE_MAX_MS 1000

/* One admission, by a client of its own. */
struct admitting {
    struct event_base *base;
    redlock_client *client;
    bool done;
    char *failure;
};

static void admitted(redlock_client *client, const redlock_admitted *result, void *arg)
{
    struct admitting *admitting = arg;
    (void)client;
    if (admitting->done)
        return;
    admitting->done = true;
    if (result->code != REDLOCK_OK)
        admitting->failure = cli_format("%s%s%s", result->text, result->text[0] ? ": " : "",
                                        redlock_code_text(result->code));
}

static void too_late(void *arg)
{
    struct admitting *admitting = arg;
    admitting->done = true;
    admitting->failure = strdup("no reply in time");
}

static char *admit_by(const struct cli *cli, const redlock_options *options,
                      const char *const *uris, size_t count, redlock_admission how,
                      size_t node, int64_t most_ms)
{
    struct admitting admitting = {.base = cli_new_loop(cli)};
    struct cli_timer limit;
    char why[CLI_ERROR];
    cli_timer_begin(&limit, admitting.base, 0, too_late, &admitting);
    if (redlock_client_new(admitting.base, uris, count, options, &admitting.client) !=
            REDLOCK_OK ||
        redlock_admit(admitting.client, how, node, admitted, &admitting) != REDLOCK_OK) {
        admitting.failure = strdup(cli_error(why, redlock_last_error()));
    } else {
        cli_timer_set(&limit, most_ms);
        cli_wait(admitting.base, &admitting.done);
    }
    admitting.done = true;
    cli_timer_end(&limit);
    redlock_client_free(admitting.client);
    event_base_free(admitting.base);
    return admitting.failure;
}

/* Uses no other option: the servers have no users and are local. */
char *deployment_found(const struct cli *cli, const char *list)
{
    const char *uris[REDLOCK_NODES_MAX];
    char *words = cli_need_memory(strdup(list)), *rest = words;
    size_t count = 0;
    redlock_options options;
    redlock_options_init(&options);
    options.prefix = cli->options.prefix;
    if (cli->options.max_ttl_ms != CLI_UNSAID)
        options.max_ttl_ms = cli->options.max_ttl_ms;
    while (rest && count < REDLOCK_NODES_MAX)
        uris[count++] = strsep(&rest, ",");
    char *failure =
        admit_by(cli, &options, uris, count, REDLOCK_ADMIT_AT_ONCE, 0, FOUND_MAX_MS);
    free(words);
    return failure;
}

char *deployment_retire(const struct cli *cli, size_t node, const char *uri)
{
    const char *uris[REDLOCK_NODES_MAX];
    for (size_t i = 0; i < cli->uri_count; i++)
        uris[i] = i == node ? uri : cli->uris[i];
    return admit_by(cli, &cli->options, uris, cli->uri_count, REDLOCK_ADMIT_RETIRE, node,
                    RETIRE_MAX_MS);
}
