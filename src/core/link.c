#include "link.h"

#include <assert.h>
#include <string.h>

#include "retry.h"

void rl_link_init(struct rl_link *link, const struct rl_link_params *params, rl_time now)
{
    memset(link, 0, sizeof(*link));
    link->params = *params;
    link->state = RL_LINK_DOWN;
    link->fault = RL_FAULT_CONNECTING;
    link->retry_at = now;
    link->oldest = RL_NEVER;
}

static rl_time timeout(const struct rl_link *link)
{
    if (link->params.node_timeout > 0)
        return link->params.node_timeout;
    return rl_clamp(4 * link->round_trip, RL_SUSPECT_FLOOR, RL_SUSPECT_CAP);
}

static rl_time give_up_at(const struct rl_link *link)
{
    return rl_time_add_sat(link->oldest, rl_max(RL_GIVE_UP, 4 * timeout(link)));
}

/* Only a READY node votes (safety.md, rule 8). */
bool rl_link_is_ready(const struct rl_link *link)
{
    return link->state == RL_LINK_READY;
}

/* These nodes get releases (safety.md, rules 3 and 8). */
bool rl_link_is_open(const struct rl_link *link)
{
    return link->state >= RL_LINK_READY;
}

bool rl_link_is_awake(const struct rl_link *link)
{
    return link->state == RL_LINK_READY || link->state == RL_LINK_QUARANTINED;
}

bool rl_link_was_tried(const struct rl_link *link)
{
    return rl_link_is_open(link) || link->failures > 0;
}

/* Half of the backoff is random, so that clients do not reconnect at the same time. */
static void go_down(struct rl_link *link, const struct rl_link_event *event,
                    enum rl_fault fault)
{
    bool hopeless = rl_fault_is_denial(fault) || fault == RL_FAULT_CLUSTER ||
                    fault == RL_FAULT_DUPLICATE;
    bool lasted = rl_link_is_open(link) && event->now >= link->greeted_at + RL_BACKOFF_CAP;
    if (lasted)
        link->failures = 0;
    if (rl_link_is_open(link))
        link->restarted = false;
    rl_time cap = hopeless ? RL_DENIED_CAP : RL_BACKOFF_CAP;
    rl_time delay = rl_backoff(RL_BACKOFF_BASE, cap, link->failures);
    link->retry_at =
        rl_time_add_sat(event->now, delay / 2 + rl_uniform(event->random, delay / 2));
    link->state = RL_LINK_DOWN;
    link->fault = fault;
    link->oldest = RL_NEVER;
    link->failures++;
}

/* The node must not execute what it has not received yet (safety.md, rule 3). */
static enum rl_link_action abort_link(struct rl_link *link,
                                      const struct rl_link_event *event,
                                      enum rl_fault fault)
{
    go_down(link, event, fault);
    return RL_LINK_ABORT;
}

const char *rl_identity_server_id(const struct rl_identity *identity)
{
    const struct rl_process *process = &identity->process;
    if (process->run_id[0] || !identity->is_master)
        return process->run_id;
    for (size_t i = 0; i < RL_RUN_ID; i++)
        if (process->replid[i] != '0') /* all are: it has no history */
            return process->replid;
    return "";
}

/* Each of these nodes would break A4 (safety.md, rule 8). */
static enum rl_fault evaluate(const struct rl_identity *identity)
{
    if (identity->denied != RL_FAULT_NONE)
        return identity->denied;
    if (identity->is_cluster)
        return RL_FAULT_CLUSTER;
    if (!identity->has_role)
        return RL_FAULT_NO_ROLE;
    if (!identity->is_master)
        return RL_FAULT_REPLICA;
    if (identity->is_loading)
        return RL_FAULT_LOADING;
    if (identity->is_duplicate)
        return RL_FAULT_DUPLICATE;
    if (identity->no_scripts != RL_FAULT_NONE)
        return identity->no_scripts;
    return rl_identity_server_id(identity)[0] ? RL_FAULT_NONE : RL_FAULT_NO_RUN_ID;
}

/* QUARANTINED while locks that the node may have forgotten can be held; then READY
   (safety.md, rule 8). */
static void admit(struct rl_link *link, rl_time now)
{
    bool quarantined = now < link->quarantine_until;
    link->state = quarantined ? RL_LINK_QUARANTINED : RL_LINK_READY;
    link->fault = quarantined ? RL_FAULT_QUARANTINE : RL_FAULT_NONE;
}

/* (safety.md, rule 8) */
void rl_link_set_quarantine(struct rl_link *link, rl_time quarantine)
{
    link->params.quarantine = quarantine;
    if (link->seen_restart > 0)
        link->quarantine_until = rl_time_add_sat(link->seen_restart, quarantine);
}

/*
 * Records the id of every server that replies to the greeting, even if the link refuses
 * it. A node that is refused first, because it loads its data or is a duplicate, must not
 * look like a new one when the link accepts it later: the restart would go unnoticed
 * (safety.md, rule 8).
 */
static void recognise(struct rl_link *link, const struct rl_link_event *event)
{
    const struct rl_identity *identity = event->identity;
    const char *server_id = rl_identity_server_id(identity);
    bool another = link->server_id[0] && memcmp(link->server_id, server_id, RL_RUN_ID) != 0;
    if (another && link->params.quarantine > 0) {
        link->restarted = true;
        link->seen_restart = event->now;
        rl_link_set_quarantine(link, link->params.quarantine);
    }
    link->duplicate = identity->is_duplicate;
    memcpy(link->server_id, server_id, RL_RUN_ID);
}

