#include "client.h"

#include <stdio.h>
#include <string.h>

#include "client/client.h"
#include "faults.h"
#include "oracle.h"
#include "world.h"

#define RETURN_MAX                                                                         \
    (2 * VIRTUAL_S) /* until a client that could not be made is tried again */

/* --- clocks --- */

int64_t client_boot(const struct client *client)
{
    const struct process *process = &client->process;
    return virtual_clock_read(&process->slewed, events_now()) + process->suspended;
}

int64_t client_raw(const struct client *client)
{
    const struct process *process = &client->process;
    return virtual_clock_read(&process->raw, events_now()) + process->suspended;
}

int64_t client_elapsed_since(const struct client *client, int64_t boot, int64_t raw)
{
    int64_t by_boot = client_boot(client) - boot, by_raw = client_raw(client) - raw;
    return by_boot > by_raw ? by_boot : by_raw;
}

int64_t client_rate(const struct client *client)
{
    const struct process *process = &client->process;
    return process->raw.ppm > process->slewed.ppm ? process->raw.ppm : process->slewed.ppm;
}

int64_t client_quarantine(void)
{
    int64_t ttl = plan_known_ttl(&world.plan);
    return world.plan.durable ? 0 : ttl + ttl / 1000000 * world.plan.drift_ppm + ttl / 10;
}

/* --- nodes --- */

unsigned client_node_at(const struct client *client, unsigned host)
{
    for (unsigned i = 0; i < world.plan.n; i++)
        if (client->address[i] == host)
            return i;
    return NODES_MAX;
}

bool client_reaches(const struct client *client, unsigned node)
{
    redlock_node nodes[NODES_MAX];
    if (!client->handle || redlock_client_explain(client->handle, nodes, NODES_MAX) <= node)
        return false;
    return nodes[node].verdict >= REDLOCK_VERDICT_READY;
}

rl_node_set client_barred_nodes(const struct client *client)
{
    rl_node_set nodes = 0;
    for (unsigned i = 0; i < world.plan.n; i++) {
        const struct acquainted *node = &client->node[i];
        int64_t until = world.plan.fenced ? node->refused_until : node->barred_until;
        if ((node->process == 0 && !node->is_doubtful) || events_now() < until)
            nodes |= rl_bit(i);
    }
    return nodes;
}

bool client_is_link(const struct client *client, const void *owner)
{
    const struct rl_nodes *nodes = &client->handle->nodes;
    for (unsigned i = 0; i < nodes->n; i++)
        if (owner == &nodes->node[i].connection)
            return true;
    return false;
}

/* --- the process --- */

static void on_span(const redlock_span *span, void *arg)
{
    oracle_told_span(arg, span);
}

static void on_event(const redlock_event *event, void *arg)
{
    const struct client *client = arg;
    TRACE("client %u logs %s", client->index + 1, event->name);
    oracle_told_event(client, event);
}

/* Every second client has them. */
static void set_callbacks(struct client *client, redlock_options *options)
{
    if (client->index % 2 == 0)
        return;
    options->log = on_event;
    options->trace = on_span;
    options->log_arg = options->trace_arg = client;
}

static void set_options(redlock_options *options)
{
    const struct plan *plan = &world.plan;
    redlock_options_init(options);
    options->quorum = plan->q;
    options->node_timeout_ms = (plan->node_timeout + VIRTUAL_MS - 1) / VIRTUAL_MS;
    options->drift_ppm = plan->drift_ppm;
    options->max_ttl_ms = plan->automatic ? REDLOCK_AUTO : plan->ttl_max / VIRTUAL_MS;
    options->durable = plan->durable;
}

/* At each change: who leads as q nodes say, and terms do not fall. */
static void on_leader(redlock_observer *observer, const redlock_leader *leader, void *arg)
{
    struct client *client = arg;
    (void)observer;
    oracle_told_leader(client, leader);
    trace_mix((uint64_t)leader->term);
}

static void observe(struct client *client)
{
    const char *key = world_key(0);
    client->term = 0;
    if (!client->handle || !world.plan.elects || client->index % 2 == 0)
        return;
    redlock_code code = redlock_observe(client->handle, key, strlen(key), on_leader, client,
                                        &client->observer);
    if (code != REDLOCK_OK && code != REDLOCK_NO_MEMORY)
        oracle_accuse(INVARIANT_TOLD, "an observer: %s", redlock_last_error()->text);
}

static void free_observer(struct client *client)
{
    redlock_observer_free(client->observer);
    client->observer = NULL;
}

static void make(void *arg)
{
    const struct plan *plan = &world.plan;
    struct client *client = arg;
    char text[NODES_MAX][32];
    const char *uris[NODES_MAX];
    redlock_options options;
    set_options(&options);
    set_callbacks(client, &options);
    for (unsigned i = 0; i < world.plan.n; i++) {
        snprintf(text[i], sizeof(text[i]), "redis://%s%u",
                 world.plan.named ? "node" : "10.0.0.", client->address[i]);
        uris[i] = text[i];
    }
    redlock_code code = redlock_client_new(process_loop(&client->process), uris,
                                           world.plan.n, &options, &client->handle);
    bool expected = code == REDLOCK_OK || code == REDLOCK_SYSTEM ||
                    (code == REDLOCK_NO_MEMORY && client->process.failed_allocations > 0);
    if (!expected)
        oracle_accuse(INVARIANT_TOLD, "client %u: %s", client->index + 1,
                      redlock_last_error()->text);
    if (client->handle && plan->window > 0)
        client->handle->nodes.window = plan->window;
    observe(client);
}

