/* Commands about the connection itself, and messages between connections. */
#include <limits.h>
#include <stdlib.h>

#include "commands.h"
#include "number.h"
#include "reply.h"

static bool is_text(struct rl_word word, const char *text)
{
    return word_is(word, (struct rl_word){text, strlen(text)});
}

void command_auth(struct call *call)
{
    const struct redis_config *config = &call->redis->config;
    const char *name = config->user ? config->user : "default";
    if (call->words > 3) {
        reply_syntax_error(call->out);
    } else if (call->words == 2 && !config->password) {
        reply_error_format(call->out,
                           "ERR AUTH <password> called without any password configured for "
                           "the default user. Are you sure your configuration is correct?");
    } else if ((call->words == 3 && !is_text(call->word[1], name)) ||
               (config->password &&
                !is_text(call->word[call->words - 1], config->password))) {
        reply_error_format(call->out,
                           "WRONGPASS invalid username-password pair or user is disabled.");
    } else {
        call->link->is_known = true;
        reply_ok(call->out);
    }
}

void command_select(struct call *call)
{
    int64_t db;
    if (!number_integer(call->word[1], &db)) {
        reply_not_integer(call->out);
    } else if (db < INT_MIN || db > INT_MAX) {
        reply_error_format(call->out,
                           "ERR value is out of range, value must between %d and %d",
                           INT_MIN, INT_MAX);
    } else if (db < 0 || db >= REDIS_DATABASES) {
        reply_error_format(call->out, "ERR DB index is out of range");
    } else {
        call->link->db = (unsigned)db;
        reply_ok(call->out);
    }
}

void command_ping(struct call *call)
{
    struct rl_word text = call->words == 2 ? call->word[1] : (struct rl_word){"", 0};
    if (call->words > 2) {
        reply_error_format(call->out, "ERR wrong number of arguments for 'ping' command");
    } else if (call->link->channels > 0) {
        reply_array(call->out, 2);
        reply_bulk_text(call->out, "pong");
        reply_bulk(call->out, text);
    } else if (call->words == 2) {
        reply_bulk(call->out, text);
    } else {
        reply_status(call->out, (struct rl_word){"PONG", 4});
    }
}

/* The name is for people, and nothing here shows it. */
void command_client_setname(struct call *call)
{
    struct rl_word name = call->word[2];
    for (size_t i = 0; i < name.len; i++)
        if (name.text[i] < '!' || name.text[i] > '~') {
            reply_error_format(call->out,
                               "ERR Client names cannot contain spaces, "
                               "newlines or special characters.");
            return;
        }
    reply_ok(call->out);
}

/* --- channels --- */

static bool has_subscribed(const struct redis_link *link, struct rl_word channel)
{
    for (size_t i = 0; i < link->channels; i++)
        if (word_is(bytes_word(&link->channel[i]), channel))
            return true;
    return false;
}

static void subscribe(struct redis_link *link, struct rl_word channel)
{
    link->channel =
        bytes_realloc(link->channel, (link->channels + 1) * sizeof(*link->channel));
    link->channel[link->channels] = (struct bytes){0};
    bytes_set(&link->channel[link->channels++], channel);
}

void command_subscribe(struct call *call)
{
    for (size_t i = 1; i < call->words; i++) {
        if (!has_subscribed(call->link, call->word[i]))
            subscribe(call->link, call->word[i]);
        reply_array(call->out, 3);
        reply_bulk_text(call->out, "subscribe");
        reply_bulk(call->out, call->word[i]);
        reply_integer(call->out, (int64_t)call->link->channels);
    }
}

void command_publish(struct call *call)
{
    int64_t receivers = 0;
    struct bytes *published = &call->redis->published;
    bytes_add(published, call->word[1].text, call->word[1].len);
    bytes_add_text(published, " ");
    bytes_add(published, call->word[2].text, call->word[2].len);
    bytes_add_text(published, "\n");
    for (size_t i = 0; i < call->redis->links; i++) {
        struct redis_link *link = call->redis->link[i];
        if (!has_subscribed(link, call->word[1]))
            continue;
        reply_array(&link->out, 3);
        reply_bulk_text(&link->out, "message");
        reply_bulk(&link->out, call->word[1]);
        reply_bulk(&link->out, call->word[2]);
        receivers++;
    }
    reply_integer(call->out, receivers);
}
