#include "options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/system.h"

#define DRIFT_PPM_MAX 500000
#define MS_MAX        (INT64_C(366) * 24 * 3600 * 1000)
#define RETRY_BASE_MS 20
#define RETRY_CAP_MS  500

void rl_copy_sized(void *to, size_t size, const void *from, size_t from_size)
{
    memset(to, 0, size);
    memcpy(to, from, size < from_size ? size : from_size);
}

void redlock_options_init_sized(redlock_options *options, size_t size)
{
    const redlock_options defaults = {
        .size = size,
        .connect_timeout_ms = REDLOCK_CONNECT_TIMEOUT_MS,
        .drift_ppm = REDLOCK_DRIFT_PPM,
    };
    rl_copy_sized(options, size, &defaults, sizeof(defaults));
}

void redlock_lease_options_init_sized(redlock_lease_options *options, size_t size)
{
    const redlock_lease_options defaults = {
        .size = size,
        .ttl_ms = REDLOCK_TTL_MS,
        .watchdog = true,
        .retry = REDLOCK_RETRY_EXPONENTIAL,
        .retry_base_ms = RETRY_BASE_MS,
        .retry_cap_ms = RETRY_CAP_MS,
    };
    rl_copy_sized(options, size, &defaults, sizeof(defaults));
}

/* A label is one word of printable ASCII, so that any program can print it. */
static bool label_is_fine(const char *label)
{
    size_t len = strlen(label);
    for (size_t i = 0; i < len; i++)
        if (label[i] <= ' ' || label[i] > '~')
            return false;
    return len <= REDLOCK_LABEL_MAX;
}

/* An option's value and its range, inclusive. */
struct bound {
    const char *name;
    int64_t value, low, high;
};

static redlock_code check_bounds(const struct bound *bound, size_t count)
{
    redlock_code code = REDLOCK_OK;
    for (size_t i = 0; i < count && code == REDLOCK_OK; i++)
        code = rl_check_range(bound[i].name, bound[i].value, bound[i].low, bound[i].high);
    return code;
}

#define CHECK_BOUNDS(bounds) check_bounds(bounds, sizeof(bounds) / sizeof((bounds)[0]))

static redlock_code check(const redlock_options *options, size_t nodes)
{
    int64_t n = (int64_t)nodes, least = options->quorum ? n / 2 + 1 : 0;
    size_t prefix = options->prefix ? strlen(options->prefix) : 0;
    const struct bound bounds[] = {
        {"quorum", options->quorum, least, n},
        {"node_timeout_ms", options->node_timeout_ms, 0, MS_MAX},
        {"connect_timeout_ms", options->connect_timeout_ms, 1, MS_MAX},
        {"drift_ppm", options->drift_ppm, 0, DRIFT_PPM_MAX},
        {"max_ttl_ms", options->max_ttl_ms, 0, REDLOCK_TTL_MAX_MS},
    };
    if (options->label && !label_is_fine(options->label))
        return rl_fail(REDLOCK_BAD_OPTION,
                       "label has %zu bytes, and must be one word of at most %d bytes of "
                       "printable ASCII",
                       strlen(options->label), REDLOCK_LABEL_MAX);
    if (prefix >= REDLOCK_KEY_MAX)
        return rl_fail(REDLOCK_BAD_OPTION,
                       "prefix has %zu bytes, and must have less than %d", prefix,
                       REDLOCK_KEY_MAX);
    if (options->tls_name && !options->tls_name[0])
        return rl_fail(REDLOCK_BAD_OPTION, "tls_name is empty");
    return CHECK_BOUNDS(bounds);
}

static bool copy_text(const char **text)
{
    return !*text || (*text = strdup(*text));
}

static char *default_label(void)
{
    char host[REDLOCK_LABEL_MAX + 1] = "";
    char label[REDLOCK_LABEL_MAX + 1];
    if (!rl_system_host_name(host, sizeof(host)) || !label_is_fine(host) || !host[0])
        strcpy(host, "host");
    snprintf(label, sizeof(label), "%.40s:%ld", host, rl_system_pid());
    return strdup(label);
}

/* Copies as much as the caller's version of the struct has. False: `size` is not set. */
static bool options_take(void *copy, size_t room, const void *options, size_t size)
{
    if (size < 2 * sizeof(size_t))
        return false;
    memcpy(copy, options, size < room ? size : room);
    return true;
}

