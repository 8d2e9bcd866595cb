#include "value.h"

#include <stdlib.h>
#include <string.h>

#define DURATION_MAX_MS 10000000000000 /* three centuries: fits into microseconds */
#define DIGITS_MAX      11             /* so many, of days, do not overflow */

/*
 * The milliseconds of a unit; 0 if it is unknown. A bare number is seconds, as in flock(1).
 */
static int64_t unit_ms(const char *unit)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"", 1000},   {"ms", 1},      {"s", 1000},
                 {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strcmp(unit, units[i].name) == 0)
            return units[i].ms;
    return 0;
}

/* Computes in integers, so that the value is exactly what was written. */
static const char *read_duration(const char *text, int64_t *ret_ms)
{
    static const char digits[] = "0123456789";
    size_t whole = strspn(text, digits);
    bool point = text[whole] == '.';
    size_t part = point ? strspn(text + whole + 1, digits) : 0;
    int64_t scale = unit_ms(text + whole + point + part);
    if (whole == 0 || (point && part == 0) || scale == 0)
        return "is not a duration (250ms, 30s, 5m, 1h, 1d; a bare number is seconds)";
    if (whole > DIGITS_MAX || part > 9)
        return "is a duration with too many digits";
    int64_t ms = 0, share = 0, shares = 1;
    for (size_t i = 0; i < whole; i++)
        ms = 10 * ms + (text[i] - '0');
    for (size_t i = 0; i < part; i++) {
        share = 10 * share + (text[whole + 1 + i] - '0');
        shares *= 10;
    }
    if (share * scale % shares != 0)
        return "has a fraction of a millisecond";
    ms = ms * scale + share * scale / shares;
    if (ms > DURATION_MAX_MS)
        return "is too long";
    *ret_ms = ms;
    return NULL;
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

static const char *read_flag(const char *text, bool *ret_flag)
{
    if (strcmp(text, "yes") != 0 && strcmp(text, "no") != 0)
        return "is neither yes nor no";
    *ret_flag = text[0] == 'y';
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
    case CLI_FLAG: return read_flag(text, into);
    case CLI_DURATION: return read_duration(text, into);
    case CLI_TTL: return read_ttl(text, into);
    case CLI_NUMBER: return read_number(text, into);
    case CLI_LIST: return read_list(text, into);
    default: *(const char **)into = text; return NULL;
    }
}
