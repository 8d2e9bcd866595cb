#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "number.h"
#include "reply.h"

#define PEXPIRETIME_NOTHING (-2)
#define PEXPIRETIME_FOREVER (-1)

void command_get(struct call *call)
{
    const struct key *key = call_key(call, 1);
    if (!key)
        reply_nil(call->out);
    else if (key->type != KEY_STRING)
        reply_wrong_type(call->out);
    else
        reply_bulk(call->out, bytes_word(&key->string));
}

/* A position below 0 counts from the end. */
static int64_t position_in(int64_t at, size_t len)
{
    return rl_max(at < 0 ? at + (int64_t)len : at, 0);
}

void command_getrange(struct call *call)
{
    const struct key *key = call_key(call, 1);
    int64_t first, last;
    if (!number_integer(call->word[2], &first) || !number_integer(call->word[3], &last)) {
        reply_not_integer(call->out);
        return;
    }
    if (key && key->type != KEY_STRING) {
        reply_wrong_type(call->out);
        return;
    }
    struct rl_word whole = key ? bytes_word(&key->string) : (struct rl_word){0};
    bool is_backward = first < 0 && last < 0 && first > last;
    first = position_in(first, whole.len);
    last = rl_min(position_in(last, whole.len), (int64_t)whole.len - 1);
    if (is_backward || first > last)
        reply_bulk(call->out, (struct rl_word){"", 0});
    else
        reply_bulk(call->out,
                   (struct rl_word){whole.text + first, (size_t)(last - first + 1)});
}

void command_exists(struct call *call)
{
    int64_t found = 0;
    for (size_t i = 1; i < call->words; i++)
        found += call_key(call, i) != NULL;
    reply_integer(call->out, found);
}

/* The options of SET that are simulated. */
struct set_options {
    bool nx, xx;
    const struct rl_word *px, *ex;
};

static bool read_set_options(const struct call *call, struct set_options *options)
{
    for (size_t i = 3; i < call->words; i++) {
        bool has_time = !options->px && !options->ex && i + 1 < call->words;
        if (word_is_option(call->word[i], "NX") && !options->xx)
            options->nx = true;
        else if (word_is_option(call->word[i], "XX") && !options->nx)
            options->xx = true;
        else if (word_is_option(call->word[i], "PX") && has_time)
            options->px = &call->word[++i];
        else if (word_is_option(call->word[i], "EX") && has_time)
            options->ex = &call->word[++i];
        else
            return false;
    }
    return true;
}

/* When the key expires, in ms since 1970. */
static bool read_expiry(const struct call *call, const struct set_options *options,
                        int64_t *ret_expires)
{
    const struct rl_word *word = options->px ? options->px : options->ex;
    int64_t unit = options->ex ? 1000 : 1, ttl, now_ms = call->now / RL_MS;
    *ret_expires = KEY_FOREVER;
    if (!word)
        return true;
    if (!number_integer(*word, &ttl)) {
        reply_not_integer(call->out);
        return false;
    }
    if (ttl <= 0 || ttl > INT64_MAX / unit || ttl * unit > INT64_MAX - now_ms) {
        reply_error_format(call->out, "ERR invalid expire time in 'set' command");
        return false;
    }
    *ret_expires = now_ms + ttl * unit;
    return true;
}

void command_set(struct call *call)
{
    struct set_options options = {0};
    int64_t expires;
    if (!read_set_options(call, &options)) {
        reply_syntax_error(call->out);
        return;
    }
    if (!read_expiry(call, &options, &expires))
        return;
    struct key *key = call_key(call, 1);
    if ((options.nx && key) || (options.xx && !key)) {
        reply_nil(call->out);
        return;
    }
    if (!key)
        key =
            keyspace_add(&call->redis->keyspace, call->link->db, call->word[1], KEY_STRING);
    key->type = KEY_STRING;
    bytes_set(&key->string, call->word[2]);
    key->expires = expires;
    reply_ok(call->out);
}

void command_del(struct call *call)
{
    int64_t deleted = 0;
    for (size_t i = 1; i < call->words; i++) {
        struct key *key = call_key(call, i);
        if (!key)
            continue;
        keyspace_delete(&call->redis->keyspace, key);
        deleted++;
    }
    reply_integer(call->out, deleted);
}

void command_type(struct call *call)
{
    static const char *const names[] = {[KEY_STRING] = "string",
                                        [KEY_ZSET] = "zset",
                                        [KEY_LIST] = "list",
                                        [KEY_HASH] = "hash"};
    const struct key *key = call_key(call, 1);
    const char *name = key ? names[key->type] : "none";
    reply_status(call->out, (struct rl_word){name, strlen(name)});
}