redlock_code rl_options_copy(const redlock_options *options, size_t nodes,
                             redlock_options *ret_options)
{
    redlock_options copy;
    redlock_options_init(&copy);
    if (options && !options_take(&copy, sizeof(copy), options, options->size))
        return rl_fail(REDLOCK_BAD_OPTION,
                       "size is not set: make the options by redlock_options_init()");
    copy.size = sizeof(copy);
    redlock_code code = check(&copy, nodes);
    if (code != REDLOCK_OK)
        return code;
    const char **texts[] = {&copy.username,   &copy.password,      &copy.password_file,
                            &copy.prefix,     &copy.label,         &copy.tls_ca_file,
                            &copy.tls_ca_dir, &copy.tls_cert_file, &copy.tls_key_file,
                            &copy.tls_name};
    size_t count = sizeof(texts) / sizeof(texts[0]);
    bool copied = true;
    for (size_t i = 0; i < count; i++)
        copied = copied ? copy_text(texts[i]) : (*texts[i] = NULL, false);
    if (copied && !copy.label)
        copied = (copy.label = default_label()) != NULL;
    if (!copied) {
        rl_options_clear(&copy);
        return rl_fail_by_code(REDLOCK_NO_MEMORY);
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
    free((char *)options->tls_ca_file);
    free((char *)options->tls_ca_dir);
    free((char *)options->tls_cert_file);
    free((char *)options->tls_key_file);
    free((char *)options->tls_name);
    *options = (redlock_options){0};
}

static redlock_code check_retry(const redlock_lease_options *options)
{
    const struct bound bounds[] = {
        {"retry", options->retry, REDLOCK_RETRY_EXPONENTIAL, REDLOCK_RETRY_CUSTOM},
        {"retry_base_ms", options->retry_base_ms, 0, MS_MAX},
        {"retry_cap_ms", options->retry_cap_ms, 0, MS_MAX},
    };
    if (options->retry == REDLOCK_RETRY_CUSTOM && !options->retry_fn)
        return rl_fail(REDLOCK_BAD_OPTION,
                       "retry is REDLOCK_RETRY_CUSTOM, and retry_fn is NULL");
    return CHECK_BOUNDS(bounds);
}

static redlock_code check_times(const redlock_lease_options *options)
{
    const struct bound bounds[] = {
        {"wait_ms", options->wait_ms, REDLOCK_FOREVER, MS_MAX},
        {"min_validity_ms", options->min_validity_ms, 0, MS_MAX},
        {"margin_ms", options->margin_ms, 0, MS_MAX},
        {"max_hold_ms", options->max_hold_ms, 0, MS_MAX},
        {"fence", options->fence, 0, INT64_MAX},
        {"slots", options->slots, 0, REDLOCK_SLOTS_MAX},
    };
    redlock_code code = CHECK_BOUNDS(bounds);
    if (code == REDLOCK_OK && options->max_hold_ms > 0 &&
        (options->max_hold_ms <= options->margin_ms ||
         options->max_hold_ms <= options->min_validity_ms))
        code = rl_fail(REDLOCK_BAD_OPTION,
                       "max_hold_ms is %" PRId64 ", and must be above margin_ms (%" PRId64
                       ") and min_validity_ms (%" PRId64 ")",
                       options->max_hold_ms, options->margin_ms, options->min_validity_ms);
    return code;
}

redlock_code rl_lease_options_read(const redlock_lease_options *options,
                                   redlock_lease_options *copy)
{
    redlock_lease_options_init(copy);
    if (options && !options_take(copy, sizeof(*copy), options, options->size))
        return rl_fail(REDLOCK_BAD_OPTION,
                       "size is not set: make the options by redlock_lease_options_init()");
    copy->size = sizeof(*copy);
    redlock_code code = check_times(copy);
    return code == REDLOCK_OK ? check_retry(copy) : code;
}

redlock_code rl_ttl_check(const redlock_options *client, const redlock_lease_options *lease,
                          int64_t ttl_ms, bool is_kept)
{
    int64_t most_ms = is_kept ? REDLOCK_RECORD_MAX_MS : REDLOCK_TTL_MAX_MS;
    int64_t least_ms = lease->margin_ms > lease->min_validity_ms ? lease->margin_ms
                                                                 : lease->min_validity_ms;
    if (ttl_ms <= 0 || ttl_ms > most_ms)
        return rl_fail(REDLOCK_BAD_TTL,
                       "the TTL is %" PRId64 " ms, and must be from 1 to %" PRId64
                       " ms (%" PRId64 " h)",
                       ttl_ms, most_ms, most_ms / 3600000);
    rl_time valid = rl_valid_until(0, ttl_ms * RL_MS, client->drift_ppm);
    if (valid <= least_ms * RL_MS)
        return rl_fail(REDLOCK_BAD_TTL,
                       "the TTL is %" PRId64 " ms, of which %" PRId64
                       " ms are left after the drift: margin_ms and min_validity_ms want "
                       "more than %" PRId64 " ms",
                       ttl_ms, valid > 0 ? valid / RL_MS : 0, least_ms);
    if (!is_kept && client->max_ttl_ms > 0 && ttl_ms > client->max_ttl_ms)
        return rl_fail(REDLOCK_BAD_TTL,
                       "the TTL is %" PRId64 " ms, and max_ttl_ms is %" PRId64, ttl_ms,
                       client->max_ttl_ms);
    return REDLOCK_OK;
}

void rl_lease_params_of(const redlock_lease_options *options, const redlock_options *client,
                        unsigned n, unsigned q, struct rl_lease_params *ret_params)
{
    rl_time ttl = options->ttl_ms * RL_MS;
    *ret_params = (struct rl_lease_params){
        .ttl = ttl,
        .margin = options->margin_ms * RL_MS,
        .min_validity = options->min_validity_ms * RL_MS,
        .extend_every = options->watchdog ? ttl / RL_WATCHDOG_SHARE : 0,
        .max_hold = options->max_hold_ms ? options->max_hold_ms * RL_MS : RL_NEVER,
        .node_timeout = client->node_timeout_ms * RL_MS,
        .drift_ppm = client->drift_ppm,
        .n = (uint8_t)n,
        .q = (uint8_t)q,
        .settles = options->elects,
    };
}
