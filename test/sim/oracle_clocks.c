/*
 * The oracle on servers' clocks beyond the bounds. A key that ends early because its
 * server's clock was set is a vote that is given twice: that is excused only where the
 * client that got the second vote could not see it, by what that server had told it before.
 */
#include <string.h>

#include "core/clock.h"
#include "core/fenced/membership.h"
#include "oracle_parts.h"
#include "world.h"

bool oracle_ran_ahead(unsigned server, int64_t since)
{
    return world.server[server].is_fast ||
           (world.server[server].ahead_at > 0 && world.server[server].ahead_at >= since);
}

static int64_t drift_ppm(void)
{
    int64_t drift = world.plan.drift_ppm;
    return drift > RL_CLOCK_PPM ? drift : RL_CLOCK_PPM;
}

/* The drift of a node's clock in this time. */
static int64_t drifted(int64_t span)
{
    return span / 1000000 * drift_ppm() / 2 + 2 * VIRTUAL_US;
}

/* The clock guard bears this without a word, from when one reply was asked for. */
static int64_t borne(int64_t span)
{
    return (world.plan.ttl_max / 1000000 * drift_ppm() + 2 * VIRTUAL_MS) / 2 +
           drifted(span);
}

/* The client may still have a doubt by that. */
static bool is_open(const struct changed *changed)
{
    return changed->at > 0 && events_now() < changed->at + 2 * oracle_least_quarantine();
}

static bool may_have_changed(const struct sample *sample, int64_t moment)
{
    bool any = false;
    for (unsigned i = 0; i < CHANGED_MAX; i++) {
        const struct changed *changed = &sample->changed[i];
        any |= is_open(changed) && changed->from < moment && moment <= changed->to;
    }
    return any;
}

static bool may_all_have_changed(const struct client *client, const struct changed *changed)
{
    unsigned count = 0;
    for (unsigned i = 0; i < world.plan.n && is_open(changed); i++)
        count += may_have_changed(&client->node[i].sample, changed->to);
    return count > world.plan.n / 2 && count > 1;
}

/* A client that sees a majority change at one moment may take its own clock for wrong. */
static void doubt(struct client *client)
{
    for (unsigned i = 0; i < world.plan.n * CHANGED_MAX; i++) {
        const struct changed *changed =
            &client->node[i / CHANGED_MAX].sample.changed[i % CHANGED_MAX];
        if (changed->to > client->erred_at && may_all_have_changed(client, changed))
            client->erred_at = changed->to;
    }
    for (unsigned i = 0; i < world.plan.n; i++)
        if (client->node[i].sample.seen_from < client->erred_at)
            client->node[i].sample.seen_at = 0;
}

/* The sample may be one: the guard decides. The next reply may be the first again. Of many
   faults the earliest are one. */
static void note_fault(struct sample *sample, const struct sample *old, int64_t to)
{
    struct changed *changed = sample->changed;
    if (!is_open(&changed[CHANGED_MAX - 1]))
        sample->fault_since = old->agreed_at;
    if (is_open(&changed[0]))
        changed[1].from = changed[0].from;
    memmove(&changed[0], &changed[1], (CHANGED_MAX - 1) * sizeof(*changed));
    changed[CHANGED_MAX - 1] = (struct changed){old->agreed, to, events_now()};
    sample->fault_at = events_now();
    sample->is_doubted = true;
    sample->doubted_until = events_now() + 2 * oracle_least_quarantine();
    sample->is_known = false;
}

void oracle_garbled(struct client *client, unsigned node)
{
    struct sample *sample = &client->node[node].sample;
    note_fault(sample, sample, client_raw(client));
    sample->is_disturbed = true;
    doubt(client);
}

/* The client measures how long a reply took by a clock that may be slewed, or a little
   ahead. */
static int64_t believed_sent(int64_t sent, int64_t heard)
{
    return sent - (heard - sent) / RL_CLOCK_SLEWED_PART - RL_CLOCK_SPREAD * VIRTUAL_US;
}

static int64_t clamped(int64_t bound, const struct sample *reply)
{
    return bound < reply->low ? reply->low : bound > reply->high ? reply->high : bound;
}

/*
 * Bounds of how far the node is ahead: what a reply that was read late leaves open, an
 * earlier one may have told. Returns how far this reply is outside of the earlier bounds;
 * they stay as they were then, so that small changes add up.
 */
static int64_t narrow(struct sample *sample, const struct sample *old)
{
    int64_t moved = drifted(sample->heard - old->heard);
    int64_t low = old->low - moved, high = old->high + moved;
    int64_t above = sample->low - high, below = low - sample->high;
    int64_t outside = above > below ? above : below;
    if (outside > 0 || low > sample->low)
        sample->low = low;
    if (outside > 0 || high < sample->high)
        sample->high = high;
    return outside;
}

