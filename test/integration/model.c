/*
 * The simulator's server compared with a real one: the same random operations on both;
 * every reply is compared, and the stored state afterwards.
 *
 * The model needs the time at which the server ran an operation. A reply of a fenced lock
 * contains it. For the others the test sends TIME before and after: if both return the same
 * millisecond, that was it. Every version reads the clock again for each command of a
 * connection; within MULTI the clock would stand still, but not for all commands. If the
 * millisecond ended meanwhile, any millisecond in between may have been it. The decisions
 * that depend on microseconds, LATE and AHEAD, held at one of the two TIMEs at least. The
 * time since which a client waits is only known to be in between, too: the model takes what
 * the server shows. The notified waiters are read on another connection, up to a mark after
 * each operation. Redis 7.0 reads the clock several times within a command, so half of it
 * may have run before: these few cases are accepted. In a key's last millisecond the
 * commands of every version find it, but the active expire cycle of Redis 8.0 may delete it
 * between any two commands.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counts.h"
#include "operations.h"
#include "servers.h"

#define SEED        20240917
#define OPERATIONS  240000
#define PATIENCE    10  /* times as many, until all required events have happened */
#define BATCH       500 /* operations that are sent at once */
#define FEW         4   /* and then these: with few operations their time is known better */
#define FEW_BATCHES 30
#define DOUBTS_MAX  (1.0 / 200) /* of the operations */
#define PAUSE       1100        /* us, the server's time for one */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* --- the real server --- */

struct seen {
    redisReply *expires, *value; /* PEXPIRETIME, GET */
};

#define CALLS_MAX 2

/* The result of one operation there, and its keys right after. */
struct outcome {
    rl_time before, after; /* TIME */
    redisReply *reply;
    redisReply *queue_expires, *queue; /* of the waiters, if it may notify them */
    unsigned calls;
    redisReply *call[CALLS_MAX];    /* "NUMBER POSITION" */
    struct seen key, fence, marker; /* the last two: of a fenced lock */
};

static void ask(redisContext *context, const struct rl_argv *command)
{
    const char *text[RL_WORDS_MAX];
    size_t len[RL_WORDS_MAX];
    for (size_t i = 0; i < command->words; i++) {
        text[i] = command->word[i].text;
        len[i] = command->word[i].len;
    }
    cr_assert_eq(redisAppendCommandArgv(context, (int)command->words, text, len), REDIS_OK);
}

static void ask_about(redisContext *context, struct rl_word key)
{
    struct rl_word expires = operation_word("PEXPIRETIME"), value = operation_word("GET");
    ask(context, &(struct rl_argv){.word = {expires, key}, .words = 2});
    ask(context, &(struct rl_argv){.word = {value, key}, .words = 2});
}

static void ask_time(redisContext *context)
{
    ask(context, &(struct rl_argv){.word = {operation_word("TIME")}, .words = 1});
}

static redisReply *next(redisContext *context)
{
    void *reply;
    cr_assert_eq(redisGetReply(context, &reply), REDIS_OK, "%s", context->errstr);
    return reply;
}

static struct seen next_seen(redisContext *context)
{
    redisReply *expires = next(context);
    return (struct seen){expires, next(context)};
}

static rl_time next_time(redisContext *context)
{
    redisReply *reply = next(context);
    cr_assert(reply->type == REDIS_REPLY_ARRAY && reply->elements == 2);
    rl_time us = RL_SECOND * atoll(reply->element[0]->str) + atoll(reply->element[1]->str);
    freeReplyObject(reply);
    return us;
}

static rl_time time_now(redisContext *context)
{
    ask_time(context);
    return next_time(context);
}

#define MARK "-"

