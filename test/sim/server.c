#include "server.h"

#include "auditor.h"

#include <string.h>

#include "command.h"
#include "faults.h"
#include "oracle.h"
#include "world.h"

#define CLOCK_OFFSET_MAX                                                                   \
    (200 * VIRTUAL_MS) /* fences want clocks that agree, more or less */

/* --- what it stores --- */

static struct rl_word word_of(const char *text)
{
    return (struct rl_word){text, strlen(text)};
}

int64_t server_ms(const struct server *server)
{
    return node_now(&server->node) / 1000;
}

const struct key *server_key(const struct server *server, const char *name)
{
    return keyspace_peek(&server->node.redis->keyspace, 0, word_of(name),
                         server_ms(server));
}

struct rl_word server_token(const struct key *key)
{
    const struct hash *hash = &key->hash_value;
    if (key->type == KEY_STRING)
        return bytes_word(&key->string);
    bool has_one = key->type == KEY_HASH && hash->fields == 1;
    return has_one ? bytes_word(&hash->field[0].name) : (struct rl_word){"", 0};
}

bool server_holder(const struct key *key, size_t i, struct token_there *ret_there)
{
    if (key->type != KEY_ZSET) {
        *ret_there = (struct token_there){server_token(key), key->expires};
        return i == 0 && ret_there->token.len > 0;
    }
    if (i >= key->zset.items)
        return false;
    int64_t score = (int64_t)key->zset.item[i].score;
    bool never = key->expires == KEY_FOREVER;
    *ret_there = (struct token_there){bytes_word(&key->zset.item[i].member),
                                      never || key->expires < score ? key->expires : score};
    return true;
}

const struct key *server_lock(const struct server *server, unsigned resource)
{
    const struct key *key = server_key(server, world_key(resource));
    struct token_there there;
    return key && server_holder(key, 0, &there) ? key : NULL;
}

int64_t server_fence(const struct server *server, unsigned resource)
{
    const struct key *key = server_key(server, world_fence_key(resource));
    int64_t fence = 0;
    for (size_t i = 0; key && key->type == KEY_STRING && i < key->string.len; i++) {
        char digit = key->string.data[i];
        if (digit < '0' || digit > '9') /* another program's */
            return 0;
        fence = 10 * fence + (digit - '0');
    }
    return fence;
}

int64_t server_least_fence(const struct server *server, unsigned resources)
{
    int64_t least = INT64_MAX;
    for (unsigned rest = resources; rest; rest &= rest - 1) {
        int64_t fence = server_fence(server, rl_first(rest));
        least = fence < least ? fence : least;
    }
    return least;
}

int64_t server_expires(const struct server *server, unsigned resources,
                       struct rl_word token)
{
    int64_t first = INT64_MAX;
    for (unsigned rest = resources; rest; rest &= rest - 1) {
        const struct key *lock = server_lock(server, rl_first(rest));
        struct token_there there;
        size_t i = 0;
        while (lock && server_holder(lock, i, &there) &&
               !claim_token_is(there.token, token))
            i++;
        if (!lock || !server_holder(lock, i, &there) ||
            (lock->type == KEY_ZSET && there.expires < server_ms(server)))
            return 0;
        first = there.expires < first ? there.expires : first;
    }
    return first;
}

const struct rl_marker *server_marker(const struct server *server)
{
    const struct key *key = server_key(server, WORLD_MARKER);
    if (!key || key->type != KEY_STRING)
        return NULL;
    struct marker_read *read = (struct marker_read *)&server->marker_read;
    struct rl_word text = bytes_word(&key->string);
    if (!word_is(text, bytes_word(&read->text))) {
        bytes_set(&read->text, text);
        read->is_marker = rl_marker_read(text, &read->marker);
    }
    return read->is_marker ? &read->marker : NULL;
}

