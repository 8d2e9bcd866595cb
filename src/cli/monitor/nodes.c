/* /api/nodes and /healthz: whether the nodes are fit, and whether locks can be taken. */
#include <redlock/stats.h>
#include <stdlib.h>
#include <string.h>

#include "monitor.h"

#define CHECK_MS  2000 /* it reads the clocks, too */
#define HEALTH_MS 250

/* --- the check --- */

/* The user may not do what the script that writes a marker does. */
static bool is_restricted(const redlock_node_health *node)
{
    bool restricted = false;
    for (size_t i = 0; i < node->count; i++) {
        const char *code = node->findings[i]->code;
        restricted |= strcmp(code, "no_right") == 0 || strcmp(code, "no_time") == 0;
    }
    return restricted;
}

/* Once a node has a marker, the client watches the markers: that readmits nodes. */
static void watch_members(struct monitor *monitor, const redlock_health_report *report)
{
    struct monitor_health *health = &monitor->health;
    unsigned restricted = 0;
    for (size_t i = 0; i < report->count; i++) {
        health->marked |= report->nodes[i]->generation >= 0;
        restricted += is_restricted(report->nodes[i]);
    }
    health->lacks_right = restricted > report->count - report->quorum;
    if (health->marked && !health->watches && !health->lacks_right && !monitor->no_recover)
        health->watches = redlock_client_watch_members(monitor->cli->client) == REDLOCK_OK;
}

static void checked(redlock_client *client, const redlock_health_report *report, void *arg)
{
    struct monitor *monitor = arg;
    monitor->health.checking = false;
    if (report->code != REDLOCK_OK)
        return;
    json_t *before = monitor->health.checked;
    redlock_node nodes[REDLOCK_NODES_MAX];
    redlock_client_explain(client, nodes, REDLOCK_NODES_MAX);
    monitor->health.checked = json_array();
    monitor->health.checked_us = cli_clock_us(CLOCK_BOOTTIME);
    for (size_t i = 0; i < report->count; i++)
        json_array_append_new(monitor->health.checked, cli_health_json(report->nodes[i]));
    changes_note_findings(&monitor->health.changes, nodes, before, monitor->health.checked);
    json_decref(before);
    watch_members(monitor, report);
}

static void check(void *arg)
{
    struct monitor *monitor = arg;
    if (monitor->health.checking)
        return;
    unsigned how = monitor->health.marked ? REDLOCK_CHECK_FENCED : 0;
    monitor->health.checking =
        redlock_check(monitor->cli->client, how, checked, monitor) == REDLOCK_OK;
}

/* --- whether a lock can be taken --- */

void monitor_stats(const redlock_client *client, redlock_stats *ret_stats,
                   redlock_node_stats ret_nodes[REDLOCK_NODES_MAX])
{
    redlock_stats_init(ret_stats);
    ret_stats->nodes = ret_nodes;
    ret_stats->room = REDLOCK_NODES_MAX;
    redlock_client_stats(client, ret_stats);
}

/* NULL: it can. The caller frees it. */
static char *why_unhealthy(const struct monitor *monitor, const redlock_stats *stats)
{
    const char *failure = canary_failure(&monitor->canary);
    const redlock_client *client = monitor->cli->client;
    bool votes = stats->votes >= stats->quorum;
    redlock_node nodes[REDLOCK_NODES_MAX];
    if (votes && failure)
        return cli_format("the canary failed: %s", failure);
    if (votes && (!monitor->health.watches || stats->votes_fenced >= stats->quorum))
        return NULL;
    size_t count = votes ? redlock_client_members(client, nodes, REDLOCK_NODES_MAX)
                         : redlock_client_explain(client, nodes, REDLOCK_NODES_MAX);
    char *faults = cli_faults(nodes, count);
    char *why = cli_format("%s%s%s", votes ? "fenced locks: " : "", faults,
                           cli_advice(nodes, count, stats->quorum));
    free(faults);
    return why;
}

/* NULL: it does, or no node has a marker. */
static const char *why_not_watching(const struct monitor *monitor)
{
    if (!monitor->health.marked || monitor->health.watches)
        return NULL;
    return monitor->no_recover ? "--no-recover"
                               : "its user lacks a right, see redlock check";
}

static void look(void *arg)
{
    struct monitor *monitor = arg;
    struct monitor_health *health = &monitor->health;
    bool was_healthy = health->began && !health->reason;
    redlock_node_stats stats_of[REDLOCK_NODES_MAX];
    redlock_node nodes[REDLOCK_NODES_MAX];
    redlock_stats stats;
    monitor_stats(monitor->cli->client, &stats, stats_of);
    redlock_client_explain(monitor->cli->client, nodes, REDLOCK_NODES_MAX);
    changes_note_nodes(&health->changes, nodes, stats_of, stats.count, health->watches);
    free(health->reason);
    health->reason = why_unhealthy(monitor, &stats);
    health->votes = stats.votes;
    health->votes_fenced = stats.votes_fenced;
    if (!health->began || was_healthy != !health->reason) {
        health->since_ms = cli_clock_us(CLOCK_REALTIME) / 1000;
        if (health->began || !health->reason)
            changes_note_health(&health->changes, health->reason);
    }
    health->began = true;
}

