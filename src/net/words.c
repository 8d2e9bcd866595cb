#include "words.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "greeting.h"

#define WORDS_MAX 140 /* bytes; the reply of a node in protected mode has 900 */

/* Begins what a server says of a command that it does not know. */
#define ARGUMENTS ", with args beginning with:"

static void set(struct rl_words *words, enum rl_fault fault, const char *text, size_t len)
{
    words->fault = fault;
    snprintf(words->text, sizeof(words->text), "%s: %.*s%s", rl_fault_text(fault),
             (int)(len < WORDS_MAX ? len : WORDS_MAX), text, len > WORDS_MAX ? "..." : "");
    for (char *c = words->text; *c; c++)
        if (!isprint((unsigned char)*c))
            *c = '?';
}

void rl_words_set(struct rl_words *words, enum rl_fault fault, const char *text)
{
    if (text[0])
        set(words, fault, text, strlen(text));
    else
        words->fault = RL_FAULT_NONE;
}

static size_t len_before(const char *text, size_t len, const char *what)
{
    const char *found = what[0] ? memmem(text, len, what, strlen(what)) : NULL;
    return found ? (size_t)(found - text) : len;
}

void rl_words_set_reply(struct rl_words *words, enum rl_fault fault,
                        const struct rl_reply *reply, bool may_be_auth, const char *secret)
{
    size_t len = len_before(reply->text, reply->len, ARGUMENTS);
    /* A server or a proxy may repeat the password, also a part of it, or encoded. */
    if (secret && may_be_auth)
        len = rl_greeting_auth_len(reply);
    else if (secret)
        len = len_before(reply->text, len, secret);
    /* A code alone, as of the library's own scripts, is the name of the fault. */
    if (memchr(reply->text, ' ', len))
        set(words, fault, reply->text, len);
    else
        words->fault = RL_FAULT_NONE;
}

const char *rl_words_text(const struct rl_words *words, enum rl_fault fault)
{
    return fault != RL_FAULT_NONE && words->fault == fault ? words->text
                                                           : rl_fault_text(fault);
}
