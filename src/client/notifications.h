/*
 * Notifications: a second connection to each node, on which the node notifies waiters
 * (core/waiter.h). The client opens these connections when a caller has to wait for the
 * first time, and keeps them.
 */
#ifndef RL_NOTIFICATIONS_H
#define RL_NOTIFICATIONS_H

#include "nodes.h"
#include "waiter_table.h"

/* "PREFIX!wake:kCHANNEL NUMBER" */
#define RL_CHANNEL_BYTES 8
#define RL_QUEUE_ENTRY_ROOM                                                                \
    (REDLOCK_KEY_MAX + sizeof("!wake:k") + 2 * RL_CHANNEL_BYTES + 1 + RL_DIGITS + 1)

struct rl_subscriber;

struct rl_notifications {
    struct rl_nodes *nodes;
    struct rl_subscriber *subscriber; /* one per node; NULL: no caller waited yet */
    struct rl_waiter_table waiters;
    size_t channel_len;
    char entry[RL_QUEUE_ENTRY_ROOM]; /* begins with the channel */
};

/* The client has tried to subscribe: its waiters may be notified. */
static inline bool rl_notifications_started(const struct rl_notifications *notifications)
{
    return notifications->subscriber != NULL;
}

/* Starts to subscribe on each node, as far as memory, the nodes and ACL rights allow. */
void rl_notifications_start(struct rl_notifications *notifications);

/* The nodes on which the client is subscribed. */
rl_node_set rl_notifications_nodes(const struct rl_notifications *notifications);

/* The client is subscribed on this node, and has been since before `sent` without a gap. */
bool rl_notifications_since(const struct rl_notifications *notifications, unsigned node,
                            rl_time sent);

/*
 * The queue entry of the waiter with this number, the same in each queue. It is valid until
 * the next call.
 */
struct rl_word rl_notifications_queue_entry(struct rl_notifications *notifications,
                                            uint64_t number);

void rl_notifications_stop_reading(struct rl_notifications *notifications);

/* See rl_connection_clear(). */
void rl_notifications_close(struct rl_notifications *notifications, bool forked);

#endif
