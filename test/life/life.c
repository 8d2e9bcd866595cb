/*
 * One plain lock on the node of REDLOCK_NODES, acquired and released, with a trace of all
 * functions of the library that it enters. A lock before it warms the client up. No timer
 * may fire in between, however slow the machine is: so the timeouts are long.
 */
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>

#include "redlock/redlock.h"
#include "trace.h"

#define HOUR_MS 3600000

static struct event_base *base;

static void expect(redlock_code code, const char *what)
{
    if (code == REDLOCK_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, redlock_code_text(code));
    exit(EXIT_FAILURE);
}

static void on_result(redlock_lease *lease, const redlock_result *result, void *arg)
{
    (void)lease;
    expect(result->code, arg);
    event_base_loopbreak(base);
}

static void on_drained(redlock_client *client, bool clean, void *arg)
{
    (void)client;
    (void)arg;
    expect(clean ? REDLOCK_OK : REDLOCK_UNCONFIRMED, "drain");
    event_base_loopbreak(base);
}

/* Runs the loop until a callback ends it, and then to the end of that iteration. */
static void run(void)
{
    event_base_dispatch(base);
    event_base_loop(base, EVLOOP_NONBLOCK);
}

static void lock(redlock_client *client, bool traced)
{
    redlock_lease_options options;
    redlock_lease *lease;
    redlock_lease_options_init(&options);
    options.ttl_ms = HOUR_MS;
    if (traced)
        trace_begin();
    expect(redlock_acquire(client, "key", 3, &options, on_result, "acquire", &lease),
           "acquire");
    run();
    expect(redlock_release(lease, on_result, "release"), "release");
    run();
    redlock_lease_free(lease);
    if (traced)
        trace_end();
}

int main(void)
{
    const char *uris[] = {getenv("REDLOCK_NODES")};
    redlock_options options;
    redlock_client *client;
    redlock_error error;
    redlock_options_init(&options);
    options.node_timeout_ms = HOUR_MS;
    base = event_base_new();
    if (!uris[0] || !base) {
        fprintf(stderr, "usage: redlock local -n 1 -- life\n");
        return EXIT_FAILURE;
    }
    expect(redlock_client_new(base, uris, 1, &options, &client, &error), "client");
    lock(client, false);
    lock(client, true);
    expect(redlock_client_drain(client, HOUR_MS, on_drained, NULL), "drain");
    run();
    redlock_client_free(client);
    event_base_free(base);
    return EXIT_SUCCESS;
}
