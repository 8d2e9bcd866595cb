#include "command.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <strings.h>

#include "commands.h"
#include "reply.h"

enum {
    WRITES = 1,     /* a replica refuses it */
    NO_SCRIPT = 2,  /* clients only */
    LOADING = 4,    /* while the server loads, too */
    NO_AUTH = 8,    /* before AUTH, too */
    SUBSCRIBED = 16 /* of a connection with subscriptions, too */
};

struct command {
    const char *name;
    size_t len;
    void (*run)(struct call *call);
    int arity; /* words; below 0: at least so many */
    unsigned flags;
};

#define NAME(name) name, sizeof(name) - 1

/* "a|b": a subcommand. What scripts call most comes first. */
static const struct command commands[] = {
    {NAME("getrange"), command_getrange, 4, 0},
    {NAME("set"), command_set, -3, WRITES},
    {NAME("time"), command_time, 1, LOADING},
    {NAME("pttl"), command_pttl, 2, 0},
    {NAME("pexpire"), command_pexpire, -3, WRITES},
    {NAME("del"), command_del, -2, WRITES},
    {NAME("exists"), command_exists, -2, 0},
    {NAME("type"), command_type, 2, 0},
    {NAME("zrange"), command_zrange, -4, 0},
    {NAME("zrem"), command_zrem, -3, WRITES},
    {NAME("zscore"), command_zscore, 3, 0},
    {NAME("zadd"), command_zadd, -4, WRITES},
    {NAME("publish"), command_publish, 3, LOADING},
    {NAME("hexists"), command_hexists, 3, 0},
    {NAME("hincrby"), command_hincrby, 4, WRITES},
    {NAME("hdel"), command_hdel, -3, WRITES},
    {NAME("hlen"), command_hlen, 2, 0},
    {NAME("hkeys"), command_hkeys, 2, 0},
    {NAME("hgetall"), command_hgetall, 2, 0},
    {NAME("hstrlen"), command_hstrlen, 3, 0},
    {NAME("hset"), command_hset, -4, WRITES},
    {NAME("evalsha"), command_evalsha, -3, NO_SCRIPT},
    {NAME("eval"), command_eval, -3, NO_SCRIPT},
    {NAME("info"), command_info, -1, LOADING},
    {NAME("ping"), command_ping, -1, SUBSCRIBED},
    {NAME("subscribe"), command_subscribe, -2, NO_SCRIPT | LOADING | SUBSCRIBED},
    {NAME("auth"), command_auth, -2, NO_SCRIPT | LOADING | NO_AUTH},
    {NAME("select"), command_select, 2, NO_SCRIPT | LOADING},
    {NAME("client|setname"), command_client_setname, 3, NO_SCRIPT | LOADING},
    {NAME("scan"), command_scan, -2, 0},
    {NAME("get"), command_get, 2, 0},
    {NAME("pexpiretime"), command_pexpiretime, 2, 0},
    {NAME("rpush"), command_rpush, -3, WRITES},
    {NAME("flushall"), command_flushall, -1, WRITES},
    {NAME("config|get"), command_config_get, -3, NO_SCRIPT | LOADING},
    {NAME("script|load"), command_script_load, 3, NO_SCRIPT},
    {NAME("script|exists"), command_script_exists, -3, NO_SCRIPT},
    {NAME("script|flush"), command_script_flush, -2, NO_SCRIPT},
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

/* Commands with subcommands. */
static const struct command containers[] = {
    {NAME("client"), NULL, -2, 0},
    {NAME("config"), NULL, -2, 0},
    {NAME("script"), NULL, -2, 0},
};

#define CONTAINERS (sizeof(containers) / sizeof(containers[0]))

static const struct command *find_in(const struct command *table, size_t count,
                                     struct rl_word name)
{
    for (size_t i = 0; i < count; i++)
        if (name.len == table[i].len &&
            tolower((unsigned char)name.text[0]) == table[i].name[0] &&
            strncasecmp(name.text, table[i].name, name.len) == 0)
            return &table[i];
    return NULL;
}

static const struct command *find_container(const struct call *call)
{
    return find_in(containers, CONTAINERS, call->word[0]);
}

static const struct command *find(const struct call *call)
{
    char name[32];
    const struct command *container = find_container(call);
    struct rl_word word = call->word[0];
    if (container && call->words == 1)
        return container;
    if (container) {
        int len = snprintf(name, sizeof(name), "%s|%.*s", container->name,
                           (int)call->word[1].len, call->word[1].text);
        word = (struct rl_word){name, (size_t)len < sizeof(name) ? (size_t)len : 0};
    }
    return find_in(commands, COMMANDS, word);
}

static bool has_arity(const struct command *command, const struct call *call)
{
    int words = (int)call->words;
    return command->arity < 0 ? words >= -command->arity : words == command->arity;
}

#define UNKNOWN_MAX 128 /* bytes of a word, and of all arguments, that the error quotes */

static void reply_unknown(const struct call *call)
{
    struct bytes quoted = {0};
    const struct command *container = find_container(call);
    char upper[16];
    if (container) {
        for (size_t i = 0; i <= strlen(container->name); i++)
            upper[i] = (char)(container->name[i] & ~('a' - 'A'));
        reply_error_format(call->out, "ERR unknown subcommand '%.*s'. Try %s HELP.",
                           (int)strnlen(call->word[1].text, call->word[1].len < UNKNOWN_MAX
                                                                ? call->word[1].len
                                                                : UNKNOWN_MAX),
                           call->word[1].text, upper);
        return;
    }
    for (size_t i = 1; i < call->words && quoted.len < UNKNOWN_MAX; i++) {
        size_t room = UNKNOWN_MAX - quoted.len, len = call->word[i].len;
        bytes_add(&quoted, "'", 1);
        bytes_add(&quoted, call->word[i].text,
                  strnlen(call->word[i].text, len < room ? len : room));
        bytes_add(&quoted, "' ", 2);
    }
    size_t len = call->word[0].len < UNKNOWN_MAX ? call->word[0].len : UNKNOWN_MAX;
    reply_error_format(
        call->out, "ERR unknown command '%.*s', with args beginning with: %.*s", (int)len,
        call->word[0].text, (int)quoted.len, quoted.len ? quoted.data : "");
    bytes_free(&quoted);
}

static bool is_denied(const struct call *call, const struct command *command)
{
    const struct redis_config *config = &call->redis->config;
    return config->denies && !(command->flags & NO_AUTH) &&
           config->denies(config->arg, command->name, call->in_script);
}

static bool is_release_7_0(const struct call *call)
{
    return strncmp(call->redis->config.version, "7.0", 3) == 0;
}

static const char *user_of(const struct call *call)
{
    const char *user = call->redis->config.user;
    return user ? user : "default";
}

static void reply_denied(const struct call *call, const struct command *command)
{
    if (is_release_7_0(call))
        reply_error_format(call->out,
                           "NOPERM this user has no permissions to run the '%s' command",
                           command->name);
    else
        reply_error_format(call->out,
                           "NOPERM User %s has no permissions to run the '%s' command",
                           user_of(call), command->name);
}

#define READONLY "READONLY You can't write against a read only replica."

/* Checks in the order of Redis. */
static bool may_run(const struct call *call, const struct command *command)
{
    const struct redis_config *config = &call->redis->config;
    if (config->password && !call->link->is_known && !(command->flags & NO_AUTH))
        reply_error_format(call->out, "NOAUTH Authentication required.");
    else if (is_denied(call, command))
        reply_denied(call, command);
    else if (config->is_replica && command->flags & WRITES)
        reply_error_format(call->out, READONLY);
    else if (call->link->channels > 0 && !(command->flags & SUBSCRIBED))
        reply_error_format(call->out,
                           "ERR Can't execute '%s': only (P|S)SUBSCRIBE / "
                           "(P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this "
                           "context",
                           command->name);
    else if (config->is_loading && !(command->flags & LOADING))
        reply_error_format(call->out, "LOADING Redis is loading the dataset in memory");
    else
        return true;
    return false;
}

void command_execute(struct call *call)
{
    const struct command *command = find(call);
    if (!command)
        reply_unknown(call);
    else if (!has_arity(command, call))
        reply_error_format(call->out, "ERR wrong number of arguments for '%s' command",
                           command->name);
    else if (may_run(call, command))
        command->run(call);
}

const char *command_execute_in_script(struct call *call)
{
    static char denied[160];
    const struct command *command = find(call);
    if (!command)
        return "Unknown Redis command called from script";
    if (!has_arity(command, call))
        return "Wrong number of args calling Redis command from script";
    if (command->flags & NO_SCRIPT)
        return "This Redis command is not allowed from script";
    if (is_denied(call, command)) {
        if (is_release_7_0(call))
            return "The user executing the script can't run this command or subcommand";
        snprintf(
            denied, sizeof(denied),
            "ACL failure in script: User %s has no permissions to run the '%s' command",
            user_of(call), command->name);
        return denied;
    }
    if (call->redis->config.is_replica && command->flags & WRITES)
        return "-" READONLY;
    command->run(call);
    return NULL;
}
