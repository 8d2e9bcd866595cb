/*
 * A contender of the races (lap.h): libredlock itself. `cycle sync` runs a thread for each
 * lane, and `cycle again` too: there each thread has the lock, and a cycle locks it once
 * more. All others run all lanes in one loop: `async` with plain locks, `grant` too, but
 * its figures end when the lock is granted, `many` with sets of four keys, the rest with
 * the kind of lock that they name. Options of the client follow as NAME=NUMBER, or
 * cacert=FILE.
 */
#include <event2/event.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lap.h"
#include "redlock/redlock.h"
#include "redlock/sync.h"

static struct lap lap;

static void expect(redlock_code code, const char *what)
{
    if (code == REDLOCK_OK)
        return;
    fprintf(stderr, "%s: ", what);
    lap_fail(redlock_code_text(code));
}

/* --- in a loop --- */

#define SET_SIZE 4
#define SLOTS    3

struct lane {
    char key[SET_SIZE][LAP_KEY + 1];
    redlock_lease *lease;
    int64_t began;
};

static struct event_base *base;
static redlock_client *client;
static redlock_lease_options terms;
static size_t set_size = 1;
static bool to_grant; /* a release is not part of the figures */
static struct lane lane[LAP_LANES_MAX];
static unsigned running;
static struct lap_log log;

static void end_lap(redlock_client *ended, bool clean, void *arg)
{
    (void)ended;
    (void)clean;
    (void)arg;
    lap_end(&lap, &log, 1);
}

static void begin_cycle(struct lane *self, int64_t now);

/* If the nodes were too slow, another try at once would fail again. */
static void begin_again(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    begin_cycle(arg, lap_now());
}

static void on_released(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct lane *self = arg;
    static const struct timeval pause = {.tv_usec = 1000};
    int64_t now = lap_now();
    bool failed = result->code != REDLOCK_OK;
    if (!failed && !to_grant)
        lap_note(&log, now - self->began);
    log.failed += failed;
    redlock_lease_free(lease);
    bool goes_on = lap_goes_on(&lap, now);
    if (goes_on && failed)
        event_base_once(base, -1, EV_TIMEOUT, begin_again, self, &pause);
    else if (goes_on)
        begin_cycle(self, now);
    else if (--running == 0)
        expect(redlock_client_drain(client, 1000, end_lap, NULL), "drain");
}

/*
 * Ends the lap if it waits for a node, and that node has voted, or gets no more commands.
 */
static void look_at_node(const redlock_lease *lease)
{
    redlock_node seen[LAP_NODES_MAX];
    unsigned node = (unsigned)lap.order.end;
    bool until_vote = lap.order.unit == LAP_UNTIL_VOTE;
    if (lap.order.unit != LAP_UNTIL_GONE && !until_vote)
        return;
    size_t nodes = until_vote ? redlock_explain(lease, seen, LAP_NODES_MAX)
                              : redlock_client_explain(client, seen, LAP_NODES_MAX);
    if (node >= nodes)
        lap_fail("there is no such node");
    if (until_vote ? seen[node].verdict == REDLOCK_VERDICT_GRANTED
                   : seen[node].verdict != REDLOCK_VERDICT_READY)
        lap.ends = lap_now();
}

static void on_acquired(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct lane *self = arg;
    look_at_node(lease);
    if (to_grant && result->code == REDLOCK_OK)
        lap_note(&log, lap_now() - self->began);
    if (result->code == REDLOCK_OK)
        expect(redlock_release(lease, on_released, arg), "release");
    else
        on_released(lease, result, arg);
}

static void begin_cycle(struct lane *self, int64_t now)
{
    self->began = now;
    redlock_key set[SET_SIZE];
    if (set_size == 1) {
        expect(redlock_acquire(client, self->key[0], LAP_KEY, &terms, on_acquired, self,
                               &self->lease),
               "acquire");
        return;
    }
    for (size_t i = 0; i < set_size; i++)
        set[i] = (redlock_key){self->key[i], LAP_KEY};
    expect(redlock_acquire_many(client, set, set_size, &terms, on_acquired, self,
                                &self->lease),
           "acquire");
}

static void on_order(evutil_socket_t fd, short what, void *arg)
{
    struct lap_order order;
    (void)fd;
    (void)what;
    (void)arg;
    if (!lap_read_order(&order)) {
        event_base_loopbreak(base);
        return;
    }
    lap_begin(&lap, &order);
    running = order.lanes;
    for (unsigned i = 0; i < order.lanes; i++)
        begin_cycle(&lane[i], lap_now());
}

