#include "config.h"

#include "value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SETTINGS 18
#define URIS_MAX                                                                           \
    1024 /* far above the library's limit, which the library reports itself                \
          */

struct setting {
    const char *key; /* in the file; NULL: not allowed there, because it is a secret */
    const char *environment; /* NULL: none */
    enum cli_type type;
    void *into;
    bool is_final; /* later sources must not override it */
};

static bool is_set(const struct setting *setting)
{
    switch (setting->type) {
    case CLI_FLAG: return *(bool *)setting->into;
    case CLI_DURATION:
    case CLI_NUMBER: return *(int64_t *)setting->into != CLI_UNSAID;
    default: return *(const char **)setting->into != NULL;
    }
}

static void list_settings(struct cli *cli, struct setting settings[SETTINGS])
{
    const struct setting all[SETTINGS] = {
        {"nodes", "REDLOCK_NODES", CLI_TEXT, &cli->nodes, false},
        {"ttl", "REDLOCK_TTL", CLI_DURATION, &cli->lease.ttl_ms, false},
        {"wait", "REDLOCK_WAIT", CLI_DURATION, &cli->lease.wait_ms, false},
        {"username", "REDLOCK_USERNAME", CLI_TEXT, &cli->options.username, false},
        {NULL, "REDLOCK_PASSWORD", CLI_TEXT, &cli->options.password, false},
        {"password-file", "REDLOCK_PASSWORD_FILE", CLI_TEXT, &cli->options.password_file,
         false},
        {"prefix", NULL, CLI_TEXT, &cli->options.prefix, false},
        {"timeout", NULL, CLI_DURATION, &cli->options.node_timeout_ms, false},
        {"max-ttl", NULL, CLI_DURATION, &cli->options.max_ttl_ms, false},
        {"drift-ppm", NULL, CLI_NUMBER, &cli->drift_ppm, false},
        {"durable", NULL, CLI_FLAG, &cli->options.durable, false},
        {"tls", NULL, CLI_FLAG, &cli->options.tls, false},
        {"cacert", "REDLOCK_CACERT", CLI_TEXT, &cli->options.tls_ca_file, false},
        {"cacertdir", "REDLOCK_CACERTDIR", CLI_TEXT, &cli->options.tls_ca_dir, false},
        {"cert", "REDLOCK_CERT", CLI_TEXT, &cli->options.tls_cert_file, false},
        {"key", "REDLOCK_CERT_KEY", CLI_TEXT, &cli->options.tls_key_file, false},
        {"sni", NULL, CLI_TEXT, &cli->options.tls_name, false},
        {"insecure", NULL, CLI_FLAG, &cli->options.tls_insecure, false},
    };
    memcpy(settings, all, sizeof(all));
    for (size_t i = 0; i < SETTINGS; i++)
        settings[i].is_final = is_set(&settings[i]);
}

static void read_environment(struct setting settings[SETTINGS])
{
    for (size_t i = 0; i < SETTINGS; i++) {
        struct setting *setting = &settings[i];
        const char *text = setting->environment ? getenv(setting->environment) : NULL;
        if (setting->is_final || !text || text[0] == '\0')
            continue;
        const char *wrong = cli_read_value(setting->type, text, setting->into);
        if (wrong)
            cli_fail(CLI_CONFIG, "%s: \"%s\" %s", setting->environment, text, wrong);
        setting->is_final = true;
    }
}

/* Cuts the white space on both sides and returns what is left. */
static char *trim(char *text)
{
    static const char blank[] = " \t\r\n";
    text += strspn(text, blank);
    size_t len = strlen(text);
    while (len > 0 && strchr(blank, text[len - 1]))
        text[--len] = '\0';
    return text;
}

static struct setting *find_setting(struct setting settings[SETTINGS], const char *key)
{
    for (size_t i = 0; i < SETTINGS; i++)
        if (settings[i].key && strcmp(settings[i].key, key) == 0)
            return &settings[i];
    return NULL;
}

/* Reads a value from the file. A value that is overridden must be well-formed too. */
static const char *config_take(const struct setting *setting, const char *text)
{
    union {
        bool flag;
        int64_t number;
        const char *text;
    } unused;
    if (text[0] == '\0')
        return "is empty";
    char *kept = cli_need_memory(strdup(text)); /* for as long as the process lives */
    const char *wrong = cli_read_value(setting->type, kept,
                                       setting->is_final ? (void *)&unused : setting->into);
    if (setting->is_final || setting->type != CLI_TEXT)
        free(kept);
    return wrong;
}