void oracle_sample(struct client *client, const struct command *command)
{
    struct sample *sample = &client->node[command->node].sample, old = *sample;
    int64_t heard = client_raw(client), told = command->told_us * VIRTUAL_US;
    bool same = old.server == command->server && old.process == command->process &&
                old.history == command->history;
    /* A node that promises to be durable may be compared over its restart. */
    bool is_compared =
        same || (old.server == command->server && world.plan.promises & RL_PROMISE_DURABLE);
    bool is_blamed = old.agreed >= client->erred_at;
    bool is_quick = heard - command->said_raw < borne(0) / 2;
    int64_t sent = believed_sent(command->said_raw, heard);
    *sample = (struct sample){
        /* Before the client knows a deployment nothing depends on clocks. */
        .is_known = client->knows_deployment,
        .server = command->server,
        .process = command->process,
        .history = command->history,
        .told = told,
        .sent = sent,
        .heard = heard,
        .low = told - heard,
        .high = told - command->said_raw + drifted(heard - command->said_raw),
        .at = events_now(),
        .clock_changes = command->clock_changes,
        .first_at = same ? old.first_at : events_now(),
        .agreed = is_quick || !same ? sent : old.agreed,
        .agreed_at = is_quick || !same ? command->said : old.agreed_at,
        .is_doubted = old.is_doubted,
        .doubted_until = old.doubted_until,
        .fault_at = old.fault_at,
        .fault_since = old.fault_since,
        .seen_from = old.seen_from,
        .seen_at = same ? old.seen_at : 0,
        .is_further = old.is_further,
        .seal = old.seal,
    };
    memcpy(sample->changed, old.changed, sizeof(old.changed));
    int64_t gained = (told - heard) - (old.told - old.sent);
    int64_t lost = (old.told - old.heard) - (told - command->said_raw);
    int64_t most = borne(heard - old.sent);
    const struct sample latest = *sample;
    bool changed = command->clock_changes != old.clock_changes;
    bool moved = gained > most / 4 || lost > most / 4;
    bool is_outside = is_compared && narrow(sample, &old) > borne(0) / 4;
    bool is_fault = is_compared && (is_outside || moved || changed || old.is_disturbed);
    /* The guard that bears this keeps the nearest bounds: narrower than a first reply's. */
    if (is_fault) {
        sample->low = clamped(sample->low, &latest);
        sample->high = clamped(sample->high, &latest);
        note_fault(sample, &old, heard);
    }
    if (!old.is_known || !same || !is_blamed) {
        sample->is_doubted |= same; /* by what was told before that */
        doubt(client);
        return;
    }
    if (gained > most) {
        TRACE(
            "client %u sees that the clock of server %u gained %lld us in %lld ms, of %lld "
            "us",
            client->index + 1, command->server + 1, (long long)(gained / 1000),
            (long long)((heard - old.sent) / 1000000), (long long)(most / 1000));
        sample->seen_at = events_now();
        sample->seen_from = old.agreed;
        sample->is_further = old.at == events_now();
        /* In quarantine a node has no vote to lose. */
        sample->seal = command->seal;
        if (!sample->seal.is_active)
            sample->seal.generation = 0;
    }
    doubt(client);
}

/* The client may have dated later what it read in this iteration: it was stopped since. */
static bool is_dated_later(const struct client *client, const struct sample *sample)
{
    return sample->at >= client->process.entered && client->process.resumed > sample->at;
}

void oracle_clocks_iterated(struct client *client)
{
    for (unsigned i = 0; i < world.plan.n; i++) {
        struct sample *sample = &client->node[i].sample;
        if (!is_dated_later(client, sample))
            continue;
        sample->is_known = false;
        sample->seen_at = sample->seen_at < sample->at ? sample->seen_at : 0;
        sample->changed[CHANGED_MAX - 1].to = client_raw(client);
    }
    doubt(client);
}

/* When it saw that the clock had been set; 0: it need not have. */
int64_t oracle_clock_seen(const struct client *client, unsigned node)
{
    const struct sample *sample = &client->node[node].sample;
    bool unsure = sample->seen_at == sample->at && is_dated_later(client, sample);
    return unsure ? 0 : sample->seen_at;
}

void oracle_suspended(struct client *client, int64_t until)
{
    client->paused_until = until;
    for (unsigned i = 0; i < world.plan.n; i++) {
        client->node[i].sample.is_known = false;
        client->node[i].sample.is_disturbed = true;
        client->node[i].sample.seen_at = 0;
    }
}

bool oracle_clock_bars(const struct client *client, unsigned node, const struct vote *vote)
{
    const struct sample *sample = &client->node[node].sample;
    int64_t seen = oracle_clock_seen(client, node);
    if (world.plan.weight[FAULT_ROOM] > 0) /* it is not known when it wrote a command */
        return false;
    if (sample->is_further && seen == vote->heard) /* perhaps by a reply after the vote */
        return false;
    return seen > 0 && seen <= vote->heard &&
           vote->heard < seen + oracle_least_quarantine() &&
           sample->server == vote->server && sample->seal.generation > 0 &&
           sample->seal.id == vote->seal.id &&
           sample->seal.generation == vote->seal.generation;
}

static bool has_seen(const struct client *client, unsigned node, int64_t since)
{
    int64_t seen = oracle_clock_seen(client, node);
    return seen > 0 && seen >= since;
}

bool oracle_clock_excuses(const struct claim *claim, unsigned node,
                          const struct client *other)
{
    const struct vote *vote = &claim->vote[node];
    if (!world.plan.fenced || !oracle_ran_ahead(vote->server, vote->ran))
        return false;
    for (unsigned i = 0; i < world.plan.n; i++)
        if (other->node[i].sample.server == vote->server && has_seen(other, i, vote->ran))
            return false;
    return true;
}
