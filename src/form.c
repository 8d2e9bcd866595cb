#include "form.h"

#include <stdlib.h>
#include <string.h>

#include "net/resp.h"

void rl_form_clear(struct rl_form *form)
{
    free(form->bytes);
    *form = (struct rl_form){0};
}

/* Whatever was in it. */
static bool write_words(struct rl_form *form, const struct rl_word *word, size_t words)
{
    size_t size = rl_resp_size(word, words);
    form->kind = NULL;
    if (size > form->room) {
        char *bytes = realloc(form->bytes, size);
        if (!bytes)
            return false;
        form->bytes = bytes;
        form->room = size;
    }
    form->len = rl_resp_write(word, words, form->bytes);
    return true;
}

/* Fenced ones tell times, and whoever takes a place how long it has waited. */
static bool is_usual(const struct rl_kind *kind, const struct rl_subject *subject)
{
    return !kind->is_fenced && subject->place.len == 0;
}

static bool is_alike(const struct rl_form *form, const struct rl_kind *kind,
                     const struct rl_subject *subject)
{
    return form->kind == kind && is_usual(kind, subject) &&
           form->key_len == subject->key.len && form->token_len == subject->token.len &&
           form->ttl_ms == subject->ttl_ms && form->plant == subject->plant;
}

/* Where a word of the subject is in the bytes; 0: it is not said. */
static size_t find(const struct rl_command *command, struct rl_word wanted)
{
    for (size_t i = 0; i < command->words; i++)
        if (command->word[i].text == wanted.text)
            return rl_resp_at(command->word, command->words, i);
    return 0;
}

/* From now on one like this can be written over it. */
static void note(struct rl_form *form, const struct rl_kind *kind,
                 const struct rl_command *command, const struct rl_subject *subject)
{
    form->key_at = find(command, subject->key);
    form->token_at = find(command, subject->token);
    if (!form->key_at || !form->token_at)
        return;
    form->kind = kind;
    form->key_len = subject->key.len;
    form->token_len = subject->token.len;
    form->ttl_ms = subject->ttl_ms;
    form->plant = subject->plant;
}

bool rl_form_write(struct rl_form *form, const struct rl_kind *kind, enum rl_text text,
                   bool whole, const struct rl_subject *subject)
{
    struct rl_command command;
    if (is_alike(form, kind, subject)) {
        memcpy(form->bytes + form->key_at, subject->key.text, subject->key.len);
        memcpy(form->bytes + form->token_at, subject->token.text, subject->token.len);
        return true;
    }
    rl_kind_command(kind, text, whole, subject, &command);
    if (!write_words(form, command.word, command.words))
        return false;
    if (is_usual(kind, subject))
        note(form, kind, &command, subject);
    return true;
}
