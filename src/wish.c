#include "wish.h"

#include <stdlib.h>
#include <string.h>

#include "options.h"

redlock_code rl_wish_check_ttl(const struct rl_wish *wish, redlock_client *client,
                               rl_time ttl)
{
    redlock_code code = rl_ttl_check(&client->options, &wish->options, ttl / RL_MS, NULL);
    if (code == REDLOCK_OK)
        rl_client_use_ttl(client, ttl);
    return code;
}

static rl_time custom_delay(unsigned attempt, uint64_t random, void *arg)
{
    const redlock_lease_options *options = arg;
    int64_t ms = options->retry_fn(attempt, random, options->retry_arg);
    return ms < 0 ? -1 : rl_min(ms, REDLOCK_TTL_MAX_MS) * RL_MS;
}

static void read_retry(struct rl_wish *wish)
{
    static const enum rl_retry_kind kinds[] = {
        [REDLOCK_RETRY_EXPONENTIAL] = RL_RETRY_EXPONENTIAL,
        [REDLOCK_RETRY_FIXED] = RL_RETRY_FIXED,
        [REDLOCK_RETRY_NONE] = RL_RETRY_NONE,
        [REDLOCK_RETRY_CUSTOM] = RL_RETRY_CUSTOM,
    };
    wish->retry = (struct rl_retry){
        .kind = kinds[wish->options.retry],
        .base = wish->options.retry_base_ms * RL_MS,
        .cap = wish->options.retry_cap_ms * RL_MS,
        .custom = custom_delay,
        .arg = &wish->options,
    };
}

static redlock_code read_options(redlock_client *client, struct rl_wish *wish,
                                 const redlock_lease_options *options)
{
    const redlock_lease_options *mine = &wish->options;
    redlock_code code = rl_lease_options_read(options, &wish->options, NULL);
    if (code != REDLOCK_OK)
        return code;
    code = rl_ttl_check(&client->options, mine, mine->ttl_ms, NULL);
    if (code != REDLOCK_OK)
        return code;
    rl_client_use_ttl(client, mine->ttl_ms * RL_MS);
    rl_terms_of(mine, &client->options, client->n, client->q, &wish->terms);
    read_retry(wish);
    wish->kind = rl_kind_that_is(mine->fenced);
    wish->fences = mine->fences > 0 ? mine->fences : 1;
    wish->waits = mine->wait_ms != 0;
    return REDLOCK_OK;
}

static bool is_said_by(const struct rl_wish *wish, const redlock_lease_options *options)
{
    return wish && options->size == sizeof(*options) &&
           memcmp(options, &wish->options, sizeof(*options)) == 0;
}

redlock_code rl_wish_read(redlock_client *client, const redlock_lease_options *options,
                          struct rl_wish **ret_wish)
{
    redlock_lease_options defaults;
    if (!options) {
        redlock_lease_options_init(&defaults);
        options = &defaults;
    }
    if (!is_said_by(client->wish, options)) {
        struct rl_wish *wish = calloc(1, sizeof(*wish));
        redlock_code code = wish ? read_options(client, wish, options) : REDLOCK_NO_MEMORY;
        if (code != REDLOCK_OK) {
            free(wish);
            return code;
        }
        rl_wish_drop(client->wish);
        client->wish = rl_wish_share(wish);
    }
    *ret_wish = rl_wish_share(client->wish);
    return REDLOCK_OK;
}

struct rl_wish *rl_wish_share(struct rl_wish *wish)
{
    wish->sharers++;
    return wish;
}

void rl_wish_drop(struct rl_wish *wish)
{
    if (wish && --wish->sharers == 0)
        free(wish);
}
