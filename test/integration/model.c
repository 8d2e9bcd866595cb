/*
 * The simulator's server against a real one: the same random operations on both, and every
 * reply compared, and what is stored then.
 *
 * The model is told when the server ran an operation: TIME is asked before and after it. If
 * both say the same millisecond, that was it. For each command of a connection every
 * version reads the clock anew; within MULTI it would stand still, but not for all
 * commands. If the millisecond ended meanwhile, any one in between may have been it.
 * Redis 7.0 reads the clock several times within a command, so then it can also happen that
 * half of it ran before: these few are believed.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "servers.h"
#include "sim/store.h"

#define SEED       20240917
#define OPERATIONS 200000
#define BATCH      500 /* operations that are sent at once */
#define LENGTH_MAX 300 /* of a value */
#define LEAST      100 /* times that whatever shall happen must happen */
#define DOUBTS_MAX (OPERATIONS / 1000)

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char long_text[LENGTH_MAX + 1];

static const struct rl_word keys[] = {
    {"a", 1}, {"b", 1}, {"lock:c", 6}, {"d\0e", 3}, {"d\0f", 3}, {"", 0},
};

/* Tokens, and what others store. Three are the same in their first 128 bytes. */
static const struct rl_word values[] = {
    {"p\0x", 3}, {"p1", 2},        {"p\0y", 3},      {"p", 1},
    {"", 0},     {long_text, 128}, {long_text, 129}, {long_text, LENGTH_MAX},
};

#define FAVOURITES 3 /* these come more often, so that holders meet their own */

/* --- operations --- */

enum act { ACT_COMMAND, ACT_SET, ACT_LIST, ACT_DELETE, ACT_FLUSH, ACT_FORGET, ACT_PAUSE };

struct operation {
    enum act act;
    enum rl_text text;
    bool whole;
    struct rl_subject subject; /* a ttl of 0: without expiry, and not a command */
    struct rl_command command; /* some of its words point into it */
    char digits[RL_DIGITS + 1];
};

static const char list_script[] =
    "redis.call('DEL', KEYS[1]) "
    "redis.call('RPUSH', KEYS[1], 'item') "
    "if ARGV[1] ~= '0' then "
    "  redis.call('PEXPIRE', KEYS[1], ARGV[1]) "
    "end";

static void say(struct rl_command *command, struct rl_word word)
{
    cr_assert_lt(command->words, RL_WORDS_MAX);
    command->word[command->words++] = word;
}

static struct rl_word word_of(const char *text)
{
    return (struct rl_word){text, strlen(text)};
}

static void say_text(struct rl_command *command, const char *text)
{
    say(command, word_of(text));
}

static void say_set(struct operation *operation)
{
    struct rl_command *command = &operation->command;
    say_text(command, "SET");
    say(command, operation->subject.key);
    say(command, operation->subject.token);
    if (operation->subject.ttl_ms == 0)
        return;
    say_text(command, "PX");
    say_text(command, operation->digits);
}

static void say_list(struct operation *operation)
{
    struct rl_command *command = &operation->command;
    say_text(command, "EVAL");
    say_text(command, list_script);
    say_text(command, "1");
    say(command, operation->subject.key);
    say_text(command, operation->digits);
}

/* In a pause keys live to their end; otherwise something happens to them long before. */
static void say_plain(struct operation *operation)
{
    static const char *const words[][4] = {
        [ACT_FLUSH] = {"FLUSHALL"},
        [ACT_FORGET] = {"SCRIPT", "FLUSH"},
        [ACT_PAUSE] = {"DEBUG", "SLEEP", "0.001"},
    };
    for (const char *const *word = words[operation->act]; *word; word++)
        say_text(&operation->command, *word);
}

/* What others do. */
static void say_foreign(struct operation *operation)
{
    operation->command.words = 0;
    snprintf(operation->digits, sizeof(operation->digits), "%d",
             (int)operation->subject.ttl_ms);
    switch (operation->act) {
    case ACT_SET: say_set(operation); break;
    case ACT_LIST: say_list(operation); break;
    case ACT_DELETE:
        say_text(&operation->command, "DEL");
        say(&operation->command, operation->subject.key);
        break;
    default: say_plain(operation);
    }
}

