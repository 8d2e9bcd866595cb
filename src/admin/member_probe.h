/* What `redlock check` knows of the nodes as members for fenced locks, from their
 * greetings. */
#ifndef RL_MEMBER_PROBE_H
#define RL_MEMBER_PROBE_H

#include "health_rules.h"

/* Sets `member` of each probe, and the values of a member in each node's health. */
void rl_member_probe_note(const redlock_client *client, struct rl_probe *probes,
                          redlock_node_health *health);

#endif
