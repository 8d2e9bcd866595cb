#include "tokenfile.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"
#define FILE_MAX     65536 /* 17 keys of 512 bytes, each escaped */
#define FENCE_MOST   ((INT64_C(1) << 53) - 1)

const char *tokenfile_boot_id(void)
{
    static char known[TOKENFILE_BOOT_ID + 1];
    if (known[0])
        return known;
    int fd = open(BOOT_ID_FILE, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, known, TOKENFILE_BOOT_ID);
    int error = len < 0 ? errno : ENODATA;
    if (fd >= 0)
        close(fd);
    known[len == TOKENFILE_BOOT_ID ? len : 0] = '\0';
    errno = error;
    return known;
}

bool tokenfile_fill(struct tokenfile *file, const redlock_lease *lease, int64_t ttl_ms)
{
    /*
     * The clock is read before the validity, so that the deadline is early rather than
     * late.
     */
    int64_t now = cli_clock_us(CLOCK_BOOTTIME);
    *file = (struct tokenfile){
        .fence = redlock_fence(lease),
        .slot = redlock_slot(lease),
        .slots = file->slots,
        .begun_us = file->begun_us,
        .ttl_ms = ttl_ms,
        .valid_ms = redlock_valid_ms(lease),
    };
    file->deadline_us = now + file->valid_ms * 1000;
    snprintf(file->token, sizeof(file->token), "%s", redlock_token(lease));
    memcpy(file->boot_id, tokenfile_boot_id(), sizeof(file->boot_id));
    return file->valid_ms > 0;
}

enum tokenfile_state tokenfile_left(const struct tokenfile *file, int64_t *ret_valid_ms)
{
    const char *id = tokenfile_boot_id();
    *ret_valid_ms = 0;
    if (id[0] == '\0' && errno != ENOENT)
        cli_fail(CLI_FAILED, "%s: %s", BOOT_ID_FILE, strerror(errno));
    if (id[0] == '\0' || strcmp(id, file->boot_id) != 0)
        return TOKENFILE_OTHER_BOOT;
    int64_t left = file->deadline_us - cli_clock_us(CLOCK_BOOTTIME);
    if (left > file->ttl_ms * 1000) /* a time namespace with its own clock */
        return TOKENFILE_OTHER_BOOT;
    if (left < 1000)
        return TOKENFILE_EXPIRED;
    *ret_valid_ms = left / 1000;
    return TOKENFILE_VALID;
}

json_t *tokenfile_json(const struct tokenfile *file, const struct cli_keys *keys)
{
    json_t *object = cli_keys_json(keys);
    json_object_update_new(object, cli_json_kind(file->token));
    json_object_update_new(
        object,
        json_pack("{s:s, s:o, s:I, s:I, s:I, s:s*}", "token", file->token, "fence",
                  file->fence > 0 ? json_integer(file->fence) : json_null(), "ttl_ms",
                  (json_int_t)file->ttl_ms, "valid_ms", (json_int_t)file->valid_ms,
                  "deadline_us", (json_int_t)file->deadline_us, "boot_id",
                  file->boot_id[0] ? file->boot_id : NULL));
    if (file->slot > 0)
        json_object_set_new(object, "slot", json_integer(file->slot));
    if (file->slots > 0)
        json_object_set_new(object, "slots", json_integer(file->slots));
    if (file->begun_us > 0)
        json_object_set_new(object, "begun_us", json_integer(file->begun_us));
    return object;
}

static void refuse_empty(const char *path)
{
    if (path[0] == '\0')
        cli_fail(CLI_USAGE, "--token-file: an empty name");
}

void tokenfile_need_regular(const char *path)
{
    struct stat status;
    if (lstat(path, &status) == 0 && !S_ISREG(status.st_mode))
        cli_fail(CLI_CONFIG, "%s: not a regular file", path);
}

void tokenfile_check(const char *path)
{
    refuse_empty(path);
    if (tokenfile_boot_id()[0] == '\0')
        cli_fail(CLI_FAILED, "%s: no boot id, which a token file needs: %s", BOOT_ID_FILE,
                 strerror(errno));
    tokenfile_need_regular(path);
    char *copy = cli_need_memory(strdup(path));
    if (access(dirname(copy), W_OK | X_OK) != 0)
        cli_fail(CLI_CONFIG, "%s: %s", path, strerror(errno));
    free(copy);
}

bool tokenfile_write(const char *path, const struct tokenfile *file,
                     const struct cli_keys *keys)
{
    json_t *object = tokenfile_json(file, keys);
    char *json = object ? json_dumps(object, JSON_INDENT(2)) : NULL, *text = NULL;
    if (!cli_json_check() || !json || asprintf(&text, "%s\n", json) < 0)
        text = NULL;
    errno = ENOMEM;
    bool written = text && cli_replace_file(path, text, 0600, true);
    int error = errno;
    free(json);
    free(text);
    json_decref(object);
    errno = error;
    return written;
}

