/*
 * The simulated server of test/sim/redis beside a real one: both get the same random
 * requests, and each reply, each message and all that is stored must be the same, byte for
 * byte. REQUESTS sets how many, SEED which.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "both_servers.h"
#include "known_differences.h"
#include "random_requests.h"

#define REQUESTS  300000
#define SEED      20261123
#define BATCH_MAX 60
#define NEAR_MS   10000 /* the clock goes to the end of a key's life that is so near */

static unsigned variable(const char *name, unsigned otherwise)
{
    const char *text = getenv(name);
    return text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

/* --- what must have happened, so that its comparison means something --- */

static const char *const required[] = {
    "-WRONGTYPE ",
    "-NOSCRIPT ",
    "-READONLY ",
    "-NOPERM ",
    "-MARKER ",
    "-LATE ",
    "-AHEAD ",
    "-FENCE ",
    "-ERR syntax error",
    "-ERR value is not an integer",
    "-ERR value is not a valid float",
    "-ERR unknown command",
    "-ERR unknown subcommand",
    "-ERR wrong number of arguments for 'script|load'",
    "-ERR Wrong number of args calling ",
    "-WRONGTYPE Operation against a key holding the wrong kind of value script: ",
    "-READONLY You can't write against a read only replica. script: ",
    "-ERR Error compiling script",
    "-ERR Can't execute 'get': only",
    "attempt to perform arithmetic on",
    "nonexistent global variable",
    "readonly table",
    "\r\n0 1", /* codes of fenced commands, and the time */
    "\r\n1 1",
    "\r\n2 1",
    "\r\nmessage\r\n",
    "\r\n1700000000000000\r\n",
    "!wake:live 1\r\n",
    "+OK\r\n",
    "$-1\r\n",
    "*0\r\n",
    ":2\r\n",
};

#define REQUIRED (sizeof(required) / sizeof(required[0]))

struct play {
    struct both_servers servers;
    struct both admin, user, subscriber;
    struct prng prng;
    rl_time era;
    unsigned requests;
    bool seen[REQUIRED];
};

static void note(struct play *play)
{
    const struct bytes *real = &play->servers.real;
    for (size_t i = 0; i < REQUIRED; i++)
        play->seen[i] = play->seen[i] ||
                        memmem(real->data, real->len, required[i], strlen(required[i]));
}

/* --- random requests --- */

/* Often to an edge of the life of some key. */
static rl_time next_time(struct play *play)
{
    static const int64_t edges[] = {-1, 0, 999, 1000};
    struct prng *prng = &play->prng;
    const struct keyspace *keyspace = &play->servers.redis->keyspace;
    rl_time now = play->servers.now;
    if (keyspace->keys > 0 && prng_below(prng, 2)) {
        int64_t expires = keyspace->key[prng_below(prng, (unsigned)keyspace->keys)].expires;
        if (expires != KEY_FOREVER && expires < now / RL_MS + NEAR_MS)
            return expires * RL_MS + edges[prng_below(prng, 4)];
    }
    switch (prng_below(prng, 8)) {
    case 0: return now;
    case 1: return now - prng_below(prng, 3000);
    case 2: return now + prng_below(prng, 3000000);
    case 3: return now + prng_below(prng, 200) * RL_SECOND;
    default: return now + prng_below(prng, 3000);
    }
}

static void play_random(struct play *play, const struct both *both)
{
    struct bytes *batch = &play->servers.batch;
    unsigned count = 1 + prng_below(&play->prng, BATCH_MAX);
    for (unsigned i = 0; i < count; i++)
        random_request(batch, &play->prng, play->servers.now, play->era);
    play->requests += count + requests_for_all_keys(batch);
    both_play(&play->servers, both, false, &play->prng);
    note(play);
}

/* By a user that has all rights but one. */
static void play_as_user(struct play *play)
{
    const char *right = random_right(&play->prng);
    servers_do(&play->servers.servers, 0, "ACL SETUSER " LIMITED " +@all -%s", right);
    play->servers.denied = right;
    play_random(play, &play->user);
    play->servers.denied = NULL;
}

static void play_as_replica(struct play *play)
{
    both_servers_set_replica(&play->servers, true);
    play_random(play, &play->admin);
    both_servers_set_replica(&play->servers, false);
}

/* A subscriber's other commands fail. */
static void play_subscriber(struct play *play)
{
    static const char *const texts[] = {"GET a", "PING",   "PUBLISH c x", "SUBSCRIBE c d",
                                        "GET",   "NOSUCH", "SUBSCRIBE",   "SUBSCRIBE c"};
    for (unsigned i = prng_below(&play->prng, 4); i > 0; i--)
        play->requests +=
            request_of_text(&play->servers.batch, texts[prng_below(&play->prng, 8)]);
    both_play(&play->servers, &play->subscriber, true, &play->prng);
    note(play);
}

static void play_some(struct play *play)
{
    both_servers_set_clock(&play->servers, next_time(play));
    switch (prng_below(&play->prng, 16)) {
    case 0:
    case 1:
    case 2: play_as_user(play); break;
    case 3: play_as_replica(play); break;
    case 4: play_subscriber(play); break;
    default: play_random(play, &play->admin);
    }
    both_compare_messages(&play->servers, &play->admin, &play->subscriber, CHANNEL,
                          &play->prng);
    note(play);
}

static void begin(struct play *play)
{
    struct both_servers *servers = &play->servers;
    random_requests_prepare();
    both_servers_start(servers);
    play->prng.state = variable("SEED", SEED);
    play->era = servers->now;
    play->admin = both_connect(servers);
    play->user = both_connect(servers);
    play->subscriber = both_connect(servers);
    servers_do(&servers->servers, 0, "ACL SETUSER " LIMITED " on nopass ~* &* +@all");
    request_of_text(&servers->batch, "AUTH " LIMITED " x");
    both_play(servers, &play->user, false, &play->prng);
    request_of_text(&servers->batch, "SUBSCRIBE " CHANNEL);
    both_play(servers, &play->subscriber, true, &play->prng);
}

static void end(struct play *play)
{
    both_disconnect(&play->admin);
    both_disconnect(&play->user);
    both_disconnect(&play->subscriber);
    both_servers_end(&play->servers);
}

Test(simulated_server, replies_as_a_real_one)
{
    static struct play play;
    unsigned requests = variable("REQUESTS", REQUESTS);
    begin(&play);
    while (play.requests < requests)
        play_some(&play);
    for (size_t i = 0; i < REQUIRED; i++)
        cr_expect(play.seen[i], "never replied: %s", required[i]);
    cr_log_info("%u requests", play.requests);
    end(&play);
}

/* --- a connection, from its beginning --- */

static void play_texts(struct both_servers *servers, struct prng *prng,
                       const char *const *text)
{
    for (; *text; text++)
        request_of_text(&servers->batch, *text);
    both_play_alone(servers, prng);
}

#define TEXTS 5

Test(simulated_server, authenticates_as_a_real_one)
{
    /*
     * Redis 8.0.2 loses the reply to an AUTH that fails behind another command. To a client
     * that has not authenticated, Valkey 9.1 does not tell whether a command exists.
     */
    static const char *const protected[][TEXTS + 1] = {
        {"GET a", "PING", "TIME"},
        {"AUTH wrong", "PING"},
        {"AUTH default wrong", "GET a"},
        {"AUTH nobody secret", "INFO nosuch"},
        {"AUTH default secret", "PING", "SELECT 1", "GET a", "SELECT 16"},
        {"AUTH secret", "PING", "AUTH", "AUTH a b c", "GET a"},
        {"CLIENT SETNAME a", "AUTH secret", "CLIENT SETNAME a:1", "CLIENT SETNAME \x01",
         "CLIENT SETNAME a b"},
        {"AUTH secret", "CLIENT NOSUCH", "CLIENT"},
    };
    static const char *const open[][TEXTS + 1] = {
        {"AUTH x", "PING"},
        {"AUTH default x", "PING"},
        {"AUTH nobody x", "PING"},
        {"NOSUCH", "GET"},
        {"SELECT x", "SELECT -1", "SELECT 99999999999", "SELECT 15", "PING"},
    };
    struct both_servers servers;
    struct prng prng = {SEED};
    both_servers_start(&servers);
    servers.redis->config.user = NULL;
    for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++)
        play_texts(&servers, &prng, open[i]);
    servers_do(&servers.servers, 0, "CONFIG SET requirepass secret");
    servers.redis->config.password = "secret";
    for (size_t i = 0; i < sizeof(protected) / sizeof(protected[0]); i++)
        play_texts(&servers, &prng, protected[i]);
    both_servers_end(&servers);
}

