#include "outcome.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

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

rl_time outcome_time(redisContext *context)
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

void outcome_run(redisContext *context, redisContext *ear, unsigned n,
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

static void free_seen(struct seen *seen)
{
    freeReplyObject(seen->expires);
    freeReplyObject(seen->value);
}

void outcome_free(struct outcome *outcome)
{
    freeReplyObject(outcome->reply);
    freeReplyObject(outcome->queue_expires);
    freeReplyObject(outcome->queue);
    for (unsigned i = 0; i < outcome->calls; i++)
        freeReplyObject(outcome->call[i]);
    free_seen(&outcome->key);
    free_seen(&outcome->fence);
    free_seen(&outcome->marker);
}
