#include "learn.h"

#define TIMES 2 /* the longest hold, in the TTL */

static void told(redlock_client *client, int64_t longest_ms, void *arg)
{
    struct learn *learn = arg;
    (void)client;
    learn->is_told = true;
    learn->longest_ms = longest_ms;
}

void learn_ask(struct learn *learn, const struct cli *cli)
{
    const redlock_key *key = &cli->keys.of[0];
    *learn = (struct learn){.longest_ms = REDLOCK_UNKNOWN};
    redlock_code code = redlock_hold_time(cli->client, key->bytes, key->len, told, learn);
    cli_need_start(code, key->bytes);
}

/* A longer one than the nodes reckon with would outlast their quarantine. */
static int64_t ttl_of(const struct learn *learn, const struct cli *cli)
{
    int64_t most =
        cli->options.max_ttl_ms > 0 ? cli->options.max_ttl_ms : REDLOCK_QUARANTINE_FLOOR_MS;
    int64_t wanted = learn->is_told ? TIMES * learn->longest_ms : 0;
    wanted = wanted < most ? wanted : most;
    return wanted > cli->lease.ttl_ms ? wanted : cli->lease.ttl_ms;
}

int64_t learn_extend(const struct learn *learn, const struct cli *cli, redlock_lease *lease)
{
    int64_t ttl_ms = ttl_of(learn, cli);
    while (ttl_ms > cli->lease.ttl_ms) {
        struct cli_outcome outcome = {.done = false};
        if (redlock_extend(lease, ttl_ms, cli_note_outcome, &outcome) != REDLOCK_OK)
            break;
        cli_wait(cli->base, &outcome.done);
        if (outcome.result.code == REDLOCK_OK)
            return ttl_ms;
        if (outcome.result.code != REDLOCK_NO_QUORUM)
            break;
        cli_sleep(cli->lease.ttl_ms / CLI_RETRY_SHARE);
    }
    return cli->lease.ttl_ms;
}

void learn_tell(const struct cli *cli, int64_t begun_us, int64_t ttl_ms)
{
    const redlock_key *key = &cli->keys.of[0];
    int64_t held_ms = (cli_clock_us(CLOCK_BOOTTIME) - begun_us) / 1000;
    if (held_ms > ttl_ms) /* it outlived its TTL, so the next one has to be longer */
        held_ms *= TIMES;
    if (held_ms >= 0) /* a release goes on without it */
        redlock_note_hold_time(cli->client, key->bytes, key->len, held_ms);
}
