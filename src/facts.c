#include "facts.h"

#include <stdio.h>
#include <string.h>

#include "net/info.h"

/* In this order, and in one write; from ASK_RIGHTS on, each right. */
enum question {
    ASK_SERVER,
    ASK_MEMORY,
    ASK_PERSISTENCE,
    ASK_REPLICATION,
    ASK_FSYNC,
    ASK_REWRITE,
    ASK_DEBUG,
    ASK_RIGHTS,
};

static const char *const questions[ASK_RIGHTS][3] = {
    [ASK_SERVER] = {"INFO", "server"},
    [ASK_MEMORY] = {"INFO", "memory"},
    [ASK_PERSISTENCE] = {"INFO", "persistence"},
    [ASK_REPLICATION] = {"INFO", "replication"},
    [ASK_FSYNC] = {"CONFIG", "GET", "appendfsync"},
    [ASK_REWRITE] = {"CONFIG", "GET", "no-appendfsync-on-rewrite"},
    [ASK_DEBUG] = {"CONFIG", "GET", "enable-debug-command"},
};

size_t rl_questions(const struct rl_facts *facts)
{
    return ASK_RIGHTS + facts->rights;
}

size_t rl_question(const struct rl_facts *facts, size_t question, struct rl_word key,
                   struct rl_word ret_word[RL_TRY_WORDS])
{
    size_t words = 0;
    if (question >= ASK_RIGHTS)
        return rl_right_try(&facts->right[question - ASK_RIGHTS], key, ret_word);
    for (; words < 3 && questions[question][words]; words++)
        ret_word[words] = (struct rl_word){questions[question][words],
                                           strlen(questions[question][words])};
    return words;
}

/* --- answers --- */

static void keep(struct rl_word word, char *ret_text, size_t room)
{
    size_t len = word.len < room - 1 ? word.len : room - 1;
    memcpy(ret_text, word.text, len);
    ret_text[len] = '\0';
}

static void read_version(const struct rl_reply *reply, redlock_fitness *node)
{
    struct rl_word valkey = rl_info_field(reply, "valkey_version");
    struct rl_word redis = rl_info_field(reply, "redis_version");
    if (valkey.len > 0)
        snprintf(node->version, sizeof(node->version), "valkey %.*s", (int)valkey.len,
                 valkey.text);
    else if (redis.len > 0)
        snprintf(node->version, sizeof(node->version), "redis %.*s", (int)redis.len,
                 redis.text);
}

static enum rl_known known_digit(struct rl_word value)
{
    return rl_info_is(value, "1") ? RL_YES : rl_info_is(value, "0") ? RL_NO : RL_UNKNOWN;
}

static enum rl_known known_word(struct rl_word value)
{
    return rl_info_is(value, "yes") ? RL_YES : rl_info_is(value, "no") ? RL_NO : RL_UNKNOWN;
}

static void read_info(struct rl_facts *facts, redlock_fitness *fitness, size_t question,
                      const struct rl_reply *reply)
{
    switch (question) {
    case ASK_SERVER: read_version(reply, fitness); break;
    case ASK_MEMORY:
        keep(rl_info_field(reply, "maxmemory_policy"), fitness->policy,
             sizeof(fitness->policy));
        fitness->maxmemory = rl_info_number(rl_info_field(reply, "maxmemory"));
        break;
    case ASK_PERSISTENCE:
        facts->appendonly = known_digit(rl_info_field(reply, "aof_enabled"));
        if (facts->appendonly == RL_NO)
            strcpy(fitness->fsync, "none");
        break;
    case ASK_REPLICATION:
        fitness->replicas = rl_info_number(rl_info_field(reply, "connected_slaves"));
        break;
    }
}

/* {name, value}; anything else is a setting that is not told. */
static void read_setting(struct rl_facts *facts, redlock_fitness *fitness, size_t question,
                         const struct rl_reply *reply)
{
    if (reply->items != 2 || reply->item[1].type != RL_REPLY_STRING)
        return;
    struct rl_word value = {reply->item[1].text, reply->item[1].len};
    if (question == ASK_REWRITE)
        facts->unsynced_rewrite = known_word(value);
    else if (question == ASK_DEBUG)
        facts->debug = rl_info_is(value, "local") ? RL_YES : known_word(value);
    else if (!fitness->fsync[0])
        keep(value, fitness->fsync, sizeof(fitness->fsync));
}

/* {seconds, microseconds} */
static void read_time(struct rl_facts *facts, const struct rl_reply *reply, rl_time now)
{
    if (reply->items != 2 || reply->item[0].type != RL_REPLY_STRING ||
        reply->item[1].type != RL_REPLY_STRING)
        return;
    int64_t s = rl_info_number((struct rl_word){reply->item[0].text, reply->item[0].len});
    int64_t us = rl_info_number((struct rl_word){reply->item[1].text, reply->item[1].len});
    if (s < 0 || s > RL_NEVER / RL_SECOND / 2 || us < 0 || us >= RL_SECOND)
        return;
    facts->time = s * RL_SECOND + us;
    facts->answered = now;
}

static void read_right(struct rl_facts *facts, struct rl_right *right,
                       const struct rl_reply *reply, rl_time now)
{
    right->fault = rl_right_read(right, reply);
    if (reply->type == RL_REPLY_ARRAY && strcmp(right->name, "TIME") == 0)
        read_time(facts, reply, now);
}

void rl_facts_read(struct rl_facts *facts, redlock_fitness *fitness, size_t question,
                   const struct rl_reply *reply, rl_time now)
{
    if (question >= ASK_RIGHTS)
        read_right(facts, &facts->right[question - ASK_RIGHTS], reply, now);
    else if (reply->type == RL_REPLY_STRING)
        read_info(facts, fitness, question, reply);
    else if (reply->type == RL_REPLY_ARRAY)
        read_setting(facts, fitness, question, reply);
}
