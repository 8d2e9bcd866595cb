/*
 * Uses each struct that may grow: growth.py compiles it with two headers.
 *
 * usage: program PREFIX [old] NODE...
 *
 * GROWN: each of these structs has one more member than the library's, if that is `old`.
 */
#include <event2/event.h>
#include <redlock/admin.h>
#include <redlock/settings.h>
#include <redlock/stats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AFTER 64
#define FILL  0xee

static struct event_base *base;
static redlock_client *client;
static const char *const *uris;
static size_t count;
static bool is_old, is_done;
static unsigned events, spans, leaders;

#define need(right)                                                                        \
    do {                                                                                   \
        if (!(right)) {                                                                    \
            fprintf(stderr, "program.c:%d: %s: %s\n", __LINE__, #right,                    \
                    redlock_last_error()->text);                                           \
            _Exit(1);                                                                      \
        }                                                                                  \
    } while (0)

/* A struct of the caller, and what follows it, which the library must not write. */
#define GUARDED(type, name)                                                                \
    struct {                                                                               \
        type it;                                                                           \
        unsigned char after[AFTER];                                                        \
    } name;                                                                                \
    memset(&name, FILL, sizeof(name))
#define GUARDED_EACH(type, name)                                                           \
    struct {                                                                               \
        type of[REDLOCK_NODES_MAX];                                                        \
        unsigned char after[AFTER];                                                        \
    } name;                                                                                \
    memset(&name, FILL, sizeof(name))

static bool is_filled(const unsigned char after[AFTER])
{
    size_t i = 0;
    while (i < AFTER && after[i] == FILL)
        i++;
    return i == AFTER;
}

#ifdef GROWN
#define NEED_CLEAR(of) need((of).grown == 0)

/* A call that gets a member that the library does not know does not begin. */
#define REFUSES(of, call)                                                                  \
    do {                                                                                   \
        if (is_old) {                                                                      \
            (of).grown = 1;                                                                \
            need((call) == REDLOCK_UNSUPPORTED);                                           \
            (of).grown = 0;                                                                \
        }                                                                                  \
    } while (0)
#else
#define NEED_CLEAR(of)
#define REFUSES(of, call)
#endif

static void await(redlock_code started)
{
    need(started == REDLOCK_OK);
    while (!is_done)
        event_base_loop(base, EVLOOP_ONCE);
    is_done = false;
}

/* --- callbacks --- */

static void on_event(const redlock_event *event, void *arg)
{
    (void)arg;
    need(event->name && event->count > 0 && event->fields[0].name);
    events++;
}

static void on_span(const redlock_span *span, void *arg)
{
    (void)arg;
    need(span->operation && span->key_len > 0);
    spans++;
}

static void on_result(redlock_lease *lease, const redlock_result *result, void *arg)
{
    (void)lease;
    (void)arg;
    need(result->code == REDLOCK_OK && result->nodes == count);
    is_done = true;
}

static void on_admitted(redlock_client *of, const redlock_admitted *result, void *arg)
{
    (void)of;
    (void)arg;
    need(result->code == REDLOCK_OK && result->node == REDLOCK_NO_NODE);
    is_done = true;
}

static void on_inspected(redlock_client *of, const redlock_inspection *found, void *arg)
{
    (void)of;
    (void)arg;
    need(found->code == REDLOCK_OK && found->count == count);
    for (size_t i = 0; i < count; i++)
        need(found->nodes[i]->verdict == REDLOCK_VERDICT_HELD &&
             found->nodes[i]->holder[0]);
    is_done = true;
}

static void on_listed(redlock_client *of, const redlock_listed *listed, void *arg)
{
    (void)of;
    need(listed->code == REDLOCK_OK);
    if (!listed->inspection)
        is_done = true;
    else if (listed->key_len == 3 && memcmp(listed->key, "job", 3) == 0)
        *(bool *)arg = listed->inspection->nodes[count - 1]->uri != NULL;
}

static void on_checked(redlock_client *of, const redlock_health_report *report, void *arg)
{
    (void)of;
    (void)arg;
    need(report->code == REDLOCK_OK && report->count == count);
    for (size_t i = 0; i < count; i++) {
        const redlock_node_health *node = report->nodes[i];
        need(node->uri && node->version[0]);
        for (size_t k = 0; k < node->count; k++)
            need(node->findings[k]->code && node->findings[k]->text);
    }
    is_done = true;
}

static void on_leader(redlock_observer *observer, const redlock_leader *leader, void *arg)
{
    (void)observer;
    (void)arg;
    leaders += leader->code == REDLOCK_OK && leader->id[0];
    is_done = leaders > 0;
}

/* --- on a loop --- */

static void make_client(const char *prefix)
{
    GUARDED(redlock_options, options);
    redlock_options_init(&options.it);
    NEED_CLEAR(options.it);
    options.it.prefix = prefix;
    options.it.log = on_event;
    options.it.trace = on_span;
    REFUSES(options.it, redlock_client_new(base, uris, count, &options.it, &client));
    need(redlock_client_new(base, uris, count, &options.it, &client) == REDLOCK_OK);
    need(is_filled(options.after));
}

static redlock_lease *acquire(const char *key, redlock_kind kind)
{
    redlock_lease *lease;
    GUARDED(redlock_lease_options, options);
    redlock_lease_options_init(&options.it);
    NEED_CLEAR(options.it);
    options.it.kind = kind;
    REFUSES(options.it, redlock_acquire(client, key, strlen(key), &options.it, on_result,
                                        NULL, &lease));
    await(redlock_acquire(client, key, strlen(key), &options.it, on_result, NULL, &lease));
    need(is_filled(options.after));
    return lease;
}