/* Which of these weights a number below their sum falls on. */
static unsigned pick(struct chance *chance, const unsigned *weight, unsigned n)
{
    unsigned sum = 0, i = 0;
    for (unsigned j = 0; j < n; j++)
        sum += weight[j];
    for (unsigned at = chance_below(chance, sum); at >= weight[i]; i++)
        at -= weight[i];
    return i;
}

static int64_t some_ttl(struct chance *chance)
{
    switch (chance_below(chance, 16)) {
    case 0: return 1000 + chance_below(chance, 60000);
    case 1: return 1 + chance_below(chance, 50);
    default: return 1 + chance_below(chance, 5);
    }
}

static void make(struct operation *operation, struct chance *chance)
{
    static const unsigned acts[] = {
        [ACT_PAUSE] = 25, [ACT_COMMAND] = 934, [ACT_SET] = 15,   [ACT_LIST] = 6,
        [ACT_DELETE] = 5, [ACT_FLUSH] = 5,     [ACT_FORGET] = 10};
    static const unsigned texts[RL_TEXTS] = {[RL_ACQUIRE] = 20,
                                             [RL_EXTEND] = 33,
                                             [RL_RELEASE] = 15,
                                             [RL_INSPECT] = 22,
                                             [RL_BREAK] = 10};
    unsigned known = chance_below(chance, 4) ? FAVOURITES : COUNT(values);
    operation->act = (enum act)pick(chance, acts, COUNT(acts));
    operation->text = (enum rl_text)pick(chance, texts, RL_TEXTS);
    operation->whole = chance_below(chance, 2);
    operation->subject = (struct rl_subject){
        .key = keys[chance_below(chance, COUNT(keys))],
        .token = values[chance_below(chance, known)],
        .ttl_ms = some_ttl(chance),
        .plant = chance_below(chance, 2),
    };
    if (operation->act != ACT_COMMAND && chance_below(chance, 6) == 0)
        operation->subject.ttl_ms = 0;
    if (operation->act == ACT_COMMAND)
        rl_kind_command(rl_kind_of(operation->subject.token), operation->text,
                        operation->whole, &operation->subject, &operation->command);
    else
        say_foreign(operation);
}

/* --- the real server --- */

/* What came of one operation there, and what was seen of its key right after. */
struct outcome {
    int64_t before, after; /* TIME */
    redisReply *reply, *expires, *value;
};

static void ask(redisContext *context, const struct rl_command *command)
{
    const char *text[RL_WORDS_MAX];
    size_t len[RL_WORDS_MAX];
    for (size_t i = 0; i < command->words; i++) {
        text[i] = command->word[i].text;
        len[i] = command->word[i].len;
    }
    cr_assert_eq(redisAppendCommandArgv(context, (int)command->words, text, len), REDIS_OK);
}

static void ask_about(redisContext *context, const char *what, struct rl_word key)
{
    ask(context, &(struct rl_command){.word = {word_of(what), key}, .words = 2});
}

static void ask_time(redisContext *context)
{
    ask(context, &(struct rl_command){.word = {word_of("TIME")}, .words = 1});
}

static redisReply *next(redisContext *context)
{
    void *reply;
    cr_assert_eq(redisGetReply(context, &reply), REDIS_OK, "%s", context->errstr);
    return reply;
}

static int64_t next_time(redisContext *context)
{
    redisReply *reply = next(context);
    cr_assert(reply->type == REDIS_REPLY_ARRAY && reply->elements == 2);
    int64_t ms =
        1000 * atoll(reply->element[0]->str) + atoll(reply->element[1]->str) / 1000;
    freeReplyObject(reply);
    return ms;
}

