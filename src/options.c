#include "options.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DRIFT_PPM_MAX 500000
#define MS_MAX        (INT64_C(366) * 24 * 3600 * 1000)
#define RETRY_BASE_MS 20
#define RETRY_CAP_MS  500

redlock_code rl_fail(redlock_error *ret_error, redlock_code code, const char *format, ...)
{
    if (!ret_error)
        return code;
    va_list args;
    va_start(args, format);
    ret_error->code = code;
    vsnprintf(ret_error->text, sizeof(ret_error->text), format, args);
    va_end(args);
    return code;
}

void redlock_options_init(redlock_options *options)
{
    *options = (redlock_options){
        .size = sizeof(*options),
        .connect_timeout_ms = REDLOCK_CONNECT_TIMEOUT_MS,
        .drift_ppm = REDLOCK_DRIFT_PPM,
    };
}

void redlock_lease_options_init(redlock_lease_options *options)
{
    memset(options, 0, sizeof(*options)); /* between the members, too: wish.c compares */
    options->size = sizeof(*options);
    options->ttl_ms = REDLOCK_TTL_MS;
    options->watchdog = true;
    options->retry = REDLOCK_RETRY_EXPONENTIAL;
    options->retry_base_ms = RETRY_BASE_MS;
    options->retry_cap_ms = RETRY_CAP_MS;
}

/* A label is one word of printable ASCII, so that it can be shown anywhere. */
static bool label_is_fine(const char *label)
{
    size_t len = strlen(label);
    for (size_t i = 0; i < len; i++)
        if (label[i] <= ' ' || label[i] > '~')
            return false;
    return len <= REDLOCK_LABEL_MAX;
}

static bool in_range(int64_t value, int64_t low, int64_t high)
{
    return value >= low && value <= high;
}

static redlock_code check(const redlock_options *options, size_t nodes,
                          redlock_error *error)
{
    const char *bad = NULL;
    if (options->label && !label_is_fine(options->label))
        bad = "the label is too long or not one printable word";
    else if (options->prefix && strlen(options->prefix) >= REDLOCK_KEY_MAX)
        bad = "the prefix is too long";
    else if (options->quorum &&
             !in_range(options->quorum, (int64_t)nodes / 2 + 1, (int64_t)nodes))
        bad = "the quorum is less than a majority or more than all nodes";
    else if (!in_range(options->node_timeout_ms, 0, MS_MAX))
        bad = "the per-node timeout is out of its range";
    else if (!in_range(options->connect_timeout_ms, 1, MS_MAX))
        bad = "the connect timeout is out of its range";
    else if (options->drift_ppm > DRIFT_PPM_MAX)
        bad = "the drift is more than half";
    else if (!in_range(options->max_ttl_ms, 0, REDLOCK_TTL_MAX_MS))
        bad = "the maximum TTL is out of its range";
    return bad ? rl_fail(error, REDLOCK_BAD_OPTION, "%s", bad) : REDLOCK_OK;
}

static bool copy_text(const char **text)
{
    if (*text && !(*text = strdup(*text)))
        return false;
    return true;
}

static char *default_label(void)
{
    char host[REDLOCK_LABEL_MAX + 1] = "";
    char label[REDLOCK_LABEL_MAX + 1];
    if (gethostname(host, sizeof(host) - 1) != 0 || !label_is_fine(host) || !host[0])
        strcpy(host, "host");
    snprintf(label, sizeof(label), "%.40s:%ld", host, (long)getpid());
    return strdup(label);
}

/* As much as the caller's version of the struct has; false: nobody has set its size. */
static bool take(void *copy, size_t room, const void *options, size_t size)
{
    if (size < 2 * sizeof(size_t))
        return false;
    memcpy(copy, options, size < room ? size : room);
    return true;
}

redlock_code rl_options_copy(const redlock_options *options, size_t nodes,
                             redlock_options *ret_options, redlock_error *ret_error)
{
    redlock_options copy;
    redlock_options_init(&copy);
    if (options && !take(&copy, sizeof(copy), options, options->size))
        return rl_fail(ret_error, REDLOCK_BAD_OPTION,
                       "the options were not made by redlock_options_init()");
    copy.size = sizeof(copy);
    redlock_code code = check(&copy, nodes, ret_error);
    if (code != REDLOCK_OK)
        return code;
    const char **texts[] = {&copy.username, &copy.password, &copy.password_file,
                            &copy.prefix, &copy.label};
    size_t count = sizeof(texts) / sizeof(texts[0]);
    bool copied = true;
    for (size_t i = 0; i < count; i++)
        copied = copied ? copy_text(texts[i]) : (*texts[i] = NULL, false);
    if (copied && !copy.label)
        copied = (copy.label = default_label()) != NULL;
    if (!copied) {
        rl_options_clear(&copy);
        return rl_fail(ret_error, REDLOCK_NO_MEMORY, "out of memory");
    }
    *ret_options = copy;
    return REDLOCK_OK;
}

void rl_options_clear(redlock_options *options)
{
    free((char *)options->username);
    free((char *)options->password);
    free((char *)options->password_file);
    free((char *)options->prefix);
    free((char *)options->label);
    *options = (redlock_options){0};
}

redlock_code rl_lease_options_read(const redlock_lease_options *options,
                                   redlock_lease_options *copy)
{
    redlock_lease_options_init(copy);
    if (options && !take(copy, sizeof(*copy), options, options->size))
        return REDLOCK_BAD_OPTION;
    copy->size = sizeof(*copy);
    if (!in_range(copy->min_validity_ms, 0, MS_MAX) ||
        !in_range(copy->margin_ms, 0, MS_MAX) || !in_range(copy->max_hold_ms, 0, MS_MAX) ||
        !in_range(copy->wait_ms, -MS_MAX, MS_MAX) ||
        !in_range(copy->retry_base_ms, 0, MS_MAX) ||
        !in_range(copy->retry_cap_ms, 0, MS_MAX) || copy->fence < 0 ||
        copy->fences > REDLOCK_FENCES_MAX ||
        !in_range(copy->retry, REDLOCK_RETRY_EXPONENTIAL, REDLOCK_RETRY_CUSTOM) ||
        (copy->retry == REDLOCK_RETRY_CUSTOM && !copy->retry_fn) ||
        (copy->max_hold_ms > 0 && (copy->max_hold_ms <= copy->margin_ms ||
                                   copy->max_hold_ms <= copy->min_validity_ms)))
        return REDLOCK_BAD_OPTION;
    return REDLOCK_OK;
}

void rl_terms_of(const redlock_lease_options *options, const redlock_options *client,
                 unsigned n, unsigned q, struct rl_terms *ret_terms)
{
    rl_time ttl = options->ttl_ms * RL_MS;
    *ret_terms = (struct rl_terms){
        .ttl = ttl,
        .margin = options->margin_ms * RL_MS,
        .min_validity = options->min_validity_ms * RL_MS,
        .extend_every = options->watchdog ? ttl / RL_WATCHDOG_SHARE : 0,
        .max_hold = options->max_hold_ms ? options->max_hold_ms * RL_MS : RL_NEVER,
        .node_timeout = client->node_timeout_ms * RL_MS,
        .drift_ppm = client->drift_ppm,
        .n = (uint8_t)n,
        .q = (uint8_t)q,
    };
}
