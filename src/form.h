/*
 * A form: the bytes of a command. The next one like it differs in key and token only, and
 * is written over it.
 */
#ifndef RL_FORM_H
#define RL_FORM_H

#include "core/kind.h"

struct rl_form {
    char *bytes;
    size_t room, len;
    /* What it was written for, if another can be written over it; else the kind is NULL. */
    const struct rl_kind *kind;
    int64_t ttl_ms;
    bool plant;
    size_t key_at, key_len, token_at, token_len;
};

/*
 * What this kind says by this text about the subject; `whole`: with the script itself. One
 * form is for one text, whole or not. False: no memory.
 */
bool rl_form_write(struct rl_form *form, const struct rl_kind *kind, enum rl_text text,
                   bool whole, const struct rl_subject *subject);

void rl_form_clear(struct rl_form *form);

#endif
