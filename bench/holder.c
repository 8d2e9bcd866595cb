/*
 * Holds many leases, under watchdogs: holder TTL_MS WAIT_MS. The nodes are in
 * REDLOCK_NODES. It prints "ready", and executes the commands on stdin; it replies to each
 * when it is done, with one line of JSON:
 *
 *   hold N I     tries to acquire until it has N leases, I of them at once
 *   look         nothing
 *   extend I     extends them all
 *   release I    releases them all
 */
#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lap.h"
#include "redlock/redlock.h"

#define LEASES_MAX 1000000
#define DRAIN_MS   10000

static struct event_base *base;
static redlock_client *client;
static redlock_lease_options terms;
static redlock_lease **lease;
static unsigned begun, ended, wanted; /* by this command */
static unsigned leases, lost, failed;
static unsigned long extended;
static int64_t began;

static void answer(void)
{
    printf(
        "{\"leases\": %u, \"lost\": %u, \"failed\": %u, \"extended\": %lu, "
        "\"seconds\": %.6f}\n",
        leases, lost, failed, extended, (double)(lap_now() - began) / 1e9);
    fflush(stdout);
}

static void expect(redlock_code code, const char *what)
{
    if (code == REDLOCK_OK)
        return;
    fprintf(stderr, "%s: ", what);
    lap_fail(redlock_code_text(code));
}

/* --- holding --- */

static void on_lost(redlock_lease *which, const redlock_result *result, void *arg)
{
    (void)which;
    (void)arg;
    fprintf(stderr, "holder: lost: %s\n", redlock_code_name(result->code));
    lost++;
}

static void on_extended(redlock_lease *which, const redlock_result *result, void *arg)
{
    (void)which;
    (void)result;
    (void)arg;
    extended++;
}

static void (*next)(redlock_lease **which);

/* One of them has ended; another one begins. */
static bool goes_on(const redlock_result *result)
{
    failed += result->code != REDLOCK_OK;
    ended++;
    if (begun < wanted)
        next(&lease[begun++]);
    return ended < wanted;
}

static void on_done(redlock_lease *which, const redlock_result *result, void *arg)
{
    (void)which;
    (void)arg;
    if (!goes_on(result))
        answer();
}

static void acquire(redlock_lease **which)
{
    char key[LAP_KEY + 1];
    lap_key((unsigned)(which - lease), key);
    leases++;
    expect(redlock_acquire(client, key, LAP_KEY, &terms, on_done, NULL, which), "acquire");
}

static void extend(redlock_lease **which)
{
    expect(redlock_extend(*which, REDLOCK_AUTO, on_done, NULL), "extend");
}

/* --- releasing --- */

static void on_drained(redlock_client *which, bool clean, void *arg)
{
    (void)which;
    (void)clean;
    (void)arg;
    answer();
}

static void on_released(redlock_lease *which, const redlock_result *result, void *arg)
{
    (void)arg;
    redlock_lease_free(which);
    leases--;
    if (!goes_on(result))
        expect(redlock_client_drain(client, DRAIN_MS, on_drained, NULL), "drain");
}

static void release(redlock_lease **which)
{
    const redlock_result not_held = {.code = REDLOCK_NOT_HELD};
    if (redlock_release(*which, on_released, NULL) != REDLOCK_OK)
        on_released(*which, &not_held, NULL);
}

/* --- commands --- */

static void begin(unsigned from, unsigned count, unsigned at_once,
                  void what(redlock_lease **which))
{
    began = lap_now();
    begun = ended = from;
    wanted = count;
    failed = 0;
    next = what;
    for (unsigned i = 0; i < at_once && begun < wanted; i++)
        next(&lease[begun++]);
}

static void on_order(evutil_socket_t fd, short what, void *arg)
{
    char line[64];
    unsigned count, at_once;
    (void)fd;
    (void)what;
    (void)arg;
    if (!fgets(line, sizeof(line), stdin))
        event_base_loopbreak(base);
    else if (sscanf(line, "hold %u %u", &count, &at_once) == 2 && count > leases &&
             count <= LEASES_MAX)
        begin(leases, count, at_once, acquire);
    else if (sscanf(line, "extend %u", &at_once) == 1 && leases > 0)
        begin(0, leases, at_once, extend);
    else if (sscanf(line, "release %u", &at_once) == 1 && leases > 0)
        begin(0, leases, at_once, release);
    else if (strcmp(line, "look\n") == 0)
        answer();
    else
        lap_fail("a command is hold N I, look, extend I or release I");
}

/* All of them are allocated at the start: later growth is the library's. */
static redlock_lease **allocate_handles(void)
{
    void *pages = mmap(NULL, LEASES_MAX * sizeof(*lease), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (pages == MAP_FAILED)
        lap_fail("out of memory");
    return pages;
}

static void open_client(const redlock_options *options)
{
    const char *uri[LAP_NODES_MAX];
    size_t nodes = lap_nodes(uri);
    base = event_base_new();
    if (redlock_client_new(base, uri, nodes, options, &client) != REDLOCK_OK)
        lap_fail(redlock_last_error()->text);
}

int main(int argc, char **argv)
{
    redlock_options options;
    redlock_options_init(&options);
    redlock_lease_options_init(&terms);
    if (argc != 3 || sscanf(argv[1], "%" SCNd64, &terms.ttl_ms) != 1 ||
        sscanf(argv[2], "%" SCNd64, &terms.wait_ms) != 1)
        lap_fail("usage: holder TTL_MS WAIT_MS");
    terms.on_lost = on_lost;
    terms.on_extended = on_extended;
    options.label = LAP_LABEL;
    lease = allocate_handles();
    open_client(&options);
    struct event *orders = event_new(base, 0, EV_READ | EV_PERSIST, on_order, NULL);
    event_add(orders, NULL);
    lap_ready();
    event_base_dispatch(base);
    event_free(orders);
    redlock_client_free(client);
    event_base_free(base);
    return EXIT_SUCCESS;
}
