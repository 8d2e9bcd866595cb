/* /api/nodes and /healthz: whether the nodes are fit, and whether locks can be taken. */
#include <redlock/stats.h>
#include <stdlib.h>

#include "monitor.h"

#define CHECK_MS  60000 /* from one check to the next, unless a node comes or goes */
#define HEALTH_MS 1000

/* --- the check --- */

static void checked(redlock_client *client, const redlock_health_report *report, void *arg)
{
    struct monitor *monitor = arg;
    (void)client;
    monitor->health.checking = false;
    if (report->code != REDLOCK_OK)
        return;
    json_decref(monitor->health.checked);
    monitor->health.checked = json_array();
    monitor->health.checked_us = cli_clock_us(CLOCK_BOOTTIME);
    for (size_t i = 0; i < report->count; i++)
        json_array_append_new(monitor->health.checked, cli_health_json(report->nodes[i]));
}

static void check(void *arg)
{
    struct monitor *monitor = arg;
    if (monitor->health.checking)
        return;
    monitor->health.checked_links = monitor->health.links;
    monitor->health.checking =
        redlock_check(monitor->cli->client, 0, checked, monitor) == REDLOCK_OK;
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
    redlock_node nodes[REDLOCK_NODES_MAX];
    if (stats->votes >= stats->quorum)
        return failure ? cli_format("the canary failed: %s", failure) : NULL;
    size_t count = redlock_client_explain(monitor->cli->client, nodes, REDLOCK_NODES_MAX);
    char *faults = cli_faults(nodes, count);
    char *why = cli_format("%s%s", faults, cli_advice(nodes, count, stats->quorum));
    free(faults);
    return why;
}

static void look(void *arg)
{
    struct monitor *monitor = arg;
    struct monitor_health *health = &monitor->health;
    bool was_healthy = health->began && !health->reason;
    redlock_node_stats nodes[REDLOCK_NODES_MAX];
    redlock_stats stats;
    monitor_stats(monitor->cli->client, &stats, nodes);
    free(health->reason);
    health->reason = why_unhealthy(monitor, &stats);
    health->votes = stats.votes;
    health->links = 0;
    for (size_t i = 0; i < stats.count; i++)
        health->links = 4 * health->links + 2 * nodes[i].votes + nodes[i].connected;
    if (health->links != health->checked_links)
        check(monitor);
    if (!health->began || was_healthy != !health->reason)
        health->since_ms = cli_clock_us(CLOCK_REALTIME) / 1000;
    health->began = true;
}

int monitor_healthz(void *arg, const struct evkeyvalq *query, struct evbuffer *body)
{
    const struct monitor *monitor = arg;
    (void)query;
    look(arg);
    const char *reason = monitor->health.reason;
    evbuffer_add_printf(body, "%s\n", reason ? reason : "ok");
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
    free(monitor->health.reason);
}

/* --- /api/nodes --- */

/* Some node has a marker: these nodes were admitted for fenced locks. */
static bool are_fenced(const json_t *checked)
{
    size_t i;
    json_t *node;
    json_array_foreach(checked, i, node)
    {
        if (!json_is_null(json_object_get(json_object_get(node, "fenced"), "generation")))
            return true;
    }
    return false;
}

/* `member`: NULL if the nodes were not admitted for fenced locks. */
static json_t *node_json(const redlock_node *node, const redlock_node_stats *stats,
                         const redlock_node *member, const json_t *checked)
{
    bool is_faulty = node->fault != REDLOCK_FAULT_NONE;
    json_t *votes_fenced =
        member ? json_boolean(member->verdict == REDLOCK_VERDICT_ACTIVE) : json_null();
    json_t *object = json_pack(
        "{s:o, s:b, s:b, s:o, s:s, s:o, s:o, s:o, s:o}", "uri", cli_json_text(node->uri),
        "connected", stats->connected, "votes", stats->votes, "votes_fenced", votes_fenced,
        "state", redlock_verdict_name(node->verdict), "fault",
        is_faulty ? json_string(redlock_fault_name(node->fault)) : json_null(), "text",
        is_faulty ? cli_json_text(node->text) : json_null(), "round_trip_us",
        cli_json_known(node->latency_us), "remaining_ms",
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

static json_t *nodes_json(const struct monitor *monitor, unsigned *ret_fenced)
{
    const redlock_client *client = monitor->cli->client;
    const json_t *checked = monitor->health.checked;
    redlock_node node[REDLOCK_NODES_MAX], member[REDLOCK_NODES_MAX];
    redlock_node_stats node_stats[REDLOCK_NODES_MAX];
    redlock_stats stats;
    monitor_stats(client, &stats, node_stats);
    redlock_client_explain(client, node, REDLOCK_NODES_MAX);
    redlock_client_members(client, member, REDLOCK_NODES_MAX);
    bool fenced = are_fenced(checked);
    json_t *array = json_array();
    for (size_t i = 0; i < stats.count; i++) {
        *ret_fenced += member[i].verdict == REDLOCK_VERDICT_ACTIVE;
        json_array_append_new(array, node_json(&node[i], &node_stats[i],
                                               fenced ? &member[i] : NULL,
                                               json_array_get(checked, i)));
    }
    return array;
}

int monitor_api_nodes(void *arg, const struct evkeyvalq *query, struct evbuffer *body)
{
    const struct monitor *monitor = arg;
    const struct monitor_health *health = &monitor->health;
    int64_t ago_us = cli_clock_us(CLOCK_BOOTTIME) - health->checked_us;
    unsigned fenced = 0;
    (void)query;
    look(arg);
    json_t *nodes = nodes_json(monitor, &fenced);
    json_t *object = json_pack(
        "{s:I, s:I, s:I, s:s, s:i, s:i, s:o, s:b, s:o, s:I, s:o, s:o, s:o}", "at_ms",
        (json_int_t)(cli_clock_us(CLOCK_REALTIME) / 1000), "every_ms",
        (json_int_t)monitor->every_ms, "keep_ms", (json_int_t)monitor->keep_ms, "version",
        redlock_version(), "quorum", (int)redlock_client_quorum(monitor->cli->client),
        "votes", (int)health->votes, "votes_fenced",
        are_fenced(health->checked) ? json_integer(fenced) : json_null(), "healthy",
        !health->reason, "reason",
        cli_json_known_text(health->reason ? health->reason : ""), "since_ms",
        (json_int_t)health->since_ms, "canary", canary_json(monitor), "checked_ago_ms",
        health->checked ? json_integer(ago_us / 1000) : json_null(), "nodes", nodes);
    return monitor_answer(body, "nodes", object);
}
