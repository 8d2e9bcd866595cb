#include "deployment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOUND_MAX_S 10

struct founding {
    struct event_base *base;
    redlock_client *client;
    bool done;
    char *failure;
};

static void admitted(redlock_client *client, const redlock_admitted *result, void *arg)
{
    struct founding *founding = arg;
    (void)client;
    if (founding->done)
        return;
    founding->done = true;
    if (result->code != REDLOCK_OK &&
        asprintf(&founding->failure, "%s%s%s", result->text, result->text[0] ? ": " : "",
                 redlock_code_text(result->code)) < 0)
        cli_fail(CLI_FAILED, "out of memory");
}

static void too_late(evutil_socket_t fd, short what, void *arg)
{
    struct founding *founding = arg;
    (void)fd;
    (void)what;
    founding->done = true;
    founding->failure = strdup("the servers do not take their markers");
}

/* No option but these: the servers know no user, and are near. */
static redlock_code connect_to(struct founding *founding, const struct cli *cli, char *list,
                               redlock_error *ret_error)
{
    const char *uris[REDLOCK_NODES_MAX];
    size_t count = 0;
    redlock_options options;
    redlock_options_init(&options);
    options.prefix = cli->client.prefix;
    if (cli->client.max_ttl_ms != CLI_UNSAID)
        options.max_ttl_ms = cli->client.max_ttl_ms;
    for (char *rest = list; rest && count < REDLOCK_NODES_MAX;)
        uris[count++] = strsep(&rest, ",");
    return redlock_client_new(founding->base, uris, count, &options, &founding->client,
                              ret_error);
}

char *deployment_found(const struct cli *cli, const char *list)
{
    struct founding founding = {.base = cli_new_loop(cli)};
    const struct timeval limit = {FOUND_MAX_S, 0};
    redlock_error error = {.text = "out of memory or descriptors"};
    char *words = strdup(list);
    if (!words ||
        event_base_once(founding.base, -1, EV_TIMEOUT, too_late, &founding, &limit) != 0 ||
        connect_to(&founding, cli, words, &error) != REDLOCK_OK ||
        redlock_admit(founding.client, REDLOCK_ADMIT_AT_ONCE, 0, admitted, &founding) !=
            REDLOCK_OK)
        founding.failure = strdup(error.text);
    else
        cli_wait(founding.base, &founding.done);
    founding.done = true;
    redlock_client_free(founding.client);
    event_base_free(founding.base);
    free(words);
    return founding.failure;
}
