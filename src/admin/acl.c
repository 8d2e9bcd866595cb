#include "acl.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "redlock/admin.h"

/*
 * What a node must allow, and how that is tried (protocol.md, Rights). SET XX and ZADD XX
 * change nothing if the key does not exist. Yet the node refuses SET XX for the same
 * reasons as any SET: missing rights, memory, a full disk. EVALSHA uses a hash that no
 * script has: the reply NOSCRIPT means that the right exists. No client subscribes to the
 * channel that has the key's name.
 */
#define KEY       "\1"
#define TO_SELECT (1u << 31) /* beside REDLOCK_ACL_...: a database other than 0 */
static const struct {
    const char *name;
    enum rl_purpose purpose;
    unsigned uses; /* 0: every client needs it */
    const char *word[RL_ACL_RIGHT_WORDS - 1];
} rights[] = {
    {"INFO", RL_TO_CONNECT, 0, {NULL}},
    {"SET", RL_TO_LOCK, 0, {KEY, "-", "XX", "PX", "1"}},
    {"GETRANGE", RL_TO_LOCK, 0, {KEY, "0", "0"}},
    {"PTTL", RL_TO_LOCK, 0, {KEY}},
    {"PEXPIRE", RL_TO_LOCK, 0, {KEY, "1"}},
    {"DEL", RL_TO_LOCK, 0, {KEY}},
    {"EVAL", RL_TO_LOCK, 0, {"return 0", "1", KEY}},
    {"EVALSHA", RL_TO_LOCK, 0, {"0000000000000000000000000000000000000000", "1", KEY}},
    {"EXISTS", RL_TO_LOCK_SETS, 0, {KEY}},
    {"TIME", RL_TO_TELL_TIME, 0, {NULL}},
    {"ZADD", RL_TO_WAIT, 0, {KEY, "XX", "1", "-"}},
    {"ZRANGE", RL_TO_WAIT, 0, {KEY, "0", "1"}},
    {"ZREM", RL_TO_WAIT, 0, {KEY, "-"}},
    {"ZSCORE", RL_TO_WAIT, 0, {KEY, "-"}},
    {"PUBLISH", RL_TO_WAIT, 0, {KEY, "-"}},
    {"SUBSCRIBE", RL_TO_SUBSCRIBE, 0, {NULL}},
    {"PING", RL_TO_SUBSCRIBE, 0, {NULL}},
    {"CLIENT|SETNAME", RL_TO_CONNECT, 0, {NULL}},
    {"SELECT", RL_TO_CONNECT, TO_SELECT, {NULL}},
    {"HINCRBY", RL_TO_LOCK, REDLOCK_ACL_REDISSON, {NULL}},
    {"HDEL", RL_TO_LOCK, REDLOCK_ACL_REDISSON, {NULL}},
    {"HEXISTS", RL_TO_LOCK, REDLOCK_ACL_REDISSON, {NULL}},
    {"HSTRLEN", RL_TO_LOCK, REDLOCK_ACL_REDISSON, {NULL}},
    {"HGETALL", RL_TO_LOCK, REDLOCK_ACL_REDISSON, {NULL}},
    {"TYPE", RL_TO_LOCK, REDLOCK_ACL_REDISSON | REDLOCK_ACL_LIST, {NULL}},
    {"HLEN", RL_TO_LOCK, REDLOCK_ACL_REDISSON | REDLOCK_ACL_LIST, {NULL}},
    {"HKEYS", RL_TO_LOCK, REDLOCK_ACL_REDISSON | REDLOCK_ACL_LIST, {NULL}},
    {"SCAN", RL_TO_LOCK, REDLOCK_ACL_LIST, {NULL}},
};

#define RIGHTS (sizeof(rights) / sizeof(rights[0]))

/* --- trying --- */

static bool is_tried(size_t right)
{
    return rights[right].uses == 0 && rights[right].purpose <= RL_TO_WAIT;
}

size_t rl_acl_rights(struct rl_acl_right ret_right[RL_ACL_RIGHTS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < RIGHTS; i++) {
        if (!is_tried(i))
            continue;
        assert(count < RL_ACL_RIGHTS_MAX);
        ret_right[count++] = (struct rl_acl_right){
            .name = rights[i].name, .purpose = rights[i].purpose, .row = i};
    }
    return count;
}

size_t rl_acl_right_argv(const struct rl_acl_right *right, struct rl_word key,
                         struct rl_word ret_word[RL_ACL_RIGHT_WORDS])
{
    size_t words = 0;
    ret_word[words++] = (struct rl_word){right->name, strlen(right->name)};
    for (size_t i = 0; i < RL_ACL_RIGHT_WORDS - 1 && rights[right->row].word[i]; i++) {
        const char *word = rights[right->row].word[i];
        bool is_key = strcmp(word, KEY) == 0;
        ret_word[words++] = is_key ? key : (struct rl_word){word, strlen(word)};
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
    uses |= select ? TO_SELECT : 0;
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
    for (size_t i = 0; i < RIGHTS; i++)
        if (rights[i].uses == 0 || rights[i].uses & uses)
            put_right(&line, rights[i].name);
    if (room > 0)
        text[line.len < room ? line.len : room - 1] = '\0';
    return line.len;
}
