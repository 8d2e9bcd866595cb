#include "options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/kind.h"
#include "io/system.h"

#define RETRY_BASE_MS 20
#define RETRY_CAP_MS  500
#define SIZE_MOST     65536 /* of a struct: a larger one was never initialized */

void rl_copy_sized(void *to, size_t size, const void *from, size_t from_size)
{
    memset(to, 0, size);
    memcpy(to, from, size < from_size ? size : from_size);
}

bool rl_is_set_beyond(const void *given, size_t known)
{
    const unsigned char *bytes = given;
    size_t size;
    memcpy(&size, given, sizeof(size));
    for (size_t i = known; i < size; i++)
        if (bytes[i] != 0)
            return true;
    return false;
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

redlock_code rl_check_sized(const void *given, size_t least, size_t known, const char *init)
{
    size_t size;
    memcpy(&size, given, sizeof(size));
    if (size < least || size > SIZE_MOST)
        return rl_fail_field(REDLOCK_BAD_OPTION, REDLOCK_REASON_NOT_SET, "size",
                             "is not set: call %s()", init);
    if (rl_is_set_beyond(given, known))
        return rl_fail_field(
            REDLOCK_UNSUPPORTED, REDLOCK_REASON_NONE, "size",
            "is %zu, and libredlock %s does not know what is set after %zu", size,
            redlock_version(), known);
    return REDLOCK_OK;
}

redlock_code rl_read_sized(const void *given, size_t least, void *copy, size_t known,
                           const char *init)
{
    size_t size;
    redlock_code code = given ? rl_check_sized(given, least, known, init) : REDLOCK_OK;
    if (!given || code != REDLOCK_OK)
        return code;
    memcpy(&size, given, sizeof(size));
    memcpy(copy, given, size < known ? size : known);
    memcpy(copy, &known, sizeof(known));
    return REDLOCK_OK;
}

redlock_code rl_options_read(const redlock_options *options, redlock_options *copy)
{
    redlock_options_init(copy);
    return rl_read_sized(options, RL_FIRST_SIZE(redlock_options, trace_arg), copy,
                         sizeof(*copy), "redlock_options_init");
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

bool rl_label_is_fine(const char *label)
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
        {"node_timeout_ms", options->node_timeout_ms, 0, RL_MS_MAX},
        {"connect_timeout_ms", options->connect_timeout_ms, 1, RL_MS_MAX},
        {"drift_ppm", options->drift_ppm, 0, RL_DRIFT_PPM_MAX},
        {"max_ttl_ms", options->max_ttl_ms, 0, REDLOCK_TTL_MAX_MS},
    };
    if (options->label && !rl_label_is_fine(options->label))
        return rl_fail_field(REDLOCK_BAD_OPTION, REDLOCK_REASON_MALFORMED, "label",
                             "must be one word of at most %d bytes of printable ASCII",
                             REDLOCK_LABEL_MAX);
    if (prefix >= REDLOCK_KEY_MAX)
        return rl_check_len(REDLOCK_BAD_OPTION, "prefix", prefix, REDLOCK_KEY_MAX - 1);
    if (options->tls_name && !options->tls_name[0])
        return rl_check_len(REDLOCK_BAD_OPTION, "tls_name", 0, REDLOCK_KEY_MAX);
    return CHECK_BOUNDS(bounds);
}

/* The options that are texts, of which the client has copies. */
static const size_t texts[] = {
    offsetof(redlock_options, username),      offsetof(redlock_options, password),
    offsetof(redlock_options, password_file), offsetof(redlock_options, prefix),
    offsetof(redlock_options, label),         offsetof(redlock_options, tls_ca_file),
    offsetof(redlock_options, tls_ca_dir),    offsetof(redlock_options, tls_cert_file),
    offsetof(redlock_options, tls_key_file),  offsetof(redlock_options, tls_name),
};

#define TEXTS (sizeof(texts) / sizeof(texts[0]))

static char **text_at(redlock_options *options, size_t i)
{
    return (char **)((char *)options + texts[i]);
}

