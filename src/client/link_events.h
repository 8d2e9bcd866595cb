/* A step of a node's link, for the recorder, the node's counters and the caller's `log`. */
#ifndef RL_LINK_EVENTS_H
#define RL_LINK_EVENTS_H

#include "nodes.h"

/* The link has made a step by this event; `before`: as it was. */
void rl_link_note_step(struct rl_node *node, const struct rl_link_event *event,
                       const struct rl_link *before);

/* Adds an event of the node. */
void rl_node_log(const struct rl_node *node, redlock_event_type type, enum rl_fault fault);

#endif
