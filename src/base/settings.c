/* Settings of redlock.conf(5) and the environment: redlock/settings.h */
#include "redlock/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "options.h"
#include "settings_file.h"

#ifndef RL_SETTINGS_FILE /* a test reads another one */
#define RL_SETTINGS_FILE "/etc/redlock.conf"
#endif

#define WHY             128
#define SHOWN           64             /* bytes of a value in a message */
#define SHOWN_FILE      100            /* and of the name of a file, its end */
#define DURATION_MAX_MS 10000000000000 /* three centuries: fits into microseconds */
#define DIGITS_MAX      11             /* so many, of days, do not overflow */

enum type { TEXT, DURATION, NUMBER, FLAG };

/* A value as it is read, and a setting as it is stored. */
union value {
    bool flag;
    int64_t number;
    const char *text;
};

/* The rows of `table`. */
enum { NODES = 0, PASSWORD = 4, PASSWORD_FILE = 5, LABEL = 7, SETTINGS = 19 };

struct settings {
    redlock_settings shown; /* points to what follows */
    redlock_options options;
    const char *uris[REDLOCK_NODES_MAX];
    const char *nodes;
    int64_t drift_ppm;
    char *texts[SETTINGS]; /* that are stored, allocated */
    char *warning;
};

static const struct setting {
    const char *key;      /* in the file; NULL: not allowed there, because it is a secret */
    const char *variable; /* NULL: none */
    enum type type;
    size_t at;         /* in struct settings */
    int64_t low, high; /* of a number; of a text, if not 0, how many bytes */
} table[SETTINGS] = {
#define AT(member)     offsetof(struct settings, member)
#define OPTION(member) offsetof(struct settings, options.member)
    [NODES] = {"nodes", "REDLOCK_NODES", TEXT, AT(nodes), 0, 0},
    {"ttl", "REDLOCK_TTL", DURATION, AT(shown.ttl_ms), 1, REDLOCK_TTL_MAX_MS},
    {"wait", "REDLOCK_WAIT", DURATION, AT(shown.wait_ms), 0, RL_MS_MAX},
    {"username", "REDLOCK_USERNAME", TEXT, OPTION(username), 0, 0},
    [PASSWORD] = {NULL, "REDLOCK_PASSWORD", TEXT, OPTION(password), 0, 0},
    [PASSWORD_FILE] = {"password-file", "REDLOCK_PASSWORD_FILE", TEXT,
                       OPTION(password_file), 0, 0},
    {"prefix", "REDLOCK_PREFIX", TEXT, OPTION(prefix), 1, REDLOCK_KEY_MAX - 1},
    [LABEL] = {"label", "REDLOCK_LABEL", TEXT, OPTION(label), 1, REDLOCK_LABEL_MAX},
    {"timeout", NULL, DURATION, OPTION(node_timeout_ms), 0, RL_MS_MAX},
    {"max-ttl", NULL, DURATION, OPTION(max_ttl_ms), 0, REDLOCK_TTL_MAX_MS},
    {"drift-ppm", NULL, NUMBER, AT(drift_ppm), 0, RL_DRIFT_PPM_MAX},
    {"durable", NULL, FLAG, OPTION(durable), 0, 0},
    {"tls", NULL, FLAG, OPTION(tls), 0, 0},
    {"cacert", "REDLOCK_CACERT", TEXT, OPTION(tls_ca_file), 0, 0},
    {"cacertdir", "REDLOCK_CACERTDIR", TEXT, OPTION(tls_ca_dir), 0, 0},
    {"cert", "REDLOCK_CERT", TEXT, OPTION(tls_cert_file), 0, 0},
    {"key", "REDLOCK_CERT_KEY", TEXT, OPTION(tls_key_file), 0, 0},
    {"sni", NULL, TEXT, OPTION(tls_name), 0, 0},
    {"insecure", NULL, FLAG, OPTION(tls_insecure), 0, 0},
#undef AT
#undef OPTION
};

