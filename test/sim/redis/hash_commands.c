#include <inttypes.h>
#include <stdio.h>

#include "commands.h"
#include "number.h"
#include "reply.h"

/* False: the key is of another type, and the reply says so. */
static bool find(struct call *call, struct key **ret_key)
{
    *ret_key = call_key(call, 1);
    if (!*ret_key || (*ret_key)->type == KEY_HASH)
        return true;
    reply_wrong_type(call->out);
    return false;
}

static struct key *or_new(struct call *call, struct key *key)
{
    return key ? key
               : keyspace_add(&call->redis->keyspace, call->link->db, call->word[1],
                              KEY_HASH);
}

void command_hset(struct call *call)
{
    struct key *key;
    int64_t added = 0;
    if (call->words % 2 != 0) {
        reply_error_format(call->out, "ERR wrong number of arguments for 'hset' command");
        return;
    }
    if (!find(call, &key))
        return;
    key = or_new(call, key);
    for (size_t i = 2; i < call->words; i += 2)
        added += hash_set(&key->hash_value, call->word[i], call->word[i + 1]);
    reply_integer(call->out, added);
}

void command_hincrby(struct call *call)
{
    struct key *key;
    int64_t by, value = 0;
    char text[24];
    if (!number_integer(call->word[3], &by)) {
        reply_not_integer(call->out);
        return;
    }
    if (!find(call, &key))
        return;
    size_t at = key ? hash_find(&key->hash_value, call->word[2]) : 0;
    bool is_there = key && at < key->hash_value.fields;
    if (is_there && !number_integer(bytes_word(&key->hash_value.field[at].value), &value))
        reply_error_format(call->out, "ERR hash value is not an integer");
    else if (__builtin_add_overflow(value, by, &value))
        reply_error_format(call->out, "ERR increment or decrement would overflow");
    else {
        int len = snprintf(text, sizeof(text), "%" PRId64, value);
        hash_set(&or_new(call, key)->hash_value, call->word[2],
                 (struct rl_word){text, (size_t)len});
        reply_integer(call->out, value);
    }
}

void command_hexists(struct call *call)
{
    struct key *key;
    if (!find(call, &key))
        return;
    const struct hash *hash = key ? &key->hash_value : NULL;
    reply_integer(call->out, hash && hash_find(hash, call->word[2]) < hash->fields);
}

void command_hdel(struct call *call)
{
    struct key *key;
    int64_t removed = 0;
    if (!find(call, &key))
        return;
    for (size_t i = 2; key && i < call->words; i++) {
        size_t at = hash_find(&key->hash_value, call->word[i]);
        if (at == key->hash_value.fields)
            continue;
        hash_remove(&key->hash_value, at);
        removed++;
    }
    if (key && key->hash_value.fields == 0)
        keyspace_delete(&call->redis->keyspace, key);
    reply_integer(call->out, removed);
}

void command_hstrlen(struct call *call)
{
    struct key *key;
    if (!find(call, &key))
        return;
    const struct hash *hash = key ? &key->hash_value : NULL;
    size_t at = hash ? hash_find(hash, call->word[2]) : 0;
    reply_integer(call->out, hash && at < hash->fields
                                 ? (int64_t)bytes_word(&hash->field[at].value).len
                                 : 0);
}

void command_hlen(struct call *call)
{
    struct key *key;
    if (find(call, &key))
        reply_integer(call->out, key ? (int64_t)key->hash_value.fields : 0);
}

static void reply_fields(struct call *call, bool with_values)
{
    struct key *key;
    if (!find(call, &key))
        return;
    size_t fields = key ? key->hash_value.fields : 0;
    reply_array(call->out, fields << with_values);
    for (size_t i = 0; i < fields; i++) {
        reply_bulk(call->out, bytes_word(&key->hash_value.field[i].name));
        if (with_values)
            reply_bulk(call->out, bytes_word(&key->hash_value.field[i].value));
    }
}

void command_hkeys(struct call *call)
{
    reply_fields(call, false);
}

void command_hgetall(struct call *call)
{
    reply_fields(call, true);
}
