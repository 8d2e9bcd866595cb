#include "agreement.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* --- replies --- */

static struct rl_reply decode_one(const redisReply *reply)
{
    static const enum rl_reply_type types[] = {
        [REDIS_REPLY_NIL] = RL_REPLY_NIL,       [REDIS_REPLY_STATUS] = RL_REPLY_STATUS,
        [REDIS_REPLY_ERROR] = RL_REPLY_ERROR,   [REDIS_REPLY_INTEGER] = RL_REPLY_INTEGER,
        [REDIS_REPLY_STRING] = RL_REPLY_STRING, [REDIS_REPLY_ARRAY] = RL_REPLY_ARRAY,
    };
    cr_assert_lt((size_t)reply->type, COUNT(types));
    return (struct rl_reply){.type = types[reply->type],
                             .integer = reply->integer,
                             .text = reply->str,
                             .len = reply->len};
}

void agreement_decode(const redisReply *reply, struct store_reply *ret)
{
    ret->reply = decode_one(reply);
    if (ret->reply.type != RL_REPLY_ARRAY)
        return;
    cr_assert_leq(reply->elements, COUNT(ret->item));
    for (size_t i = 0; i < reply->elements; i++)
        ret->item[i] = decode_one(reply->element[i]);
    ret->reply.item = ret->item;
    ret->reply.items = reply->elements;
}

static bool same_one(const struct rl_reply *a, const struct rl_reply *b)
{
    if (a->type != b->type)
        return false;
    switch (a->type) {
    case RL_REPLY_INTEGER: return a->integer == b->integer;
    case RL_REPLY_STATUS:
    case RL_REPLY_STRING:
        return operation_is_same((struct rl_word){a->text, a->len},
                                 (struct rl_word){b->text, b->len});
    default: return true;
    }
}

/* Errors are the same if their texts are equal. */
static bool same_error(enum rl_command text, const struct rl_reply *a,
                       const struct rl_reply *b)
{
    const struct rl_kind *kind = rl_kind_of((struct rl_word){"p", 1});
    struct rl_answer one, other;
    return rl_kind_read(kind, text, a, &one) && rl_kind_read(kind, text, b, &other) &&
           one.vote == other.vote && one.fault == other.fault;
}

static bool same_reply(enum rl_command text, const struct rl_reply *a,
                       const struct rl_reply *b)
{
    if (!same_one(a, b) || a->items != b->items)
        return false;
    for (size_t i = 0; i < a->items; i++)
        if (!same_one(&a->item[i], &b->item[i]))
            return false;
    return a->type != RL_REPLY_ERROR || same_error(text, a, b);
}

#define PEXPIRETIME_NOTHING   (-2)
#define PEXPIRETIME_NO_EXPIRY (-1)

static struct rl_word text_of(const redisReply *reply)
{
    return (struct rl_word){reply->str, reply->len};
}

static bool is_value(const struct store_entry *entry, const redisReply *reply)
{
    char digits[RL_DIGITS + 1];
    if (reply->type == REDIS_REPLY_ERROR)
        return entry->type == STORE_LIST;
    if (reply->type != REDIS_REPLY_STRING || entry->type == STORE_LIST)
        return false;
    if (entry->type == STORE_STRING)
        return operation_is_same(entry->value, text_of(reply));
    snprintf(digits, sizeof(digits), "%" PRId64, entry->fence);
    return operation_is_same(operation_word(digits), text_of(reply));
}

static bool is_expiry(const struct store_entry *entry, const redisReply *reply)
{
    return reply->integer ==
           (entry->expires == STORE_NO_EXPIRY ? PEXPIRETIME_NO_EXPIRY : entry->expires);
}

/*
 * Whether the store has this state of the key from `first` to `last`, in ms. The key may be
 * deleted in its last millisecond.
 */
static bool same_state(const struct store *store, struct rl_word key,
                       const struct seen *seen, int64_t first, int64_t last)
{
    const struct store_entry *entry = store_find(store, key, first);
    bool may_be_gone = !store_find(store, key, last + 1);
    bool expiry = seen->expires->integer == PEXPIRETIME_NOTHING
                      ? may_be_gone
                      : entry && is_expiry(entry, seen->expires);
    bool value = seen->value->type == REDIS_REPLY_NIL
                     ? may_be_gone
                     : entry && is_value(entry, seen->value);
    return expiry && value;
}

/* In the same order, since about the same time; the server's value is taken. */
static bool same_queue(struct store *store, const struct operation *operation,
                       const struct outcome *outcome)
{
    const redisReply *queue = outcome->queue;
    const struct store_place *place = NULL;
    rl_time slack = outcome->after - outcome->before;
    for (size_t i = 0; i + 1 < queue->elements; i += 2) {
        place = store_next_place(store, operation->args.key, place);
        int64_t since = atoll(queue->element[i + 1]->str);
        if (!place || !operation_is_same(place->place, text_of(queue->element[i])) ||
            llabs(place->since - since) > slack ||
            place->expires != outcome->queue_expires->integer)
            return false;
        store->place[place - store->place].since = since;
    }
    return !store_next_place(store, operation->args.key, place);
}

