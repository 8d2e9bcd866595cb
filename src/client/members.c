#include "members.h"

#include <string.h>

#include "io/system.h"
#include "link_events.h"
#include "net/info.h"

#define MARKER_KEY "!marker"

/* --- commands --- */

static void act(struct rl_members *members);
static void request_history(struct rl_members *members,
                            const struct rl_member_command *command);

static void learn_time(struct rl_members *members, unsigned node, rl_time sent,
                       rl_time reported)
{
    if (reported > 0)
        rl_node_time_note(&members->time[node], sent, members->task.loop->now, reported);
}

/* `expected` and `wanted` must live until rl_nodes_send() has copied them. */
static bool send_command(struct rl_members *members,
                         const struct rl_member_command *command)
{
    const struct rl_member *member = &members->membership.member[command->node];
    char expected[RL_MARKER_MAX], wanted[RL_MARKER_MAX];
    size_t expected_len = member->marked ? rl_marker_write(&member->marker, expected) : 0;
    size_t wanted_len = command->erase ? 0 : rl_marker_write(&command->wanted, wanted);
    const struct rl_message message = {
        .kind = rl_kind_that_is(true, REDLOCK_KIND_EXCLUSIVE),
        .command = RL_CMD_MARKER,
        .args.marker_key = {members->marker_key, members->marker_key_len},
        .args.expected = {expected, expected_len},
        .args.wanted = {command->write ? wanted : NULL, wanted_len},
    };
    return rl_nodes_send(members->nodes, &members->task, &message, rl_bit(command->node)) ==
           0;
}

/* Which nodes may vote on fenced locks changes. */
RL_RARE static void add_events(struct rl_members *members, rl_node_set active)
{
    for (rl_node_set rest = active ^ members->active; rest; rest &= rest - 1) {
        unsigned i = rl_first(rest);
        bool is_active = active & rl_bit(i);
        rl_node_log(&members->nodes->node[i],
                    is_active ? REDLOCK_EVENT_MEMBER_ACTIVE : REDLOCK_EVENT_MEMBER_INACTIVE,
                    is_active ? RL_FAULT_NONE : rl_members_fault(members, i));
    }
}

/* Writes down which nodes may vote, and what each fenced command to them ends with. */
static void publish(struct rl_members *members)
{
    struct rl_nodes *nodes = members->nodes;
    rl_node_set active = rl_membership_active(&members->membership);
    if (active != members->active) {
        rl_loop_record(nodes->loop, RL_RECORD_MEMBERS, 0)->nodes = active;
        add_events(members, active);
    }
    if (active & ~members->active) {
        members->activated |= active & ~members->active;
        rl_task_schedule(&members->task, nodes->loop->now);
    }
    members->active = active;
    for (unsigned i = 0; i < nodes->n; i++)
        rl_membership_nonce(&members->membership, i, nodes->nonce[i]);
}

/* After each event: sends the due commands and updates which nodes may vote. */
static void act(struct rl_members *members)
{
    struct rl_loop *loop = members->task.loop;
    struct rl_member_command command;
    uint64_t random[2];
    bool drawn = true; /* if not, a due command waits: it must not keep the loop busy */
    while (rl_membership_is_active(&members->membership) &&
           (drawn = rl_system_random(random, sizeof(random), true)) &&
           rl_membership_next_command(&members->membership, loop->now, random, &command)) {
        publish(members);
        if (!send_command(members, &command))
            rl_membership_command_failed(&members->membership, command.node, false,
                                         loop->now);
        else if (command.history)
            request_history(members, &command);
    }
    publish(members);
    rl_task_schedule(&members->task, drawn ? rl_membership_next(&members->membership)
                                           : loop->now + RL_MEMBER_RETRY_DELAY);
}

/* (safety.md, rule 7) */
static void members_tick(struct rl_task *task)
{
    struct rl_members *members = (struct rl_members *)task;
    act(members);
    rl_node_set activated = members->activated & members->active;
    members->activated = 0;
    for (; activated; activated &= activated - 1)
        rl_nodes_report_voter(members->nodes, RL_TASK_ACTIVE, rl_first(activated));
}

/* --- the history of a node's data --- */

/*
 * If a node's master_replid has changed, the node was promoted to master again, or it got a
 * replica. The next greeting then finds that the marker belongs to another process. A
 * client whose connection stays open would not notice, so this client asks. The `seq` of
 * that INFO is the number of the request; of all other commands here it is 0.
 */
static void request_history(struct rl_members *members,
                            const struct rl_member_command *command)
{
    static const struct rl_word info[] = {{"INFO", 4}, {"replication", 11}};
    rl_nodes_send_raw(members->nodes, &members->task, command->history, info, 2,
                      command->node);
}

