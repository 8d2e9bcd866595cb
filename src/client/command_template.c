#include "command_template.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "net/resp.h"

void rl_command_template_clear(struct rl_command_template *template)
{
    free(template->bytes);
    *template = (struct rl_command_template){0};
}

/* Encodes the whole command; the old content is lost. */
static bool write_words(struct rl_command_template *template, const struct rl_word *word,
                        size_t words)
{
    size_t size = rl_resp_size(word, words);
    template->kind = NULL;
    if (size > template->room) {
        char *bytes = realloc(template->bytes, size);
        if (!bytes)
            return false;
        template->bytes = bytes;
        template->room = size;
    }
    template->len = rl_resp_write(word, words, template->bytes);
    return true;
}

/*
 * Only such a command can be reused: it has no arguments but key, token, TTL and
 * `recreate`. Any other argument, also a new one of `struct rl_command_args`, is not 0.
 */
static bool is_usual(const struct rl_command_args *args)
{
    const unsigned char *bytes = (const unsigned char *)args;
    unsigned char any = 0;
    for (size_t i = offsetof(struct rl_command_args, set);
         i < offsetof(struct rl_command_args, recreate); i++)
        any |= bytes[i];
    return any == 0;
}

_Static_assert(offsetof(struct rl_command_args, set) ==
                       offsetof(struct rl_command_args, ttl_ms) + sizeof(int64_t) &&
                   sizeof(struct rl_command_args) -
                           offsetof(struct rl_command_args, recreate) <=
                       _Alignof(struct rl_command_args),
               "is_usual() and is_alike() look at each argument");

static bool is_alike(const struct rl_command_template *template, const struct rl_kind *kind,
                     const struct rl_command_args *args)
{
    return template->kind == kind && template->key_len == args->key.len &&
           template->token_len == args->token.len && template->ttl_ms == args->ttl_ms &&
           template->recreate == args->recreate && is_usual(args);
}

/* The offset of an argument in the encoded bytes; 0: the command does not contain it. */
static size_t find(const struct rl_argv *command, struct rl_word wanted)
{
    for (size_t i = 0; i < command->words; i++)
        if (command->word[i].text == wanted.text)
            return rl_resp_at(command->word, command->words, i);
    return 0;
}

/* Makes the template reusable, if the command contains both key and token. */
static void note(struct rl_command_template *template, const struct rl_kind *kind,
                 const struct rl_argv *command, const struct rl_command_args *args)
{
    template->key_at = find(command, args->key);
    template->token_at = find(command, args->token);
    if (!template->key_at || !template->token_at)
        return;
    template->kind = kind;
    template->key_len = args->key.len;
    template->token_len = args->token.len;
    template->ttl_ms = args->ttl_ms;
    template->recreate = args->recreate;
}

RL_HOT bool rl_command_template_write(struct rl_command_template *template,
                                      const struct rl_kind *kind, enum rl_command command,
                                      bool whole, const struct rl_command_args *args)
{
    struct rl_argv argv;
    if (is_alike(template, kind, args)) {
        memcpy(template->bytes + template->key_at, args->key.text, args->key.len);
        memcpy(template->bytes + template->token_at, args->token.text, args->token.len);
        return true;
    }
    rl_kind_argv(kind, command, whole, args, &argv);
    if (!write_words(template, argv.word, argv.words))
        return false;
    if (is_usual(args))
        note(template, kind, &argv, args);
    return true;
}
