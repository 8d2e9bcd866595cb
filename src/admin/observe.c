/*
 * Observers of an election: a task asks the nodes for the term every second, and at once
 * when a node notifies it of a change. It never waits for the lock.
 */
#include <stdlib.h>
#include <string.h>

#include "client/explain.h"
#include "redlock/redlock.h"

#define LOOK_EVERY    RL_SECOND
#define SETTLES_AFTER (50 * RL_MS)    /* nodes that differ are asked again */
#define DIFFERS_MAX   (2 * RL_SECOND) /* after that it is not known who leads */
#define WATCH_MS      5000            /* for how long a node remembers an observer */

struct observation;

struct redlock_observer {
    struct observation *observation; /* NULL: the client is gone */
};

struct observation {
    struct rl_task task;
    redlock_observer *observer;
    redlock_leader_fn *callback;
    void *arg;
    uint64_t number; /* in the table of waiters; 0: no memory */
    rl_time began;
    rl_time agreed;   /* when the nodes that replied last agreed */
    bool asks, again; /* a round is under way; another one follows it at once */
    uint8_t round;    /* replies to an earlier one are ignored */
    rl_node_set waiting;
    rl_time deadline;
    struct rl_ballot ballot[RL_NODES_MAX];
    char value[RL_NODES_MAX][REDLOCK_TOKEN_MAX + 1]; /* "TERM TOKEN" */
    bool has_told;
    int64_t highest; /* the largest term that was told */
    redlock_code told_code;
    char told[REDLOCK_TOKEN_MAX + 1]; /* "": nobody leads */
    size_t key_len;
    char key[REDLOCK_KEY_MAX];
};

/* --- telling --- */

static void observe_tell(struct observation *observation, redlock_code code,
                         const char *value)
{
    redlock_client *client = rl_client_of(&observation->task);
    char *token;
    if (observation->has_told && observation->told_code == code &&
        strcmp(observation->told, value) == 0)
        return;
    observation->has_told = true;
    observation->told_code = code;
    strcpy(observation->told, value);
    int64_t term = strtoll(value, &token, 10);
    token += *token == ' ';
    const char *label = rl_token_label(token);
    const redlock_leader leader = {
        .code = code,
        .term = term,
        .id = label ? label : token,
        .token = token,
    };
    observation->callback(observation->observer, &leader, observation->arg);
    rl_loop_called_back(&client->loop);
}

static unsigned count(const struct observation *observation, enum rl_vote vote,
                      const char *value)
{
    const redlock_client *client = rl_client_of(&observation->task);
    unsigned found = 0;
    for (unsigned i = 0; i < client->nodes.n; i++)
        found += client->members.active & rl_bit(i) &&
                 observation->ballot[i].vote == vote &&
                 (!value || strcmp(observation->value[i], value) == 0);
    return found;
}

/* The value that q nodes with a vote have; "": q of them have none; NULL: neither. */
static const char *find_leader(const struct observation *observation)
{
    const redlock_client *client = rl_client_of(&observation->task);
    for (unsigned i = 0; i < client->nodes.n; i++)
        if (observation->ballot[i].vote == RL_VOTE_HELD &&
            count(observation, RL_VOTE_HELD, observation->value[i]) >= client->nodes.q)
            return observation->value[i];
    return count(observation, RL_VOTE_GONE, NULL) >= client->nodes.q ? "" : NULL;
}

/* A delayed command may store an earlier leader's token again: that one does not lead. */
static const char *unless_outdated(struct observation *observation, const char *leader)
{
    int64_t term = leader ? strtoll(leader, NULL, 10) : 0;
    if (term > 0 && term < observation->highest)
        return "";
    observation->highest = rl_max(observation->highest, term);
    return leader;
}

/* A new client needs some time until it knows which nodes have a vote. */
static bool is_starting(const struct observation *observation)
{
    const redlock_client *client = rl_client_of(&observation->task);
    return !observation->has_told && client->loop.now - observation->began <
                                         2 * client->options.connect_timeout_ms * RL_MS;
}

static void end_round(struct observation *observation, const char *leader)
{
    const redlock_client *client = rl_client_of(&observation->task);
    unsigned votes =
        count(observation, RL_VOTE_HELD, NULL) + count(observation, RL_VOTE_GONE, NULL);
    rl_time now = client->loop.now;
    bool differ = !leader && votes >= client->nodes.q;
    observation->agreed = differ ? observation->agreed : now;
    bool in_time =
        differ ? now - observation->agreed < DIFFERS_MAX : is_starting(observation);
    bool knows = leader || !in_time;
    bool soon = in_time || is_starting(observation);
    observation->asks = false;
    observation->waiting = 0;
    rl_heap_drop(&observation->task.loop->heap, &observation->task.due);
    rl_task_schedule(&observation->task, observation->again ? now
                                         : soon             ? now + SETTLES_AFTER
                                                            : now + LOOK_EVERY);
    observation->again = false;
    leader = unless_outdated(observation, leader);
    if (knows)
        observe_tell(observation, leader ? REDLOCK_OK : REDLOCK_NO_QUORUM,
                     leader ? leader : "");
}

/* --- asking --- */

static struct rl_message message_of(struct observation *observation)
{
    struct rl_notifications *notifications =
        &rl_client_of(&observation->task)->notifications;
    struct rl_message message = {
        .kind = rl_kind_that_is(false, REDLOCK_KIND_EXCLUSIVE),
        .command = RL_CMD_OBSERVE,
        .seq = observation->round,
        .args.key = {observation->key, observation->key_len},
        .args.waited = -1,
        .args.intent_ms = WATCH_MS,
    };
    if (observation->number && rl_notifications_started(notifications))
        message.args.queue_entry =
            rl_notifications_queue_entry(notifications, observation->number);
    return message;
}