static void read_history(struct rl_members *members, unsigned node, uint32_t request,
                         const struct rl_reply *reply)
{
    struct rl_word replid = {"", 0};
    if (reply->type == RL_REPLY_STRING)
        replid = rl_info_field(reply, "master_replid");
    if (!rl_membership_history(&members->membership, node, request, replid,
                               members->task.loop->now))
        members->nodes->node[node].reconnect_fault = RL_FAULT_OTHER_HISTORY;
}

/* Reconnects to a replaced node: its address may lead to the replacement by now. */
static void check_replaced(struct rl_members *members, unsigned node)
{
    struct rl_node *source = &members->nodes->node[node];
    rl_time connected = members->task.loop->now - source->link.greeted_at;
    if (members->membership.member[node].state == RL_MEMBER_REPLACED &&
        connected >= RL_MEMBER_PROBE_INTERVAL)
        source->reconnect_fault = RL_FAULT_REPLACED;
}

/*
 * A node reported its time; 0: the reply has none. False: the rest of that reply cannot be
 * trusted either.
 */
RL_HOT static bool note_time(struct rl_members *members, unsigned node, rl_time sent,
                             rl_time reported)
{
    if (reported == 0)
        return true;
    /* The process may have paused between reading the clock and reading the reply. */
    rl_loop_read_clocks(members->task.loop);
    learn_time(members, node, sent, reported);
    if (rl_membership_time(&members->membership, node, sent, members->task.loop->now,
                           members->task.loop->unslewed, reported))
        return true;
    act(members);
    return false;
}

/*
 * If the node did not know the script, the membership machine repeats the command, and the
 * client then sends the script's source.
 */
static void answer(struct rl_task *task, unsigned node, const struct rl_op *op,
                   const struct rl_reply *reply)
{
    struct rl_members *members = (struct rl_members *)task;
    struct rl_answer parsed;
    if (!reply)
        return; /* the connection ended; on_disconnected() handles that */
    if (op->seq != 0) {
        read_history(members, node, op->seq, reply);
        act(members);
        return;
    }
    bool known =
        rl_nodes_parse_reply(members->nodes, rl_kind_that_is(true, REDLOCK_KIND_EXCLUSIVE),
                             node, op, reply, &parsed);
    if (known)
        members->refusal[node] =
            parsed.vote == RL_VOTE_GRANTED ? RL_FAULT_NONE : parsed.fault;
    if (parsed.vote != RL_VOTE_GRANTED) {
        rl_membership_command_failed(&members->membership, node, !known,
                                     members->task.loop->now);
    } else {
        note_time(members, node, op->sent, parsed.time);
        rl_membership_replied(&members->membership, node, parsed.value, op->sent,
                              members->task.loop->now);
        check_replaced(members, node);
    }
    act(members);
}

static const struct rl_task_class members_class = {
    .tick = members_tick,
    .replied = answer,
};

/* --- events --- */

bool rl_members_init(struct rl_members *members, struct rl_nodes *nodes)
{
    const char *prefix = nodes->options->prefix ? nodes->options->prefix : "";
    struct rl_membership_params params = {
        .n = (uint8_t)nodes->n,
        .drift_ppm = nodes->options->drift_ppm,
    };
    members->nodes = nodes;
    members->marker_key_len = strlen(prefix) + sizeof(MARKER_KEY) - 1;
    memcpy(members->marker_key, prefix, strlen(prefix));
    memcpy(members->marker_key + strlen(prefix), MARKER_KEY, sizeof(MARKER_KEY) - 1);
    nodes->marker_key = (struct rl_word){members->marker_key, members->marker_key_len};
    rl_membership_init(&members->membership, &params);
    publish(members);
    return rl_task_init(&members->task, nodes->loop, &members_class);
}

void rl_members_enable(struct rl_members *members)
{
    if (members->membership.active)
        return;
    members->membership.active = true;
    rl_loop_read_clock(members->task.loop);
    act(members);
}

static void on_greeted(void *arg, unsigned node, const struct rl_identity *identity)
{
    struct rl_members *members = arg;
    struct rl_word marker = {identity->marker, identity->marker_len};
    members->refusal[node] = RL_FAULT_NONE;
    learn_time(members, node, members->nodes->node[node].link.greeted_at, identity->time);
    if (!identity->process.run_id[0]) { /* a marker is for a process */
        members->refusal[node] = RL_FAULT_NO_RUN_ID;
        return;
    }
    rl_membership_greeted(&members->membership, node, &identity->process,
                          identity->keeps_data, marker, members->task.loop->now);
    act(members);
}

static void on_disconnected(void *arg, unsigned node)
{
    struct rl_members *members = arg;
    if (!members->membership.member[node].greeted)
        return;
    rl_membership_disconnected(&members->membership, node, members->task.loop->now);
    act(members);
}

const struct rl_nodes_handler rl_members_handler = {
    .greeted = on_greeted,
    .disconnected = on_disconnected,
};