static void cycle_in_loop(const char *const *uris, size_t nodes,
                          const redlock_options *options, const char *kind)
{
    base = event_base_new();
    if (redlock_client_new(base, uris, nodes, options, &client) != REDLOCK_OK)
        lap_fail(redlock_last_error()->text);
    redlock_lease_options_init(&terms);
    terms.ttl_ms = LAP_TTL_MS;
    terms.fenced = strcmp(kind, "fenced") == 0;
    if (strcmp(kind, "redisson") == 0)
        terms.kind = REDLOCK_KIND_REDISSON;
    if (strcmp(kind, "shared") == 0)
        terms.kind = REDLOCK_KIND_SHARED;
    if (strcmp(kind, "slots") == 0) {
        terms.kind = REDLOCK_KIND_SLOT;
        terms.slots = SLOTS;
    }
    set_size = strcmp(kind, "many") == 0 ? SET_SIZE : 1;
    to_grant = strcmp(kind, "grant") == 0;
    for (unsigned i = 0; i < LAP_LANES_MAX; i++)
        for (unsigned j = 0; j < set_size; j++)
            lap_key(j * LAP_LANES_MAX + i, lane[i].key[j]);
    struct event *orders = event_new(base, 0, EV_READ | EV_PERSIST, on_order, NULL);
    event_add(orders, NULL);
    lap_log_init(&log);
    lap_ready();
    event_base_dispatch(base);
    event_free(orders);
    redlock_client_free(client);
    event_base_free(base);
    lap_log_clear(&log);
}

/* --- in threads --- */

struct worker {
    pthread_t thread;
    char key[LAP_KEY + 1];
    struct lap_log log;
};

static redlock_sync *sync_nodes;
static bool again;
static struct worker worker[LAP_LANES_MAX];

static void *cycle_in_thread(void *arg)
{
    struct worker *self = arg;
    redlock_lock_options options;
    redlock_lock_options_init(&options);
    options.ttl_ms = LAP_TTL_MS;
    options.recursive = again;
    redlock_hold *outer = NULL;
    if (again)
        expect(redlock_lock(sync_nodes, self->key, LAP_KEY, &options, &outer), "lock");
    int64_t now = lap_now();
    do {
        redlock_hold *hold;
        int64_t began = now;
        redlock_code code = redlock_lock(sync_nodes, self->key, LAP_KEY, &options, &hold);
        self->log.denied += code != REDLOCK_OK;
        if (code == REDLOCK_OK) {
            code = redlock_unlock(hold, REDLOCK_CONFIRM);
            redlock_hold_free(hold);
        }
        now = lap_now();
        if (code == REDLOCK_OK)
            lap_note(&self->log, now - began);
        else
            self->log.failed++;
    } while (lap_goes_on(&lap, now));
    redlock_hold_free(outer);
    return NULL;
}

static void cycle_in_threads(const char *const *uris, size_t nodes,
                             const redlock_options *options)
{
    struct lap_order order;
    if (redlock_sync_new(uris, nodes, options, &sync_nodes) != REDLOCK_OK)
        lap_fail(redlock_last_error()->text);
    for (unsigned i = 0; i < LAP_LANES_MAX; i++) {
        lap_key(i, worker[i].key);
        lap_log_init(&worker[i].log);
    }
    lap_ready();
    while (lap_read_order(&order)) {
        struct lap_log all[LAP_LANES_MAX];
        lap_begin(&lap, &order);
        for (unsigned i = 0; i < order.lanes; i++)
            if (pthread_create(&worker[i].thread, NULL, cycle_in_thread, &worker[i]) != 0)
                lap_fail("no thread");
        for (unsigned i = 0; i < order.lanes; i++) {
            pthread_join(worker[i].thread, NULL);
            all[i] = worker[i].log;
            worker[i].log.cycles = worker[i].log.failed = worker[i].log.denied = 0;
        }
        lap_end(&lap, all, order.lanes);
    }
    redlock_sync_free(sync_nodes);
    for (unsigned i = 0; i < LAP_LANES_MAX; i++)
        lap_log_clear(&worker[i].log);
}

/* --- beginning --- */

static void set_option(redlock_options *options, const char *word)
{
    int durable;
    static const char cacert[] = "cacert=";
    if (strncmp(word, cacert, strlen(cacert)) == 0) {
        options->tls_ca_file = word + strlen(cacert);
        return;
    }
    if (sscanf(word, "node_timeout_ms=%" SCNd64, &options->node_timeout_ms) == 1 ||
        sscanf(word, "max_ttl_ms=%" SCNd64, &options->max_ttl_ms) == 1)
        return;
    if (sscanf(word, "durable=%d", &durable) != 1)
        lap_fail(
            "an option is node_timeout_ms, max_ttl_ms or durable, =NUMBER, or cacert=FILE");
    options->durable = durable;
}

int main(int argc, char **argv)
{
    const char *uri[LAP_NODES_MAX], *how = argc > 1 ? argv[1] : "";
    size_t nodes = lap_nodes(uri);
    redlock_options options;
    redlock_options_init(&options);
    options.label = LAP_LABEL;
    for (int i = 2; i < argc; i++)
        set_option(&options, argv[i]);
    again = strcmp(how, "again") == 0;
    if (again || strcmp(how, "sync") == 0)
        cycle_in_threads(uri, nodes, &options);
    else if (*how && strstr(" async grant fenced many redisson shared slots ", how))
        cycle_in_loop(uri, nodes, &options, how);
    else
        lap_fail(
            "usage: cycle async|grant|fenced|many|redisson|shared|slots|sync|again "
            "[OPTION=NUMBER...]");
    return EXIT_SUCCESS;
}
