#include "config.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/options.h"

static rl_time custom_delay(unsigned attempt, uint64_t random, void *arg)
{
    const redlock_lease_options *options = arg;
    int64_t ms = options->retry_fn(attempt, random, options->retry_arg);
    return ms < 0 ? -1 : rl_min(ms, REDLOCK_TTL_MAX_MS) * RL_MS;
}

_Static_assert((int)REDLOCK_RETRY_FIXED == RL_RETRY_FIXED &&
                   (int)REDLOCK_RETRY_CUSTOM == RL_RETRY_CUSTOM,
               "in the same order");

static void read_retry(struct rl_lease_config *config)
{
    config->retry = (struct rl_retry){
        .kind = (enum rl_retry_kind)config->options.retry,
        .base = config->options.retry_base_ms * RL_MS,
        .cap = config->options.retry_cap_ms * RL_MS,
        .custom = custom_delay,
        .arg = &config->options,
    };
}

static redlock_code read_options(redlock_client *client, struct rl_lease_config *config,
                                 const redlock_lease_options *options)
{
    const redlock_lease_options *mine = &config->options;
    redlock_code code = rl_lease_options_read(options, &config->options);
    if (code == REDLOCK_OK)
        code = rl_kind_check(&config->options, config->of_sets);
    if (code != REDLOCK_OK)
        return code;
    code = rl_ttl_check(&client->options, mine, mine->ttl_ms, false);
    if (code != REDLOCK_OK)
        return code;
    rl_nodes_use_ttl(&client->nodes, mine->ttl_ms * RL_MS);
    rl_lease_params_of(mine, &client->options, client->nodes.n, client->nodes.q,
                       &config->params);
    read_retry(config);
    config->kind =
        rl_kind_that_is(mine->fenced, config->of_sets ? REDLOCK_KIND_SET : mine->kind);
    config->waits = mine->wait_ms != 0;
    return REDLOCK_OK;
}

_Static_assert(sizeof(redlock_lease_options) - offsetof(redlock_lease_options, user) <=
                   _Alignof(redlock_lease_options),
               "options_equal() compares each option but `user`: also the new last one");

/* Field by field: the padding of the caller's struct is undefined. */
static bool options_equal(const redlock_lease_options *a, const redlock_lease_options *b)
{
    return a->size == b->size && a->kind == b->kind && a->slots == b->slots &&
           a->fenced == b->fenced && a->fence == b->fence && a->ttl_ms == b->ttl_ms &&
           a->wait_ms == b->wait_ms && a->min_validity_ms == b->min_validity_ms &&
           a->margin_ms == b->margin_ms && a->watchdog == b->watchdog &&
           a->max_hold_ms == b->max_hold_ms && a->retry == b->retry &&
           a->retry_base_ms == b->retry_base_ms && a->retry_cap_ms == b->retry_cap_ms &&
           a->retry_fn == b->retry_fn && a->retry_arg == b->retry_arg &&
           a->on_lost == b->on_lost && a->lost_arg == b->lost_arg &&
           a->on_extended == b->on_extended && a->extended_arg == b->extended_arg;
}

redlock_code rl_lease_config_get(redlock_client *client,
                                 const redlock_lease_options *options, unsigned fences,
                                 bool of_sets, struct rl_lease_config **ret_config)
{
    redlock_lease_options defaults;
    if (!options) {
        redlock_lease_options_init(&defaults);
        options = &defaults;
    }
    struct rl_lease_config *last = client->config;
    if (!last || last->fences != fences || last->of_sets != of_sets ||
        !options_equal(options, &last->options)) {
        struct rl_lease_config *config = calloc(1, sizeof(*config));
        if (!config)
            return rl_fail_by_code(REDLOCK_NO_MEMORY);
        config->fences = fences;
        config->of_sets = of_sets;
        redlock_code code = read_options(client, config, options);
        if (code != REDLOCK_OK) {
            free(config);
            return code;
        }
        rl_lease_config_unref(last);
        last = client->config = rl_lease_config_ref(config);
    }
    *ret_config = rl_lease_config_ref(last);
    return REDLOCK_OK;
}

struct rl_lease_config *rl_lease_config_ref(struct rl_lease_config *config)
{
    config->sharers++;
    return config;
}

void rl_lease_config_unref(struct rl_lease_config *config)
{
    if (config && --config->sharers == 0)
        free(config);
}
