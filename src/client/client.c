#include "client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "drain.h"

/* --- what the loop calls --- */

static bool has_room(struct rl_loop *loop)
{
    return rl_nodes_have_room(&((redlock_client *)loop)->nodes);
}

static void write_queued(struct rl_loop *loop)
{
    rl_nodes_write(&((redlock_client *)loop)->nodes);
}

static void free_client(redlock_client *client, bool forked)
{
    rl_notifications_close(&client->notifications, forked);
    rl_nodes_close(&client->nodes, forked);
    rl_loop_close(&client->loop);
    rl_options_clear(&client->options);
    free(client->config);
    free(client);
}

static void close_client(struct rl_loop *loop)
{
    free_client((redlock_client *)loop, false);
}

static const struct rl_loop_class loop_class = {
    .has_room = has_room,
    .write = write_queued,
    .ended = rl_drain_recheck,
    .close = close_client,
};

/* --- making --- */

static bool init_parts(redlock_client *client, unsigned n)
{
    client->notifications.nodes = &client->nodes;
    return rl_nodes_init(&client->nodes, &client->loop, &client->options, n,
                         &rl_members_handler, &client->members) &&
           rl_members_init(&client->members, &client->nodes);
}

redlock_code redlock_client_new(struct event_base *base, const char *const *uris,
                                size_t count, const redlock_options *options,
                                redlock_client **ret_client)
{
    redlock_code code =
        rl_check_count(REDLOCK_BAD_NODES, "nodes", count, REDLOCK_NODES_MAX);
    if (code != REDLOCK_OK)
        return code;
    redlock_client *client = calloc(1, sizeof(*client));
    if (!client)
        return rl_fail_by_code(REDLOCK_NO_MEMORY);
    rl_loop_init(&client->loop, base, &loop_class);
    code = rl_options_copy(options, count, &client->options);
    if (code == REDLOCK_OK && !init_parts(client, (unsigned)count))
        code = rl_fail_by_code(REDLOCK_NO_MEMORY);
    if (code == REDLOCK_OK)
        code = rl_nodes_parse_uris(&client->nodes, uris);
    if (code == REDLOCK_OK && !rl_loop_open(&client->loop))
        code = errno == ENOMEM
                   ? rl_fail_by_code(REDLOCK_NO_MEMORY)
                   : rl_fail(REDLOCK_SYSTEM, REDLOCK_REASON_RESOURCES,
                             "the client's timer cannot be made: %s", strerror(errno));
    if (code != REDLOCK_OK) {
        free_client(client, false);
        return code;
    }
    client->loop.events.log = client->options.log;
    client->loop.events.log_arg = client->options.log_arg;
    client->loop.events.trace = client->options.trace;
    client->loop.events.trace_arg = client->options.trace_arg;
    rl_loop_enter(&client->loop);
    rl_nodes_start(&client->nodes);
    rl_loop_leave(&client->loop);
    *ret_client = client;
    return REDLOCK_OK;
}

/* --- freeing --- */

void redlock_client_free(redlock_client *client)
{
    if (!client)
        return;
    if (!rl_loop_is_ours(&client->loop)) {
        rl_task_destroy_all(&client->loop);
        free_client(client, true);
        return;
    }
    if (client->loop.closing)
        return;
    rl_loop_enter(&client->loop);
    client->loop.closing = true;
    rl_task_close_all(&client->loop);
    rl_nodes_stop_reading(&client->nodes);
    rl_notifications_stop_reading(&client->notifications);
    rl_events_pass_on(&client->loop.events);
    client->loop.events.log = NULL; /* nothing is passed on after this call */
    client->loop.events.trace = NULL;
    rl_loop_leave(&client->loop);
}

/* --- using --- */

/* "!" and small letters: also an end that only a later release uses (protocol.md, Keys). */
static bool is_reserved(const char *key, size_t len)
{
    size_t begin = len;
    while (begin > 0 && key[begin - 1] >= 'a' && key[begin - 1] <= 'z')
        begin--;
    return begin > 0 && begin < len && key[begin - 1] == '!';
}

redlock_code rl_client_key(const redlock_client *client, const void *key, size_t len,
                           char ret_key[REDLOCK_KEY_MAX], size_t *ret_len)
{
    const char *prefix = client->options.prefix;
    size_t prefix_len = prefix ? strlen(prefix) : 0;
    redlock_code code =
        rl_check_len(REDLOCK_BAD_KEY, "key", len, REDLOCK_KEY_MAX - prefix_len);
    if (code != REDLOCK_OK)
        return code;
    if (prefix_len > 0)
        memcpy(ret_key, prefix, prefix_len);
    memcpy(ret_key + prefix_len, key, len);
    *ret_len = prefix_len + len;
    if (is_reserved(ret_key, *ret_len))
        return rl_fail_field(REDLOCK_BAD_KEY, REDLOCK_REASON_RESERVED, "key",
                             "ends in ! and small letters: such ends are reserved");
    return REDLOCK_OK;
}

size_t redlock_client_nodes(const redlock_client *client)
{
    return client->nodes.n;
}

unsigned redlock_client_quorum(const redlock_client *client)
{
    return client->nodes.q;
}

int64_t redlock_client_nodes_time(redlock_client *client)
{
    const struct rl_node_time *time = client->members.time;
    unsigned known = 0;
    for (unsigned i = 0; i < client->nodes.n; i++)
        known += time[i].known;
    if (known < client->nodes.q)
        return REDLOCK_UNKNOWN;
    return rl_node_time_median(time, client->nodes.n, rl_loop_read_clock(&client->loop));
}
