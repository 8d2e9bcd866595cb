#include "acl.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "redlock/admin.h"

/*
 * SET XX and ZADD XX change nothing if the key does not exist. Yet the node refuses SET XX
 * for the same reasons as any SET: missing rights, memory, a full disk. EVALSHA uses a hash
 * that no script has: the reply NOSCRIPT means that the right exists. No client subscribes
 * to the channel that has the key's name.
 */
#define KEY "\1"
static const struct {
    const char *name;
    enum rl_purpose purpose;
    const char *word[RL_ACL_RIGHT_WORDS - 1];
} tries[] = {
    {"SET", RL_TO_LOCK, {KEY, "-", "XX", "PX", "1"}},
    {"GETRANGE", RL_TO_LOCK, {KEY, "0", "0"}},
    {"PTTL", RL_TO_LOCK, {KEY}},
    {"PEXPIRE", RL_TO_LOCK, {KEY, "1"}},
    {"DEL", RL_TO_LOCK, {KEY}},
    {"EVAL", RL_TO_LOCK, {"return 0", "1", KEY}},
    {"EVALSHA", RL_TO_LOCK, {"0000000000000000000000000000000000000000", "1", KEY}},
    {"EXISTS", RL_TO_LOCK_SETS, {KEY}},
    {"TIME", RL_TO_TELL_TIME, {NULL}},
    {"ZADD", RL_TO_WAIT, {KEY, "XX", "1", "-"}},
    {"ZRANGE", RL_TO_WAIT, {KEY, "0", "1"}},
    {"ZREM", RL_TO_WAIT, {KEY, "-"}},
    {"ZSCORE", RL_TO_WAIT, {KEY, "-"}},
    {"PUBLISH", RL_TO_WAIT, {KEY, "-"}},
};

#define TRIES (sizeof(tries) / sizeof(tries[0]))

/* --- the list --- */

struct list {
    struct rl_acl_right *right;
    size_t count;
};

static void acl_add(struct list *list, const char *name, size_t len)
{
    for (size_t i = 0; i < list->count; i++)
        if (strlen(list->right[i].name) == len &&
            memcmp(list->right[i].name, name, len) == 0)
            return;
    assert(list->count < RL_ACL_RIGHTS_MAX && len < RL_ACL_RIGHT_NAME);
    struct rl_acl_right *right = &list->right[list->count++];
    memcpy(right->name, name, len);
    for (size_t i = 0; i < TRIES; i++)
        if (strcmp(tries[i].name, right->name) == 0)
            right->purpose = tries[i].purpose;
}

/* Adds each redis.call('NAME', ...) of the script. */
static void add_calls(struct list *list, const struct rl_script *script)
{
    static const char mark[] = "redis.call('";
    size_t len = sizeof(mark) - 1;
    for (size_t i = 0; i + len <= script->len; i++) {
        const char *name = script->body + i + len;
        if (memcmp(script->body + i, mark, len) == 0)
            acl_add(list, name, strcspn(name, "'"));
    }
}

static bool is_used(enum redlock_kind kind, unsigned uses)
{
    return kind != REDLOCK_KIND_REDISSON || uses & REDLOCK_ACL_REDISSON;
}

/* The commands that the client sends, then those that the scripts call. */
static size_t list_rights(unsigned uses, struct rl_acl_right ret_right[RL_ACL_RIGHTS_MAX])
{
    struct list list = {.right = ret_right};
    size_t kinds;
    const struct rl_kind *kind = rl_kinds(&kinds);
    memset(ret_right, 0, RL_ACL_RIGHTS_MAX * sizeof(*ret_right));
    acl_add(&list, "SET", 3);
    acl_add(&list, "EVAL", 4);
    acl_add(&list, "EVALSHA", 7);
    for (size_t i = 0; i < kinds; i++)
        for (size_t text = 0; text < RL_COMMANDS; text++)
            if (kind[i].script[text] && is_used(kind[i].type, uses))
                add_calls(&list, kind[i].script[text]);
    acl_add(&list, "TIME", 4);
    if (uses & REDLOCK_ACL_REDISSON) { /* under pcall(): an extension, and an inspection */
        acl_add(&list, "HEXISTS", 7);
        acl_add(&list, "TYPE", 4);
        acl_add(&list, "HLEN", 4);
        acl_add(&list, "HKEYS", 5);
        acl_add(&list, "HSTRLEN", 7);
        acl_add(&list, "HGETALL", 7);
    }
    if (uses & REDLOCK_ACL_LIST) {
        acl_add(&list, "SCAN", 4);
        acl_add(&list, "TYPE", 4);
        acl_add(&list, "HLEN", 4);
        acl_add(&list, "HKEYS", 5);
    }
    return list.count;
}

