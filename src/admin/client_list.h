/*
 * The clients that are connected to a node, by the names of their connections, and which of
 * them other nodes lack. Pure functions of replies to CLIENT LIST.
 */
#ifndef RL_CLIENT_LIST_H
#define RL_CLIENT_LIST_H

#include "health_rules.h"

/*
 * A connection of this age shows that its client is connected to all nodes that it has and
 * can reach. So long are also two lists of a node apart, the second of which confirms what
 * the first one shows: longer than a client waits until it connects again.
 */
#define RL_CLIENT_AGE (RL_DENIED_CAP + RL_SECOND)

struct rl_client_list;

/* NULL: no memory. The caller frees the list by free(). */
struct rl_client_list *rl_client_list_read(struct rl_word text);

/*
 * Sets `missing` of each probe: the clients that are in `again` of another node, for
 * RL_CLIENT_AGE, but in neither list of this one. A list that is NULL is unknown. Returns
 * whether there are any.
 */
bool rl_client_lists_compare(struct rl_client_list *const *first,
                             struct rl_client_list *const *again, unsigned n,
                             struct rl_probe *probes);

#endif
