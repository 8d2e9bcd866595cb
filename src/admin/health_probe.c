#include "health_probe.h"

#include <stdio.h>
#include <string.h>

#include "net/info.h"

/* All are sent in this order, in one write. From ASK_RIGHTS on, one per right. */
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

size_t rl_probe_commands(const struct rl_probe *probe)
{
    return ASK_RIGHTS + probe->rights;
}

size_t rl_probe_argv(const struct rl_probe *probe, size_t question, struct rl_word key,
                     struct rl_word ret_word[RL_ACL_RIGHT_WORDS])
{
    size_t words = 0;
    if (question >= ASK_RIGHTS)
        return rl_acl_right_argv(&probe->right[question - ASK_RIGHTS], key, ret_word);
    for (; words < 3 && questions[question][words]; words++)
        ret_word[words] = (struct rl_word){questions[question][words],
                                           strlen(questions[question][words])};
    return words;
}

/* --- replies --- */

static void keep(struct rl_word word, char *ret_text, size_t room)
{
    size_t len = word.len < room - 1 ? word.len : room - 1;
    memcpy(ret_text, word.text, len);
    ret_text[len] = '\0';
}

static void read_version(const struct rl_reply *reply, redlock_node_health *node)
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

static enum rl_tristate known_digit(struct rl_word value)
{
    return rl_info_is(value, "1") ? RL_YES : rl_info_is(value, "0") ? RL_NO : RL_UNKNOWN;
}

static enum rl_tristate known_word(struct rl_word value)
{
    return rl_info_is(value, "yes") ? RL_YES : rl_info_is(value, "no") ? RL_NO : RL_UNKNOWN;
}

static void read_info(struct rl_probe *probe, redlock_node_health *health, size_t question,
                      const struct rl_reply *reply)
{
    switch (question) {
    case ASK_SERVER: read_version(reply, health); break;
    case ASK_MEMORY:
        keep(rl_info_field(reply, "maxmemory_policy"), health->policy,
             sizeof(health->policy));
        health->maxmemory = rl_info_number(rl_info_field(reply, "maxmemory"));
        break;
    case ASK_PERSISTENCE:
        probe->appendonly = known_digit(rl_info_field(reply, "aof_enabled"));
        if (probe->appendonly == RL_NO)
            strcpy(health->fsync, "none");
        break;
    case ASK_REPLICATION:
        health->replicas = rl_info_number(rl_info_field(reply, "connected_slaves"));
        break;
    }
}

/* Parses {name, value}. With any other reply, the setting stays unknown. */
static void read_setting(struct rl_probe *probe, redlock_node_health *health,
                         size_t question, const struct rl_reply *reply)
{
    if (reply->items != 2 || reply->item[1].type != RL_REPLY_STRING)
        return;
    struct rl_word value = {reply->item[1].text, reply->item[1].len};
    if (question == ASK_REWRITE)
        probe->unsynced_rewrite = known_word(value);
    else if (question == ASK_DEBUG)
        probe->debug = rl_info_is(value, "local") ? RL_YES : known_word(value);
    else if (!health->fsync[0])
        keep(value, health->fsync, sizeof(health->fsync));
}

/* Parses {seconds, microseconds}. */
static void read_time(struct rl_probe *probe, const struct rl_reply *reply, rl_time now)
{
    if (reply->items != 2 || reply->item[0].type != RL_REPLY_STRING ||
        reply->item[1].type != RL_REPLY_STRING)
        return;
    int64_t s = rl_info_number((struct rl_word){reply->item[0].text, reply->item[0].len});
    int64_t us = rl_info_number((struct rl_word){reply->item[1].text, reply->item[1].len});
    if (s < 0 || s > RL_NEVER / RL_SECOND / 2 || us < 0 || us >= RL_SECOND)
        return;
    probe->time = s * RL_SECOND + us;
    probe->answered = now;
}

static void read_right(struct rl_probe *probe, struct rl_acl_right *right,
                       const struct rl_reply *reply, rl_time now)
{
    right->fault = rl_acl_right_read(right, reply);
    if (reply->type == RL_REPLY_ARRAY && strcmp(right->name, "TIME") == 0)
        read_time(probe, reply, now);
}

void rl_probe_read(struct rl_probe *probe, redlock_node_health *health, size_t question,
                   const struct rl_reply *reply, rl_time now)
{
    if (question >= ASK_RIGHTS)
        read_right(probe, &probe->right[question - ASK_RIGHTS], reply, now);
    else if (reply->type == RL_REPLY_STRING)
        read_info(probe, health, question, reply);
    else if (reply->type == RL_REPLY_ARRAY)
        read_setting(probe, health, question, reply);
}