/* A refusal because of the clock has no time, and one because of the marker no marker. So
   the client reads the marker again, with the time. */
RL_RARE static void recheck(struct rl_members *members, unsigned node, rl_time sent,
                            enum rl_fault fault)
{
    rl_time now = members->task.loop->now;
    if (fault == RL_FAULT_MARKER)
        rl_membership_marker_mismatch(&members->membership, node, sent, now);
    else
        members->membership.member[node].look_at = now;
    act(members);
}

static enum rl_fault fault_of_clock(const struct rl_member *member)
{
    static const enum rl_fault faults[] = {
        [RL_CLOCK_SET] = RL_FAULT_CLOCK_SET,
        [RL_CLOCK_STILL] = RL_FAULT_CLOCK_STILL,
        [RL_CLOCK_FAST] = RL_FAULT_CLOCK_FAST,
        [RL_CLOCK_SLOW] = RL_FAULT_CLOCK_SLOW,
    };
    return faults[member->pace.change.error];
}

void rl_members_check_answer(struct rl_members *members, unsigned node,
                             const struct rl_op *op, struct rl_answer *answer)
{
    bool trusted = note_time(members, node, op->sent, answer->time);
    if (!trusted && op->command != RL_CMD_RELEASE) {
        /* The key may expire at any time, because the clock is wrong. */
        answer->vote = RL_VOTE_UNKNOWN;
        answer->fault = fault_of_clock(&members->membership.member[node]);
    }
    rl_membership_check_grant(&members->membership, node, op->command, answer);
    if (answer->fault == RL_FAULT_LATE || answer->fault == RL_FAULT_AHEAD ||
        answer->fault == RL_FAULT_MARKER)
        recheck(members, node, op->sent, answer->fault);
}

static enum rl_fault fault_without_marker(const struct rl_membership *membership)
{
    for (unsigned i = 0; i < membership->params.n; i++)
        if (membership->member[i].greeted && membership->member[i].marked)
            return RL_FAULT_MARKER_LOST;
    return RL_FAULT_UNMARKED;
}

enum rl_fault rl_members_fault(const struct rl_members *members, unsigned node)
{
    static const enum rl_fault faults[] = {
        [RL_MEMBER_UNSEEN] = RL_FAULT_CONNECTING,
        [RL_MEMBER_NO_MAJORITY] = RL_FAULT_NO_MAJORITY,
        [RL_MEMBER_OTHER_DEPLOYMENT] = RL_FAULT_OTHER_DEPLOYMENT,
        [RL_MEMBER_REPLACED] = RL_FAULT_REPLACED,
        [RL_MEMBER_OTHER_PROCESS] = RL_FAULT_OTHER_PROCESS,
        [RL_MEMBER_QUARANTINED] = RL_FAULT_MEMBER_QUARANTINE,
        [RL_MEMBER_UNCONFIRMED] = RL_FAULT_MARKER,
        [RL_MEMBER_ACTIVE] = RL_FAULT_NONE,
    };
    const struct rl_member *member = &members->membership.member[node];
    enum rl_member_state state = member->state;
    if (!(members->nodes->awake & rl_bit(node)))
        return members->nodes->node[node].link.fault;
    if (state != RL_MEMBER_ACTIVE && members->refusal[node] != RL_FAULT_NONE)
        return members->refusal[node];
    if (state == RL_MEMBER_UNMARKED)
        return fault_without_marker(&members->membership);
    if (state == RL_MEMBER_OTHER_PROCESS &&
        rl_process_is_same_run(&member->marker.process, &member->process))
        return RL_FAULT_OTHER_HISTORY;
    return state == RL_MEMBER_CLOCK ? fault_of_clock(member) : faults[state];
}

bool rl_members_allow_ttl(const struct rl_members *members, rl_time ttl)
{
    const struct rl_roster *roster = &members->membership.roster;
    return !roster->deployment || ttl <= roster->max_ttl_ms * RL_MS;
}

/* (safety.md, Durable nodes) */
bool rl_members_keeps_data(const struct rl_members *members, unsigned node)
{
    const struct rl_member *member = &members->membership.member[node];
    if (member->greeted)
        return member->kept;
    return members->nodes->node[node].link.fault == RL_FAULT_LOADING &&
           rl_membership_promises(&members->membership, node) & RL_PROMISE_DURABLE;
}

void rl_members_look(struct rl_members *members)
{
    rl_admission_look(&members->membership, members->task.loop->now);
    act(members);
}

enum rl_admission_error rl_members_admit(struct rl_members *members,
                                         const struct rl_admission_request *request,
                                         unsigned *ret_node)
{
    uint64_t random = 0;
    if (!rl_system_random(&random, sizeof(random), true))
        return RL_ADMISSION_UNREACHED;
    enum rl_admission_error refusal = rl_admission_begin(
        &members->membership, request, ret_node, random, members->task.loop->now);
    act(members);
    return refusal;
}