static void run_batch(redisContext *context, const struct operation *operation,
                      struct outcome *outcome)
{
    ask_time(context);
    for (int i = 0; i < BATCH; i++) {
        ask(context, &operation[i].command);
        ask_about(context, "PEXPIRETIME", operation[i].subject.key);
        ask_about(context, "GET", operation[i].subject.key);
        ask_time(context);
    }
    int64_t time = next_time(context);
    for (int i = 0; i < BATCH; i++) {
        outcome[i].before = time;
        outcome[i].reply = next(context);
        outcome[i].expires = next(context);
        outcome[i].value = next(context);
        outcome[i].after = time = next_time(context);
    }
}

static void forget(struct outcome *outcome)
{
    freeReplyObject(outcome->reply);
    freeReplyObject(outcome->expires);
    freeReplyObject(outcome->value);
}

/* --- comparing --- */

static bool same(const struct rl_word a, const struct rl_word b)
{
    return a.len == b.len && memcmp(a.text, b.text, a.len) == 0;
}

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
        return same((struct rl_word){a->text, a->len}, (struct rl_word){b->text, b->len});
    default: return true;
    }
}

/* Errors are the same if they read the same. */
static bool same_error(enum rl_text text, const struct rl_reply *a,
                       const struct rl_reply *b)
{
    const struct rl_kind *kind = rl_kind_of((struct rl_word){"p", 1});
    struct rl_answer one, other;
    return rl_kind_read(kind, text, a, &one) && rl_kind_read(kind, text, b, &other) &&
           one.vote == other.vote && one.fault == other.fault;
}

static bool same_reply(enum rl_text text, const struct rl_reply *a,
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

static bool is_value(const struct store_entry *entry, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR)
        return entry->type == STORE_LIST;
    return entry->type == STORE_STRING && reply->type == REDIS_REPLY_STRING &&
           same(entry->value, (struct rl_word){reply->str, reply->len});
}

static bool is_expiry(const struct store_entry *entry, const redisReply *reply)
{
    return reply->integer ==
           (entry->expires == STORE_NO_EXPIRY ? PEXPIRETIME_NO_EXPIRY : entry->expires);
}

/* Whether that is what the store shows of the key from `first` to `last`. */
static bool same_state(const struct store *store, struct rl_word key,
                       const struct outcome *outcome, int64_t first, int64_t last)
{
    const struct store_entry *entry = store_find(store, key, first);
    bool may_be_gone = !store_find(store, key, last);
    bool expiry = outcome->expires->integer == PEXPIRETIME_NOTHING
                      ? may_be_gone
                      : entry && is_expiry(entry, outcome->expires);
    bool value = outcome->value->type == REDIS_REPLY_NIL
                     ? may_be_gone
                     : entry && is_value(entry, outcome->value);
    return expiry && value;
}

/* --- the model beside it --- */

static int64_t end_of(const struct operation *operation, int64_t now)
{
    return operation->subject.ttl_ms ? now + operation->subject.ttl_ms : STORE_NO_EXPIRY;
}

static void do_foreign(struct store *store, const struct operation *operation, int64_t now)
{
    const struct rl_subject *subject = &operation->subject;
    int64_t end = end_of(operation, now);
    switch (operation->act) {
    case ACT_SET: store_put(store, STORE_STRING, subject->key, subject->token, end); break;
    case ACT_LIST: store_put(store, STORE_LIST, subject->key, subject->token, end); break;
    case ACT_DELETE: store_drop(store, subject->key); break;
    case ACT_FLUSH: store_flush(store); break;
    case ACT_FORGET: store_forget_scripts(store); break;
    default: break;
    }
}

/* Runs it on the store, at `now`; whether the server told and shows the same. */
static bool agrees(struct store *store, const struct operation *operation,
                   const struct outcome *outcome, int64_t now)
{
    if (operation->act == ACT_COMMAND) {
        struct store_reply real, model;
        store_run(store, &operation->command, now * RL_MS, &model);
        decode(outcome->reply, &real);
        if (!same_reply(operation->text, &real.reply, &model.reply))
            return false;
    } else {
        cr_assert_neq(outcome->reply->type, REDIS_REPLY_ERROR, "%s", outcome->reply->str);
        do_foreign(store, operation, now);
    }
    return same_state(store, operation->subject.key, outcome, now, outcome->after);
}

