#include "config.h"

#include <redlock/settings.h>
#include <stdlib.h>
#include <string.h>

/* The options of a client that an option of the command line may have set. */
static const size_t texts[] = {
    offsetof(redlock_options, username),      offsetof(redlock_options, prefix),
    offsetof(redlock_options, tls_ca_file),   offsetof(redlock_options, tls_ca_dir),
    offsetof(redlock_options, tls_cert_file), offsetof(redlock_options, tls_key_file),
    offsetof(redlock_options, tls_name),      offsetof(redlock_options, label),
};
#define TEXTS (sizeof(texts) / sizeof(texts[0]))

static const char **text_of(redlock_options *options, size_t i)
{
    return (const char **)((char *)options + texts[i]);
}

static const char *copy(const char *text)
{
    return cli_need_memory(strdup(text));
}

void cli_copy_words(struct cli *cli)
{
    for (size_t i = 0; i < TEXTS; i++) {
        const char **text = text_of(&cli->options, i);
        *text = *text ? copy(*text) : NULL;
    }
    for (size_t i = 0; i < cli_keys_count(&cli->keys); i++)
        cli->keys.of[i].bytes = copy(cli->keys.of[i].bytes);
}

static void fill_options(redlock_options *options, const redlock_options *found)
{
    for (size_t i = 0; i < TEXTS; i++) {
        const char **text = text_of(options, i);
        if (!*text)
            *text = *(const char **)((const char *)found + texts[i]);
    }
    options->durable |= found->durable;
    options->tls |= found->tls;
    options->tls_insecure |= found->tls_insecure;
    if (options->node_timeout_ms == CLI_UNSAID)
        options->node_timeout_ms = found->node_timeout_ms;
    if (options->max_ttl_ms == CLI_UNSAID)
        options->max_ttl_ms = found->max_ttl_ms;
    options->password = found->password;
    options->password_file = found->password_file;
    options->drift_ppm = found->drift_ppm;
    options->connect_timeout_ms = options->node_timeout_ms > found->connect_timeout_ms
                                      ? options->node_timeout_ms
                                      : found->connect_timeout_ms;
}

void cli_configure(struct cli *cli)
{
    const redlock_error *why = redlock_last_error();
    redlock_settings *found;
    redlock_options options;
    if (redlock_settings_read(cli->config, cli->nodes, &found) != REDLOCK_OK)
        cli_fail(why->code == REDLOCK_NO_MEMORY ? CLI_FAILED : CLI_CONFIG, "%s%s",
                 why->text,
                 why->code == REDLOCK_BAD_NODES && why->reason == REDLOCK_REASON_EMPTY
                     ? ", or -N"
                     : "");
    if (found->warning)
        cli_say(cli, "%s", found->warning);
    if (redlock_settings_options(found, &options) != REDLOCK_OK)
        cli_fail(CLI_CONFIG, "%s", why->text);
    fill_options(&cli->options, &options);
    if (cli->lease.ttl_ms == CLI_UNSAID)
        cli->lease.ttl_ms = found->ttl_ms;
    if (cli->lease.wait_ms == CLI_UNSAID)
        cli->lease.wait_ms = found->wait_ms;
    cli->uri_count = found->count;
    cli->uris = cli_need_memory(calloc(found->count, sizeof(*cli->uris)));
    memcpy(cli->uris, found->uris, found->count * sizeof(*cli->uris));
    cli->settings = found;
}
