/*
 * A command template holds the encoded bytes of a command. If the next command differs only
 * in key and token, these are overwritten in place, and the rest is not encoded again.
 */
#ifndef RL_COMMAND_TEMPLATE_H
#define RL_COMMAND_TEMPLATE_H

#include "core/kind.h"

struct rl_command_template {
    char *bytes;
    size_t room, len;
    /* The properties of the encoded command. `kind` is NULL if it cannot be reused. */
    const struct rl_kind *kind;
    int64_t ttl_ms;
    bool recreate;
    size_t key_at, key_len, token_at, token_len;
};

/*
 * Writes the command of this kind with these arguments. `whole`: with the script's source
 * instead of its hash. Use a template only for one command and one value of `whole`. False:
 * no memory.
 */
bool rl_command_template_write(struct rl_command_template *template,
                               const struct rl_kind *kind, enum rl_command command,
                               bool whole, const struct rl_command_args *args);

void rl_command_template_clear(struct rl_command_template *template);

#endif