size_t rl_acl_rights(struct rl_acl_right ret_right[RL_ACL_RIGHTS_MAX])
{
    return list_rights(0, ret_right);
}

/* --- trying --- */

size_t rl_acl_right_argv(const struct rl_acl_right *right, struct rl_word key,
                         struct rl_word ret_word[RL_ACL_RIGHT_WORDS])
{
    size_t words = 0;
    for (size_t i = 0; i < TRIES; i++) {
        if (strcmp(tries[i].name, right->name) != 0)
            continue;
        ret_word[words++] = (struct rl_word){right->name, strlen(right->name)};
        for (size_t j = 0; j < RL_ACL_RIGHT_WORDS - 1 && tries[i].word[j]; j++) {
            const char *word = tries[i].word[j];
            bool is_key = strcmp(word, KEY) == 0;
            ret_word[words++] = is_key ? key : (struct rl_word){word, strlen(word)};
        }
    }
    return words;
}

enum rl_fault rl_acl_right_read(const struct rl_acl_right *right,
                                const struct rl_reply *reply)
{
    if (reply->type != RL_REPLY_ERROR)
        return RL_FAULT_NONE;
    enum rl_fault fault = rl_fault_of_error(reply->text, reply->len);
    bool unknown = fault == RL_FAULT_NOSCRIPT && strcmp(right->name, "EVALSHA") == 0;
    return unknown ? RL_FAULT_NONE : fault;
}

/* --- the rule --- */

struct line {
    char *text;
    size_t room, len;
};

static void acl_put(struct line *line, char c)
{
    if (line->len + 1 < line->room)
        line->text[line->len] = c;
    line->len++;
}

static void put_text(struct line *line, const char *text)
{
    while (*text)
        acl_put(line, *text++);
}

/*
 * Writes the prefix as the start of a glob pattern. A quote, which redis-cli would
 * interpret, and a blank or control character, which no ACL pattern can contain, become
 * '?', which matches any character.
 */
static void put_pattern(struct line *line, const char *prefix)
{
    for (; *prefix; prefix++) {
        if (!isgraph((unsigned char)*prefix) || strchr("\"'", *prefix)) {
            acl_put(line, '?');
            continue;
        }
        if (strchr("*?[]^\\", *prefix))
            acl_put(line, '\\');
        acl_put(line, *prefix);
    }
}

static void put_quoted(struct line *line, const char *name)
{
    char code[8];
    acl_put(line, '"');
    for (; *name; name++) {
        if (strchr("\"\\", *name))
            acl_put(line, '\\');
        if (isprint((unsigned char)*name)) {
            acl_put(line, *name);
        } else {
            snprintf(code, sizeof(code), "\\x%02x", (unsigned char)*name);
            put_text(line, code);
        }
    }
    acl_put(line, '"');
}

/* Writes the user as one redis-cli word: quoted if it has a quote or a blank. */
static void put_user(struct line *line, const char *name)
{
    bool is_plain = name[0] != '\0';
    for (const char *c = name; *c; c++)
        is_plain &= isgraph((unsigned char)*c) && !strchr("\"'", *c);
    if (is_plain)
        put_text(line, name);
    else
        put_quoted(line, name);
}

static void put_right(struct line *line, const char *name)
{
    put_text(line, " +");
    for (; *name; name++)
        acl_put(line, (char)tolower((unsigned char)*name));
}

size_t rl_acl_rule(const char *user, const char *prefix, bool select, unsigned uses,
                   char *text, size_t room)
{
    struct line line = {.text = text, .room = room};
    struct rl_acl_right right[RL_ACL_RIGHTS_MAX];
    size_t count = list_rights(uses, right);
    put_text(&line, "ACL SETUSER ");
    put_user(&line, user);
    put_text(&line, " reset on >SECRET ~");
    put_pattern(&line, prefix);
    put_text(&line, "* resetchannels &");
    put_pattern(&line, prefix);
    put_text(&line, "!wake:*");
    if (uses & REDLOCK_ACL_REDISSON)
        put_text(&line, " &redisson_lock__channel:*");
    put_text(&line, " -@all");
    put_right(&line, "INFO");
    for (size_t i = 0; i < count; i++)
        put_right(&line, right[i].name);
    put_right(&line, "SUBSCRIBE");
    put_right(&line, "PING");
    put_right(&line, "CLIENT|SETNAME");
    if (select)
        put_right(&line, "SELECT");
    if (room > 0)
        text[line.len < room ? line.len : room - 1] = '\0';
    return line.len;
}