static void ask_about_queue(redisContext *context, struct operation *operation)
{
    struct rl_word queue = operation_queue(operation);
    ask(context,
        &(struct rl_argv){.word = {operation_word("PEXPIRETIME"), queue}, .words = 2});
    ask(context,
        &(struct rl_argv){.word = {operation_word("ZRANGE"), queue, operation_word("0"),
                                   operation_word("-1"), operation_word("WITHSCORES")},
                          .words = 5});
    ask(context, &(struct rl_argv){.word = {operation_word("PUBLISH"),
                                            operation_word(CHANNEL), operation_word(MARK)},
                                   .words = 3});
}

/* "message", the channel, the text: all notifications before the mark. */
static void next_queue(redisContext *context, redisContext *ear, struct outcome *outcome)
{
    outcome->queue_expires = next(context);
    outcome->queue = next(context);
    freeReplyObject(next(context));
    for (;;) {
        redisReply *heard = next(ear);
        cr_assert(heard->type == REDIS_REPLY_ARRAY && heard->elements == 3);
        if (strcmp(heard->element[2]->str, MARK) == 0) {
            freeReplyObject(heard);
            return;
        }
        cr_assert_lt(outcome->calls, CALLS_MAX);
        outcome->call[outcome->calls++] = heard;
    }
}

static void run_batch(redisContext *context, redisContext *ear, unsigned n,
                      struct operation *operation, struct outcome *outcome)
{
    ask_time(context);
    for (unsigned i = 0; i < n; i++) {
        ask(context, &operation[i].command);
        ask_about(context, operation[i].args.key);
        if (operation[i].is_fenced) {
            ask_about(context, operation[i].args.fence_key);
            ask_about(context, operation[i].args.marker_key);
        }
        if (operation[i].may_call)
            ask_about_queue(context, &operation[i]);
        ask_time(context);
    }
    rl_time time = next_time(context);
    for (unsigned i = 0; i < n; i++) {
        outcome[i] = (struct outcome){.before = time, .reply = next(context)};
        outcome[i].key = next_seen(context);
        if (operation[i].is_fenced) {
            outcome[i].fence = next_seen(context);
            outcome[i].marker = next_seen(context);
        }
        if (operation[i].may_call)
            next_queue(context, ear, &outcome[i]);
        outcome[i].after = time = next_time(context);
    }
}

static void forget_seen(struct seen *seen)
{
    freeReplyObject(seen->expires);
    freeReplyObject(seen->value);
}

static void forget(struct outcome *outcome)
{
    freeReplyObject(outcome->reply);
    freeReplyObject(outcome->queue_expires);
    freeReplyObject(outcome->queue);
    for (unsigned i = 0; i < outcome->calls; i++)
        freeReplyObject(outcome->call[i]);
    forget_seen(&outcome->key);
    forget_seen(&outcome->fence);
    forget_seen(&outcome->marker);
}

/* --- comparing --- */

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

static void decode(const redisReply *reply, struct store_reply *ret)
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

static const struct store_ears ears = {.hears = is_heard};

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

