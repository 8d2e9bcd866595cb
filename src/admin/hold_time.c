/* The recent hold times of a key: a task asks the nodes, or tells them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/client.h"
#include "core/kind.h"
#include "redlock/redlock.h"

#define DIGITS_MAX 15

struct hold_time {
    struct rl_task task;
    redlock_hold_time_fn *callback; /* NULL: it tells */
    void *arg;
    bool asked;
    rl_node_set waiting;
    unsigned answers;
    int64_t longest_ms;
    rl_time deadline;
    char held[24]; /* that it tells */
    size_t key_len;
    char key[REDLOCK_KEY_MAX];
};

static void hold_time_finish(struct hold_time *hold, bool is_known)
{
    redlock_client *client = rl_client_of(&hold->task);
    rl_task_end(&hold->task);
    if (hold->callback)
        hold->callback(client, is_known ? hold->longest_ms : REDLOCK_UNKNOWN, hold->arg);
    rl_loop_called_back(&client->loop);
}

static bool send_to(struct hold_time *hold, unsigned node)
{
    redlock_client *client = rl_client_of(&hold->task);
    const struct rl_script *script =
        rl_kind_that_is(false, REDLOCK_KIND_EXCLUSIVE)->script[RL_CMD_NOTE_HOLD];
    const size_t end_len = sizeof(RL_HOLD_SUFFIX) - 1;
    char name[REDLOCK_KEY_MAX + sizeof(RL_HOLD_SUFFIX) - 1];
    memcpy(name, hold->key, hold->key_len);
    memcpy(name + hold->key_len, RL_HOLD_SUFFIX, end_len);
    const struct rl_word ask[] = {
        {"GETRANGE", 8}, {name, hold->key_len + end_len}, {"0", 1}, {"23", 2}};
    const struct rl_word tell[] = {{"EVAL", 4},
                                   {script->body, script->len},
                                   {"1", 1},
                                   {hold->key, hold->key_len},
                                   {hold->held, strlen(hold->held)}};
    return hold->callback
               ? rl_nodes_send_raw(&client->nodes, &hold->task, 0, ask, 4, node)
               : rl_nodes_send_raw(&client->nodes, &hold->task, 0, tell, 5, node);
}

/* Of a client with fenced locks it tells only nodes that may vote: the key would prevent
   the admission of another one. */
static rl_node_set nodes_of(const struct hold_time *hold)
{
    const redlock_client *client = rl_client_of(&hold->task);
    bool is_any = hold->callback || !client->members.membership.active;
    return client->nodes.view.open & (is_any ? ~(rl_node_set)0 : client->members.active);
}

static void hold_time_send_all(struct hold_time *hold)
{
    redlock_client *client = rl_client_of(&hold->task);
    hold->asked = true;
    for (rl_node_set rest = nodes_of(hold); rest; rest &= rest - 1) {
        unsigned node = rl_first(rest);
        if (send_to(hold, node))
            hold->waiting |= rl_bit(node);
    }
    hold->deadline = rl_time_add_sat(client->loop.now,
                                     rl_nodes_reply_timeout(&client->nodes, hold->waiting));
    if (hold->waiting)
        rl_task_schedule(&hold->task, hold->deadline);
    else
        hold_time_finish(hold, false);
}

static void hold_time_tick(struct rl_task *task)
{
    struct hold_time *hold = (struct hold_time *)task;
    if (!hold->asked)
        hold_time_send_all(hold);
    else if (task->loop->now < hold->deadline)
        rl_task_schedule(task, hold->deadline);
    else
        hold_time_finish(hold, false);
}

/* Nothing is stored: it was held for no time. False: the reply is no answer. */
static bool read_answer(const struct rl_reply *reply, int64_t *ret_ms)
{
    *ret_ms = 0;
    if (!reply || reply->type != RL_REPLY_STRING)
        return false;
    for (size_t i = 0; i < reply->len; i++) {
        if (reply->text[i] < '0' || reply->text[i] > '9' || i == DIGITS_MAX)
            return false;
        *ret_ms = 10 * *ret_ms + (reply->text[i] - '0');
    }
    return true;
}

static void hold_time_answer(struct rl_task *task, unsigned node, const struct rl_op *op,
                             const struct rl_reply *reply)
{
    struct hold_time *hold = (struct hold_time *)task;
    int64_t ms;
    (void)op;
    hold->waiting &= ~rl_bit(node);
    if (read_answer(reply, &ms)) {
        hold->answers++;
        hold->longest_ms = rl_max(hold->longest_ms, ms);
    }
    bool is_known = hold->answers >= rl_client_of(task)->nodes.q;
    if (!hold->waiting || (is_known && hold->callback))
        hold_time_finish(hold, is_known);
}

static void close_hold_time(struct rl_task *task)
{
    hold_time_finish((struct hold_time *)task, false);
}

static const struct rl_task_class hold_time_class = {
    .tick = hold_time_tick,
    .event = rl_startup_event,
    .replied = hold_time_answer,
    .close = close_hold_time,
    .destroy = rl_task_free,
};

static redlock_code hold_time_start(redlock_client *client, const void *key, size_t key_len,
                                    redlock_hold_time_fn *callback, void *arg,
                                    int64_t held_ms)
{
    struct hold_time *hold = rl_task_new(sizeof(*hold), &client->loop, &hold_time_class);
    if (!hold)
        return rl_fail_by_code(REDLOCK_NO_MEMORY);
    redlock_code code = rl_client_key(client, key, key_len, hold->key, &hold->key_len);
    if (code != REDLOCK_OK) {
        rl_task_end(&hold->task);
        return code;
    }
    hold->callback = callback;
    hold->arg = arg;
    snprintf(hold->held, sizeof(hold->held), "%" PRId64, held_ms);
    if (rl_startup_barrier_is_open(&client->nodes.startup))
        rl_task_schedule(&hold->task, client->loop.now);
    return REDLOCK_OK;
}

redlock_code redlock_hold_time(redlock_client *client, const void *key, size_t key_len,
                               redlock_hold_time_fn *callback, void *arg)
{
    redlock_code code = rl_client_call(client);
    if (code != REDLOCK_OK)
        return code;
    code = callback ? hold_time_start(client, key, key_len, callback, arg, 0)
                    : rl_fail_no_callback();
    rl_loop_return(&client->loop);
    return code;
}

redlock_code redlock_note_hold_time(redlock_client *client, const void *key, size_t key_len,
                                    int64_t held_ms)
{
    redlock_code code = rl_client_call(client);
    if (code != REDLOCK_OK)
        return code;
    code = rl_check_range("held_ms", held_ms, 0, REDLOCK_RECORD_MAX_MS);
    if (code == REDLOCK_OK)
        code = hold_time_start(client, key, key_len, NULL, NULL, held_ms);
    rl_loop_return(&client->loop);
    return code;
}
