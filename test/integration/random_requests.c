#include "random_requests.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "sim/redis/reply.h"

#define COUNT(array)       (sizeof(array) / sizeof((array)[0]))
#define PICK(prng, choice) ((choice)[prng_below(prng, COUNT(choice))])

#define WORDS_MAX 24
#define MANGLED   8 /* one request of so many */
#define TTL_MAX   3000

/* The keys that requests use, with those of operations.c. */
static const struct rl_word keys[] = {
    {"a", 1},          {"b", 1},
    {"lock:c", 6},     {"d\0e", 3},
    {"", 0},           {"a:", 2},
    {"d\0:e", 4},      {"!m", 2},
    {"d\0!m", 4},      {"a!queue", 7},
    {"b!queue", 7},    {"!queue", 6},
    {"z", 1},          {"lock:c!queue", 12},
    {"d\0f", 3},       {"d\0:f", 4},
    {"d\0e!queue", 9}, {"d\0f!queue", 9},
    {"a!intent", 8},   {"b!intent", 8},
    {"h", 1},
};

#define DIGITS "abcdefghijklmnopqrstuvwxyz234567"

#define HASH_KEY (COUNT(keys) - 1)

static const char *const values[] = {
    "",          "p1",       "f:1",          "x",        "0123456789abcdef active",
    "7",         "a b",      "!wake:live 1", "s" DIGITS, "p" DIGITS,
    "g:" DIGITS, "f:" DIGITS};
static const char *const members[] = {
    "!wake:live 1",   "!wake:live 2", "!wake:dead 3", "m", "",
    "!wake:live 1 r", ("s" DIGITS)};
static const char *const scores[] = {"0",   "1",  "-1",  "0.5",  "1e3",
                                     "inf", "-0", "1e1", "-inf", "1700000000000000"};
static const char *const channels[] = {CHANNEL, "c", "nobody"};
static const char *const positions[] = {"0", "1", "-1", "2", "-100", "100"};

/* Words for any place. All numbers are written in the same way by each release. */
static const char *const words[] = {"",
                                    "x",
                                    "NX",
                                    "XX",
                                    "PX",
                                    "EX",
                                    "WITHSCORES",
                                    "MATCH",
                                    "COUNT",
                                    "0",
                                    "1",
                                    "-1",
                                    "01",
                                    "+1",
                                    "-0",
                                    "1.5",
                                    "nan",
                                    "inf",
                                    "1e3",
                                    "two\r\nlines",
                                    "100",
                                    "SYNC",
                                    "000000000000000"};

/* Small letters stand for words of their kind. */
static const char *const shapes[] = {
    "GET k",
    "GETRANGE k i i",
    "GETRANGE k 0 128",
    "GETRANGE x 0 1",
    "EXISTS k",
    "EXISTS k x k q",
    "SET k v",
    "SET k v PX t",
    "SET k v NX PX t",
    "SET k v XX PX t",
    "SET k v EX t",
    "DEL k",
    "DEL k k k",
    "PTTL k",
    "TYPE k",
    "PEXPIRE k t",
    "PEXPIRE k -9223372036854775808",
    "PEXPIRE k 9223372036854775807",
    "PEXPIRE k 9223372036854775808",
    "SET k v PX 9223372036854775807",
    "SET k v EX 9223372036854775",
    "PEXPIRETIME k",
    "TIME",
    "ZADD q s m",
    "ZADD q s m s m",
    "ZADD q XX s m",
    "ZADD q NX s m",
    "ZRANGE q i i",
    "ZRANGE q i i WITHSCORES",
    "ZREM q m",
    "ZREM q m m",
    "ZSCORE q m",
    "PUBLISH c v",
    "RPUSH k v",
    "HSET x m v",
    "HSET x m i m v",
    "HINCRBY x m 1",
    "HINCRBY x m i",
    "HINCRBY k m 9223372036854775807",
    "HEXISTS x m",
    "HDEL x m",
    "HDEL x m m",
    "HLEN x",
    "HKEYS x",
    "HGETALL x",
    "HSTRLEN x m",
    "PING",
    "PING v",
    "CONFIG GET appendfsync",
    "CONFIG GET no-appendfsync-on-rewrite",
    "CONFIG v",
    "SCRIPT EXISTS h h",
    "SCRIPT LOAD l",
    "EVALSHA h 1 k v t",
    "EVALSHA h 3 k k k v t t",
    "EVAL l 1 k v t 1",
    "EVAL l 3 k k k v t t t 1 v",
    "EVAL l 2 k k",
    "EVAL l 2 k k v t",
    "EVAL l 3 k k k v t 1",
    "EVAL l 2 k k v m t 2 1",
    "EVAL l 5 k k k k k v t t t t 1 v",
    "EVAL l 1 k v m t 2",
    "EVAL l 3 k k k v t t t t 1 1 v",
    "EVAL l 3 k k k v t t m t 1 v",
    "NOSUCH k v",
};