void command_pttl(struct call *call)
{
    const struct key *key = call_key(call, 1);
    reply_integer(call->out, !key ? PEXPIRETIME_NOTHING
                             : key->expires == KEY_FOREVER
                                 ? PEXPIRETIME_FOREVER
                                 : key->expires - call->now / RL_MS);
}

void command_pexpiretime(struct call *call)
{
    const struct key *key = call_key(call, 1);
    reply_integer(call->out, !key                          ? PEXPIRETIME_NOTHING
                             : key->expires == KEY_FOREVER ? PEXPIRETIME_FOREVER
                                                           : key->expires);
}

/* Without options. */
void command_pexpire(struct call *call)
{
    int64_t ttl, now_ms = call->now / RL_MS;
    if (call->words > 3) {
        reply_error_format(call->out, "ERR Unsupported option %.*s", (int)call->word[3].len,
                           call->word[3].text);
        return;
    }
    if (!number_integer(call->word[2], &ttl)) {
        reply_not_integer(call->out);
        return;
    }
    if (ttl > INT64_MAX - now_ms) {
        reply_error_format(call->out, "ERR invalid expire time in 'pexpire' command");
        return;
    }
    struct key *key = call_key(call, 1);
    if (key && ttl <= 0)
        keyspace_delete(&call->redis->keyspace, key);
    else if (key)
        key->expires = now_ms + ttl;
    reply_integer(call->out, key != NULL);
}

void command_rpush(struct call *call)
{
    struct key *key = call_key(call, 1);
    if (key && key->type != KEY_LIST) {
        reply_wrong_type(call->out);
        return;
    }
    if (!key)
        key = keyspace_add(&call->redis->keyspace, call->link->db, call->word[1], KEY_LIST);
    key->list_len += (int64_t)call->words - 2;
    reply_integer(call->out, key->list_len);
}

void command_flushall(struct call *call)
{
    bool has_mode = call->words == 2 && (word_is_option(call->word[1], "SYNC") ||
                                         word_is_option(call->word[1], "ASYNC"));
    if (call->words > 1 && !has_mode) {
        reply_syntax_error(call->out);
        return;
    }
    call->redis->keyspace.keys = 0;
    reply_ok(call->out);
}

/* --- SCAN --- */

struct scan {
    size_t cursor;
    int64_t count;
    char *pattern; /* NULL: all keys */
};

static bool read_scan(const struct call *call, struct scan *scan)
{
    int64_t cursor;
    if (!number_integer(call->word[1], &cursor) || cursor < 0) {
        reply_error_format(call->out, "ERR invalid cursor");
        return false;
    }
    scan->cursor = (size_t)cursor;
    for (size_t i = 2; i < call->words; i += 2) {
        bool has_value = i + 1 < call->words;
        if (word_is_option(call->word[i], "COUNT") && has_value) {
            if (!number_integer(call->word[i + 1], &scan->count)) {
                reply_not_integer(call->out);
                return false;
            }
        } else if (word_is_option(call->word[i], "MATCH") && has_value) {
            free(scan->pattern);
            scan->pattern = strndup(call->word[i + 1].text, call->word[i + 1].len);
        }
        if (!has_value || scan->count < 1 ||
            !(word_is_option(call->word[i], "COUNT") ||
              word_is_option(call->word[i], "MATCH"))) {
            reply_syntax_error(call->out);
            return false;
        }
    }
    return true;
}

static bool matches(const struct scan *scan, const struct key *key)
{
    char *name = strndup(key->name.len ? key->name.data : "", key->name.len);
    bool result = !scan->pattern || fnmatch(scan->pattern, name, 0) == 0;
    free(name);
    return result;
}

/* Keys in the order in which they are stored; the cursor is the position. */
static void reply_page(struct call *call, const struct scan *scan)
{
    struct keyspace *keyspace = &call->redis->keyspace;
    struct bytes page = {0};
    size_t found = 0, i = scan->cursor;
    int64_t left = scan->count;
    for (; i < keyspace->keys && left > 0; left--) {
        struct key *key = &keyspace->key[i];
        bool is_wanted = key->db == call->link->db && matches(scan, key);
        bool is_expired =
            is_wanted && keyspace_is_expired(keyspace, key, call->now / RL_MS);
        if (is_expired && !keyspace->keeps_expired) {
            keyspace_delete(keyspace, key); /* another key takes its place */
            continue;
        }
        if (is_wanted && !is_expired) {
            reply_bulk(&page, bytes_word(&key->name));
            found++;
        }
        i++;
    }
    reply_array(call->out, 2);
    reply_bulk_integer(call->out, i < keyspace->keys ? (int64_t)i : 0);
    reply_array(call->out, found);
    bytes_add(call->out, page.data, page.len);
    bytes_free(&page);
}

void command_scan(struct call *call)
{
    struct scan scan = {.count = 10};
    if (read_scan(call, &scan))
        reply_page(call, &scan);
    free(scan.pattern);
}
