/* What a client does for fenced locks: it hears how its nodes stand, and has them seated.
 */
#include "wards.h"

#include <string.h>

#include "net/info.h"

#define MARKER_KEY "!marker"
#define FENCE_MARK "!fence"
#define QUEUE_MARK "!queue"

static bool ends_with(const char *key, size_t len, const char *end)
{
    size_t end_len = strlen(end);
    return len >= end_len && memcmp(key + len - end_len, end, end_len) == 0;
}

bool rl_wards_own(const char *key, size_t len)
{
    return ends_with(key, len, MARKER_KEY) || ends_with(key, len, FENCE_MARK) ||
           ends_with(key, len, QUEUE_MARK);
}

struct rl_word rl_wards_fence_mark(void)
{
    return (struct rl_word){FENCE_MARK, sizeof(FENCE_MARK) - 1};
}

/* --- orders --- */

/* After each event: who may vote now, and what is to be done about the others. */
static void act(redlock_client *client);
static void ask_history(redlock_client *client, unsigned node);

static void learn_time(redlock_client *client, unsigned node, rl_time sent, rl_time told)
{
    if (told > 0)
        rl_node_time_note(&client->time[node], sent, client->view.now, told);
}

static struct rl_message message_of(const redlock_client *client)
{
    return (struct rl_message){
        .kind = rl_kind_that_is(true),
        .text = RL_MARK,
        .subject = {.marker_key = {client->marker_key, client->marker_key_len}},
    };
}

/* The words live in these texts until the message was said. */
static bool say(redlock_client *client, const struct rl_steward_order *order)
{
    const struct rl_ward *ward = &client->steward.ward[order->node];
    char expected[RL_MARKER_MAX], wanted[RL_MARKER_MAX];
    struct rl_message message = message_of(client);
    struct rl_subject *subject = &message.subject;
    subject->write = order->write;
    subject->expected = (struct rl_word){
        expected, ward->marked ? rl_marker_write(&ward->marker, expected) : 0};
    subject->wanted = (struct rl_word){
        wanted, order->erase ? 0 : rl_marker_write(&order->wanted, wanted)};
    return rl_client_say(client, &client->ward_task, &message, rl_bit(order->node)) == 0;
}

static void act(redlock_client *client)
{
    struct rl_steward_order order;
    uint64_t random[2];
    while (client->steward.active && rl_random_bytes(random, sizeof(random)) &&
           rl_steward_order(&client->steward, client->view.now, random, &order)) {
        if (!say(client, &order))
            rl_steward_refused(&client->steward, order.node, false, client->view.now);
        else if (order.history)
            ask_history(client, order.node);
    }
    client->sound = rl_steward_sound(&client->steward);
    rl_task_due(&client->ward_task, rl_steward_next(&client->steward));
}

static void tick(struct rl_task *task)
{
    rl_heap_drop(&task->client->heap, &task->due);
    act(task->client);
}

/* --- the history of a node's data --- */

/* The `seq` of the question for it. */
#define ASK_HISTORY 1

/*
 * A node whose master_replid has changed became a master anew, or got a replica: the next
 * greeting finds its marker to be another process'. Unless it is asked, only those would
 * know who are greeted later.
 */
static void ask_history(redlock_client *client, unsigned node)
{
    static const struct rl_word info[] = {{"INFO", 4}, {"replication", 11}};
    rl_client_ask(client, &client->ward_task, ASK_HISTORY, info, 2, node);
}

static void hear_history(redlock_client *client, unsigned node,
                         const struct rl_reply *reply)
{
    struct rl_word replid = {"", 0};
    if (reply->type == RL_REPLY_STRING)
        replid = rl_info_field(reply, "master_replid");
    if (!rl_steward_history(&client->steward, node, replid, client->view.now))
        rl_member_distrust(&client->member[node], RL_FAULT_FOREIGN);
}

/* The address of one that was replaced may lead to who replaced it, by now. */
static void look_behind(redlock_client *client, unsigned node)
{
    struct rl_member *member = &client->member[node];
    rl_time connected = client->view.now - member->link.greeted_at;
    if (client->steward.ward[node].standing == RL_STANDING_REPLACED &&
        connected >= RL_STEWARD_PROBE)
        rl_member_distrust(member, RL_FAULT_REPLACED);
}

/* A script that is not known is said again when the node is looked at next, and then whole.
 */
static void answer(struct rl_task *task, unsigned node, const struct rl_op *op,
                   const struct rl_reply *reply)
{
    redlock_client *client = task->client;
    struct rl_answer heard;
    if (!reply)
        return; /* the connection has ended, and tells so itself */
    if (op->seq == ASK_HISTORY) {
        hear_history(client, node, reply);
        act(client);
        return;
    }
    bool known = rl_client_hear(client, rl_kind_that_is(true), node, op, reply, &heard);
    if (heard.vote != RL_VOTE_GRANTED) {
        rl_steward_refused(&client->steward, node, !known, client->view.now);
    } else {
        rl_wards_time(client, node, op->sent, heard.time);
        rl_steward_answered(&client->steward, node, heard.value, op->sent,
                            client->view.now);
        look_behind(client, node);
    }
    act(client);
}