static enum rl_link_action greeted(struct rl_link *link, const struct rl_link_event *event)
{
    enum rl_fault fault = evaluate(event->identity);
    if (rl_identity_server_id(event->identity)[0])
        recognise(link, event);
    if (fault != RL_FAULT_NONE)
        return abort_link(link, event, fault);
    link->oldest = RL_NEVER;
    link->shortest_trip = rl_max(event->now - link->greeted_at, 1);
    if (link->round_trip == 0)
        link->round_trip = link->shortest_trip;
    admit(link, event->now);
    return RL_LINK_NOTHING;
}

static void answered(struct rl_link *link, const struct rl_link_event *event)
{
    rl_time sample = rl_max(event->now - event->sent, 1);
    link->oldest = event->oldest;
    link->shortest_trip = rl_min(link->shortest_trip, sample);
    if (link->state == RL_LINK_SUSPECT) {
        if (link->oldest == RL_NEVER || event->now < link->oldest + timeout(link)) {
            /* One long reply may be a node that hung, so the estimate at most doubles. A
               node that is always late is only distant. */
            link->round_trip = rl_clamp(sample, link->round_trip, 2 * link->round_trip);
            admit(link, event->now);
        }
        return;
    }
    link->round_trip = (7 * link->round_trip + sample + 7) / 8;
}

static enum rl_link_action link_tick(struct rl_link *link,
                                     const struct rl_link_event *event)
{
    rl_time now = event->now;
    switch (link->state) {
    case RL_LINK_DOWN:
        if (now < link->retry_at)
            return RL_LINK_NOTHING;
        link->state = RL_LINK_CONNECTING;
        link->since = now;
        return RL_LINK_CONNECT;
    case RL_LINK_CONNECTING:
    case RL_LINK_GREETING:
        if (now < rl_time_add_sat(link->since, link->params.connect_timeout))
            return RL_LINK_NOTHING;
        return abort_link(link, event, RL_FAULT_TIMEOUT);
    case RL_LINK_QUARANTINED:
    case RL_LINK_READY:
    case RL_LINK_SUSPECT: /* a release must not overtake (safety.md, rule 3) */
        if (now >= give_up_at(link))
            return abort_link(link, event, RL_FAULT_TIMEOUT);
        if (now >= rl_time_add_sat(link->oldest, timeout(link))) {
            link->state = RL_LINK_SUSPECT;
            link->fault = RL_FAULT_TIMEOUT;
        } else if (link->state != RL_LINK_SUSPECT) {
            admit(link, now);
        }
        return RL_LINK_NOTHING;
    }
    return RL_LINK_NOTHING;
}

enum rl_link_action rl_link_step(struct rl_link *link, const struct rl_link_event *event)
{
    switch (event->type) {
    case RL_LINK_TICK: return link_tick(link, event);
    case RL_LINK_CONNECTED:
        assert(link->state == RL_LINK_CONNECTING);
        link->state = RL_LINK_GREETING;
        link->greeted_at = event->now;
        return RL_LINK_GREET;
    case RL_LINK_GREETED:
        assert(link->state == RL_LINK_GREETING);
        return greeted(link, event);
    case RL_LINK_SENT: link->oldest = rl_min(link->oldest, event->now); break;
    case RL_LINK_ANSWERED: answered(link, event); break;
    case RL_LINK_FAULT:
    case RL_LINK_FAILED: return abort_link(link, event, event->fault);
    }
    return RL_LINK_NOTHING;
}

bool rl_link_wants_reply(const struct rl_link *link, rl_time now, rl_time oldest)
{
    return link->state != RL_LINK_READY || oldest < link->oldest ||
           oldest - link->oldest >= rl_min(RL_LINK_GRAIN, timeout(link) / 8) ||
           now - oldest >= timeout(link) / 2;
}

rl_time rl_link_next(const struct rl_link *link)
{
    switch (link->state) {
    case RL_LINK_DOWN: return link->retry_at;
    case RL_LINK_CONNECTING:
    case RL_LINK_GREETING:
        return rl_time_add_sat(link->since, link->params.connect_timeout);
    case RL_LINK_READY: return rl_time_add_sat(link->oldest, timeout(link));
    case RL_LINK_QUARANTINED:
        return rl_min(link->quarantine_until, rl_time_add_sat(link->oldest, timeout(link)));
    case RL_LINK_SUSPECT: return give_up_at(link);
    }
    return RL_NEVER;
}

void rl_startup_barrier_init(struct rl_startup_barrier *barrier, rl_time now,
                             rl_time node_timeout, rl_time connect_timeout)
{
    *barrier = (struct rl_startup_barrier){
        .over_at = RL_NEVER,
        .start = now,
        .grace = rl_max(node_timeout, RL_STARTUP_GRACE),
        .deadline = rl_time_add_sat(now, connect_timeout),
    };
}

bool rl_startup_barrier_step(struct rl_startup_barrier *barrier, unsigned n, unsigned q,
                             rl_node_set ready, rl_node_set tried, rl_time now)
{
    if (barrier->over_at != RL_NEVER)
        return true;
    bool out_of_reach = rl_count(tried & ~ready) > n - q;
    if (rl_count(ready) >= q || out_of_reach) {
        rl_time grace = rl_max(now - barrier->start, barrier->grace);
        barrier->deadline = rl_min(barrier->deadline, rl_time_add_sat(now, grace));
    }
    bool all_tried = rl_count(tried) == n;
    if (all_tried || now >= barrier->deadline)
        barrier->over_at = now;
    return barrier->over_at != RL_NEVER;
}
