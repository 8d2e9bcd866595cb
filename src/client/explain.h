/* Describes nodes and votes to the caller. */
#ifndef RL_EXPLAIN_H
#define RL_EXPLAIN_H

#include "client.h"

_Static_assert((int)RL_VOTE_ABSENT == (int)REDLOCK_VERDICT_ABSENT, "votes are verdicts");
_Static_assert((int)RL_LINK_QUARANTINED ==
                   (int)REDLOCK_VERDICT_QUARANTINED - (int)REDLOCK_VERDICT_DOWN,
               "states of links are verdicts");

static inline redlock_verdict rl_verdict_of_vote(enum rl_vote vote)
{
    return (redlock_verdict)vote;
}

static inline redlock_verdict rl_verdict_of_link(enum rl_link_state state)
{
    return REDLOCK_VERDICT_DOWN + state;
}

/* Copies a value that a node returned into a string. */
void rl_client_keep_value(struct rl_word value, char ret_value[REDLOCK_TOKEN_MAX + 1]);

/* Describes one ballot, and `value`, which the node stores; NULL if it is unknown. */
void rl_client_describe(const redlock_client *client, unsigned node,
                        const struct rl_ballot *ballot, const char *value,
                        redlock_node *ret_node);

/* Writes the i-th element of an array whose elements have `size` bytes. */
void rl_client_put_node(const redlock_node *node, unsigned i, redlock_node *nodes,
                        size_t size);

/* Fills in why nodes were absent from a round: from their links, or from their markers. */
RL_RARE void rl_client_note_absent(const redlock_client *client, struct rl_ballot *ballot,
                                   bool is_fenced);

/* True if too many nodes refuse the credentials: the remaining nodes are no quorum. */
bool rl_client_is_denied(const redlock_client *client, const struct rl_ballot *ballot);

#endif
