/* How many locks /api/locks of redlock monitor keeps of a scan. */
#include <criterion/criterion.h>
#include <string.h>

#include "cli/monitor/monitor.h"

#define LOCKS_MAX 200000

static size_t locks_on_nodes;
static struct monitor monitor;

/* In place of the library's: so many locks, at once. */
redlock_code redlock_list(redlock_client *client, const void *prefix, size_t prefix_len,
                          unsigned how, redlock_list_fn *callback, void *arg)
{
    redlock_node node = {.holder = "host",
                         .value = "pabcdefghabcdefghabcdefghabcdefgh@host"};
    const redlock_node *nodes[] = {&node};
    const redlock_inspection found = {
        .quorum = 1, .agreeing = 1, .held = 1, .nodes = nodes, .count = 1};
    const redlock_listed end = {.code = REDLOCK_OK};
    (void)prefix, (void)prefix_len, (void)how;
    for (size_t i = 0; i < locks_on_nodes; i++) {
        char key[32];
        snprintf(key, sizeof(key), "job:%zu", i);
        const redlock_listed listed = {
            .key = key, .key_len = strlen(key), .inspection = &found};
        callback(client, &listed, arg);
    }
    callback(client, &end, arg);
    return REDLOCK_OK;
}

static void expect(size_t locks, bool is_truncated, const char *total)
{
    static struct cli cli;
    struct evkeyvalq query = {0};
    struct evbuffer *body = evbuffer_new();
    locks_on_nodes = locks;
    monitor.locks = monitor_locks_new(&cli);
    cr_assert_eq(monitor_api_locks(&monitor, &query, body), 200);
    evbuffer_add(body, "", 1);
    const char *text = (const char *)evbuffer_pullup(body, -1);
    cr_assert(strstr(text, is_truncated ? "\"truncated\":true" : "\"truncated\":false"));
    cr_assert(strstr(text, total));
    evbuffer_free(body);
    monitor_locks_free(monitor.locks);
}

Test(locks_scan, keeps_200000_locks)
{
    expect(LOCKS_MAX, false, "\"total\":200000,");
}

Test(locks_scan, says_that_there_are_more)
{
    expect(LOCKS_MAX + 1, true, "\"total\":200000,");
}