int monitor_healthz(void *arg, const struct evkeyvalq *query, struct evbuffer *body)
{
    const struct monitor *monitor = arg;
    (void)query;
    look(arg);
    const char *reason = monitor->health.reason;
    const char *unwatched = why_not_watching(monitor);
    evbuffer_add_printf(body, "%s\n", reason ? reason : "ok");
    if (unwatched)
        evbuffer_add_printf(body, "nodes of fenced locks are not watched: %s\n", unwatched);
    return reason ? 503 : 200;
}

void monitor_health_begin(struct monitor *monitor)
{
    cli_timer_begin(&monitor->health.check, monitor->cli->base, CHECK_MS, check, monitor);
    cli_timer_begin(&monitor->health.look, monitor->cli->base, HEALTH_MS, look, monitor);
    check(monitor);
}

void monitor_health_end(struct monitor *monitor)
{
    cli_timer_end(&monitor->health.check);
    cli_timer_end(&monitor->health.look);
}

void monitor_health_free(struct monitor *monitor)
{
    json_decref(monitor->health.checked);
    changes_free(&monitor->health.changes);
    free(monitor->health.reason);
}

/* --- /api/nodes --- */

/* `fenced`: their votes on fenced locks are watched. */
static json_t *node_json(const redlock_node *node, const redlock_node_stats *stats,
                         const struct changes_node *now, bool fenced, const json_t *checked)
{
    bool is_faulty = now->fault != REDLOCK_FAULT_NONE;
    json_t *votes_fenced = fenced ? json_boolean(stats->votes_fenced) : json_null();
    json_t *object =
        json_pack("{s:o, s:b, s:b, s:o, s:s, s:I, s:o, s:o, s:o, s:o}", "uri",
                  cli_json_text(node->uri), "connected", stats->connected, "votes",
                  stats->votes, "votes_fenced", votes_fenced, "state", now->state,
                  "since_ms", (json_int_t)now->since_ms, "fault",
                  is_faulty ? json_string(redlock_fault_name(now->fault)) : json_null(),
                  "text", is_faulty ? cli_json_text(now->text) : json_null(),
                  "round_trip_us", cli_json_known(node->latency_us), "remaining_ms",
                  cli_json_known(cli_ms(node->remaining_us)));
    if (checked)
        json_object_update_missing(object, (json_t *)checked);
    return object;
}

static json_t *canary_json(const struct monitor *monitor)
{
    const struct canary *canary = &monitor->canary;
    const char *prefix = monitor->cli->options.prefix;
    char *key = cli_format("%s%s", prefix ? prefix : "", canary_key(canary));
    json_t *object = json_pack("{s:b, s:o, s:o}", "writes", !canary->is_denied, "text",
                               cli_json_known_text(canary->why ? canary->why : ""), "key",
                               cli_json_text(key));
    free(key);
    return object;
}

static json_t *nodes_json(const struct monitor *monitor)
{
    const redlock_client *client = monitor->cli->client;
    const json_t *checked = monitor->health.checked;
    redlock_node node[REDLOCK_NODES_MAX];
    redlock_node_stats node_stats[REDLOCK_NODES_MAX];
    redlock_stats stats;
    monitor_stats(client, &stats, node_stats);
    redlock_client_explain(client, node, REDLOCK_NODES_MAX);
    json_t *array = json_array();
    for (size_t i = 0; i < stats.count; i++)
        json_array_append_new(
            array, node_json(&node[i], &node_stats[i], &monitor->health.changes.node[i],
                             monitor->health.watches, json_array_get(checked, i)));
    return array;
}

int monitor_api_nodes(void *arg, const struct evkeyvalq *query, struct evbuffer *body)
{
    const struct monitor *monitor = arg;
    const struct monitor_health *health = &monitor->health;
    int64_t ago_us = cli_clock_us(CLOCK_BOOTTIME) - health->checked_us;
    (void)query;
    look(arg);
    json_t *nodes = nodes_json(monitor);
    json_t *object = json_pack(
        "{s:I, s:I, s:I, s:s, s:i, s:i, s:o, s:b, s:o, s:I, s:o, s:o, s:o, s:o}", "at_ms",
        (json_int_t)(cli_clock_us(CLOCK_REALTIME) / 1000), "every_ms",
        (json_int_t)monitor->every_ms, "keep_ms", (json_int_t)monitor->keep_ms, "version",
        redlock_version(), "quorum", (int)redlock_client_quorum(monitor->cli->client),
        "votes", (int)health->votes, "votes_fenced",
        health->watches ? json_integer(health->votes_fenced) : json_null(), "healthy",
        !health->reason, "reason",
        cli_json_known_text(health->reason ? health->reason : ""), "since_ms",
        (json_int_t)health->since_ms, "canary", canary_json(monitor), "checked_ago_ms",
        health->checked ? json_integer(ago_us / 1000) : json_null(), "nodes", nodes,
        "events", changes_json(&health->changes));
    return monitor_answer(body, "nodes", object);
}