/* These are sent as they are: mangled, their replies have an order, or fields, of their
 * own.
 */
static const char *const fixed_shapes[] = {
    "INFO cluster",
    "INFO nosuch",
    "SCAN 0 MATCH lock:c COUNT 1000",
    "SCAN 0 MATCH ?ock:[a-c] COUNT 1000",
    "SCAN 0 COUNT 1000 MATCH a\\:",
    "SCAN 0 MATCH nosuch* COUNT 1000",
    "SCAN X",
    "SCAN 0 COUNT 0",
    "SCAN 0 COUNT X",
    "SCAN 0 MATCH",
    "SCAN 0 NOSUCH X",
    "PEXPIRE k t NOSUCH",
    "AUTH A B C",
};

/* Rare: they make everything forgotten. */
static const char *const rare_shapes[] = {
    "FLUSHALL", "SCRIPT FLUSH", "FLUSHALL ASYNC", "SCRIPT FLUSH SYNC",
    "SELECT 1", "SELECT 0",     "SELECT 0",       "SELECT 99"};

/* Scripts around a command. */
static const char *const wrappers[] = {
    "return redis.call(unpack(ARGV))",
    "return {redis.pcall(unpack(ARGV))}",
    "local ok, result = pcall(redis.call, unpack(ARGV)) return {ok, result}",
    "redis.call('SET', 'a', 'before')\nlocal x = redis.call(unpack(ARGV))\n"
    "redis.call('SET', 'b', 'after')\nreturn x",
    "local r = redis.pcall(unpack(ARGV))\nreturn type(r) == 'table' and (r.err or r.ok) or "
    "r",
    "redis.call('DEL', 'a', 'b') return type(redis.call(unpack(ARGV)))",
};

/* Scripts that convert values and errors. */
static const char *const scripts[] = {
    "return {1, 2.9, -2.9, 'a', false, true, nil, 3}",
    "return {{}, {1, {2, 'x'}}, 1e300, -1e300, 0/0, 1/0}",
    "return {err='MY words'}",
    "return {err='one'}",
    "return {ok='two\\r\\nlines'}",
    "return {1, {err='inner text'}, {ok='fine'}}",
    "return redis.error_reply('LATE')",
    "return redis.error_reply('LATE again\\n')",
    "return redis.error_reply('-LATE again')",
    "return redis.error_reply(1)",
    "return redis.error_reply()",
    "return redis.status_reply('ready')",
    "return redis.sha1hex('abc')",
    "return redis.call()",
    "return redis.call({})",
    "return redis.call('GET')",
    "return redis.call('SET', 'a', 1.5)",
    "return redis.call('SET', 'a', 1700000000123456)",
    "return redis.call('SET', 'a', 1700000000123456.5)",
    "return redis.call('EVAL', 'return 1', '0')",
    "return redis.call('SUBSCRIBE', 'c')",
    "return undefined",
    "undefined = 1",
    "local x = nil\nlocal y = 1\nreturn x + y",
    "error('mine')",
    "error({err='MY own'})",
    "error('mine', 0)",
    "error('mine', 2)",
    "return {pcall(error, 'x')}",
    "return {pcall(function() error('z') end)}",
    "return (",
    "end",
    "return tonumber('nan') == tonumber('nan')",
    "return {tonumber('0x10'), tonumber(' 7 '), tonumber('7x') or 'none'}",
    "return {string.match('!wake:1 22', '^(.*) (%d+)$')}",
    "return string.format('%.0f', 1700000000123456)",
    "return {string.format('%.0f', -1), string.format('%.0f', 1.5), string.format('x')}",
    "return {string.format('%.0f', 0), string.format('%.0f', -0), string.format('%.0f', "
    "1e17)}",
    "return {string.format('%.0f', '17'), string.format('%.0f', 1/0), ('%.0f'):format(7)}",
    "return string.format('%.0f', {})",
    "return tonumber()",
    "return {tonumber(nil) == nil and 1, tonumber('11', 2), tonumber(12), tonumber('-12')}",
    "local n = tonumber(ARGV[1])\nreturn n and string.format('%.17g', n) or 'none'",
    "return string.format('%.0f', tonumber(ARGV[2]) or 7)",
    "return 1700000000 * 1000000 + '123456'",
    "return tostring(1700000000123456)",
    "return #ARGV",
    "local t = {}\nfor i = 1, 300 do t[i] = i end\nreturn #t .. ' ' .. tostring(t[300])",
    "return {KEYS[1] or 'none', ARGV[1] or 'none', ARGV[#ARGV] or 'none'}",
    "redis.call('SET', 'a', 'kept') redis.call('RPUSH', 'a', 'x')",
    "redis.call('ZADD', 'z', '5', 'kept')\nlocal t = redis.call('TIME')\n"
    "return {t[1] * 1000000 + t[2], redis.call('PTTL', 'z'), t.x .. 'y'}",
};