struct reader {
    struct settings *made;
    bool is_final[SETTINGS]; /* the file must not override it */
    unsigned line[SETTINGS]; /* on which it stands in the file: it may stand only once */
};

/* --- messages --- */

#define fail(reason, ...) rl_fail(REDLOCK_BAD_OPTION, reason, __VA_ARGS__)

/* Values are quoted: makes the message one line. */
static void make_printable(void)
{
    redlock_error error = *redlock_last_error();
    for (char *c = error.text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    rl_fail_again(&error);
}

static const char *end_of(const char *name)
{
    size_t len = strlen(name);
    return len > SHOWN_FILE ? name + len - SHOWN_FILE : name;
}

/* --- values --- */

/* The milliseconds of a unit; 0 if it is unknown. A bare number is seconds, as in flock(1).
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

redlock_code redlock_duration_read(const char *text, int64_t *ret_ms)
{
    const char *wrong = read_duration(text, ret_ms);
    return wrong ? rl_fail_field(REDLOCK_BAD_OPTION, REDLOCK_REASON_MALFORMED, "text", "%s",
                                 wrong)
                 : REDLOCK_OK;
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

/* NONE: the value is possible. Else `why` is what is wrong with it. */
static redlock_reason read_value(const struct setting *setting, const char *text,
                                 union value *ret_value, char why[WHY])
{
    const char *wrong = NULL;
    switch (setting->type) {
    case TEXT:
        ret_value->text = text;
        if (setting == &table[LABEL] && !rl_label_is_fine(text))
            wrong = "is not one word of at most 64 bytes of printable ASCII";
        break;
    case FLAG: wrong = read_flag(text, &ret_value->flag); break;
    case DURATION: wrong = read_duration(text, &ret_value->number); break;
    case NUMBER: wrong = read_number(text, &ret_value->number); break;
    }
    if (wrong) {
        snprintf(why, WHY, "%s", wrong);
        return REDLOCK_REASON_MALFORMED;
    }
    int64_t size = setting->type == TEXT ? (int64_t)strlen(text) : ret_value->number;
    if (setting->type == FLAG || setting->high == 0 ||
        (size >= setting->low && size <= setting->high))
        return REDLOCK_REASON_NONE;
    snprintf(why, WHY, "must %s from %" PRId64 " to %" PRId64 "%s",
             setting->type == TEXT ? "have" : "be", setting->low, setting->high,
             setting->type == TEXT       ? " bytes"
             : setting->type == DURATION ? " ms"
                                         : "");
    return REDLOCK_REASON_OUT_OF_RANGE;
}

static redlock_code store(struct settings *made, size_t i, union value value)
{
    void *into = (char *)made + table[i].at;
    if (table[i].type == TEXT) {
        if (!(made->texts[i] = strdup(value.text)))
            return rl_fail_by_code(REDLOCK_NO_MEMORY);
        *(const char **)into = made->texts[i];
    } else if (table[i].type == FLAG) {
        *(bool *)into = value.flag;
    } else {
        *(int64_t *)into = value.number;
    }
    return REDLOCK_OK;
}

/* --- sources --- */

static redlock_code read_environment(struct reader *reader)
{
    redlock_code code = REDLOCK_OK;
    for (size_t i = 0; i < SETTINGS && code == REDLOCK_OK; i++) {
        const char *text = table[i].variable ? secure_getenv(table[i].variable) : NULL;
        union value value;
        char why[WHY];
        if (!text || text[0] == '\0' || reader->is_final[i])
            continue;
        redlock_reason reason = read_value(&table[i], text, &value, why);
        if (reason != REDLOCK_REASON_NONE)
            return fail(reason, "%s: \"%.*s\" %s", table[i].variable, SHOWN, text, why);
        code = store(reader->made, i, value);
        reader->is_final[i] = true;
    }
    reader->is_final[PASSWORD_FILE] |= reader->is_final[PASSWORD];
    return code;
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

static size_t find(const char *key)
{
    size_t i = 0;
    while (i < SETTINGS && !(table[i].key && strcmp(table[i].key, key) == 0))
        i++;
    return i;
}

/* What may be the name of a setting: another line may be a URI, with a password. */
static int name_len(const char *key)
{
    size_t len = strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.");
    return (int)(len < SHOWN ? len : SHOWN);
}

/* A value that is overridden must be possible, too. */
static redlock_code read_line(struct reader *reader, const char *file, unsigned number,
                              char *line)
{
    char *key = trim(line), *equals = strchr(key, '=');
    if (key[0] == '\0' || key[0] == '#')
        return REDLOCK_OK;
    if (!equals)
        return fail(REDLOCK_REASON_MALFORMED, "%s:%u: the line is not key = value", file,
                    number);
    *equals = '\0';
    key = trim(key);
    size_t i = find(key);
    if (i == SETTINGS)
        return fail(REDLOCK_REASON_MALFORMED,
                    "%s:%u: no setting \"%.*s\": redlock.conf(5) lists them", file, number,
                    name_len(key), key);
    if (reader->line[i])
        return fail(REDLOCK_REASON_TWICE, "%s:%u: \"%s\" is already set in line %u", file,
                    number, key, reader->line[i]);
    reader->line[i] = number;
    union value value;
    char why[WHY] = "is empty", *text = trim(equals + 1);
    redlock_reason reason =
        text[0] ? read_value(&table[i], text, &value, why) : REDLOCK_REASON_EMPTY;
    if (reason != REDLOCK_REASON_NONE)
        return fail(reason, "%s:%u: %s: \"%.*s\" %s", file, number, key, SHOWN, text, why);
    return reader->is_final[i] ? REDLOCK_OK : store(reader->made, i, value);
}

/* UTF-8: some editors write it at the beginning of a file, where users do not see it. */
static const char byte_order_mark[] = "\xef\xbb\xbf";

static redlock_code read_lines(struct reader *reader, const char *name,
                               const struct rl_settings_file *file)
{
    redlock_code code = REDLOCK_OK;
    char *line = file->text, *end = file->text + file->len, *next;
    if (strncmp(line, byte_order_mark, 3) == 0)
        line += 3;
    for (unsigned number = 1; code == REDLOCK_OK && line < end; number++, line = next) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        next = stop ? stop + 1 : end;
        if (stop)
            *stop = '\0';
        code = line + strlen(line) == (stop ? stop : end)
                   ? read_line(reader, name, number, line)
                   : fail(REDLOCK_REASON_MALFORMED, "%s:%u: a NUL byte", name, number);
    }
    return code;
}

static redlock_code note_warning(struct settings *made, const char *name)
{
    char *text;
    if (asprintf(&text, "%s: the group may write it: chmod g-w", name) < 0)
        return rl_fail_by_code(REDLOCK_NO_MEMORY);
    made->shown.warning = made->warning = text;
    return REDLOCK_OK;
}

static redlock_code read_file(struct reader *reader, const char *path, bool may_be_absent)
{
    struct rl_settings_file file;
    const char *wrong = rl_settings_file_read(path, &file), *name = end_of(path);
    if (wrong && may_be_absent && errno == ENOENT)
        return REDLOCK_OK;
    if (wrong && errno == ENOMEM)
        return rl_fail_by_code(REDLOCK_NO_MEMORY);
    if (wrong)
        return fail(REDLOCK_REASON_NONE, "%s: %s", name, wrong);
    redlock_code code = read_lines(reader, name, &file);
    if (code == REDLOCK_OK && file.group_may_write)
        code = note_warning(reader->made, name);
    free(file.text);
    return code;
}

/* URIs separated by commas. White space around them is allowed; an empty URI is not. */
static redlock_code split_nodes(struct settings *made)
{
    char *rest = made->texts[NODES];
    if (!rest)
        return rl_fail(REDLOCK_BAD_NODES, REDLOCK_REASON_EMPTY,
                       "no nodes: set REDLOCK_NODES, or nodes in redlock.conf(5)");
    size_t count = 1;
    for (const char *c = rest; *c; c++)
        count += *c == ',';
    if (count > REDLOCK_NODES_MAX)
        return rl_check_count(REDLOCK_BAD_NODES, "nodes", count, REDLOCK_NODES_MAX);
    while (rest) {
        char *uri = trim(strsep(&rest, ","));
        if (uri[0] == '\0')
            return fail(REDLOCK_REASON_EMPTY, "nodes: an empty URI in the list");
        made->uris[made->shown.count++] = uri;
    }
    return REDLOCK_OK;
}

static redlock_code read_all(struct reader *reader, const char *file, const char *nodes)
{
    struct settings *made = reader->made;
    redlock_code code = REDLOCK_OK;
    const char *named = file && file[0] ? file : secure_getenv("REDLOCK_CONFIG");
    bool is_named = named && named[0] != '\0';
    reader->is_final[NODES] = nodes != NULL;
    if (nodes)
        code = store(made, NODES, (union value){.text = nodes});
    if (code == REDLOCK_OK)
        code = read_environment(reader);
    if (code == REDLOCK_OK)
        code = read_file(reader, is_named ? named : RL_SETTINGS_FILE, !is_named);
    if (code != REDLOCK_OK)
        return code;
    if (made->options.password)
        made->options.password_file = NULL;
    /* The file is read at each connection. If it cannot be read, report that once, here. */
    const char *secret = made->options.password_file;
    if (secret && faccessat(AT_FDCWD, secret, R_OK, AT_EACCESS) != 0)
        return fail(REDLOCK_REASON_NONE, "password file %s: %s", end_of(secret),
                    strerror(errno));
    if (made->options.connect_timeout_ms < made->options.node_timeout_ms)
        made->options.connect_timeout_ms = made->options.node_timeout_ms;
    made->options.drift_ppm = (uint32_t)made->drift_ppm;
    return split_nodes(made);
}

redlock_code redlock_settings_read(const char *file, const char *nodes,
                                   redlock_settings **ret_settings)
{
    struct settings *made = calloc(1, sizeof(*made));
    redlock_code code = made ? REDLOCK_OK : rl_fail_by_code(REDLOCK_NO_MEMORY);
    if (made) {
        redlock_options_init(&made->options);
        made->shown =
            (redlock_settings){made->uris, 0, REDLOCK_TTL_MS, REDLOCK_FOREVER, NULL};
        made->drift_ppm = REDLOCK_DRIFT_PPM;
        code = read_all(&(struct reader){.made = made}, file, nodes);
    }
    if (code == REDLOCK_OK) {
        *ret_settings = &made->shown;
        return code;
    }
    make_printable();
    redlock_settings_free(made ? &made->shown : NULL);
    return code;
}

redlock_code redlock_settings_options_sized(const redlock_settings *settings,
                                            redlock_options *ret_options, size_t size)
{
    const struct settings *made = (const struct settings *)settings;
    if (rl_is_set_beyond(&made->options, size))
        return rl_fail(REDLOCK_UNSUPPORTED, REDLOCK_REASON_NONE,
                       "the settings have an option that this program does not know: "
                       "compile it for libredlock %s",
                       redlock_version());
    rl_copy_sized(ret_options, size, &made->options, sizeof(made->options));
    ret_options->size = size;
    return REDLOCK_OK;
}

void redlock_settings_free(redlock_settings *settings)
{
    struct settings *made = (struct settings *)settings; /* `shown` is its first member */
    for (size_t i = 0; made && i < SETTINGS; i++)
        free(made->texts[i]);
    if (made)
        free(made->warning);
    free(made);
}
