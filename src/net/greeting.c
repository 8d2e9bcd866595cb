#include "greeting.h"

#include <stdio.h>
#include <string.h>

#include "info.h"

static struct rl_word word(const char *text)
{
    return (struct rl_word){text, strlen(text)};
}

static bool greeting_add(struct rl_greeting *greeting, struct rl_send_batch *batch,
                         enum rl_greeting_step step, const struct rl_word *words,
                         size_t count)
{
    struct rl_segment segment;
    greeting->step[greeting->steps++] = step;
    return rl_send_batch_add_argv(batch, words, count, &segment);
}

static bool add_credentials(struct rl_greeting *greeting, struct rl_send_batch *batch,
                            const struct rl_credentials *who)
{
    if (who->user || who->password) { /* a user may have no password */
        struct rl_word auth[3] = {word("AUTH")};
        size_t words = 1;
        if (who->user)
            auth[words++] = word(who->user);
        auth[words++] = word(who->password ? who->password : "");
        if (!greeting_add(greeting, batch, RL_GREET_AUTH, auth, words))
            return false;
    }
    if (who->db > 0) {
        char digits[16];
        snprintf(digits, sizeof(digits), "%d", who->db);
        struct rl_word select[] = {word("SELECT"), word(digits)};
        return greeting_add(greeting, batch, RL_GREET_SELECT, select, 2);
    }
    return true;
}

static bool add_name(struct rl_greeting *greeting, struct rl_send_batch *batch,
                     const char *name)
{
    struct rl_word words[] = {word("CLIENT"), word("SETNAME"), word(name)};
    return greeting_add(greeting, batch, RL_GREET_NAME, words, 3);
}

bool rl_greeting_begin(struct rl_greeting *greeting, const struct rl_credentials *who,
                       struct rl_send_batch *batch)
{
    static const char *const sections[] = {
        [RL_GREET_SERVER] = "server",
        [RL_GREET_REPLICATION] = "replication",
        [RL_GREET_CLUSTER] = "cluster",
        [RL_GREET_PERSISTENCE] = "persistence",
    };
    memset(greeting, 0, sizeof(*greeting));
    memset(greeting->identity.process.replid, '0',
           RL_RUN_ID); /* the default, if the node sends none */
    if (!add_credentials(greeting, batch, who))
        return false;
    for (int step = RL_GREET_SERVER; step <= RL_GREET_PERSISTENCE; step++) {
        struct rl_word info[] = {word("INFO"), word(sections[step])};
        if (!greeting_add(greeting, batch, step, info, 2))
            return false;
    }
    /* Without it, no lock could be released. */
    struct rl_word eval[] = {word("EVAL"), word("return 1"), word("0")};
    if (!greeting_add(greeting, batch, RL_GREET_SCRIPT, eval, 3))
        return false;
    if (who->name && !add_name(greeting, batch, who->name))
        return false;
    char last[8]; /* one byte more than a marker has */
    snprintf(last, sizeof(last), "%d", RL_MARKER_MAX);
    struct rl_word get[] = {word("GETRANGE"), who->marker_key, word("0"), word(last)};
    return greeting_add(greeting, batch, RL_GREET_MARKER, get, 4);
}

/*
 * If a section lacks a required field, the identity stays unset, and the link refuses it.
 */
static void read_section(struct rl_greeting *greeting, enum rl_greeting_step step,
                         const struct rl_reply *reply)
{
    struct rl_identity *identity = &greeting->identity;
    switch (step) {
    case RL_GREET_AUTH:
    case RL_GREET_SELECT: break;
    case RL_GREET_SERVER: {
        struct rl_word run_id = rl_info_field(reply, "run_id");
        if (run_id.len == RL_RUN_ID)
            memcpy(identity->process.run_id, run_id.text, RL_RUN_ID);
        identity->time =
            rl_max(rl_info_number(rl_info_field(reply, "server_time_usec")), 0);
        identity->is_cluster |= rl_info_is(rl_info_field(reply, "redis_mode"), "cluster");
        break;
    }
    case RL_GREET_REPLICATION: {
        struct rl_word replid = rl_info_field(reply, "master_replid");
        if (replid.len == RL_RUN_ID)
            memcpy(identity->process.replid, replid.text, RL_RUN_ID);
        struct rl_word role = rl_info_field(reply, "role");
        identity->has_role = role.len > 0;
        identity->is_master = rl_info_is(role, "master");
        /* A promoted replica has the master_replid of its master as a second one. */
        identity->keeps_data = rl_info_is(rl_info_field(reply, "second_repl_offset"), "-1");
        break;
    }
    case RL_GREET_CLUSTER:
        identity->is_cluster |= rl_info_is(rl_info_field(reply, "cluster_enabled"), "1");
        break;
    case RL_GREET_PERSISTENCE:
        identity->is_loading = rl_info_is(rl_info_field(reply, "loading"), "1") ||
                               rl_info_is(rl_info_field(reply, "async_loading"), "1");
        identity->keeps_data &=
            rl_info_is(rl_info_field(reply, "aof_enabled"), "1") &&
            rl_info_is(rl_info_field(reply, "aof_last_write_status"), "ok");
        break;
    case RL_GREET_SCRIPT:
    case RL_GREET_NAME: break;
    case RL_GREET_MARKER:
        identity->marker_len =
            reply->len < RL_MARKER_MAX + 1 ? reply->len : RL_MARKER_MAX + 1;
        memcpy(identity->marker, reply->text, identity->marker_len);
        break;
    }
}