/* Each length, around the blocks of SHA-1. */
Test(simulated_server, names_scripts_as_a_real_one)
{
    char body[3 * 64];
    struct both_servers servers;
    struct prng prng = {SEED};
    both_servers_start(&servers);
    memset(body, '-', sizeof(body));
    for (size_t len = 2; len <= sizeof(body); len++) {
        struct rl_word words[] = {
            operation_word("SCRIPT"), operation_word("LOAD"), {body, len}};
        request_of_words(&servers.batch, words, 3);
    }
    both_play_alone(&servers, &prng);
    both_servers_end(&servers);
}

Test(simulated_server, hangs_up_as_a_real_one)
{
    static const char *const requests[] = {
        "*1\r\n$x\r\n",
        "*x\r\n",
        "*1\r\n+PING\r\n",
        "*1\r\n$-1\r\n*1\r\n$4\r\nPING\r\n",
        "*99999999999\r\n",
        "*1\r\n$600000000\r\n",
        "*0\r\n*-1\r\n*1\r\n$4\r\nPING\r\n",
        "*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPI",
        "*1\r\n$4\r\nPING\r\n*2\r\n:1\r\n*1\r\n$4\r\nPING\r\n",
    };
    struct both_servers servers;
    struct prng prng = {SEED};
    both_servers_start(&servers);
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        bytes_add_text(&servers.batch, requests[i]);
        both_play_alone(&servers, &prng);
    }
    both_servers_end(&servers);
}

