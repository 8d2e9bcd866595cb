#include "redis.h"

#include <stdlib.h>

#include "command.h"
#include "reply.h"
#include "script_cache.h"

struct redis *redis_new(const struct redis_config *config)
{
    struct redis *redis = bytes_realloc(NULL, sizeof(*redis));
    *redis = (struct redis){.config = *config};
    redis->scripts = scripts_new();
    return redis;
}

void redis_restart(struct redis *redis)
{
    while (redis->links > 0)
        redis_disconnect(redis->link[redis->links - 1]);
    scripts_forget(redis->scripts);
}

void redis_forget_scripts(struct redis *redis)
{
    scripts_forget(redis->scripts);
}

void redis_lose_memory(struct redis *redis)
{
    redis_restart(redis);
    keyspace_clear(&redis->keyspace);
}

void redis_free(struct redis *redis)
{
    redis_restart(redis);
    keyspace_free(&redis->keyspace);
    scripts_free(redis->scripts);
    request_free(&redis->request);
    bytes_free(&redis->published);
    free(redis->link);
    free(redis);
}

struct redis_link *redis_connect(struct redis *redis)
{
    struct redis_link *link = bytes_realloc(NULL, sizeof(*link));
    *link = (struct redis_link){.redis = redis};
    if (redis->links == redis->room) {
        redis->room = redis->room ? 2 * redis->room : 8;
        redis->link = bytes_realloc(redis->link, redis->room * sizeof(struct redis_link *));
    }
    redis->link[redis->links++] = link;
    return link;
}

void redis_disconnect(struct redis_link *link)
{
    struct redis *redis = link->redis;
    size_t i = 0;
    while (redis->link[i] != link)
        i++;
    for (redis->links--; i < redis->links; i++)
        redis->link[i] = redis->link[i + 1];
    for (i = 0; i < link->channels; i++)
        bytes_free(&link->channel[i]);
    free(link->channel);
    bytes_free(&link->in);
    bytes_free(&link->out);
    free(link);
}

static void execute(struct redis_link *link, int64_t now)
{
    struct redis *redis = link->redis;
    const struct redis_hooks *hooks = &redis->hooks;
    const struct request *request = &redis->request;
    struct call call = {
        .redis = redis,
        .link = link,
        .word = request->word,
        .words = request->words,
        .now = now,
        .out = &link->out,
    };
    size_t at = link->out.len;
    if (call.words == 0)
        return;
    bool replaced =
        hooks->replaces && hooks->replaces(hooks->arg, call.word, call.words, call.out);
    redis->keyspace.keeps_expired = redis->config.is_replica;
    if (hooks->now) /* the clock may have been set */
        call.now = hooks->now(hooks->arg);
    if (!replaced)
        command_execute(&call);
    if (hooks->executed)
        hooks->executed(hooks->arg, call.word, call.words, call.out, at);
}

void redis_receive(struct redis_link *link, struct rl_word bytes, int64_t now)
{
    struct request *request = &link->redis->request;
    size_t done = 0, used;
    if (link->is_broken)
        return;
    bytes_add(&link->in, bytes.text, bytes.len);
    while (done < link->in.len && !link->is_broken) {
        struct rl_word rest = {link->in.data + done, link->in.len - done};
        enum request_state state = request_read(request, rest, &used);
        if (state == REQUEST_PARTIAL)
            break;
        link->is_broken = state == REQUEST_BROKEN;
        if (link->is_broken) {
            reply_error(&link->out,
                        (struct rl_word){request->error, strlen(request->error)});
            break;
        }
        execute(link, now);
        done += used;
    }
    bytes_drop(&link->in, done);
}