static const char *const rights[] = {
    "get",     "getrange", "set",     "time",    "pttl", "pexpire", "del",      "zadd",
    "zrem",    "zrange",   "publish", "evalsha", "scan", "rpush",   "flushall", "hset",
    "hincrby", "hdel",     "hexists", "hkeys",   "hlen", "zscore"};

/* The scripts of the library, but for the one that scans: each server has its own order. */
#define LIBRARY_MAX 64
static const struct rl_script *library[LIBRARY_MAX];
static unsigned libraries;

void random_requests_prepare(void)
{
    size_t kinds;
    const struct rl_kind *kind = rl_kinds(&kinds);
    operations_prepare();
    libraries = 0;
    for (size_t i = 0; i < kinds; i++)
        for (size_t j = 0; j < RL_COMMANDS; j++)
            if (kind[i].script[j] && j != RL_CMD_LIST) {
                cr_assert_lt(libraries, LIBRARY_MAX);
                library[libraries++] = kind[i].script[j];
            }
}

const char *random_right(struct prng *prng)
{
    return PICK(prng, rights);
}

void request_of_words(struct bytes *out, const struct rl_word *word, size_t count)
{
    reply_array(out, count);
    for (size_t i = 0; i < count; i++)
        reply_bulk(out, word[i]);
}

/* --- one request --- */

struct draft {
    struct prng *prng;
    struct rl_word word[WORDS_MAX];
    size_t words;
    size_t name; /* which word is the name of the command */
    char digits[WORDS_MAX][RL_DIGITS + 1];
};

static void add(struct draft *draft, struct rl_word word)
{
    cr_assert_lt(draft->words, WORDS_MAX);
    draft->word[draft->words++] = word;
}

static struct rl_word random_ttl(struct draft *draft)
{
    char *digits = draft->digits[draft->words];
    unsigned below = prng_below(draft->prng, 2) ? TTL_MAX : 3;
    int len =
        snprintf(digits, sizeof(draft->digits[0]), "%u", prng_below(draft->prng, below));
    return (struct rl_word){digits, (size_t)len};
}

static struct rl_word of_kind(struct draft *draft, char kind)
{
    struct prng *prng = draft->prng;
    const struct rl_script *script = library[prng_below(prng, libraries)];
    switch (kind) {
    case 'k': return PICK(prng, keys);
    case 'x': return keys[prng_below(prng, 4) ? HASH_KEY : prng_below(prng, COUNT(keys))];
    case 'q': return keys[prng_below(prng, 8) ? 12 : prng_below(prng, COUNT(keys))];
    case 'v': return operation_word(PICK(prng, values));
    case 'm': return operation_word(PICK(prng, members));
    case 's': return operation_word(PICK(prng, scores));
    case 'c': return operation_word(PICK(prng, channels));
    case 'i': return operation_word(PICK(prng, positions));
    case 't': return random_ttl(draft);
    case 'h': return (struct rl_word){script->sha1, 40};
    case 'l': return (struct rl_word){script->body, script->len};
    default: cr_assert_fail("no kind of word: %c", kind); return operation_word("");
    }
}

