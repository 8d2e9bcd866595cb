/* /metrics, for Prometheus. */
#include "monitor.h"

#include <redlock/stats.h>
#include <stdlib.h>

static void add_client(const redlock_client *client, struct evbuffer *body)
{
    redlock_node_stats nodes[REDLOCK_NODES_MAX];
    redlock_stats stats;
    redlock_stats_init(&stats);
    stats.nodes = nodes;
    stats.room = REDLOCK_NODES_MAX;
    redlock_client_stats(client, &stats);
    size_t len = redlock_stats_prometheus(&stats, NULL, 0, NULL, 0);
    char *text = cli_need_memory(malloc(len + 1));
    redlock_stats_prometheus(&stats, NULL, 0, text, len + 1);
    evbuffer_add(body, text, len);
    free(text);
}

static void add_locks(struct monitor_locks *locks, struct evbuffer *body)
{
    struct cli_text printed;
    monitor_locks_metrics(locks, cli_text_begin(&printed));
    char *text = cli_text_end(&printed);
    evbuffer_add(body, text, printed.size);
    free(text);
}

int monitor_metrics(void *arg, const struct evkeyvalq *query, struct evbuffer *body)
{
    const struct monitor *monitor = arg;
    (void)query;
    add_client(monitor->cli->client, body);
    add_locks(monitor->locks, body);
    return 200;
}
