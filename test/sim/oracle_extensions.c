/* The oracle on the watchdog: an extension that is lost is tried again in time. */
#include "core/lease.h"
#include "oracle_parts.h"
#include "world.h"

#define SLACK      (10 * VIRTUAL_MS)
#define SLOW_CLOCK 8 /* a client takes at most this part longer */

bool oracle_watches(const struct claim *claim)
{
    const struct user *user = claim->user;
    return user && user->claim == claim && user->is_held && user->is_known &&
           claim->options.watchdog && claim->options.max_hold_ms == 0 &&
           world.plan.weight[FAULT_ROOM] == 0 && world.phase == PHASE_STORM;
}

static int64_t delay_of(const struct extension *extension)
{
    int64_t delay = extension->ttl_ms * VIRTUAL_MS / RL_RETRY_SHARE;
    delay = delay < VIRTUAL_MS ? VIRTUAL_MS : delay;
    return delay + delay / SLOW_CLOCK + SLACK;
}

static void begin(const struct command *command, struct claim *claim)
{
    struct extension *extension = &claim->extension;
    const struct process *process = &world.client[command->client].process;
    int64_t due = extension->due < process->resumed + SLACK ? process->resumed + SLACK
                                                            : extension->due;
    bool is_sent = extension->failures == process->failed_allocations;
    if (extension->due > 0 && oracle_watches(claim) && is_sent && events_now() > due)
        oracle_accuse(INVARIANT_LIVENESS,
                      "%.8s of client %u is extended again %lld ms later than it should",
                      claim->token, command->client + 1,
                      (long long)((events_now() - due) / VIRTUAL_MS));
    *extension = (struct extension){
        .iteration = command->iteration,
        .boot = client_boot(&world.client[command->client]),
        .raw = client_raw(&world.client[command->client]),
        .before = events_now() - process->entered,
        .ttl_ms = command->ttl_ms,
        .failures = process->failed_allocations,
    };
}

void oracle_say_extension(const struct command *command, struct claim *claim)
{
    if (command->iteration == claim->resent_in) { /* or a new round */
        claim->extension = (struct extension){.is_unsure = true};
        return;
    }
    if (claim->extension.iteration != command->iteration)
        begin(command, claim);
    else if (claim->extension.asked &
             rl_bit(command->node)) /* two rounds in one iteration */
        claim->extension.is_unsure = true;
    claim->extension.asked |= rl_bit(command->node);
}

void oracle_hear_extension(const struct command *command, struct claim *claim)
{
    struct extension *extension = &claim->extension;
    if (command->is_no_script) { /* it is sent again, to that node alone */
        extension->is_unsure = true;
        claim->resent_in = world.client[command->client].process.iterations;
    }
    if (command->iteration != extension->iteration || extension->is_unsure ||
        command->is_unsure)
        return;
    if (command->truth == TRUTH_GRANTED) { /* late ones can still win the round */
        extension->due = 0;
        extension->granted |= rl_bit(command->node);
        return;
    }
    extension->asked &= ~rl_bit(command->node);
    if (rl_count(extension->asked | extension->granted) >= world.plan.q)
        return;
    extension->due = events_now() + delay_of(extension);
}

void oracle_judge_asked(const struct user *user)
{
    const struct extension *extension = user->claim ? &user->claim->extension : NULL;
    if (!extension || extension->is_unsure || world.plan.weight[FAULT_ROOM] > 0)
        return;
    if (extension->iteration < user->asked_in)
        oracle_accuse(INVARIANT_TOLD,
                      "client %u, user %u: what was sent before it asked is its extension",
                      user->client->index + 1, user->index + 1);
    else if (user->asked_ttl > 0 && extension->ttl_ms != user->asked_ttl)
        oracle_accuse(INVARIANT_TOLD,
                      "client %u, user %u asked for %lld ms, and has an extension by %lld",
                      user->client->index + 1, user->index + 1, (long long)user->asked_ttl,
                      (long long)extension->ttl_ms);
}

/* The time that is left of what the latest round asked for, at least: an eighth is what a
   clock that was not read for long may be ahead. */
static int64_t left_of(const struct client *client, const struct extension *extension)
{
    int64_t ttl = extension->ttl_ms * VIRTUAL_MS;
    int64_t passed =
        client_elapsed_since(client, extension->boot, extension->raw) + extension->before;
    return ttl - ttl / 1000000 * world.plan.drift_ppm - passed / 8 * 9 - SLACK;
}

/* The nodes that the client may count in it. */
static unsigned count_votes(const struct claim *claim)
{
    rl_node_set nodes = claim->extension.granted & claim->granted & ~claim->garbled;
    rl_node_set servers = 0;
    for (rl_node_set rest = nodes; rest; rest &= rest - 1)
        servers |= rl_bit(claim->vote[rl_first(rest)].server);
    return rl_count(servers);
}

/*
 * A shorter TTL counts as soon as it is sent, for a key may be stored again for no longer.
 * And q grants extend the lease, also if some of them come when the round is lost.
 */
static void judge_deadline(const struct user *user)
{
    const struct claim *claim = user->claim;
    const struct client *client = user->client;
    const struct extension *extension = &claim->extension;
    int64_t valid_ms = user_valid_ms(user);
    if (extension->iteration == client->process.iterations && valid_ms > extension->ttl_ms)
        oracle_accuse(INVARIANT_DEADLINE,
                      "%.8s of client %u: %lld ms are left while it is extended by %lld",
                      claim->token, client->index + 1, (long long)valid_ms,
                      (long long)extension->ttl_ms);
    bool is_capped = claim->options.max_hold_ms > 0 || world.plan.fenced;
    int64_t margin = claim->options.margin_ms * VIRTUAL_MS;
    int64_t left = left_of(client, extension);
    if (!is_capped && left > margin && valid_ms * VIRTUAL_MS < left &&
        client->process.failed_allocations == extension->failures &&
        count_votes(claim) >= world.plan.q)
        oracle_accuse(INVARIANT_DECIDED,
                      "%.8s of client %u: %lld ms are left, of an extension by %lld",
                      claim->token, client->index + 1, (long long)valid_ms,
                      (long long)extension->ttl_ms);
}

void oracle_extensions_iterated(const struct client *client)
{
    for (unsigned i = 0; i < client->users; i++) {
        struct claim *claim = client->user[i].claim;
        const struct user *user = &client->user[i];
        if (claim && claim->user == user && user->is_held && user->is_known &&
            claim->extension.iteration > 0 && !claim->extension.is_unsure &&
            world.plan.weight[FAULT_ROOM] == 0)
            judge_deadline(user);
        if (!claim || claim->extension.due == 0 || oracle_can_try(client))
            continue;
        int64_t due = events_now() + delay_of(&claim->extension);
        if (claim->extension.due < due)
            claim->extension.due = due;
    }
}