static void begin_round(struct observation *observation)
{
    redlock_client *client = rl_client_of(&observation->task);
    observation->round++;
    observation->asks = true;
    for (unsigned i = 0; i < client->nodes.n; i++)
        observation->ballot[i] = (struct rl_ballot){.vote = RL_VOTE_ABSENT, .pttl = -1};
    struct rl_message message = message_of(observation);
    /* On a node without a marker an observer's entry would prevent admission. */
    observation->waiting = client->nodes.view.open & client->members.active;
    observation->waiting &=
        ~rl_nodes_send(&client->nodes, &observation->task, &message, observation->waiting);
    observation->deadline = rl_time_add_sat(
        client->loop.now, rl_nodes_reply_timeout(&client->nodes, observation->waiting));
    rl_task_schedule(&observation->task, observation->deadline);
}

static void observe_tick(struct rl_task *task)
{
    struct observation *observation = (struct observation *)task;
    if (!rl_startup_barrier_is_open(&rl_client_of(task)->nodes.startup))
        return; /* observe_on_event() goes on */
    if (!observation->asks)
        begin_round(observation);
    else if (observation->waiting && task->loop->now < observation->deadline)
        rl_task_schedule(task, observation->deadline);
    else
        end_round(observation, find_leader(observation));
}

static void observe_answer(struct rl_task *task, unsigned node, const struct rl_op *op,
                           const struct rl_reply *reply)
{
    struct observation *observation = (struct observation *)task;
    redlock_client *client = rl_client_of(task);
    struct rl_message message = message_of(observation);
    struct rl_answer parsed;
    if (op->seq != observation->round || !(observation->waiting & rl_bit(node)))
        return;
    if (!rl_nodes_parse_reply(&client->nodes, message.kind, node, op, reply, &parsed) &&
        rl_nodes_send(&client->nodes, task, &message, rl_bit(node)) == 0)
        return;
    observation->waiting &= ~rl_bit(node);
    observation->ballot[node].vote = parsed.vote;
    rl_client_keep_value(parsed.value, observation->value[node]);
    const char *leader = find_leader(observation);
    if (leader || !observation->waiting)
        end_round(observation, leader);
}

static bool on_notified(struct rl_task *task, unsigned node, unsigned position,
                        unsigned slot)
{
    struct observation *observation = (struct observation *)task;
    (void)node;
    (void)position;
    (void)slot;
    observation->again = observation->asks;
    if (!observation->asks)
        rl_task_schedule(task, task->loop->now);
    return true;
}

static void observe_on_event(struct rl_task *task, enum rl_task_event event, unsigned node)
{
    struct observation *observation = (struct observation *)task;
    (void)node;
    bool matters = event == RL_TASK_STARTUP_OVER || event == RL_TASK_SUBSCRIBED;
    if (matters && !observation->asks)
        rl_task_schedule(task, task->loop->now);
}

/* --- begin and end --- */

static void observe_end(struct observation *observation)
{
    redlock_client *client = rl_client_of(&observation->task);
    if (observation->observer)
        observation->observer->observation = NULL;
    rl_waiter_table_remove(&client->notifications.waiters, observation->number);
    rl_task_end(&observation->task);
}

static void close_observation(struct rl_task *task)
{
    observe_end((struct observation *)task);
}

static const struct rl_task_class observation_class = {
    .tick = observe_tick,
    .event = observe_on_event,
    .replied = observe_answer,
    .notified = on_notified,
    .close = close_observation,
    .destroy = rl_task_free,
};

static redlock_code observe_start(redlock_client *client, const void *key, size_t key_len,
                                  redlock_leader_fn *callback, void *arg,
                                  redlock_observer **ret_observer)
{
    if (!callback)
        return rl_fail_no_callback();
    struct observation *observation =
        rl_task_new(sizeof(*observation), &client->loop, &observation_class);
    redlock_observer *observer = malloc(sizeof(*observer));
    bool allocated = observation && observer;
    redlock_code code = allocated ? rl_client_key(client, key, key_len, observation->key,
                                                  &observation->key_len)
                                  : rl_fail_by_code(REDLOCK_NO_MEMORY);
    if (code != REDLOCK_OK) {
        if (observation)
            rl_task_end(&observation->task);
        free(observer);
        return code;
    }
    observer->observation = observation;
    observation->observer = observer;
    observation->callback = callback;
    observation->arg = arg;
    observation->began = observation->agreed = client->loop.now;
    rl_members_enable(&client->members);
    rl_notifications_start(&client->notifications);
    observation->number =
        rl_waiter_table_add(&client->notifications.waiters, &observation->task);
    rl_task_schedule(&observation->task, client->loop.now);
    *ret_observer = observer;
    return REDLOCK_OK;
}

redlock_code redlock_observe(redlock_client *client, const void *key, size_t key_len,
                             redlock_leader_fn *callback, void *arg,
                             redlock_observer **ret_observer)
{
    redlock_code code = rl_client_call(client);
    if (code != REDLOCK_OK)
        return code;
    code = observe_start(client, key, key_len, callback, arg, ret_observer);
    rl_loop_return(&client->loop);
    return code;
}

void redlock_observer_free(redlock_observer *observer)
{
    struct observation *observation = observer ? observer->observation : NULL;
    redlock_client *client = observation ? rl_client_of(&observation->task) : NULL;
    if (client && rl_client_call(client) == REDLOCK_OK) {
        observe_end(observation);
        rl_loop_return(&client->loop);
    } else if (observation) {
        observation->observer = NULL; /* a forked child: the client frees the rest */
    }
    free(observer);
}