static void on_iterated(void *arg)
{
    struct client *client = arg;
    oracle_iterated(client);
    if (client->ends && client->handle)
        event_at(&client->returns, events_now());
}

static void set_faults(struct client *client)
{
    const struct plan *plan = &world.plan;
    struct process_faults *faults = &client->process.faults;
    *faults = (struct process_faults){0};
    if (world.phase != PHASE_STORM)
        return;
    unsigned rare = 400;
    faults->stall = plan->weight[FAULT_STALL] ? rare / plan->weight[FAULT_STALL] + 50 : 0;
    faults->stall_max = 2 * plan->ttl_max;
    faults->early_timer = plan->weight[FAULT_TIMER] ? 2 + rare / 20 : 0;
    faults->no_memory =
        plan->weight[FAULT_MEMORY] ? rare / plan->weight[FAULT_MEMORY] + 20 : 0;
    faults->no_random = plan->weight[FAULT_RANDOM] ? rare / 8 : 0;
}

void client_calm(struct client *client)
{
    set_faults(client);
}

static void begin_process(struct client *client)
{
    struct process before = client->process;
    char *const host = "host";
    process_begin(&client->process, host, 100 + (long)world.processes);
    if (before.host) { /* the machine is the same */
        client->process.raw = before.raw;
        client->process.slewed = before.slewed;
        client->process.suspended = before.suspended;
    }
    if (before.host && events_now() < before.suspended_until) /* it wakes up now */
        process_set_clocks(&client->process, before.raw.ppm, before.slewed.ppm);
    client->process.index = client->index;
    client->process.iterated = on_iterated;
    client->process.arg = client;
    set_faults(client);
}

void client_start(struct client *client)
{
    world_configure(client);
    client->number = ++world.processes;
    begin_process(client);
    client->is_alive = true;
    client->ends = client->is_admitting = client->founds = false;
    client->checks = client->drains = client->lists = 0;
    client->born = events_now();
    client->paused_until = client->erred_at = client->looks_since = 0;
    client->knows_deployment = false;
    client->learned_at = 0;
    memset(client->generation, 0, sizeof(client->generation));
    memset(client->node, 0, sizeof(client->node));
    client->counts = (struct counts){0};
    process_call(&client->process, make, client);
    TRACE("client %u begins as process %u", client->index + 1, client->number);
    for (unsigned i = 0; i < client->users; i++)
        user_begin(&client->user[i], client, i);
    if (!client->handle) { /* it cannot begin now */
        client_finish(client);
        event_at(&client->returns, events_now() + draw_span(VIRTUAL_MS, RETURN_MAX));
    } else if (client->users == 0) {
        event_at(&client->looks, events_now());
    }
}

static void free_leases(struct client *client, bool freed)
{
    for (unsigned i = 0; i < client->users; i++)
        user_end(&client->user[i], freed);
}

static void free_all(void *arg)
{
    struct client *client = arg;
    bool leases_first = draw_once_in(2);
    if (client->handle)
        oracle_judge_counts(client);
    oracle_frees(client);
    if (leases_first) {
        free_leases(client, true);
        free_observer(client);
    }
    redlock_client_free(client->handle);
    client->handle = NULL;
    oracle_freed(client);
    oracle_judge_spans(client);
    if (!leases_first) {
        free_leases(client, true);
        free_observer(client);
    }
}

static void count_faults(const struct process *process)
{
    world.faults[FAULT_STALL] += process->stalls;
    world.faults[FAULT_TIMER] += process->early_timers;
    world.faults[FAULT_MEMORY] += process->failed_allocations;
    world.faults[FAULT_RANDOM] += process->failed_randoms;
}

static void end(struct client *client, bool freed)
{
    count_faults(&client->process);
    event_cancel(&client->looks);
    process_end(&client->process);
    client->is_alive = false;
    oracle_ended(client, freed);
}

/* A forked child frees the handles' memory. */
static void free_as_child(void *arg)
{
    struct client *client = arg;
    client->process.forks++;
    free_leases(client, false);
    free_observer(client);
    redlock_client_free(client->handle);
    client->handle = NULL;
}

bool client_kill(struct client *client, bool power)
{
    if (client->process.inside > 0)
        return false;
    client->process.is_powerless = power;
    client->is_alive = false; /* the system closes its connections */
    process_ask(&client->process, free_as_child, client);
    end(client, false);
    return true;
}

bool client_finish(struct client *client)
{
    if (client->process.inside > 0)
        return false;
    client->process.faults = (struct process_faults){0};
    process_call(&client->process, free_all, client);
    if (client->checks + client->drains + client->lists > 0)
        oracle_accuse(INVARIANT_CALLBACK,
                      "client %u is freed, and a check or a drain waits",
                      client->index + 1);
    end(client, true);
    return true;
}

static void on_return(void *arg)
{
    struct client *client = arg;
    if (!client->is_alive)
        client_start(client);
    else if (client->ends && client_finish(client) && client->users > 0)
        event_at(&client->returns, events_now() + draw_span(VIRTUAL_MS, RETURN_MAX));
}

void client_init(struct client *client, unsigned index)
{
    *client = (struct client){.index = index};
    client->returns = (struct event){.happen = on_return, .arg = client};
    client->pauses = (struct event){.happen = fault_pause_again, .arg = client};
    process_begin(&client->process, "host", 0);
    client->process.index = index;
}
