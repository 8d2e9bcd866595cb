#include "link_events.h"

#include <string.h>

void rl_node_log(const struct rl_node *node, redlock_event_type type, enum rl_fault fault)
{
    const char *text = rl_words_text(&node->connection.words, fault);
    rl_events_add(&node->task.loop->events,
                  &(struct rl_event){
                      .type = type,
                      .node = node->index,
                      .uri = node->uri.shown,
                      .fault = fault,
                  },
                  (struct rl_word){text, strlen(text)});
}

/* Only a change of its configuration, or of the client's, helps. */
static bool is_misconfigured(enum rl_fault fault)
{
    return rl_fault_is_denial(fault) || fault == RL_FAULT_CLUSTER ||
           fault == RL_FAULT_REPLICA || fault == RL_FAULT_DUPLICATE ||
           fault == RL_FAULT_PROTOCOL || fault == RL_FAULT_NO_ROLE ||
           fault == RL_FAULT_NO_RUN_ID || fault == RL_FAULT_TLS_PLAINTEXT ||
           fault == RL_FAULT_TLS_VERSION || fault == RL_FAULT_TLS_REFUSED ||
           fault == RL_FAULT_TLS_CA_FILE || fault == RL_FAULT_TLS_CERT_FILE ||
           fault == RL_FAULT_TLS_KEY_FILE;
}

/* A node that stays down: logs the first failure and each new fault. */
static void log_failure(struct rl_node *node)
{
    enum rl_fault fault = node->link.fault;
    if (fault == node->logged_fault)
        return;
    node->logged_fault = fault;
    rl_node_log(node,
                is_misconfigured(fault) ? REDLOCK_EVENT_NODE_REFUSED
                                        : REDLOCK_EVENT_NODE_UNREACHABLE,
                fault);
}

/* From one state of an open link to another. */
static void note_vote(struct rl_node *node, enum rl_link_state before)
{
    enum rl_link_state state = node->link.state;
    enum rl_fault fault = node->link.fault;
    if (state == RL_LINK_SUSPECT)
        rl_node_log(node, REDLOCK_EVENT_NODE_SUSPECT, fault);
    else if (before == RL_LINK_SUSPECT)
        rl_node_log(node, REDLOCK_EVENT_NODE_RECOVERED, RL_FAULT_NONE);
    if (state == RL_LINK_QUARANTINED)
        rl_node_log(node, REDLOCK_EVENT_NODE_QUARANTINED, fault);
    else if (before == RL_LINK_QUARANTINED && state == RL_LINK_READY)
        rl_node_log(node, REDLOCK_EVENT_NODE_QUARANTINE_ENDED, RL_FAULT_NONE);
}

static void note_restart(struct rl_node *node, const struct rl_link *before)
{
    if (before->server_id[0] && strcmp(before->server_id, node->link.server_id) != 0)
        rl_node_log(node, REDLOCK_EVENT_NODE_RESTARTED, RL_FAULT_NONE);
}

/* If a node stays down, only the first failure is recorded, and each new fault: the
   attempts to reconnect would overwrite what happened before. */
static void record_link(struct rl_node *node, const struct rl_link_event *event)
{
    const struct rl_link *link = &node->link;
    bool stays_down = !rl_link_is_open(link) && node->recorded_state < RL_LINK_READY;
    bool changed = stays_down ? event->type == RL_LINK_CONNECTED && link->failures == 0
                              : link->state != node->recorded_state;
    if (!changed && link->fault == node->recorded_fault)
        return;
    node->recorded_state = link->state;
    node->recorded_fault = link->fault;
    struct rl_record *record = rl_loop_record(node->task.loop, RL_RECORD_LINK, 0);
    record->head.what = event->type;
    record->head.node = node->index & 0xff;
    record->head.state = link->state;
    record->link.fault = (uint8_t)link->fault;
    record->link.restarted = link->restarted;
}

RL_RARE void rl_link_note_step(struct rl_node *node, const struct rl_link_event *event,
                               const struct rl_link *before)
{
    const struct rl_link *link = &node->link;
    bool was_open = rl_link_is_open(before), is_open = rl_link_is_open(link);
    record_link(node, event);
    note_restart(node, before);
    if (link->state == before->state)
        return;
    if (is_open && !was_open) {
        node->logged_fault = RL_FAULT_NONE;
        rl_node_log(node, REDLOCK_EVENT_NODE_CONNECTED, RL_FAULT_NONE);
    }
    if (is_open) {
        note_vote(node, was_open ? before->state : RL_LINK_READY);
    } else if (was_open) {
        node->stats.disconnects++;
        rl_node_log(node, REDLOCK_EVENT_NODE_DISCONNECTED, link->fault);
    } else if (link->state == RL_LINK_DOWN) {
        node->stats.connect_failures++;
        log_failure(node);
    }
}