void server_trace_marker(const struct server *server)
{
    const struct rl_marker *marker = server_marker(server);
    char text[RL_MARKER_MAX] = "none";
    size_t len = marker ? rl_marker_write(marker, text) : strlen(text);
    TRACE("server %u has the marker %.*s", server->index + 1, (int)len, text);
}

uint64_t server_nonce(const struct server *server)
{
    const struct rl_marker *marker = server_marker(server);
    return marker ? marker->nonce : 0;
}

void server_describe(const struct server *server, struct rl_process *ret_process)
{
    const struct redis_config *config = &server->node.redis->config;
    memcpy(ret_process->run_id, config->run_id, sizeof(ret_process->run_id));
    memcpy(ret_process->replid, config->replid, sizeof(ret_process->replid));
}

bool server_is_marked(const struct server *server)
{
    const struct rl_marker *marker = server_marker(server);
    struct rl_process process;
    server_describe(server, &process);
    return marker && (rl_process_equal(&marker->process, &process) ||
                      (marker->promises & RL_PROMISE_DURABLE &&
                       !server->node.redis->config.was_promoted));
}

void server_mark(struct server *server, struct rl_marker *marker)
{
    char text[RL_MARKER_MAX];
    struct keyspace *keyspace = &server->node.redis->keyspace;
    struct rl_word name = word_of(WORLD_MARKER);
    server_describe(server, &marker->process);
    server->was_active |= marker->active;
    struct key *key = keyspace_find(keyspace, 0, name, server_ms(server));
    if (!key)
        key = keyspace_add(keyspace, 0, name, KEY_STRING);
    bytes_set(&key->string, (struct rl_word){text, rl_marker_write(marker, text)});
    keyspace_copy(&server->saved, keyspace);
    server_trace_marker(server);
}

struct keyspace server_copy(const struct server *server)
{
    struct keyspace copy = {0};
    keyspace_copy(&copy, &server->node.redis->keyspace);
    return copy;
}

/* --- what it replies --- */

static struct server *server_of(const struct node *node)
{
    return (struct server *)node;
}

static bool denies(void *arg, const char *command, unsigned call)
{
    const struct server *server = arg;
    bool is_list = strcmp(command, "scan") == 0;
    if ((call == 0 || is_list) && auditor_denies(server, command))
        return true;
    unsigned denied = strcmp(command, "eval") == 0 ? SERVER_DENIES_EVAL : call;
    return denied > 0 && denied == server->denied_call &&
           events_now() < server->denied_until;
}

static void settle_role(struct server *server)
{
    struct redis_config *config = &server->node.redis->config;
    if (events_now() >= server->role_until)
        config->is_replica = config->is_cluster = config->is_loading = false;
}

static bool replaces(const struct node_command *command, struct bytes *out)
{
    struct server *server = server_of(command->node);
    settle_role(server);
    bool errs = server->error && events_now() < server->error_until;
    bool greeting = command_is_greeting(command);
    const struct command *next = command_next(command);
    command_begins(command);
    if (!errs || (greeting && server->greets)) {
        bool raises = next && next->ask == ASK_RAISE, is_set = raises && next->is_of_set;
        bool meets = world.is_audited || world.plan.distant;
        if (is_set || (meets && raises && draw_once_in(2)))
            fault_meet_raise(server, next->taken);
        return false;
    }
    bytes_add(out, "-", 1);
    bytes_add_text(out, server->error);
    bytes_add(out, "\r\n", 2);
    return true;
}