/*
 * How replies to AUTH begin; those that reject a user or a password do not all say
 * WRONGPASS.
 */
static const struct {
    const char *text;
    bool rejects;
} auth_replies[] = {
    {"WRONGPASS invalid username-password pair or user is disabled.", true},
    {"ERR AUTH <password> called without any password configured for the default user.",
     true},                                                 /* from Redis 6 on */
    {"ERR Client sent AUTH, but no password is set", true}, /* before, as the next two */
    {"ERR invalid password", true},
    {"ERR wrong number of arguments for 'auth' command", true}, /* it has no users */
    {"ERR unknown command", false},
};

/* Returns the length of the known sentence that it begins with, or 0. */
static size_t read_auth_reply(const struct rl_reply *reply, bool *ret_rejects)
{
    for (size_t i = 0; i < sizeof(auth_replies) / sizeof(auth_replies[0]); i++) {
        size_t len = strlen(auth_replies[i].text);
        if (reply->len >= len && memcmp(reply->text, auth_replies[i].text, len) == 0) {
            *ret_rejects = auth_replies[i].rejects;
            return len;
        }
    }
    *ret_rejects = false;
    return 0;
}

size_t rl_greeting_auth_len(const struct rl_reply *reply)
{
    bool rejects;
    return read_auth_reply(reply, &rejects);
}

enum rl_fault rl_greeting_fault(enum rl_greeting_step step, const struct rl_reply *reply)
{
    bool rejects = false;
    if (step == RL_GREET_AUTH)
        read_auth_reply(reply, &rejects);
    if (rejects)
        return RL_FAULT_WRONGPASS;
    enum rl_fault fault = rl_fault_of_error(reply->text, reply->len);
    return step == RL_GREET_SCRIPT && fault == RL_FAULT_ERR ? RL_FAULT_NO_EVAL : fault;
}

const char *rl_greeting_command(enum rl_greeting_step step)
{
    switch (step) {
    case RL_GREET_SELECT: return "SELECT";
    case RL_GREET_SCRIPT: return "EVAL";
    default: return "INFO";
    }
}

static enum rl_reply_type expected_type(enum rl_greeting_step step)
{
    switch (step) {
    case RL_GREET_AUTH:
    case RL_GREET_SELECT: return RL_REPLY_STATUS;
    case RL_GREET_SCRIPT: return RL_REPLY_INTEGER;
    default: return RL_REPLY_STRING;
    }
}

bool rl_greeting_read(struct rl_greeting *greeting, const struct rl_reply *reply)
{
    enum rl_greeting_step step = greeting->step[greeting->answered++];
    struct rl_identity *identity = &greeting->identity;
    /* INFO tells more exactly why a replica, or a node that loads, refuses scripts. */
    enum rl_fault *denied =
        step == RL_GREET_SCRIPT ? &identity->no_scripts : &identity->denied;
    bool is_first =
        identity->denied == RL_FAULT_NONE && identity->no_scripts == RL_FAULT_NONE;
    bool is_none = step == RL_GREET_MARKER &&
                   (reply->type == RL_REPLY_NIL || reply->type == RL_REPLY_ERROR);
    if (is_none) {
        /* No marker, or no right to read it: only fenced locks need it and report that. */
    } else if (step == RL_GREET_NAME) {
        greeting->name_refused = reply->type == RL_REPLY_ERROR && is_first;
    } else if (reply->type == RL_REPLY_ERROR) {
        if (is_first)
            *denied = rl_greeting_fault(step, reply);
    } else if (reply->type != expected_type(step)) {
        *denied = RL_FAULT_PROTOCOL;
    } else {
        read_section(greeting, step, reply);
    }
    return greeting->answered == greeting->steps;
}