/* False: no memory; the texts that have no copy are NULL. */
static bool copy_texts(redlock_options *options)
{
    bool copied = true;
    for (size_t i = 0; i < TEXTS; i++) {
        char **text = text_at(options, i);
        bool is_set = *text != NULL;
        *text = is_set && copied ? strdup(*text) : NULL;
        copied &= *text || !is_set;
    }
    return copied;
}

static char *default_label(void)
{
    char host[REDLOCK_LABEL_MAX + 1] = "";
    char label[REDLOCK_LABEL_MAX + 1];
    if (!rl_system_host_name(host, sizeof(host)) || !rl_label_is_fine(host) || !host[0])
        strcpy(host, "host");
    snprintf(label, sizeof(label), "%.40s:%ld", host, rl_system_pid());
    return strdup(label);
}

redlock_code rl_options_copy(const redlock_options *options, size_t nodes,
                             redlock_options *ret_options)
{
    redlock_options copy;
    redlock_code code = rl_options_read(options, &copy);
    if (code == REDLOCK_OK)
        code = check(&copy, nodes);
    if (code != REDLOCK_OK)
        return code;
    bool copied = copy_texts(&copy);
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
    for (size_t i = 0; i < TEXTS; i++)
        free(*text_at(options, i));
    *options = (redlock_options){0};
}

static redlock_code check_retry(const redlock_lease_options *options)
{
    const struct bound bounds[] = {
        {"retry", options->retry, REDLOCK_RETRY_EXPONENTIAL, REDLOCK_RETRY_CUSTOM},
        {"retry_base_ms", options->retry_base_ms, 0, RL_MS_MAX},
        {"retry_cap_ms", options->retry_cap_ms, 0, RL_MS_MAX},
    };
    if (options->retry == REDLOCK_RETRY_CUSTOM && !options->retry_fn)
        return rl_fail_field(REDLOCK_BAD_OPTION, REDLOCK_REASON_NOT_SET, "retry_fn",
                             "is NULL, and a custom retry policy needs it");
    return CHECK_BOUNDS(bounds);
}

static int64_t least_validity_ms(const redlock_lease_options *options)
{
    return options->margin_ms > options->min_validity_ms ? options->margin_ms
                                                         : options->min_validity_ms;
}

static redlock_code check_times(const redlock_lease_options *options)
{
    const struct bound bounds[] = {
        {"wait_ms", options->wait_ms, REDLOCK_FOREVER, RL_MS_MAX},
        {"min_validity_ms", options->min_validity_ms, 0, RL_MS_MAX},
        {"margin_ms", options->margin_ms, 0, RL_MS_MAX},
        {"max_hold_ms", options->max_hold_ms, 0, RL_MS_MAX},
        {"fence", options->fence, 0, INT64_MAX},
    };
    redlock_code code = CHECK_BOUNDS(bounds);
    int64_t least_ms = least_validity_ms(options);
    if (code == REDLOCK_OK && options->max_hold_ms > 0 && options->max_hold_ms <= least_ms)
        code = rl_fail_bound(REDLOCK_BAD_OPTION, REDLOCK_REASON_OUT_OF_RANGE, "max_hold_ms",
                             options->max_hold_ms, least_ms + 1,
                             "is %" PRId64 ", and must be at least %" PRId64
                             ": longer than the margin and the least validity",
                             options->max_hold_ms, least_ms + 1);
    return code;
}

redlock_code rl_lease_options_read(const redlock_lease_options *options,
                                   redlock_lease_options *copy)
{
    redlock_lease_options_init(copy);
    redlock_code code = rl_read_sized(options, RL_FIRST_SIZE(redlock_lease_options, user),
                                      copy, sizeof(*copy), "redlock_lease_options_init");
    if (code == REDLOCK_OK)
        code = check_times(copy);
    return code == REDLOCK_OK ? check_retry(copy) : code;
}

