/* Cases that test/integration/simulated_server.c cannot compare with a real server: faults
   that a test of the simulator makes. The replies are those that Redis gives. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "core/kind.h"
#include "sim/redis/redis.h"
#include "sim/redis/reply.h"

#define NOW    (INT64_C(1700000000) * RL_SECOND)
#define TTL_MS 1000

struct fixture {
    struct redis *redis;
    struct redis_link *link;
    unsigned denied; /* which redis.call() fails; 0: none */
    unsigned calls;
};

static bool denies(void *arg, const char *command, unsigned call)
{
    struct fixture *fixture = arg;
    (void)command;
    fixture->calls = call;
    return call > 0 && call == fixture->denied;
}

static void open_fixture(struct fixture *fixture)
{
    struct redis_config config = {.version = "7.0.15", .denies = denies, .arg = fixture};
    *fixture = (struct fixture){.redis = redis_new(&config)};
    fixture->link = redis_connect(fixture->redis);
}

static void close_fixture(struct fixture *fixture)
{
    redis_free(fixture->redis);
}

static void receive(struct fixture *fixture, const struct rl_word *word, size_t words,
                    rl_time now)
{
    struct bytes request = {0};
    reply_array(&request, words);
    for (size_t i = 0; i < words; i++)
        reply_bulk(&request, word[i]);
    fixture->link->out.len = 0;
    redis_receive(fixture->link, bytes_word(&request), now);
    bytes_free(&request);
}

static struct rl_word word_of(const char *text)
{
    return (struct rl_word){text, strlen(text)};
}

/* Words with a blank between them. */
static void expect(struct fixture *fixture, const char *words, rl_time now,
                   const char *reply)
{
    struct rl_word word[8];
    size_t count = 0;
    for (size_t len; *words; words += len + (words[len] == ' ')) {
        len = strcspn(words, " ");
        word[count++] = (struct rl_word){words, len};
    }
    receive(fixture, word, count, now);
    cr_expect(word_is(bytes_word(&fixture->link->out), word_of(reply)), "to %s: %.*s",
              word[0].text, (int)fixture->link->out.len, fixture->link->out.data);
}

static void acquire_fenced(struct fixture *fixture, unsigned denied)
{
    struct rl_command_args args = {
        .key = word_of("a"),
        .fence_key = word_of("a!fence"),
        .marker_key = word_of("!marker"),
        .nonce = word_of("0123456789abcdef"),
        .token = word_of("f:token"),
        .ttl_ms = TTL_MS,
        .max_ttl_ms = 60000,
        .fence = NOW,
        .fences = 1,
        .sent_at = NOW,
    };
    struct rl_argv argv;
    fixture->denied = denied;
    rl_kind_argv(rl_kind_that_is(true, REDLOCK_KIND_EXCLUSIVE), RL_CMD_ACQUIRE, true, &args,
                 &argv);
    receive(fixture, argv.word, argv.words, NOW);
}

static bool replied(const struct fixture *fixture, const char *text)
{
    const struct bytes *out = &fixture->link->out;
    return memmem(out->data, out->len, text, strlen(text)) != NULL;
}

/* TIME, GETRANGE and PTTL of the fence, GETRANGE of the marker, SET of the key, SET of the
 * fence. */
#define CALLS 6

Test(simulated_redis, fails_at_any_call_of_a_script)
{
    for (unsigned denied = 1; denied <= CALLS + 1; denied++) {
        struct fixture fixture;
        bool acquires = denied > CALLS, has_key = denied >= CALLS;
        open_fixture(&fixture);
        expect(&fixture, "SET !marker 0123456789abcdef", NOW, "+OK\r\n");
        acquire_fenced(&fixture, denied);
        cr_expect_eq(replied(&fixture, "\r\n1 1700000000 0 1700000000000000\r\n"),
                     acquires);
        cr_expect_eq(replied(&fixture,
                             "-ERR The user executing the script can't run this "
                             "command or subcommand script: "),
                     !acquires);
        cr_expect_eq(fixture.calls, acquires ? CALLS : denied);
        expect(&fixture, "GET a", NOW, has_key ? "$7\r\nf:token\r\n" : "$-1\r\n");
        expect(&fixture, "GET a!fence", NOW,
               acquires ? "$16\r\n1700000000000000\r\n" : "$-1\r\n");
        close_fixture(&fixture);
    }
}