/* Takes what the server shows. */
static void believe(struct store *store, struct rl_word key, const struct outcome *outcome)
{
    const redisReply *value = outcome->value;
    int64_t expires = outcome->expires->integer;
    store_drop(store, key);
    if (expires == PEXPIRETIME_NOTHING || value->type == REDIS_REPLY_NIL)
        return;
    enum store_type type = value->type == REDIS_REPLY_STRING ? STORE_STRING : STORE_LIST;
    size_t i = 0;
    while (type == STORE_STRING &&
           !same(values[i], (struct rl_word){value->str, value->len}))
        cr_assert_lt(++i, COUNT(values), "a value that nobody stored");
    store_put(store, type, key, values[i],
              expires == PEXPIRETIME_NO_EXPIRY ? STORE_NO_EXPIRY : expires);
}

/* --- what happened --- */

/* Of a key's life: its last millisecond, and the next one. */
enum border { BORDER_LAST, BORDER_AFTER, BORDERS };

static const char *const names[RL_TEXTS] = {"acquire", "settle",  "extend",
                                            "release", "inspect", "break"};

struct tally {
    unsigned border[RL_TEXTS][BORDERS];
    unsigned vote[RL_TEXTS][2][RL_VOTE_ABSENT + 1]; /* by hash, whole */
    unsigned wrong_type[RL_TEXTS], no_script[RL_TEXTS];
    unsigned crossed; /* the millisecond ended meanwhile */
    unsigned doubts;  /* and no one millisecond explains it */
};

static void note_answer(struct tally *tally, const struct operation *operation,
                        const struct outcome *outcome, const struct store_entry *entry)
{
    struct store_reply real;
    struct rl_answer answer;
    enum rl_text text = operation->text;
    decode(outcome->reply, &real);
    cr_assert(
        rl_kind_read(rl_kind_of(operation->subject.token), text, &real.reply, &answer));
    tally->vote[text][operation->whole][answer.vote]++;
    tally->wrong_type[text] += answer.fault == RL_FAULT_WRONGTYPE;
    tally->no_script[text] += answer.fault == RL_FAULT_NOSCRIPT;
    if (!entry || answer.fault == RL_FAULT_NOSCRIPT || outcome->before != outcome->after)
        return;
    tally->border[text][BORDER_LAST] += outcome->before == entry->expires;
    tally->border[text][BORDER_AFTER] += outcome->before == entry->expires + 1;
}

static void expect_votes(const struct tally *tally, enum rl_text text, unsigned n,
                         const enum rl_vote *votes)
{
    for (unsigned i = 0; i < n; i++)
        for (int whole = 0; whole < 2; whole++)
            cr_expect_geq(tally->vote[text][whole][votes[i]], LEAST, "%s %s: vote %d",
                          names[text], whole ? "whole" : "by hash", (int)votes[i]);
}

#define EXPECT_VOTES(tally, text, ...)                                                     \
    do {                                                                                   \
        const enum rl_vote votes[] = {__VA_ARGS__};                                        \
        expect_votes(tally, text, COUNT(votes), votes);                                    \
    } while (0)

static void expect_borders(const struct tally *tally, enum rl_text text)
{
    const unsigned *border = tally->border[text];
    cr_log_info("%s: %u in the last ms, %u in the next one", names[text],
                border[BORDER_LAST], border[BORDER_AFTER]);
    cr_expect_geq(border[BORDER_LAST], LEAST, "%s: %u in the last ms", names[text],
                  border[BORDER_LAST]);
    cr_expect_geq(border[BORDER_AFTER], LEAST, "%s: %u in the next ms", names[text],
                  border[BORDER_AFTER]);
    if (text == RL_ACQUIRE) /* SET, with none of a script's errors */
        return;
    cr_expect_geq(tally->wrong_type[text], LEAST, "%s: wrong type", names[text]);
    cr_expect_geq(tally->no_script[text], LEAST, "%s: no script", names[text]);
}