/* --- INFO: each of its lines is one of the real server's --- */

static bool has_line(const char *text, const char *line, size_t len)
{
    for (const char *at = text; (at = memmem(at, strlen(at), line, len)); at++)
        if ((at == text || at[-1] == '\n') && at[len] == '\r')
            return true;
    return false;
}

static void expect_lines(struct both_servers *servers, const char *section)
{
    struct bytes request = {0}, info = {0};
    struct redis_link *link = redis_connect(servers->redis);
    redisReply *real = servers_run(&servers->servers, 0, "INFO %s", section);
    struct rl_word words[] = {operation_word("INFO"), operation_word(section)};
    unsigned lines = 0;
    request_of_words(&request, words, 2);
    redis_receive(link, bytes_word(&request), servers->now);
    bytes_add(&link->out, "", 1);
    bytes_add(&info, real->str, real->len + 1);
    known_differences_remove(servers->server, &link->out);
    known_differences_remove(servers->server, &info);
    char *text = strchr(link->out.data, '\n') + 1;
    for (char *line = strtok(text, "\r\n"); line; line = strtok(NULL, "\r\n"), lines++)
        cr_expect(has_line(info.data, line, strlen(line)), "%s has no line %s", section,
                  line);
    cr_expect_geq(lines, 2, "%s", section);
    freeReplyObject(real);
    redis_disconnect(link);
    bytes_free(&request);
    bytes_free(&info);
}

Test(simulated_server, reports_what_a_real_one_reports)
{
    static const char *const sections[] = {"server",      "memory",  "persistence",
                                           "replication", "cluster", "default"};
    struct both_servers servers;
    both_servers_start(&servers);
    for (unsigned is_replica = 0; is_replica < 2; is_replica++) {
        both_servers_set_replica(&servers, is_replica);
        for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++)
            expect_lines(&servers, sections[i]);
    }
    both_servers_end(&servers);
}
