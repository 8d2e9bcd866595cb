/* /healthz: whether a quorum of nodes votes. */
#include "monitor.h"

#include <redlock/stats.h>
#include <stdlib.h>

/* Why no lock can be taken now; NULL: one can. The caller frees it. */
static char *why_unhealthy(const struct monitor *monitor)
{
    const redlock_client *client = monitor->cli->client;
    redlock_node nodes[REDLOCK_NODES_MAX];
    size_t count = redlock_client_explain(client, nodes, REDLOCK_NODES_MAX);
    redlock_stats stats;
    redlock_stats_init(&stats);
    redlock_client_stats(client, &stats);
    if (stats.votes >= stats.quorum)
        return NULL;
    char *faults = cli_faults(nodes, count);
    char *why = cli_format("%s%s", faults, cli_advice(nodes, count, stats.quorum));
    free(faults);
    return why;
}

int monitor_healthz(void *arg, const struct evkeyvalq *query, struct evbuffer *body)
{
    char *why = why_unhealthy(arg);
    (void)query;
    evbuffer_add_printf(body, "%s\n", why ? why : "ok");
    free(why);
    return why ? 503 : 200;
}