static void expect_all_happened(const struct tally *tally)
{
    EXPECT_VOTES(tally, RL_ACQUIRE, RL_VOTE_GRANTED, RL_VOTE_HELD);
    EXPECT_VOTES(tally, RL_EXTEND, RL_VOTE_GRANTED, RL_VOTE_HELD, RL_VOTE_GONE,
                 RL_VOTE_PLANTED);
    EXPECT_VOTES(tally, RL_RELEASE, RL_VOTE_GRANTED, RL_VOTE_HELD, RL_VOTE_GONE);
    EXPECT_VOTES(tally, RL_INSPECT, RL_VOTE_HELD, RL_VOTE_GONE);
    EXPECT_VOTES(tally, RL_BREAK, RL_VOTE_HELD, RL_VOTE_GONE);
    for (int text = 0; text < RL_TEXTS; text++)
        if (text != RL_SETTLE)
            expect_borders(tally, (enum rl_text)text);
    cr_log_info("%u while the millisecond ended, %u of them in doubt", tally->crossed,
                tally->doubts);
    cr_expect_leq(tally->doubts, DOUBTS_MAX);
}

/* --- the test --- */

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
                 const struct outcome *outcome, unsigned number)
{
    char told[2 * LENGTH_MAX] = "", expected[2 * LENGTH_MAX] = "";
    const struct rl_subject *subject = &operation->subject;
    const struct store_entry *entry = store_find(store, subject->key, INT64_MIN);
    long long left = entry ? (long long)(entry->expires - outcome->before) : 0;
    struct store_reply real, model;
    if (operation->act == ACT_COMMAND) {
        decode(outcome->reply, &real);
        describe(told, sizeof(told), &real.reply);
        store_run(store, &operation->command, outcome->before * RL_MS, &model);
        describe(expected, sizeof(expected), &model.reply);
    }
    cr_assert_fail(
        "seed %d, operation %u, at %lld: act %d, %s %s, key \"%s\" (%s, %lld ms "
        "left), token \"%s\", ttl %lld%s; told %s, expected %s; PEXPIRETIME %lld",
        SEED, number, (long long)outcome->before, (int)operation->act,
        names[operation->text], operation->whole ? "whole" : "by hash", subject->key.text,
        entry ? "known" : "free", left, subject->token.text, (long long)subject->ttl_ms,
        subject->plant ? ", planting" : "", told, expected,
        (long long)outcome->expires->integer);
}

static void follow(struct store *store, const struct operation *operation,
                   const struct outcome *outcome, unsigned number, struct tally *tally)
{
    struct store old = *store;
    /* Also one that has expired and that nobody has asked for since. */
    const struct store_entry *entry = store_find(&old, operation->subject.key, INT64_MIN);
    if (operation->act == ACT_COMMAND)
        note_answer(tally, operation, outcome, entry);
    tally->crossed += outcome->before != outcome->after;
    for (int64_t now = outcome->before; now <= outcome->after; now++) {
        *store = old;
        if (agrees(store, operation, outcome, now))
            return;
    }
    if (outcome->before == outcome->after)
        fail(&old, operation, outcome, number);
    believe(store, operation->subject.key, outcome);
    tally->doubts++;
}

Test(model, answers_as_a_real_server)
{
    static struct operation operation[BATCH];
    static struct outcome outcome[BATCH];
    static struct tally tally;
    struct servers servers;
    struct store store = {0};
    struct chance chance = {SEED};
    memset(long_text, 'x', LENGTH_MAX);
    servers_start(&servers, 1, NULL);
    for (unsigned number = 0; number < OPERATIONS; number += BATCH) {
        for (int i = 0; i < BATCH; i++)
            make(&operation[i], &chance);
        run_batch(servers.server[0].admin, operation, outcome);
        for (unsigned i = 0; i < BATCH; i++) {
            follow(&store, &operation[i], &outcome[i], number + i, &tally);
            forget(&outcome[i]);
        }
    }
    expect_all_happened(&tally);
    servers_end(&servers);
}