/* Runs it on the store, at `now`; returns whether the server replied and shows the same. */
static bool agrees(struct store *store, const struct operation *operation,
                   const struct outcome *outcome, rl_time now)
{
    const struct rl_command_args *args = &operation->args;
    int64_t first = now / RL_MS, last = outcome->after / RL_MS;
    if (operation->act == ACT_COMMAND) {
        struct store_reply real, model;
        store_run(store, &operation->command, now, &ears, &model);
        decode(outcome->reply, &real);
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

static void believe_all(struct store *store, const struct operation *operation,
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

/* --- following --- */

static void describe(char *buffer, size_t size, const struct rl_reply *reply)
{
    size_t len = (size_t)snprintf(buffer, size, "type %d, %lld, \"%.*s\"", (int)reply->type,
                                  (long long)reply->integer, (int)reply->len,
                                  reply->text ? reply->text : "");
    for (size_t i = 0; i < reply->items && len + 2 < size; i++, len = strlen(buffer)) {
        memcpy(buffer + len, "; ", 2);
        describe(buffer + len + 2, size - len - 2, &reply->item[i]);
    }
}

static void fail(struct store *store, const struct operation *operation,
                 const struct outcome *outcome, unsigned number, rl_time now)
{
    char reported[2 * LENGTH_MAX] = "", expected[2 * LENGTH_MAX] = "";
    const struct rl_command_args *args = &operation->args;
    const struct store_entry *entry = store_find(store, args->key, INT64_MIN);
    const struct store_entry *fence = store_find(store, args->fence_key, INT64_MIN);
    const struct store_entry *marker = store_find(store, args->marker_key, INT64_MIN);
    struct store_reply real, model;
    if (operation->act == ACT_COMMAND) {
        decode(outcome->reply, &real);
        describe(reported, sizeof(reported), &real.reply);
        store_run(store, &operation->command, now, &ears, &model);
        describe(expected, sizeof(expected), &model.reply);
    }
    cr_assert_fail(
        "seed %d, operation %u, at %lld: act %d, %s %s, key \"%s\" (%s, until %lld), token "
        "\"%s\", ttl %lld%s; fence %lld over %lld, said %lld; told %s, expected %s; "
        "PEXPIRETIME %lld, fence key \"%s\", %s; marker until %lld, known until %lld",
        SEED, number, (long long)now, (int)operation->act, counts_name(operation->text),
        operation->whole ? "whole" : "by hash", args->key.text, entry ? "known" : "free",
        entry ? (long long)entry->expires : 0, args->token.text, (long long)args->ttl_ms,
        args->recreate ? ", planting" : "", (long long)args->fence,
        fence ? (long long)fence->fence : 0, (long long)args->sent_at, reported, expected,
        (long long)outcome->key.expires->integer, args->fence_key.text,
        operation->is_fenced && outcome->fence.value->str ? outcome->fence.value->str : "",
        operation->is_fenced ? (long long)outcome->marker.expires->integer : 0,
        marker ? (long long)marker->expires : 0);
}

static void read_answer(const struct operation *operation, const struct outcome *outcome,
                        struct rl_answer *ret_answer)
{
    const struct rl_kind *kind = rl_kind_of(operation->args.token);
    struct store_reply real;
    decode(outcome->reply, &real);
    cr_assert(rl_kind_read(kind, operation->text, &real.reply, ret_answer));
    cr_assert(ret_answer->time == 0 ||
              (outcome->before <= ret_answer->time && ret_answer->time <= outcome->after));
}

/* A set of the operation's keys: bit 0 the key, 1 its fence, 2 the marker. */
typedef unsigned key_set;

static struct rl_word key_of(const struct operation *operation, unsigned i)
{
    const struct rl_command_args *args = &operation->args;
    return i == 0 ? args->key : i == 1 ? args->fence_key : args->marker_key;
}

/* Those that are in their last millisecond. The active expire cycle may delete any of them.
 */
static key_set last_keys(const struct store *store, const struct operation *operation,
                         int64_t now)
{
    key_set set = 0;
    for (unsigned i = 0; i < (operation->is_fenced ? 3 : 1); i++)
        if (store_find(store, key_of(operation, i), now) &&
            !store_find(store, key_of(operation, i), now + 1))
            set |= 1u << i;
    return set;
}

static void delete (struct store *store, const struct operation *operation, key_set which)
{
    for (unsigned i = 0; i < 3; i++)
        if (which & 1u << i)
            store_drop(store, key_of(operation, i));
}

/*
 * Lets the model do the same at `first`, at `last` and at the beginning of each millisecond
 * in between; returns the moment when both agreed, or RL_NEVER. `ret_old` is the store
 * before it.
 */
static rl_time replay(struct store *store, const struct operation *operation,
                      const struct outcome *outcome, rl_time first, rl_time last,
                      struct store *ret_old)
{
    struct store old = *store;
    for (rl_time now = first;;) {
        key_set last_ones = last_keys(&old, operation, now / RL_MS), deleted = 0;
        do { /* each subset of them, the empty one first */
            *store = old;
            delete (store, operation, deleted);
            *ret_old = *store;
            if (agrees(store, operation, outcome, now))
                return now;
            deleted = (deleted - last_ones) & last_ones;
        } while (deleted);
        if (now == last)
            return RL_NEVER;
        now = (now / RL_MS + 1) * RL_MS;
        now = now < last ? now : last;
    }
}

static void follow(struct store *store, const struct operation *operation,
                   const struct outcome *outcome, unsigned number, struct counts *counts)
{
    struct store first_old = *store, old;
    struct rl_answer answer = {.time = 0};
    bool is_certain = outcome->before / RL_MS == outcome->after / RL_MS;
    if (operation->act == ACT_COMMAND)
        read_answer(operation, outcome, &answer);
    rl_time first = answer.time ? answer.time : outcome->before;
    rl_time last = answer.time ? answer.time : outcome->after;
    rl_time now = replay(store, operation, outcome, first, last, &old);
    if (now == RL_NEVER) {
        if (is_certain)
            fail(&first_old, operation, outcome, number, first);
        believe_all(store, operation, outcome);
        counts->doubts++;
        now = last;
    }
    if (operation->act == ACT_COMMAND)
        counts_note(counts, &(struct event){.operation = operation,
                                            .answer = &answer,
                                            .now = now,
                                            .is_certain = is_certain,
                                            .calls = outcome->calls,
                                            .before = &old,
                                            .after = store});
}

/* --- the test --- */

/* When the server will run an operation, estimated from the time of the last batch. */
struct pace {
    rl_time start; /* from its creation to its first operation */
    rl_time each;
};

static rl_time duration_of(const struct operation *operation, rl_time each)
{
    return operation->act == ACT_PAUSE ? PAUSE : each;
}

static void measure(struct pace *pace, rl_time made, unsigned n,
                    const struct operation *operation, const struct outcome *outcome)
{
    rl_time took = outcome[n - 1].after - outcome[0].before;
    for (unsigned i = 0; i < n; i++)
        took -= duration_of(&operation[i], 0);
    pace->start = outcome[0].before - made;
    pace->each = took > 0 ? took / n : 0;
}

struct play {
    redisContext *context, *ear;
    struct prng prng;
    rl_time era;
    struct store store;
    struct counts counts;
    unsigned operations;
    struct operation operation[BATCH];
    struct outcome outcome[BATCH];
};

static void play_batch(struct play *play, unsigned n, struct pace *pace)
{
    struct operation *operation = play->operation;
    struct outcome *outcome = play->outcome;
    rl_time made = time_now(play->context), now = made + pace->start;
    for (unsigned i = 0; i < n; i++) {
        operation_make(&operation[i], &play->prng, now, play->era);
        now += duration_of(&operation[i], pace->each);
    }
    run_batch(play->context, play->ear, n, operation, outcome);
    measure(pace, made, n, operation, outcome);
    for (unsigned i = 0; i < n; i++) {
        follow(&play->store, &operation[i], &outcome[i], play->operations++, &play->counts);
        forget(&outcome[i]);
    }
}

Test(model, replies_as_a_real_server)
{
    static struct play play = {.prng = {SEED}};
    struct pace fast = {0}, exact = {0};
    struct servers servers;
    operations_prepare();
    servers_start(&servers, 1, NULL);
    play.context = servers.server[0].admin;
    play.ear = redisConnectUnix(servers.server[0].socket);
    freeReplyObject(redisCommand(play.ear, "SUBSCRIBE " CHANNEL));
    play.era = time_now(play.context);
    while (play.operations < OPERATIONS ||
           (play.operations < PATIENCE * OPERATIONS && !counts_has_all(&play.counts))) {
        play_batch(&play, BATCH, &fast);
        for (unsigned i = 0; i < FEW_BATCHES; i++)
            play_batch(&play, FEW, &exact);
    }
    cr_log_info("%u in doubt", play.counts.doubts);
    cr_expect_leq(play.counts.doubts, DOUBTS_MAX * play.operations);
    counts_expect_all(&play.counts);
    redisFree(play.ear);
    servers_end(&servers);
}