static void look(redlock_lease *lease)
{
    GUARDED_EACH(redlock_node, all);
    need(redlock_explain(lease, all.of, 1) == count);
    need(strcmp(all.of[0].uri, uris[0]) == 0);
    need(is_filled((const unsigned char *)&all.of[1]));
    NEED_CLEAR(all.of[0]);
    need(redlock_client_explain(client, all.of, REDLOCK_NODES_MAX) == count);
    need(redlock_client_members(client, all.of, REDLOCK_NODES_MAX) == count);
    for (size_t i = 0; i < count; i++)
        need(strcmp(all.of[i].uri, uris[i]) == 0);
    need(is_filled(all.after));
}

static void count_all(void)
{
    GUARDED_EACH(redlock_node_stats, node);
    GUARDED(redlock_stats, stats);
    redlock_stats_init(&stats.it);
    NEED_CLEAR(stats.it);
    REFUSES(stats.it, redlock_client_stats(client, &stats.it));
    stats.it.nodes = node.of;
    stats.it.room = count;
    need(redlock_client_stats(client, &stats.it) == REDLOCK_OK);
    need(stats.it.count == count && stats.it.acquire_results[REDLOCK_OK] == 2);
    need(redlock_histogram_count(&stats.it.acquire_time) == 2);
    for (size_t i = 0; i < count; i++)
        need(strcmp(node.of[i].uri, uris[i]) == 0 && node.of[i].connected);
    need(redlock_stats_prometheus(&stats.it, &(redlock_label){"job", "x"}, 1, NULL, 0) > 0);
    need(is_filled(stats.after) && is_filled(node.after));
}

static void on_a_loop(const char *prefix)
{
    redlock_observer *observer;
    bool is_listed = false;
    base = event_base_new();
    make_client(prefix);
    await(redlock_admit(client, REDLOCK_ADMIT_AT_ONCE, 0, on_admitted, NULL));
    redlock_lease *job = acquire("job", REDLOCK_KIND_EXCLUSIVE);
    look(job);
    await(redlock_inspect(client, "job", 3, on_inspected, NULL));
    await(redlock_list(client, "", 0, 0, on_listed, &is_listed));
    need(is_listed);
    await(redlock_check(client, 0, on_checked, NULL));
    redlock_lease *leads = acquire("leads", REDLOCK_KIND_ELECTION);
    await(redlock_observe(client, "leads", 5, on_leader, NULL, &observer));
    count_all();
    await(redlock_release(job, on_result, NULL));
    await(redlock_release(leads, on_result, NULL));
    redlock_observer_free(observer);
    redlock_lease_free(job);
    redlock_lease_free(leads);
    redlock_client_free(client);
    event_base_free(base);
    need(events > 0 && spans > 0);
}

/* --- in threads --- */

static void lock(redlock_sync *sync)
{
    redlock_hold *mine, *none;
    GUARDED_EACH(redlock_node, node);
    GUARDED(redlock_lock_options, options);
    GUARDED(redlock_failure, failure);
    redlock_lock_options_init(&options.it);
    redlock_failure_init(&failure.it);
    NEED_CLEAR(options.it);
    NEED_CLEAR(failure.it);
    options.it.failure = &failure.it;
    failure.it.nodes = node.of;
    failure.it.room = count;
    REFUSES(options.it, redlock_lock(sync, "t", 1, &options.it, &mine));
    REFUSES(failure.it, redlock_lock(sync, "t", 1, &options.it, &mine));
    need(redlock_lock(sync, "t", 1, &options.it, &mine) == REDLOCK_OK);
    need(failure.it.error->code == REDLOCK_OK);
    need(redlock_try_lock(sync, "t", 1, &options.it, &none) == REDLOCK_TAKEN);
    need(failure.it.error->code == REDLOCK_TAKEN && failure.it.error->text[0]);
    options.it.ttl_ms = -1;
    need(redlock_lock_for(sync, "t", 1, 1, &options.it, &none) == REDLOCK_BAD_TTL);
    need(strcmp(redlock_last_error()->field, "ttl_ms") == 0);
    need(is_filled(options.after) && is_filled(failure.after) && is_filled(node.after));
    need(redlock_unlock(mine, REDLOCK_CONFIRM) == REDLOCK_OK);
    redlock_hold_free(mine);
}

static void in_threads(void)
{
    redlock_settings *settings;
    redlock_sync *sync;
    GUARDED(redlock_options, options);
    need(redlock_settings_read("/dev/null", NULL, &settings) == REDLOCK_OK);
    need(settings->count == count && settings->ttl_ms == REDLOCK_TTL_MS);
    need(redlock_settings_options(settings, &options.it) == REDLOCK_OK);
    NEED_CLEAR(options.it);
    need(options.it.size == sizeof(options.it) && is_filled(options.after));
    need(redlock_sync_new(settings->uris, count, &options.it, &sync) == REDLOCK_OK);
    redlock_settings_free(settings);
    lock(sync);
    redlock_sync_free(sync);
}

int main(int argc, char **argv)
{
    is_old = strcmp(argv[2], "old") == 0;
    uris = (const char *const *)argv + 2 + is_old;
    count = (size_t)(argc - 2 - is_old);
    on_a_loop(argv[1]);
    in_threads();
    return 0;
}