/* The numbers and positions that were published. */
static bool same_calls(const struct store_reply *model, const struct outcome *outcome)
{
    if (model->calls != outcome->calls)
        return false;
    for (unsigned i = 0; i < model->calls; i++) {
        char said[RL_DIGITS + 4];
        struct rl_word place = model->call[i].place;
        size_t from = place.len;
        while (place.text[from - 1] != ' ')
            from--;
        snprintf(said, sizeof(said), "%.*s %u", (int)(place.len - from), place.text + from,
                 model->call[i].rank);
        if (strcmp(outcome->call[i]->element[2]->str, said) != 0)
            return false;
    }
    return true;
}

/* --- the model beside it --- */

static bool is_heard(void *arg, struct rl_word channel)
{
    (void)arg;
    return operation_is_same(channel, operation_word(CHANNEL));
}

void agreement_run(struct store *store, const struct operation *operation, rl_time now,
                   struct store_reply *ret)
{
    static const struct store_ears ears = {.hears = is_heard};
    store_run(store, &operation->command, now, &ears, ret);
}

static void do_foreign(struct store *store, const struct operation *operation, int64_t now)
{
    const struct rl_command_args *args = &operation->args;
    int64_t end = args->ttl_ms ? now + args->ttl_ms : STORE_NO_EXPIRY;
    switch (operation->act) {
    case ACT_SET: store_put(store, STORE_STRING, args->key, args->token, end); break;
    case ACT_LIST: store_put(store, STORE_LIST, args->key, args->token, end); break;
    case ACT_DELETE: store_drop(store, args->key); break;
    case ACT_FENCE: store_put_fence(store, args->key, args->fence, end); break;
    case ACT_FLUSH: store_flush(store); break;
    case ACT_FORGET: store_forget_scripts(store); break;
    default: break;
    }
}

bool agreement_holds(struct store *store, const struct operation *operation,
                     const struct outcome *outcome, rl_time now)
{
    const struct rl_command_args *args = &operation->args;
    int64_t first = now / RL_MS, last = outcome->after / RL_MS;
    if (operation->act == ACT_COMMAND) {
        struct store_reply real, model;
        agreement_run(store, operation, now, &model);
        agreement_decode(outcome->reply, &real);
        if (!same_reply(operation->text, &real.reply, &model.reply) ||
            !same_calls(&model, outcome))
            return false;
    } else {
        cr_assert_neq(outcome->reply->type, REDIS_REPLY_ERROR, "%s", outcome->reply->str);
        do_foreign(store, operation, first);
    }
    if (operation->may_call && !same_queue(store, operation, outcome))
        return false;
    return same_state(store, args->key, &outcome->key, first, last) &&
           (!operation->is_fenced ||
            (same_state(store, args->fence_key, &outcome->fence, first, last) &&
             same_state(store, args->marker_key, &outcome->marker, first, last)));
}

static bool is_number(struct rl_word text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.text[i] < '0' || text.text[i] > '9')
            return false;
    return text.len > 0;
}

/* Takes the server's values. */
static void believe(struct store *store, struct rl_word key, const struct seen *seen,
                    bool is_fence)
{
    const redisReply *value = seen->value;
    int64_t expires = seen->expires->integer;
    int64_t end = expires == PEXPIRETIME_NO_EXPIRY ? STORE_NO_EXPIRY : expires;
    store_drop(store, key);
    if (expires == PEXPIRETIME_NOTHING || value->type == REDIS_REPLY_NIL)
        return;
    if (value->type != REDIS_REPLY_STRING)
        store_put(store, STORE_LIST, key, operation_word(""), end);
    else if (is_fence && is_number(text_of(value)))
        store_put_fence(store, key, atoll(value->str), end);
    else
        store_put(store, STORE_STRING, key, operation_value(text_of(value)), end);
}

static void believe_queue(struct store *store, struct rl_word key,
                          const struct outcome *outcome)
{
    const redisReply *queue = outcome->queue;
    store_drop_places(store, key);
    for (size_t i = 0; i + 1 < queue->elements; i += 2)
        store_put_place(store, &(struct store_place){
                                   .key = key,
                                   .place = operation_place(text_of(queue->element[i])),
                                   .since = atoll(queue->element[i + 1]->str),
                                   .expires = outcome->queue_expires->integer});
}

void agreement_believe(struct store *store, const struct operation *operation,
                       const struct outcome *outcome)
{
    const struct rl_command_args *args = &operation->args;
    bool is_fence = operation_is_same(args->key, args->fence_key);
    believe(store, args->key, &outcome->key, is_fence);
    if (operation->may_call)
        believe_queue(store, args->key, outcome);
    if (!operation->is_fenced)
        return;
    believe(store, args->fence_key, &outcome->fence, true);
    believe(store, args->marker_key, &outcome->marker, false);
}
