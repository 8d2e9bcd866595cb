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

void oracle_extensions_iterated(const struct client *client)
{
    for (unsigned i = 0; i < client->users; i++) {
        struct claim *claim = client->user[i].claim;
        if (!claim || claim->extension.due == 0 || oracle_can_try(client))
            continue;
        int64_t due = events_now() + delay_of(&claim->extension);
        if (claim->extension.due < due)
            claim->extension.due = due;
    }
}
