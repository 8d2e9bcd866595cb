/* Making and freeing a client. */
#include "client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "listen.h"
#include "options.h"
#include "wards.h"
#include "wish.h"

static bool init_tasks(redlock_client *client)
{
    client->list.prev = client->list.next = &client->list;
    return rl_members_init(client) && rl_wards_init(client);
}

static redlock_client *allocate(struct event_base *base, unsigned n)
{
    redlock_client *client = calloc(1, sizeof(*client));
    struct rl_member *member = calloc(n, sizeof(*member));
    if (!client || !member) {
        free(client);
        free(member);
        return NULL;
    }
    for (unsigned i = 0; i < n; i++)
        member[i].node.fd = -1;
    client->base = base;
    client->resolver.base = base;
    client->n = n;
    client->member = member;
    client->timer_fd = -1;
    client->armed_for = RL_NEVER;
    client->generation = rl_fork_generation();
    client->view.round_trip = client->round_trip;
    return client;
}

static void release_memory(redlock_client *client)
{
    rl_heap_free(&client->heap);
    free(client->ears);
    rl_wish_drop(client->wish);
    rl_options_clear(&client->options);
    for (unsigned text = 0; text < RL_TEXTS; text++)
        for (unsigned i = 0; i < RL_FORMS; i++)
            rl_form_clear(&client->form[text][i]);
    rl_post_free(&client->post);
    free(client->member);
    free(client);
}

void rl_client_close(redlock_client *client)
{
    for (unsigned i = 0; i < client->n; i++)
        rl_node_clear(&client->member[i].node);
    rl_listen_clear(client);
    rl_resolver_clear(&client->resolver);
    rl_client_close_loop(client);
    release_memory(client);
}

redlock_code redlock_client_new(struct event_base *base, const char *const *uris,
                                size_t count, const redlock_options *options,
                                redlock_client **ret_client, redlock_error *ret_error)
{
    if (count < 1 || count > REDLOCK_NODES_MAX)
        return rl_fail(ret_error, REDLOCK_BAD_NODES,
                       count ? "%zu nodes are more than %d" : "no node is configured",
                       count, REDLOCK_NODES_MAX);
    redlock_client *client = allocate(base, (unsigned)count);
    if (!client)
        return rl_fail(ret_error, REDLOCK_NO_MEMORY, "out of memory");
    redlock_code code = rl_options_copy(options, count, &client->options, ret_error);
    if (code == REDLOCK_OK)
        code = rl_members_parse(client, uris, ret_error);
    if (code == REDLOCK_OK && !init_tasks(client))
        code = rl_fail(ret_error, REDLOCK_NO_MEMORY, "out of memory");
    if (code == REDLOCK_OK && !rl_client_open_loop(client))
        code = rl_fail(ret_error, REDLOCK_SYSTEM, "the client's timer cannot be made: %s",
                       strerror(errno));
    if (code != REDLOCK_OK) {
        rl_client_close(client);
        return code;
    }
    client->q = client->options.quorum ? client->options.quorum : rl_majority(client->n);
    client->max_ttl = (client->options.max_ttl_ms ? client->options.max_ttl_ms
                                                  : REDLOCK_QUARANTINE_FLOOR_MS) *
                      RL_MS;
    rl_members_start(client);
    *ret_client = client;
    return REDLOCK_OK;
}

/* The child's copy of the loop shares the parent's epoll: it must not be touched. */
static void forget(redlock_client *client)
{
    for (unsigned i = 0; i < client->n; i++)
        rl_node_forget(&client->member[i].node);
    rl_listen_forget(client);
    close(client->timer_fd);
    for (struct rl_task *task = client->list.next; task != &client->list;) {
        struct rl_task *next = task->next;
        task->class->destroy(task);
        task = next;
    }
    release_memory(client);
}

void redlock_client_free(redlock_client *client)
{
    if (!client)
        return;
    if (!rl_client_is_ours(client)) {
        forget(client);
        return;
    }
    if (client->closing)
        return;
    rl_client_enter(client);
    client->closing = true;
    for (struct rl_task *task = client->list.next; task != &client->list;
         task = task->next) {
        if (!task->dead && task->class->close)
            task->class->close(task);
        if (task->dead && task->owed > 0)
            rl_task_bury(task);
        task->owed = 0;
        rl_task_end(task);
    }
    rl_members_deafen(client);
    rl_listen_deafen(client);
    rl_client_leave(client);
}

bool rl_client_is_ours(const redlock_client *client)
{
    return client->generation == rl_fork_generation();
}

size_t redlock_client_nodes(const redlock_client *client)
{
    return client->n;
}

unsigned redlock_client_quorum(const redlock_client *client)
{
    return client->q;
}