static void add_text(struct draft *draft, const char *text, bool has_kinds)
{
    for (size_t len; *text; text += len + (text[len] == ' ')) {
        len = strcspn(text, " ");
        if (has_kinds && len == 1 && islower((unsigned char)*text))
            add(draft, of_kind(draft, *text));
        else
            add(draft, (struct rl_word){text, len});
    }
}

/* Leaves a word out, puts one more in, or replaces one, behind the name. */
static void mangle(struct draft *draft)
{
    unsigned what = prng_below(draft->prng, 3);
    size_t at = draft->name + 1;
    at += prng_below(draft->prng, (unsigned)(draft->words - draft->name));
    struct rl_word word = operation_word(PICK(draft->prng, words));
    if (what == 0 && at < draft->words) {
        draft->words--;
        memmove(&draft->word[at], &draft->word[at + 1], (draft->words - at) * sizeof(word));
    } else if (what == 1 && at < draft->words) {
        draft->word[at] = word;
    } else {
        add(draft, word);
    }
}

static void add_shape(struct draft *draft)
{
    if (prng_below(draft->prng, 8) == 0) {
        add_text(draft, PICK(draft->prng, fixed_shapes), true);
        return;
    }
    add_text(draft, PICK(draft->prng, shapes), true);
    bool has_options =
        word_is_option(draft->word[draft->name], "PEXPIRE"); /* not simulated */
    if (prng_below(draft->prng, MANGLED) == 0 && !has_options)
        mangle(draft);
}

static void add_in_script(struct draft *draft)
{
    add(draft, operation_word("EVAL"));
    add(draft, operation_word(PICK(draft->prng, wrappers)));
    add(draft, operation_word("0"));
    draft->name = draft->words;
    add_shape(draft);
}

static void add_script(struct draft *draft)
{
    static const char *const arguments[] = {"0", "1 k v v", "0 s s", "0 i t"};
    add(draft, operation_word("EVAL"));
    add(draft, operation_word(PICK(draft->prng, scripts)));
    add_text(draft, PICK(draft->prng, arguments), true);
}

void random_request(struct bytes *out, struct prng *prng, rl_time now, rl_time era)
{
    struct draft draft = {.prng = prng};
    struct operation operation;
    unsigned what = prng_below(prng, 16);
    if (what < 7) {
        do {
            operation_make(&operation, prng, now, era);
        } while (operation.act == ACT_PAUSE);
        request_of_words(out, operation.command.word, operation.command.words);
        return;
    }
    if (what < 11)
        add_shape(&draft);
    else if (what < 13)
        add_in_script(&draft);
    else if (what < 15)
        add_script(&draft);
    else if (prng_below(prng, 4) == 0)
        add_text(&draft, PICK(prng, rare_shapes), false);
    else
        add_shape(&draft);
    request_of_words(out, draft.word, draft.words);
}

unsigned request_of_text(struct bytes *out, const char *text)
{
    struct draft draft = {0};
    add_text(&draft, text, false);
    request_of_words(out, draft.word, draft.words);
    return 1;
}

unsigned requests_for_all_keys(struct bytes *out)
{
    for (size_t i = 0; i < COUNT(keys); i++) {
        struct rl_word expires[] = {operation_word("PEXPIRETIME"), keys[i]};
        struct rl_word value[] = {operation_word("GET"), keys[i]};
        struct rl_word queue[] = {operation_word("ZRANGE"), keys[i], operation_word("0"),
                                  operation_word("-1"), operation_word("WITHSCORES")};
        struct rl_word fields[] = {operation_word("HGETALL"), keys[i]};
        request_of_words(out, expires, COUNT(expires));
        request_of_words(out, value, COUNT(value));
        request_of_words(out, queue, COUNT(queue));
        request_of_words(out, fields, COUNT(fields));
    }
    return 4 * COUNT(keys);
}