static bool take_text(const json_t *object, const char *name, char *to, size_t room)
{
    const json_t *value = json_object_get(object, name);
    size_t len = json_string_length(value);
    if (!json_is_string(value) || len == 0 || len >= room ||
        strlen(json_string_value(value)) != len)
        return false;
    memcpy(to, json_string_value(value), len + 1);
    return true;
}

static bool take_number(const json_t *object, const char *name, int64_t most, int64_t *to)
{
    const json_t *value = json_object_get(object, name);
    *to = json_integer_value(value);
    return json_is_integer(value) && *to > 0 && *to <= most;
}

/* The kind is that of the token. A fenced lock has its fence, and no other lock has one. */
static bool take_kind(const json_t *object, const struct tokenfile *file)
{
    bool is_fenced;
    char kind[16];
    redlock_kind known = redlock_token_kind(file->token, &is_fenced);
    const json_t *fenced = json_object_get(object, "fenced");
    return known != REDLOCK_KIND_FOREIGN && take_text(object, "kind", kind, sizeof(kind)) &&
           strcmp(kind, redlock_kind_name(known)) == 0 &&
           (is_fenced ? json_is_true(fenced) : json_is_false(fenced));
}

static bool take_fence(const json_t *object, int64_t *to)
{
    if (json_is_true(json_object_get(object, "fenced")))
        return take_number(object, "fence", FENCE_MOST, to);
    return json_is_null(json_object_get(object, "fence")) ||
           !json_object_get(object, "fence");
}

/* A slot has both, any other lock has neither. */
static bool take_slot(const json_t *object, struct tokenfile *file)
{
    if (redlock_token_kind(file->token, NULL) != REDLOCK_KIND_SLOT)
        return !json_object_get(object, "slot") && !json_object_get(object, "slots");
    return take_number(object, "slots", REDLOCK_SLOTS_MAX, &file->slots) &&
           take_number(object, "slot", file->slots, &file->slot);
}

/* The field that is missing, malformed or does not fit the token; NULL: none. */
static const char *tokenfile_take(const json_t *object, struct tokenfile *file)
{
    if (!take_text(object, "token", file->token, sizeof(file->token)))
        return "token";
    if (!take_kind(object, file))
        return "kind";
    if (!take_fence(object, &file->fence))
        return "fence";
    if (!take_slot(object, file))
        return "slot";
    if (!take_text(object, "boot_id", file->boot_id, sizeof(file->boot_id)))
        return "boot_id";
    if (!take_number(object, "ttl_ms", REDLOCK_TTL_MAX_MS, &file->ttl_ms))
        return "ttl_ms";
    if (!take_number(object, "valid_ms", REDLOCK_TTL_MAX_MS, &file->valid_ms))
        return "valid_ms";
    if (!take_number(object, "deadline_us", INT64_MAX / 2, &file->deadline_us))
        return "deadline_us";
    if (json_object_get(object, "begun_us") &&
        !take_number(object, "begun_us", INT64_MAX / 2, &file->begun_us))
        return "begun_us";
    return NULL;
}

void tokenfile_read(const char *path, const char *name, const struct cli_keys *keys,
                    struct tokenfile *ret_file)
{
    char text[FILE_MAX];
    json_error_t error;
    refuse_empty(path);
    int fd = open(path, O_RDONLY | O_CLOEXEC |
                            O_NONBLOCK); /* O_NONBLOCK: do not block on a FIFO */
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text));
    if (len < 0)
        cli_fail(CLI_CONFIG, "%s: %s", path, strerror(errno));
    close(fd);
    json_t *object = json_loadb(text, (size_t)len, JSON_REJECT_DUPLICATES, &error);
    if (!cli_json_check())
        cli_fail(CLI_FAILED, "%s: %s", path, strerror(errno));
    if (!object)
        cli_fail(CLI_CONFIG, "%s:%d: not a token file: %s", path, error.line, error.text);
    *ret_file = (struct tokenfile){.ttl_ms = 0};
    const char *wrong = tokenfile_take(object, ret_file);
    if (wrong)
        cli_fail(CLI_CONFIG, "%s: not a token file: its \"%s\" is missing or wrong", path,
                 wrong);
    bool is_same = cli_keys_are(keys, object);
    if (!cli_json_check())
        cli_fail(CLI_FAILED, "%s: %s", path, strerror(errno));
    if (!is_same)
        cli_fail(CLI_USAGE, "%s: the token belongs to another key than %s", path, name);
    json_decref(object);
}
