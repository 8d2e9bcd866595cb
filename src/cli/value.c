#include "value.h"

#include <redlock/settings.h>
#include <stdlib.h>
#include <string.h>

/* The text of the error begins with the name of the argument and a space. */
static const char *read_duration(const char *text, int64_t *ret_ms)
{
    return redlock_duration_read(text, ret_ms) == REDLOCK_OK
               ? NULL
               : redlock_last_error()->text + sizeof("text");
}

static const char *read_ttl(const char *text, struct cli *cli)
{
    cli->ttl_learns = strcmp(text, "auto") == 0;
    return cli->ttl_learns ? NULL : read_duration(text, &cli->lease.ttl_ms);
}

static const char *read_number(const char *text, int64_t *ret_number)
{
    size_t len = strspn(text, "0123456789");
    if (len == 0 || len > 15 || text[len] != '\0')
        return "is not a number";
    *ret_number = strtoll(text, NULL, 10);
    return NULL;
}

/* An option that is given again extends the list: no node may be dropped silently. */
static const char *read_list(const char *text, const char **list)
{
    char *joined = cli_format("%s%s%s", *list ? *list : "", *list ? "," : "", text);
    free((char *)*list);
    *list = joined;
    return NULL;
}

const char *cli_read_value(enum cli_type type, const char *text, void *into)
{
    switch (type) {
    case CLI_DURATION: return read_duration(text, into);
    case CLI_TTL: return read_ttl(text, into);
    case CLI_NUMBER: return read_number(text, into);
    case CLI_LIST: return read_list(text, into);
    default: *(const char **)into = text; return NULL;
    }
}
