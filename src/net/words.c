#include "words.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

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

void rl_words_set_reply(struct rl_words *words, enum rl_fault fault,
                        const struct rl_reply *reply, bool after_password,
                        const char *secret)
{
    size_t len = reply->len;
    const char *cut = memmem(reply->text, len, ARGUMENTS, strlen(ARGUMENTS));
    if (cut)
        len = (size_t)(cut - reply->text);
    cut = secret ? memmem(reply->text, len, secret, strlen(secret)) : NULL;
    if (cut && secret[0])
        len = (size_t)(cut - reply->text);
    for (size_t i = 0; after_password && i < len; i++)
        if (strchr("'`\"", reply->text[i]))
            len = i;
    /* A code alone, as of the library's own scripts, is the name of the fault. */
    if (memchr(reply->text, ' ', len))
        set(words, fault, reply->text, len);
    else
        words->fault = RL_FAULT_NONE;
}

void rl_words_move(struct rl_words *words, enum rl_fault fault)
{
    char kept[sizeof(words->text)];
    if (words->fault == RL_FAULT_NONE)
        return;
    strcpy(kept, words->text + strlen(rl_fault_text(words->fault)) + strlen(": "));
    rl_words_set(words, fault, kept);
}

const char *rl_words_text(const struct rl_words *words, enum rl_fault fault)
{
    return fault != RL_FAULT_NONE && words->fault == fault ? words->text
                                                           : rl_fault_text(fault);
}
