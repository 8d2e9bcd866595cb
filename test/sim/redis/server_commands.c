/* Commands about the server. INFO has the lines that the library reads, and CONFIG GET the
 * settings. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "commands.h"
#include "reply.h"

#define LINE_MAX_LEN 128

void command_time(struct call *call)
{
    reply_array(call->out, 2);
    reply_bulk_integer(call->out, call->now / RL_SECOND);
    reply_bulk_integer(call->out, call->now % RL_SECOND);
}

/* --- INFO --- */

__attribute__((format(printf, 2, 3))) static void line(struct bytes *text,
                                                       const char *format, ...)
{
    char buffer[LINE_MAX_LEN];
    va_list args;
    va_start(args, format);
    vsnprintf(buffer, sizeof(buffer), format, args);
    va_end(args);
    bytes_add_text(text, buffer);
    bytes_add(text, "\r\n", 2);
}

static void add_server(const struct call *call, struct bytes *text)
{
    const struct redis_config *config = &call->redis->config;
    line(text, "# Server");
    line(text, "redis_version:%s", config->version);
    line(text, "redis_mode:%s", config->is_cluster ? "cluster" : "standalone");
    line(text, "run_id:%s", config->run_id);
    line(text, "server_time_usec:%" PRId64, call->now);
}

static void add_memory(const struct call *call, struct bytes *text)
{
    const struct redis_config *config = &call->redis->config;
    line(text, "# Memory");
    line(text, "maxmemory:%" PRId64, config->maxmemory);
    line(text, "maxmemory_policy:%s", config->maxmemory_policy);
}

static void add_persistence(const struct call *call, struct bytes *text)
{
    const struct redis_config *config = &call->redis->config;
    line(text, "# Persistence");
    line(text, "loading:%d", config->is_loading);
    line(text, "async_loading:%d", config->is_async_loading);
    line(text, "aof_enabled:%d", config->has_aof);
    line(text, "aof_last_write_status:ok");
}

static void add_replication(const struct call *call, struct bytes *text)
{
    const struct redis_config *config = &call->redis->config;
    line(text, "# Replication");
    line(text, "role:%s", config->is_replica ? "slave" : "master");
    line(text, "connected_slaves:%u", config->replicas);
    line(text, "master_replid:%s", config->replid);
    line(text, "master_repl_offset:%" PRId64, config->repl_offset);
    line(text, "second_repl_offset:%d", config->was_promoted ? 1 : -1);
}

static void add_cluster(const struct call *call, struct bytes *text)
{
    line(text, "# Cluster");
    line(text, "cluster_enabled:%d", call->redis->config.is_cluster);
}

static const struct {
    const char *name;
    void (*add)(const struct call *call, struct bytes *text);
} sections[] = {
    {"server", add_server},           {"memory", add_memory},
    {"persistence", add_persistence}, {"replication", add_replication},
    {"cluster", add_cluster},
};

static bool wants(const struct call *call, const char *section)
{
    static const char *const all[] = {"default", "all", "everything"};
    for (size_t i = 1; i < call->words; i++) {
        for (size_t j = 0; j < sizeof(all) / sizeof(all[0]); j++)
            if (word_is_option(call->word[i], all[j]))
                return true;
        if (word_is_option(call->word[i], section))
            return true;
    }
    return call->words == 1;
}

void command_info(struct call *call)
{
    struct bytes text = {0};
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
        if (!wants(call, sections[i].name))
            continue;
        if (text.len > 0)
            bytes_add(&text, "\r\n", 2);
        sections[i].add(call, &text);
    }
    reply_bulk(call->out, bytes_word(&text));
    bytes_free(&text);
}

/* --- CONFIG GET, by whole names --- */

void command_config_get(struct call *call)
{
    const struct redis_config *config = &call->redis->config;
    const char *const settings[][2] = {
        {"appendfsync", config->fsync},
        {"no-appendfsync-on-rewrite", config->no_fsync_on_rewrite},
        {"enable-debug-command", config->debug_command},
    };
    const size_t count = sizeof(settings) / sizeof(settings[0]);
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += word_is_option(call->word[2], settings[i][0]);
    reply_array(call->out, 2 * found);
    for (size_t i = 0; i < count; i++) {
        if (!word_is_option(call->word[2], settings[i][0]))
            continue;
        reply_bulk_text(call->out, settings[i][0]);
        reply_bulk_text(call->out, settings[i][1]);
    }
}
