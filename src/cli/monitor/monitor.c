/* redlock monitor: whether the nodes are fit, and what the quorum costs, by HTTP. */
#include "monitor.h"
#include "page.h"

#define LISTEN       "127.0.0.1:9121"
#define EVERY_MS     1000
#define EVERY_MIN_MS 100
#define EVERY_MAX_MS INT64_C(3600000)
#define KEEP_MS      INT64_C(3600000)
#define REFRESH_MS   1000
#define CYCLES_MAX   INT64_C(86400) /* of the history: 24 h at 1 s */

const struct cli_help cli_monitor_help = {
    "Usage: redlock monitor [OPTION]...\n"
    "Serve a page for operators until INT or TERM: whether the nodes are fit to hold\n"
    "locks, what a lock costs, and who holds which. It takes and releases a lock of its\n"
    "own all the time, with the key \"redlock-monitor:...\". It readmits nodes of fenced\n"
    "locks that restarted.\n\n"
    "      --listen WHERE        ADDRESS:PORT or unix:PATH; default 127.0.0.1:9121\n"
    "      --allow-remote        WHERE may be an address that other hosts can reach\n"
    "      --every D             take the lock this often; default 1s, at least 100ms\n"
    "      --keep D              keep results for so long; default 1h, at most 86400\n"
    "                            times the D of --every\n"
    "      --no-recover          do not readmit nodes of fenced locks that restarted\n\n"
    "Example:\n"
    "  redlock monitor --listen 127.0.0.1:9121 --keep 24h\n",
    "\n"
    "Paths: / the page; /healthz 200, or 503 and the reason; /metrics for Prometheus;\n"
    "/api/... what the page shows, as JSON. Nothing can be changed by it.\n"
    "Without a majority it readmits nodes by the promise sole only: redlock-admit(1).\n\n"
    "Exit codes: 0 ended by INT or TERM; 78 also: it cannot listen there.\n",
};

static int send_page(void *arg, const struct evkeyvalq *query, struct evbuffer *body)
{
    (void)arg;
    (void)query;
    evbuffer_add_reference(body, cli_page, cli_page_len, NULL, NULL);
    return 200;
}

static const struct http_route routes[] = {
    {"/", HTTP_HTML, send_page, cli_page_policy, false},
    {"/api/latency", HTTP_JSON, monitor_api_latency, NULL, true},
    {"/api/locks", HTTP_JSON, monitor_api_locks, NULL, true},
    {"/api/nodes", HTTP_JSON, monitor_api_nodes, NULL, false},
    {"/api/whatif", HTTP_JSON, monitor_api_whatif, NULL, true},
    {"/healthz", HTTP_TEXT, monitor_healthz, NULL, false},
    {"/metrics", "text/plain; version=0.0.4; charset=utf-8", monitor_metrics, NULL, false},
    {NULL, NULL, NULL, NULL, false},
};

static void read_options(struct monitor *monitor, struct cli *cli, int argc, char **argv)
{
    *monitor = (struct monitor){
        .cli = cli, .listen = LISTEN, .every_ms = EVERY_MS, .keep_ms = KEEP_MS};
    const struct cli_option own[] = {
        {"listen", 0, CLI_TEXT, &monitor->listen},
        {"allow-remote", 0, CLI_FLAG, &monitor->allow_remote},
        {"every", 0, CLI_DURATION, &monitor->every_ms},
        {"keep", 0, CLI_DURATION, &monitor->keep_ms},
        {"no-recover", 0, CLI_FLAG, &monitor->no_recover},
        {NULL, 0, CLI_FLAG, NULL},
    };
    cli_parse(cli, argc, argv, own);
    if (monitor->every_ms < EVERY_MIN_MS || monitor->every_ms > EVERY_MAX_MS)
        cli_fail(CLI_USAGE, "monitor: --every is from 100ms to 1h");
    if (monitor->keep_ms < monitor->every_ms ||
        monitor->keep_ms / monitor->every_ms > CYCLES_MAX)
        cli_fail(CLI_USAGE, "monitor: --keep is from 1 to 86400 times --every");
}

static void say_where(const struct monitor *monitor)
{
    cli_say(
        monitor->cli, "monitor: the page is at %s%s", http_place(monitor->http),
        http_is_remote(monitor->http)
            ? "; everybody who can connect sees the nodes, and the keys and the holders "
              "of all locks"
            : "");
}

static void step(struct monitor *monitor)
{
    if (event_base_loop(monitor->cli->base, EVLOOP_ONCE) != 0)
        cli_fail(CLI_FAILED, "the event loop failed");
    canary_step(&monitor->canary);
}

static void run(struct monitor *monitor)
{
    while (!monitor->done)
        step(monitor);
    canary_stop(&monitor->canary);
    while (canary_is_busy(&monitor->canary))
        step(monitor);
}

int cli_monitor(struct cli *cli, int argc, char **argv)
{
    static struct monitor monitor;
    struct cli_signals signals;
    read_options(&monitor, cli, argc, argv);
    cli->more_files = HTTP_FILES_MAX + 1; /* it listens with one */
    cli_connect(cli);
    cli_signals_begin(&signals, cli->base, cli_set, &monitor.done);
    monitor.locks = monitor_locks_new(cli);
    monitor.http = http_new(cli, monitor.listen, monitor.allow_remote, routes, &monitor);
    say_where(&monitor);
    canary_begin(&monitor.canary, cli, monitor.every_ms,
                 (size_t)(monitor.keep_ms / monitor.every_ms));
    monitor_health_begin(&monitor);
    cli_timer_begin(&monitor.refresh, cli->base, REFRESH_MS, monitor_locks_refresh,
                    monitor.locks);
    run(&monitor);
    http_free(monitor.http);
    cli_timer_end(&monitor.refresh);
    monitor_health_end(&monitor);
    monitor_latency_end(&monitor);
    cli_drain(cli);
    cli_signals_end(&signals);
    canary_end(&monitor.canary);
    cli_disconnect(cli);
    monitor_health_free(&monitor); /* a check may have ended in the drain */
    monitor_locks_free(monitor.locks);
    return CLI_OK;
}