/* The letters of lua/list.lua are made of the table of kinds. */
static bool is_listed(const char *mark, const char *word)
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
    struct fixture fixture;
    char set[64];
    open_fixture(&fixture);
    snprintf(set, sizeof(set), "SET k %s%s%s", mark, word, digits + strlen(word));
    expect(&fixture, set, NOW, "+OK\r\n");
    const struct rl_script *list =
        rl_kind_that_is(false, REDLOCK_KIND_EXCLUSIVE)->script[RL_CMD_LIST];
    const struct rl_word words[] = {
        {"EVAL", 4}, {list->body, list->len},
        {"0", 1},    {"0", 1},
        {"*", 1},    {"0", 1},
        {"0", 1},    {"100", 3},
    };
    receive(&fixture, words, sizeof(words) / sizeof(words[0]), NOW);
    bool listed = replied(&fixture, "\r\n1 k\r\n");
    close_fixture(&fixture);
    return listed;
}

Test(simulated_redis, lists_tokens_of_each_kind)
{
    size_t kinds;
    const struct rl_kind *kind = rl_kinds(&kinds);
    for (size_t i = 0; i < kinds; i++)
        cr_expect(is_listed(kind[i].mark, kind[i].word ? kind[i].word : ""), "kind %zu: %s",
                  i, kind[i].mark);
    cr_expect_not(is_listed("", ""));
    cr_expect_not(is_listed("x", ""));
    cr_expect_not(is_listed("p:", ""));
}

Test(simulated_redis, keeps_a_key_in_its_last_millisecond_or_not)
{
    static const char *const remaining[] = {":0\r\n", ":-2\r\n"};
    rl_time last = NOW + TTL_MS * RL_MS;
    for (unsigned early = 0; early < 2; early++) {
        struct fixture fixture;
        open_fixture(&fixture);
        fixture.redis->keyspace.expires_early = early;
        expect(&fixture, "SET a x PX 1000", NOW, "+OK\r\n");
        expect(&fixture, "PTTL a", last - 1, ":1\r\n");
        expect(&fixture, "PTTL a", last, remaining[early]);
        expect(&fixture, "PTTL a", last + RL_MS - 1, remaining[early]);
        expect(&fixture, "PTTL a", last + RL_MS, ":-2\r\n");
        close_fixture(&fixture);
    }
}

Test(simulated_redis, refuses_while_it_loads)
{
    struct fixture fixture;
    open_fixture(&fixture);
    fixture.redis->config.is_loading = true;
    expect(&fixture, "GET a", NOW, "-LOADING Redis is loading the dataset in memory\r\n");
    expect(&fixture, "SELECT 1", NOW, "+OK\r\n");
    expect(&fixture, "INFO persistence", NOW,
           "$84\r\n# Persistence\r\nloading:1\r\nasync_loading:0\r\naof_enabled:0\r\n"
           "aof_last_write_status:ok\r\n\r\n");
    close_fixture(&fixture);
}

Test(simulated_redis, restarts_with_nothing)
{
    struct fixture fixture;
    open_fixture(&fixture);
    expect(&fixture, "SET a x", NOW, "+OK\r\n");
    expect(&fixture, "SCRIPT LOAD return", NOW,
           "$40\r\n63143b6f8007b98c53ca2149822777b3566f9241\r\n");
    redis_lose_memory(fixture.redis);
    fixture.link = redis_connect(fixture.redis);
    expect(&fixture, "GET a", NOW, "$-1\r\n");
    expect(&fixture, "SCRIPT EXISTS 63143b6f8007b98c53ca2149822777b3566f9241", NOW,
           "*1\r\n:0\r\n");
    close_fixture(&fixture);
}
