/*
 * The commands that `redlock check` sends to a node, and the parsing of the replies. If a
 * command gets no reply, the values that it asks for stay unknown.
 */
#ifndef RL_HEALTH_PROBE_H
#define RL_HEALTH_PROBE_H

#include "acl.h"

/* The number of commands. The last ones try the rights. */
size_t rl_probe_commands(const struct rl_probe *probe);

/* The words of command `question`. `key` must be unused. Zero: do not send this one. */
size_t rl_probe_argv(const struct rl_probe *probe, size_t question, struct rl_word key,
                     struct rl_word ret_word[RL_ACL_RIGHT_WORDS]);

/* Parses the reply to command `question`, which arrived at `now`. */
void rl_probe_read(struct rl_probe *probe, redlock_node_health *health, size_t question,
                   const struct rl_reply *reply, rl_time now);

#endif
