/* Parses replies to INFO, which consist of lines "name:value". */
#ifndef RL_INFO_H
#define RL_INFO_H

#include "core/kind.h"

/*
 * The value of the field `name`; empty if there is none. It is valid as long as the reply.
 */
struct rl_word rl_info_field(const struct rl_reply *reply, const char *name);

bool rl_info_is(struct rl_word value, const char *text);

/* The value as a non-negative number; UNKNOWN: it is not one. */
int64_t rl_info_number(struct rl_word value);

#endif