/* `seen` holds the line on which each setting stood: a setting may stand only once. */
static void read_line(struct setting settings[SETTINGS], unsigned seen[SETTINGS],
                      const char *file, unsigned number, char *line)
{
    char *key = trim(line), *equals = strchr(key, '=');
    if (key[0] == '\0' || key[0] == '#')
        return;
    if (!equals)
        cli_fail(CLI_CONFIG, "%s:%u: the line is not key = value", file, number);
    *equals = '\0';
    key = trim(key);
    struct setting *setting = find_setting(settings, key);
    if (!setting)
        cli_fail(CLI_CONFIG, "%s:%u: no setting \"%s\": redlock.conf(5) lists them", file,
                 number, key);
    unsigned *before = &seen[setting - settings];
    if (*before)
        cli_fail(CLI_CONFIG, "%s:%u: \"%s\" is already set in line %u", file, number, key,
                 *before);
    *before = number;
    const char *value = trim(equals + 1), *wrong = config_take(setting, value);
    if (wrong)
        cli_fail(CLI_CONFIG, "%s:%u: %s: \"%s\" %s", file, number, key, value, wrong);
}

/* UTF-8: some editors write it at the beginning of a file, where users do not see it. */
static const char byte_order_mark[] = "\xef\xbb\xbf";

static void read_file(struct setting settings[SETTINGS], const char *name)
{
    unsigned seen[SETTINGS] = {0};
    char *line = NULL;
    size_t room = 0;
    FILE *file = fopen(name, "re");
    if (!file)
        cli_fail(CLI_CONFIG, "%s: %s", name, strerror(errno));
    errno = 0;
    ssize_t len;
    for (unsigned number = 1; (len = getline(&line, &room, file)) >= 0; number++) {
        if (strlen(line) != (size_t)len)
            cli_fail(CLI_CONFIG, "%s:%u: a NUL byte", name, number);
        bool has_mark = number == 1 && strncmp(line, byte_order_mark, 3) == 0;
        read_line(settings, seen, name, number, line + (has_mark ? 3 : 0));
        errno = 0;
    }
    if (errno != 0 || ferror(file))
        cli_fail(CLI_CONFIG, "%s: %s", name, strerror(errno));
    free(line);
    fclose(file);
}

/* URIs separated by commas. White space around them is allowed; an empty URI is not. */
static void split_nodes(struct cli *cli)
{
    if (!cli->nodes)
        cli_fail(CLI_CONFIG, "no nodes: set -N, REDLOCK_NODES or --config");
    char *rest = cli_need_memory(strdup(cli->nodes));
    cli->uris = cli_need_memory(calloc(URIS_MAX, sizeof(*cli->uris)));
    while (rest) {
        char *uri = trim(strsep(&rest, ","));
        if (uri[0] == '\0')
            cli_fail(CLI_CONFIG, "nodes: an empty URI in the list");
        if (cli->uri_count == URIS_MAX)
            cli_fail(CLI_CONFIG, "nodes: more than %d URIs", REDLOCK_NODES_MAX);
        cli->uris[cli->uri_count++] = uri;
    }
}

static void set_defaults(struct cli *cli)
{
    redlock_options *client = &cli->options;
    if (cli->lease.ttl_ms == CLI_UNSAID)
        cli->lease.ttl_ms = REDLOCK_TTL_MS;
    if (cli->lease.wait_ms == CLI_UNSAID)
        cli->lease.wait_ms = REDLOCK_FOREVER; /* as flock(1) */
    if (client->node_timeout_ms == CLI_UNSAID)
        client->node_timeout_ms = 0;
    if (client->connect_timeout_ms < client->node_timeout_ms)
        client->connect_timeout_ms = client->node_timeout_ms;
    if (client->max_ttl_ms == CLI_UNSAID)
        client->max_ttl_ms = 0;
    if (cli->drift_ppm > UINT32_MAX)
        cli_fail(CLI_CONFIG, "drift-ppm is too large");
    if (cli->drift_ppm != CLI_UNSAID)
        client->drift_ppm = (uint32_t)cli->drift_ppm;
}

void cli_configure(struct cli *cli)
{
    struct setting settings[SETTINGS];
    const char *file = cli->config ? cli->config : getenv("REDLOCK_CONFIG");
    list_settings(cli, settings);
    read_environment(settings);
    if (cli->options.password) { /* overrides a password file */
        cli->options.password_file = NULL;
        find_setting(settings, "password-file")->is_final = true;
    }
    if (file && file[0] != '\0')
        read_file(settings, file);
    /* The file is read at each connection. If it cannot be read, report that once, here. */
    file = cli->options.password_file;
    if (file && access(file, R_OK) != 0)
        cli_fail(CLI_CONFIG, "password file %s: %s", file, strerror(errno));
    split_nodes(cli);
    set_defaults(cli);
}
