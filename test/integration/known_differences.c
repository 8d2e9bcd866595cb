#include "known_differences.h"

#include <stdio.h>
#include <stdlib.h>

/* An error: a text, at most so many bytes after it, and what follows it and stays. */
struct difference {
    const char *server, *text;
    size_t most;
    const char *end;
};

static const struct difference differences[] = {
    /* The words of an unknown command, where it has none. */
    {"redis 8.6", ", with args beginning with: ", 0, "\r\n"},
    /* An advice that does not fit each command that runs a script. */
    {"valkey ", " Please use EVAL.", 0, "\r\n"},
    /* Its own name, or none, in the errors of scripts. */
    {"valkey ", "Redis ", 0, "command"},
    {"valkey 9.1", "Valkey ", 0, "command"},
    {"valkey ", "redis lib ", 0, "call"},
    {"valkey ", "Lua redis lib c", 0, "ommand arguments"},
    {"valkey ", "C", 0, "ommand arguments"},
    /* The name of a script: its engines need not have one. */
    {"valkey 9.1", "script: ", 42, "on @user_script"},
    /* A command or its subcommand is unknown to a script. */
    {"valkey 9.1", "Unknown command called from script", 0, ""},
    {"valkey 9.1", "unknown subcommand '", 200, " on @user_script"},
    {"valkey 9.1", "unknown subcommand '", 200, "\r\n"},
    /* INFO's name of the mode; the client reads `cluster_enabled`, too. */
    {"valkey ", "redis", 0, "_mode:"},
    {"valkey ", "server", 0, "_mode:"},
};

static void remove_one(const struct difference *difference, struct bytes *text)
{
    size_t len = strlen(difference->text), end_len = strlen(difference->end);
    for (size_t at = 0; at < text->len; at++) {
        const char *found = memmem(text->data + at, text->len - at, difference->text, len);
        if (!found)
            return;
        at = (size_t)(found - text->data);
        size_t left = text->len - at - len, room = difference->most + end_len;
        const char *end =
            memmem(found + len, left < room ? left : room, difference->end, end_len);
        if (!end)
            continue;
        size_t rest = (size_t)(end - text->data);
        memmove(text->data + at, end, text->len - rest);
        text->len -= rest - at;
    }
}

static void remove_all(const char *server, struct bytes *text)
{
    for (size_t i = 0; i < sizeof(differences) / sizeof(differences[0]); i++)
        if (strncmp(server, differences[i].server, strlen(differences[i].server)) == 0)
            remove_one(&differences[i], text);
}

/* The next line with its end, or the next bulk string without its length. */
static struct rl_word next_text(const struct bytes *replies, size_t *at, bool *ret_is_bulk)
{
    const char *line = replies->data + *at;
    const char *end = memmem(line, replies->len - *at, "\r\n", 2);
    size_t len = end ? (size_t)(end + 2 - line) : replies->len - *at;
    *at += len;
    *ret_is_bulk = *line == '$' && line[1] != '-';
    if (!*ret_is_bulk)
        return (struct rl_word){line, len};
    size_t bulk = strtoul(line + 1, NULL, 10) + 2, left = replies->len - *at;
    bulk = bulk < left ? bulk : left;
    *at += bulk;
    return (struct rl_word){line + len, bulk};
}

void known_differences_remove(const char *server, struct bytes *replies)
{
    struct bytes same = {0}, text = {0};
    for (size_t at = 0; at < replies->len;) {
        bool is_bulk;
        char length[32];
        bytes_set(&text, next_text(replies, &at, &is_bulk));
        remove_all(server, &text);
        snprintf(length, sizeof(length), "$%zu\r\n", text.len - 2);
        if (is_bulk)
            bytes_add_text(&same, length);
        bytes_add(&same, text.data, text.len);
    }
    bytes_free(&text);
    bytes_free(replies);
    *replies = same;
}