static void destroy_nothing(struct rl_task *task)
{
    (void)task;
}

static const struct rl_task_class ward_class = {
    .tick = tick,
    .answer = answer,
    .destroy = destroy_nothing,
};

/* --- what happens --- */

bool rl_wards_init(redlock_client *client)
{
    const char *prefix = client->options.prefix ? client->options.prefix : "";
    struct rl_steward_terms terms = {
        .n = (uint8_t)client->n,
        .drift_ppm = client->options.drift_ppm,
    };
    client->marker_key_len = strlen(prefix) + sizeof(MARKER_KEY) - 1;
    memcpy(client->marker_key, prefix, strlen(prefix));
    memcpy(client->marker_key + strlen(prefix), MARKER_KEY, sizeof(MARKER_KEY) - 1);
    rl_steward_init(&client->steward, &terms);
    return rl_task_init(&client->ward_task, client, &ward_class);
}

void rl_wards_use(redlock_client *client)
{
    if (client->steward.active)
        return;
    client->steward.active = true;
    rl_client_read_clock(client);
    act(client);
}

void rl_wards_greeted(redlock_client *client, unsigned node,
                      const struct rl_identity *identity)
{
    struct rl_word marker = {identity->marker, identity->marker_len};
    learn_time(client, node, client->member[node].link.greeted_at, identity->time);
    rl_steward_greeted(&client->steward, node, &identity->process, marker,
                       client->view.now);
    act(client);
}

void rl_wards_gone(redlock_client *client, unsigned node)
{
    if (!client->steward.ward[node].greeted)
        return;
    rl_steward_gone(&client->steward, node, client->view.now);
    act(client);
}

bool rl_wards_time(redlock_client *client, unsigned node, rl_time sent, rl_time told)
{
    if (told == 0)
        return true;
    /* Between the pass's reading of the clock and that of the answer we may have waited. */
    rl_client_read_clocks(client);
    learn_time(client, node, sent, told);
    if (rl_steward_time(&client->steward, node, sent, client->view.now, client->raw, told))
        return true;
    act(client);
    return false;
}

void rl_wards_doubt(redlock_client *client, unsigned node)
{
    client->steward.ward[node].look_at = client->view.now;
    act(client);
}

void rl_wards_disputed(redlock_client *client, unsigned node, rl_time sent)
{
    rl_steward_disputed(&client->steward, node, sent, client->view.now);
    act(client);
}

enum rl_fault rl_wards_fault(const redlock_client *client, unsigned node)
{
    static const enum rl_fault faults[] = {
        [RL_STANDING_UNSEEN] = RL_FAULT_CONNECTING,
        [RL_STANDING_UNMARKED] = RL_FAULT_UNMARKED,
        [RL_STANDING_ALONE] = RL_FAULT_ALONE,
        [RL_STANDING_ELSEWHERE] = RL_FAULT_ELSEWHERE,
        [RL_STANDING_REPLACED] = RL_FAULT_REPLACED,
        [RL_STANDING_FOREIGN] = RL_FAULT_FOREIGN,
        [RL_STANDING_BARRED] = RL_FAULT_BARRED,
        [RL_STANDING_CLOCK] = RL_FAULT_CLOCK,
        [RL_STANDING_UNCONFIRMED] = RL_FAULT_MARKER,
        [RL_STANDING_SOUND] = RL_FAULT_NONE,
    };
    return faults[client->steward.ward[node].standing];
}

bool rl_wards_bear(const redlock_client *client, rl_time ttl)
{
    const struct rl_roster *roster = &client->steward.roster;
    return !roster->deployment || ttl <= roster->max_ttl_ms * RL_MS;
}

enum rl_refusal rl_wards_admit(redlock_client *client, enum rl_admission how,
                               unsigned *node, int64_t max_ttl_ms)
{
    uint64_t random = 0;
    if (!rl_random_bytes(&random, sizeof(random)))
        return RL_REFUSAL_UNSEEN;
    enum rl_refusal refusal =
        rl_steward_admit(&client->steward, how, node, max_ttl_ms, random, client->view.now);
    act(client);
    return refusal;
}

/* --- showing --- */

size_t redlock_client_standing(const redlock_client *client, redlock_node *nodes,
                               size_t room)
{
    for (unsigned i = 0; i < client->n && i < room; i++) {
        const struct rl_link *link = &client->member[i].link;
        bool awake = client->awake & rl_bit(i);
        bool sound = awake && client->sound & rl_bit(i);
        enum rl_fault fault = awake ? rl_wards_fault(client, i) : link->fault;
        rl_time left = rl_steward_left(&client->steward, i, client->view.now);
        nodes[i] = (redlock_node){
            .uri = client->member[i].node.uri.shown,
            .verdict = sound ? "sound" : "absent",
            .fault = rl_fault_name(fault),
            .text = rl_fault_text(fault),
            .denied = rl_fault_is_denial(fault),
            .latency_us = link->round_trip > 0 ? link->round_trip : -1,
            .remaining_ms = left == RL_NEVER ? -1 : left / RL_MS,
        };
    }
    return client->n;
}
