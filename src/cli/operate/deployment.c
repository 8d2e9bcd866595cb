#include "deployment.h"

#include <stdlib.h>
#include <string.h>

#define FOUND_MAX_MS 10000

struct bootstrapping {
    struct event_base *base;
    redlock_client *client;
    bool done;
    char *failure;
};

static void admitted(redlock_client *client, const redlock_admitted *result, void *arg)
{
    struct bootstrapping *bootstrapping = arg;
    (void)client;
    if (bootstrapping->done)
        return;
    bootstrapping->done = true;
    if (result->code != REDLOCK_OK)
        bootstrapping->failure =
            cli_format("%s%s%s", result->text, result->text[0] ? ": " : "",
                       redlock_code_text(result->code));
}

static void too_late(void *arg)
{
    struct bootstrapping *bootstrapping = arg;
    bootstrapping->done = true;
    bootstrapping->failure = strdup("the servers do not accept their markers");
}

/* Uses no other option: the servers have no users and are local. */
static redlock_code connect_to(struct bootstrapping *bootstrapping, const struct cli *cli,
                               char *list, redlock_error *ret_error)
{
    const char *uris[REDLOCK_NODES_MAX];
    size_t count = 0;
    redlock_options options;
    redlock_options_init(&options);
    options.prefix = cli->options.prefix;
    if (cli->options.max_ttl_ms != CLI_UNSAID)
        options.max_ttl_ms = cli->options.max_ttl_ms;
    for (char *rest = list; rest && count < REDLOCK_NODES_MAX;)
        uris[count++] = strsep(&rest, ",");
    return redlock_client_new(bootstrapping->base, uris, count, &options,
                              &bootstrapping->client, ret_error);
}

char *deployment_found(const struct cli *cli, const char *list)
{
    struct bootstrapping bootstrapping = {.base = cli_new_loop(cli)};
    struct cli_timer limit;
    redlock_error error = {.text = "out of memory or descriptors"};
    char why[CLI_ERROR], *words = strdup(list);
    cli_timer_begin(&limit, bootstrapping.base, FOUND_MAX_MS, too_late, &bootstrapping);
    if (!words || connect_to(&bootstrapping, cli, words, &error) != REDLOCK_OK ||
        redlock_admit(bootstrapping.client, REDLOCK_ADMIT_AT_ONCE, 0, admitted,
                      &bootstrapping) != REDLOCK_OK)
        bootstrapping.failure = strdup(cli_error(why, &error));
    else
        cli_wait(bootstrapping.base, &bootstrapping.done);
    bootstrapping.done = true;
    cli_timer_end(&limit);
    redlock_client_free(bootstrapping.client);
    event_base_free(bootstrapping.base);
    free(words);
    return bootstrapping.failure;
}