redlock_code rl_kind_check(redlock_lease_options *options, bool of_set)
{
    redlock_kind kind = options->kind;
    const char *name = redlock_kind_name(kind);
    bool is_plain = rl_kind_that_is(false, kind),
         may_be_fenced = rl_kind_that_is(true, kind);
    if (kind == REDLOCK_KIND_SET || (!is_plain && !may_be_fenced))
        return rl_fail_field(REDLOCK_BAD_OPTION, REDLOCK_REASON_OUT_OF_RANGE, "kind",
                             "is %d, and no option chooses this kind", (int)kind);
    if (of_set && kind != REDLOCK_KIND_EXCLUSIVE)
        return rl_fail_field(REDLOCK_BAD_OPTION, REDLOCK_REASON_CONFLICT, "kind",
                             "is %s, and such a lock has one key", name);
    if (options->fenced && !may_be_fenced)
        return rl_fail_field(REDLOCK_BAD_OPTION, REDLOCK_REASON_CONFLICT, "fenced",
                             "is set, and a lock of the kind %s is never fenced", name);
    if (kind != REDLOCK_KIND_SLOT && options->slots > 0)
        return rl_fail_field(REDLOCK_BAD_OPTION, REDLOCK_REASON_CONFLICT, "slots",
                             "is set, and a lock of the kind %s has none", name);
    options->fenced |= !is_plain;
    return kind == REDLOCK_KIND_SLOT
               ? rl_check_range("slots", options->slots, 1, REDLOCK_SLOTS_MAX)
               : REDLOCK_OK;
}

/* The shortest TTL of which more than this is left after the drift. */
static int64_t ttl_above(int64_t least_ms, uint32_t drift_ppm)
{
    int64_t ttl_ms = (least_ms + 3) * 1000000 / (1000000 - drift_ppm);
    while (rl_valid_until(0, (ttl_ms - 1) * RL_MS, drift_ppm) > least_ms * RL_MS)
        ttl_ms--;
    while (rl_valid_until(0, ttl_ms * RL_MS, drift_ppm) <= least_ms * RL_MS)
        ttl_ms++;
    return ttl_ms;
}

redlock_code rl_fail_ttl(redlock_reason reason, int64_t ttl_ms, int64_t bound_ms)
{
    return rl_fail_bound(
        REDLOCK_BAD_TTL, reason, "ttl_ms", ttl_ms, bound_ms,
        "is %" PRId64 ", and must be at %s %" PRId64 "%s%s", ttl_ms,
        ttl_ms < bound_ms ? "least" : "most", bound_ms,
        reason == REDLOCK_REASON_OUT_OF_RANGE ? "" : ": ",
        reason == REDLOCK_REASON_OUT_OF_RANGE ? "" : redlock_reason_text(reason));
}

redlock_code rl_ttl_check(const redlock_options *client, const redlock_lease_options *lease,
                          int64_t ttl_ms, bool is_kept)
{
    int64_t most_ms = is_kept ? REDLOCK_RECORD_MAX_MS : REDLOCK_TTL_MAX_MS;
    int64_t least_ms = least_validity_ms(lease);
    if (ttl_ms <= 0 || ttl_ms > most_ms)
        return rl_fail_ttl(REDLOCK_REASON_OUT_OF_RANGE, ttl_ms, ttl_ms <= 0 ? 1 : most_ms);
    if (rl_valid_until(0, ttl_ms * RL_MS, client->drift_ppm) <= least_ms * RL_MS)
        return rl_fail_ttl(least_ms == 0                  ? REDLOCK_REASON_TTL_DRIFT
                           : least_ms == lease->margin_ms ? REDLOCK_REASON_TTL_MARGIN
                                                          : REDLOCK_REASON_TTL_MIN_VALIDITY,
                           ttl_ms, ttl_above(least_ms, client->drift_ppm));
    if (!is_kept && client->max_ttl_ms > 0 && ttl_ms > client->max_ttl_ms)
        return rl_fail_ttl(REDLOCK_REASON_TTL_CLIENT_MAX, ttl_ms, client->max_ttl_ms);
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
        .settles = options->kind == REDLOCK_KIND_ELECTION,
    };
}