static void reply_nonsense(struct bytes *out, size_t at)
{
    static const char *const nonsense[] = {
        "*4\r\n:1\r\n:1\r\n:1\r\n$-1\r\n",
        "*3\r\n$1\r\np\r\n:1\r\n:1\r\n",
        "*3\r\n:1\r\n:1\r\n:1\r\n",
        "*3\r\n$1\r\np\r\n:1\r\n$-1\r\n",
        "*2\r\n$1\r\np\r\n$-1\r\n",
        "*1\r\n$-1\r\n",
        "*2\r\n$-1\r\n$-1\r\n",
        "$8\r\n1 1 -1 1\r\n",
        "$7\r\n3 1 1 1\r\n",
        "$6\r\n1 1 1 \r\n",
        "$7\r\n0 1 1 1\r\n",
        "$2\r\nOK\r\n",
        "+PONG\r\n",
        "+QK\r\n",
        ":-1\r\n",
        ":3\r\n",
        "%1\r\n+a\r\n:1\r\n",
        "HTTP/1.1 400 Bad Request\r\n",
    };
    out->len = at;
    bytes_add_text(out, nonsense[events_random(sizeof(nonsense) / sizeof(nonsense[0]))]);
}

static void *executed(const struct node_command *command, struct bytes *out, size_t at)
{
    struct server *server = server_of(command->node);
    const struct command *ran = command_next(command);
    bool garbles = events_now() < server->garbage_until;
    if (ran && ran->ask == ASK_RAISE)
        fault_raise_met(server, ran->taken);
    if (garbles)
        reply_nonsense(out, at);
    return command_ran(command, (struct rl_word){out->data + at, out->len - at}, garbles);
}

static const struct node_class node_class = {.replaces = replaces, .executed = executed};

/* --- its process --- */

static void on_resume(void *arg)
{
    struct server *server = arg;
    TRACE("server %u runs again", server->index + 1);
    node_resume(&server->node);
}

void server_hang(struct server *server, int64_t until)
{
    if (server->node.state != NODE_RUNS)
        return;
    node_hang(&server->node);
    if (until != CLOCK_NEVER)
        event_at(&server->resumes, until);
}

void server_restart(struct server *server, int64_t until)
{
    if (server->node.state == NODE_DOWN)
        return;
    node_stop(&server->node);
    server->process++;
    event_cancel(&server->resumes);
    if (until != CLOCK_NEVER)
        event_at(&server->resumes, until);
}

void server_bury(struct server *server)
{
    struct keyspace before = server_copy(server);
    TRACE("server %u ends for good", server->index + 1);
    server_restart(server, CLOCK_NEVER);
    server_empty(server);
    server_forgot(server, &before, true);
    keyspace_free(&before);
}

void server_empty(struct server *server)
{
    keyspace_clear(&server->node.redis->keyspace);
    keyspace_clear(&server->saved);
    server->node.redis->config.was_promoted = false;
}

void server_forgot(struct server *server, const struct keyspace *before, bool restart)
{
    server->memory++;
    if (server->was_active)
        server->lost_at = events_now(); /* otherwise there was nothing to lose */
    oracle_compare(server, before, restart ? LOSS_RESTART : LOSS_FLUSH);
}

void server_heal(struct server *server)
{
    server->error_until = server->garbage_until = server->denied_until =
        server->role_until = 0;
    settle_role(server);
    event_cancel(&server->resumes);
    node_resume(&server->node);
}

void server_begin(struct server *server, unsigned index)
{
    struct keyspace saved = server->saved;
    *server = (struct server){.index = index, .process = 1, .history = 1};
    server->saved = saved;
    keyspace_clear(&server->saved);
    server->lost_at = CLOCK_NEVER;
    server->resumes = (struct event){.happen = on_resume, .arg = server};
    node_begin(&server->node, index + 1);
    node_watch(&server->node, &node_class);
    server->node.service = world.plan.service;
    server->node.redis->config.denies = denies;
    server->node.redis->config.arg = server;
    server->node.redis->config.has_aof = world.plan.promises & RL_PROMISE_DURABLE;
    server->node.redis->keyspace.expires_early = draw_once_in(4);
    int64_t span = world.plan.fenced ? CLOCK_OFFSET_MAX : 1000000 * VIRTUAL_S;
    server->node.clock.value = WORLD_TIME_OF_DAY + events_now() + draw_between(0, span);
}

void server_end(struct server *server)
{
    node_end(&server->node);
    bytes_free(&server->marker_read.text);
}
