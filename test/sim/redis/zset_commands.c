#include "commands.h"
#include "number.h"
#include "reply.h"

/* --- ZADD, with NX and XX only --- */

struct zadd {
    bool nx, xx;
    size_t first; /* of the scores and members */
};

static bool read_zadd(const struct call *call, struct zadd *zadd)
{
    double score;
    size_t i = 2;
    for (; i < call->words; i++) {
        if (word_is_option(call->word[i], "NX"))
            zadd->nx = true;
        else if (word_is_option(call->word[i], "XX"))
            zadd->xx = true;
        else
            break;
    }
    zadd->first = i;
    if (i == call->words || (call->words - i) % 2 != 0) {
        reply_syntax_error(call->out);
        return false;
    }
    if (zadd->nx && zadd->xx) {
        reply_error_format(call->out,
                           "ERR XX and NX options at the same time are not compatible");
        return false;
    }
    for (; i < call->words; i += 2)
        if (!number_double(call->word[i], &score)) {
            reply_error_format(call->out, "ERR value is not a valid float");
            return false;
        }
    return true;
}

/* Returns whether it is new. */
static bool put(struct zset *set, const struct zadd *zadd, struct rl_word score,
                struct rl_word member)
{
    size_t i = zset_find(set, member);
    bool is_new = i == set->items;
    double value = 0;
    if (is_new ? zadd->xx : zadd->nx)
        return false;
    number_double(score, &value);
    if (!is_new)
        zset_remove(set, i);
    zset_add(set, value, member);
    return is_new;
}

void command_zadd(struct call *call)
{
    struct zadd zadd = {0};
    int64_t added = 0;
    if (!read_zadd(call, &zadd))
        return;
    struct key *key = call_key(call, 1);
    if (key && key->type != KEY_ZSET) {
        reply_wrong_type(call->out);
        return;
    }
    if (!key && !zadd.xx)
        key = keyspace_add(&call->redis->keyspace, call->link->db, call->word[1], KEY_ZSET);
    for (size_t i = zadd.first; key && i < call->words; i += 2)
        added += put(&key->zset, &zadd, call->word[i], call->word[i + 1]);
    reply_integer(call->out, added);
}

/* --- ZRANGE by positions --- */

static void reply_range(struct call *call, const struct zset *set, int64_t start,
                        int64_t stop, bool has_scores)
{
    char score[NUMBER_ROOM];
    int64_t items = set ? (int64_t)set->items : 0;
    start = start < 0 ? rl_max(start + items, 0) : start;
    stop = rl_min(stop < 0 ? stop + items : stop, items - 1);
    if (start > stop) {
        reply_array(call->out, 0);
        return;
    }
    reply_array(call->out, (size_t)(stop - start + 1) << has_scores);
    for (int64_t i = start; i <= stop; i++) {
        reply_bulk(call->out, bytes_word(&set->item[i].member));
        if (has_scores) {
            size_t len = number_write_double(score, set->item[i].score);
            reply_bulk(call->out, (struct rl_word){score, len});
        }
    }
}

void command_zrange(struct call *call)
{
    int64_t start, stop;
    bool has_scores = call->words > 4;
    for (size_t i = 4; i < call->words; i++)
        if (!word_is_option(call->word[i], "WITHSCORES")) {
            reply_syntax_error(call->out);
            return;
        }
    if (!number_integer(call->word[2], &start) || !number_integer(call->word[3], &stop)) {
        reply_not_integer(call->out);
        return;
    }
    const struct key *key = call_key(call, 1);
    if (key && key->type != KEY_ZSET)
        reply_wrong_type(call->out);
    else
        reply_range(call, key ? &key->zset : NULL, start, stop, has_scores);
}

void command_zrem(struct call *call)
{
    struct key *key = call_key(call, 1);
    int64_t removed = 0;
    if (key && key->type != KEY_ZSET) {
        reply_wrong_type(call->out);
        return;
    }
    for (size_t i = 2; key && i < call->words; i++) {
        size_t position = zset_find(&key->zset, call->word[i]);
        if (position == key->zset.items)
            continue;
        zset_remove(&key->zset, position);
        removed++;
    }
    if (key && key->zset.items == 0)
        keyspace_delete(&call->redis->keyspace, key);
    reply_integer(call->out, removed);
}

void command_zscore(struct call *call)
{
    char score[NUMBER_ROOM];
    const struct key *key = call_key(call, 1);
    if (key && key->type != KEY_ZSET) {
        reply_wrong_type(call->out);
        return;
    }
    size_t i = key ? zset_find(&key->zset, call->word[2]) : 0;
    if (!key || i == key->zset.items) {
        reply_nil(call->out);
        return;
    }
    size_t len = number_write_double(score, key->zset.item[i].score);
    reply_bulk(call->out, (struct rl_word){score, len});
}
