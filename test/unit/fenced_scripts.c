/*
 * The checks and writes of every script of a fenced lock, for each form of lock, on a
 * simulated server: a node whose marker has another nonce has no vote, and the fence of a
 * lock only rises, is stored by each operation, and then lives for a day.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/kind.h"
#include "sim/redis/redis.h"
#include "sim/redis/reply.h"

#define NOW          (INT64_C(1700000000) * RL_SECOND)
#define TTL_MS       1000
#define MAX_TTL_MS   60000
#define DAY_MS       86400000
#define FENCE        (NOW + 100)
#define LOWER        (FENCE - 50)
#define HIGHER       (FENCE + 50)
#define DIGITS       "abcdefghijklmnopqrstuvwxyz234567"
#define OTHER_DIGITS "zzzzefghijklmnopqrstuvwxyz234567"
#define MARKER       "!marker"
#define NONCE        "0123456789abcdef"
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const redlock_kind forms[] = {REDLOCK_KIND_EXCLUSIVE, REDLOCK_KIND_SET,
                                     REDLOCK_KIND_SHARED, REDLOCK_KIND_SLOT,
                                     REDLOCK_KIND_ELECTION};
/* Commands that vote: a release needs no vote. */
static const enum rl_command votes[] = {RL_CMD_ACQUIRE, RL_CMD_RAISE_FENCE, RL_CMD_EXTEND};

static struct redis *redis;
static struct redis_link *client;
static rl_time now;

static void open_server(void)
{
    const struct redis_config config = {.version = "7.0.15"};
    redis = redis_new(&config);
    client = redis_connect(redis);
}

static void close_server(void)
{
    redis_free(redis);
}

TestSuite(fenced_scripts, .init = open_server, .fini = close_server);

static struct rl_word word_of(const char *text)
{
    return (struct rl_word){text, strlen(text)};
}

/* --- commands --- */

static void receive(const struct rl_word *word, size_t words)
{
    struct bytes request = {0};
    reply_array(&request, words);
    for (size_t i = 0; i < words; i++)
        reply_bulk(&request, word[i]);
    client->out.len = 0;
    redis_receive(client, bytes_word(&request), now);
    bytes_free(&request);
}

#define SEND(...)                                                                          \
    receive((struct rl_word[]){__VA_ARGS__}, COUNT(((struct rl_word[]){__VA_ARGS__})))

static void set(const char *key, const char *value)
{
    SEND(word_of("SET"), word_of(key), word_of(value));
}

static void drop(const char *key)
{
    SEND(word_of("DEL"), word_of(key));
}

static const struct rl_word keys_of_set[] = {
    {"a", 1}, {"b", 1}, {"a!fence", 7}, {"b!fence", 7}};

static const char *key_of(redlock_kind form)
{
    return form == REDLOCK_KIND_SLOT ? "a!1" : "a";
}

static const char *fence_key_of(redlock_kind form)
{
    return form == REDLOCK_KIND_SLOT ? "a!1!fence" : "a!fence";
}

static struct rl_command_args args_of(redlock_kind form)
{
    return (struct rl_command_args){
        .key = word_of(key_of(form)),
        .set = keys_of_set,
        .set_size = 2,
        .base = word_of("a"),
        .slots = 2,
        .fence_key = word_of(fence_key_of(form)),
        .marker_key = word_of(MARKER),
        .nonce = word_of(NONCE),
        .token = word_of(form == REDLOCK_KIND_SHARED ? "g:" DIGITS : "f:" DIGITS),
        .ttl_ms = TTL_MS,
        .max_ttl_ms = MAX_TTL_MS,
        .fence = FENCE,
        .fences = 1,
        .sent_at = now,
    };
}

static void perform(redlock_kind form, enum rl_command command,
                    const struct rl_command_args *args)
{
    struct rl_argv argv;
    rl_kind_argv(rl_kind_that_is(true, form), command, true, args, &argv);
    receive(argv.word, argv.words);
}

static bool replied(const char *text)
{
    return client->out.len > 0 &&
           memmem(client->out.data, client->out.len, text, strlen(text)) != NULL;
}

/* --- what the server stores --- */

static const struct key *find(const char *name)
{
    return keyspace_find(&redis->keyspace, 0, word_of(name), now / RL_MS);
}

static bool is_locked(redlock_kind form)
{
    return find(key_of(form)) && (form != REDLOCK_KIND_SET || find("b"));
}

static int64_t fence_at(const char *name)
{
    const struct key *key = find(name);
    char text[32] = "0";
    if (key)
        snprintf(text, sizeof(text), "%.*s", (int)key->string.len, key->string.data);
    return strtoll(text, NULL, 10);
}

/* The least of a set. */
static int64_t stored_fence(redlock_kind form)
{
    int64_t fence = fence_at(fence_key_of(form));
    int64_t other = form == REDLOCK_KIND_SET ? fence_at("b!fence") : fence;
    return other < fence ? other : fence;
}

static bool lives_for_a_day(const char *name)
{
    const struct key *key = find(name);
    return key && key->expires == now / RL_MS + DAY_MS;
}

/* The lock, acquired half a TTL ago, and this fence. */
static void hold(redlock_kind form, int64_t fence)
{
    char text[32];
    now = NOW;
    struct rl_command_args args = args_of(form);
    keyspace_clear(&redis->keyspace);
    set(MARKER, NONCE " and more");
    perform(form, RL_CMD_ACQUIRE, &args);
    cr_assert(is_locked(form), "form %d: %.*s", form, (int)client->out.len,
              client->out.data);
    cr_assert_eq(stored_fence(form), FENCE, "form %d", form);
    snprintf(text, sizeof(text), "%" PRId64, fence);
    set(fence_key_of(form), text);
    if (form == REDLOCK_KIND_SET)
        set("b!fence", text);
    now += TTL_MS / 2 * RL_MS;
}

static void free_lock(redlock_kind form)
{
    drop(key_of(form));
    drop("b");
}

/* --- the marker --- */

static void refuses_without_its_marker(redlock_kind form, enum rl_command command,
                                       const char *marker, bool recreates)
{
    hold(form, LOWER);
    struct rl_command_args args = args_of(form);
    args.ttl_ms = 2 * TTL_MS;
    args.recreate = recreates;
    if (recreates || command == RL_CMD_ACQUIRE)
        free_lock(form);
    if (marker)
        set(MARKER, marker);
    else
        drop(MARKER);
    const struct key *key = find(key_of(form));
    int64_t expires = key ? key->expires : 0;
    perform(form, command, &args);
    cr_expect(replied("-MARKER "), "form %d, command %d, marker %s: %.*s", form, command,
              marker ? marker : "none", (int)client->out.len, client->out.data);
    key = find(key_of(form));
    cr_expect_eq(key ? key->expires : 0, expires, "form %d, command %d", form, command);
    cr_expect_eq(stored_fence(form), LOWER, "form %d, command %d", form, command);
    cr_expect_null(find("a!term"), "form %d, command %d", form, command);
}

Test(fenced_scripts, a_node_with_another_marker_has_no_vote)
{
    static const char *const markers[] = {"fedcba9876543210 and more", "0123456789abcde",
                                          "", NULL};
    for (size_t form = 0; form < COUNT(forms); form++)
        for (size_t marker = 0; marker < COUNT(markers); marker++) {
            for (size_t vote = 0; vote < COUNT(votes); vote++)
                refuses_without_its_marker(forms[form], votes[vote], markers[marker],
                                           false);
            refuses_without_its_marker(forms[form], RL_CMD_EXTEND, markers[marker], true);
        }
}

/* It stores nothing that could exclude others, so it needs no vote. */
Test(fenced_scripts, a_node_with_another_marker_releases)
{
    for (size_t form = 0; form < COUNT(forms); form++) {
        struct rl_command_args args = args_of(forms[form]);
        hold(forms[form], LOWER);
        set(MARKER, "fedcba9876543210 and more");
        perform(forms[form], RL_CMD_RELEASE, &args);
        cr_expect_not(replied("MARKER"), "form %d", forms[form]);
        cr_expect_not(is_locked(forms[form]), "form %d", forms[form]);
        cr_expect_eq(stored_fence(forms[form]), FENCE, "form %d", forms[form]);
    }
}

/* --- the fence --- */

enum situation { HELD, GONE, TAKEN };

/* Checks the result of a command where the fence was `before`, and whether it stored it. */
static void stores_fence(redlock_kind form, enum rl_command command,
                         enum situation situation, int64_t before)
{
    struct rl_command_args args = args_of(form);
    bool acquires = command == RL_CMD_ACQUIRE;
    char reply[32];
    hold(form, before);
    args.sent_at = now;
    args.recreate = command == RL_CMD_EXTEND && situation == GONE;
    if (situation != HELD)
        free_lock(form);
    if (situation == TAKEN)
        set(key_of(form), "of another program");
    perform(form, command, &args);
    int64_t expected = before < FENCE ? FENCE : before + acquires;
    cr_expect_eq(stored_fence(form), expected,
                 "form %d, command %d, situation %d, before %" PRId64 ": %.*s", form,
                 command, situation, before, (int)client->out.len, client->out.data);
    snprintf(reply, sizeof(reply), "%" PRId64 "\r\n", expected);
    cr_expect(situation == TAKEN || replied(reply), "form %d, command %d", form, command);
    if (expected != before) {
        cr_expect(lives_for_a_day(fence_key_of(form)), "form %d, command %d, situation %d",
                  form, command, situation);
        cr_expect(form != REDLOCK_KIND_SET || lives_for_a_day("b!fence"), "command %d",
                  command);
    }
}

/* Also where it finds the lock gone, and stores it again or releases it. */
Test(fenced_scripts, each_operation_stores_the_fence_for_a_day)
{
    static const int64_t befores[] = {0, LOWER, FENCE, HIGHER};
    for (size_t form = 0; form < COUNT(forms); form++)
        for (size_t before = 0; before < COUNT(befores); before++) {
            stores_fence(forms[form], RL_CMD_ACQUIRE, GONE, befores[before]);
            stores_fence(forms[form], RL_CMD_RAISE_FENCE, HELD, befores[before]);
            stores_fence(forms[form], RL_CMD_EXTEND, HELD, befores[before]);
            stores_fence(forms[form], RL_CMD_EXTEND, GONE, befores[before]);
            stores_fence(forms[form], RL_CMD_RELEASE, HELD, befores[before]);
            stores_fence(forms[form], RL_CMD_RELEASE, GONE, befores[before]);
            stores_fence(forms[form], RL_CMD_RELEASE, TAKEN, befores[before]);
        }
}

/* A set has one fence: the largest of its keys', in either order. */
Test(fenced_scripts, all_keys_of_a_set_get_the_largest_fence)
{
    static const enum rl_command commands[] = {RL_CMD_ACQUIRE, RL_CMD_RAISE_FENCE,
                                               RL_CMD_EXTEND, RL_CMD_RELEASE};
    static const char *const fence_keys[] = {"a!fence", "b!fence"};
    char text[32];
    snprintf(text, sizeof(text), "%" PRId64, HIGHER);
    for (size_t command = 0; command < COUNT(commands); command++)
        for (size_t fence_key = 0; fence_key < COUNT(fence_keys); fence_key++) {
            struct rl_command_args args = args_of(REDLOCK_KIND_SET);
            bool acquires = commands[command] == RL_CMD_ACQUIRE;
            hold(REDLOCK_KIND_SET, LOWER);
            set(fence_keys[fence_key], text);
            if (acquires)
                free_lock(REDLOCK_KIND_SET);
            args.sent_at = now;
            perform(REDLOCK_KIND_SET, commands[command], &args);
            for (size_t i = 0; i < 2; i++) {
                cr_expect_eq(fence_at(fence_keys[i]), HIGHER + acquires, "command %d",
                             commands[command]);
                cr_expect(lives_for_a_day(fence_keys[i]), "command %d", commands[command]);
            }
        }
}

/* An acquire reserves as many fences as it says, above what the node stores. */
Test(fenced_scripts, an_acquire_reserves_its_fences)
{
    for (size_t form = 0; form < COUNT(forms); form++) {
        struct rl_command_args args = args_of(forms[form]);
        hold(forms[form], FENCE - 2);
        free_lock(forms[form]);
        args.sent_at = now;
        args.fences = 17;
        perform(forms[form], RL_CMD_ACQUIRE, &args);
        cr_expect_eq(stored_fence(forms[form]), FENCE + 15, "form %d", forms[form]);
    }
}

static void refuses_with(redlock_kind form, enum rl_command command, bool is_gone,
                         const struct rl_command_args *args, const char *error)
{
    if (is_gone)
        free_lock(form);
    perform(form, command, args);
    cr_expect(replied(error), "form %d, command %d: %.*s instead of %s", form, command,
              (int)client->out.len, client->out.data, error);
    cr_expect_eq(is_locked(form), !is_gone, "form %d, command %d", form, command);
}

#define TOO_FAR (5 * RL_SECOND + 1)

/* Such a fence would stay ahead of a node that forgot it, even after its quarantine. */
Test(fenced_scripts, a_fence_ahead_of_the_clock_is_not_stored)
{
    for (size_t form = 0; form < COUNT(forms); form++) {
        for (size_t vote = 0; vote < COUNT(votes); vote++) {
            hold(forms[form], LOWER);
            struct rl_command_args args = args_of(forms[form]);
            args.fence = now + TOO_FAR;
            refuses_with(forms[form], votes[vote], votes[vote] == RL_CMD_ACQUIRE, &args,
                         "-AHEAD ");
            cr_expect_eq(stored_fence(forms[form]), LOWER, "form %d", forms[form]);
        }
        hold(forms[form], LOWER);
        struct rl_command_args args = args_of(forms[form]);
        args.fence = now + TOO_FAR;
        perform(forms[form], RL_CMD_RELEASE, &args);
        cr_expect_not(is_locked(forms[form]), "a release is done, form %d", forms[form]);
        cr_expect_eq(stored_fence(forms[form]), LOWER, "form %d", forms[form]);
    }
}

/* The last fence that an acquire would reserve counts. */
Test(fenced_scripts, an_acquire_above_a_fence_that_is_too_far_ahead_is_refused)
{
    for (size_t form = 0; form < COUNT(forms); form++) {
        hold(forms[form], NOW + TTL_MS / 2 * RL_MS + TOO_FAR - 1);
        struct rl_command_args args = args_of(forms[form]);
        refuses_with(forms[form], RL_CMD_ACQUIRE, true, &args, "-AHEAD ");
    }
}

Test(fenced_scripts, a_command_that_was_sent_more_than_a_second_ago_stores_no_lock)
{
    for (size_t form = 0; form < COUNT(forms); form++) {
        hold(forms[form], LOWER);
        struct rl_command_args args = args_of(forms[form]);
        args.sent_at = now - RL_SECOND - 1;
        args.recreate = true;
        refuses_with(forms[form], RL_CMD_ACQUIRE, true, &args, "-LATE ");
        refuses_with(forms[form], RL_CMD_EXTEND, true, &args, "-LATE ");
        hold(forms[form], LOWER);
        perform(forms[form], RL_CMD_EXTEND, &args);
        cr_expect_not(replied("LATE"), "an extension extends, form %d", forms[form]);
    }
}

/* tonumber() reads `nan`, which is neither above nor below any number. */
Test(fenced_scripts, a_fence_that_is_no_number_is_refused)
{
    static const char *const texts[] = {"abc", "nan", ""};
    for (size_t form = 0; form < COUNT(forms); form++)
        for (size_t text = 0; text < COUNT(texts); text++) {
            struct rl_command_args args = args_of(forms[form]);
            for (size_t vote = 0; vote < COUNT(votes); vote++) {
                hold(forms[form], LOWER);
                set(forms[form] == REDLOCK_KIND_SET ? "b!fence" : fence_key_of(forms[form]),
                    texts[text]);
                refuses_with(forms[form], votes[vote], votes[vote] == RL_CMD_ACQUIRE, &args,
                             "-FENCE ");
            }
            refuses_with(forms[form], RL_CMD_RELEASE, true, &args, "-FENCE ");
        }
}

/* --- a clock that was set back --- */

#define TOO_LONG_MS (2 * MAX_TTL_MS)

/* Looks at a key that lives for longer than any fenced lock; returns for how long it does.
 */
static int64_t look(redlock_kind form, const char *value, bool reads, const char *nonce)
{
    char ttl[32], score[32];
    hold(form, LOWER);
    free_lock(form);
    snprintf(ttl, sizeof(ttl), "%d", TOO_LONG_MS);
    snprintf(score, sizeof(score), "%" PRId64, now / RL_MS + TOO_LONG_MS);
    if (reads)
        SEND(word_of("ZADD"), word_of(key_of(form)), word_of(score), word_of(value));
    else
        set(key_of(form), value);
    SEND(word_of("PEXPIRE"), word_of(key_of(form)), word_of(ttl));
    struct rl_command_args args = args_of(form);
    args.nonce = word_of(nonce);
    perform(form, RL_CMD_RELEASE, &args);
    return find(key_of(form))->expires - now / RL_MS;
}

/*
 * The remaining time is cut to the longest of a fenced lock, which a client with another
 * marker does not know; what is no fenced lock may live for longer.
 */
Test(fenced_scripts, only_the_right_marker_cuts_a_lock_that_lasts_too_long)
{
    static const char *const others[] = {"fedcba9876543210", "----------------"};
    for (size_t i = 0; i < COUNT(forms); i++) {
        cr_expect_eq(look(forms[i], "f:" OTHER_DIGITS, false, NONCE), MAX_TTL_MS);
        for (size_t other = 0; other < COUNT(others); other++)
            cr_expect_eq(look(forms[i], "f:" OTHER_DIGITS, false, others[other]),
                         TOO_LONG_MS);
        cr_expect_eq(look(forms[i], "p" OTHER_DIGITS, false, NONCE), TOO_LONG_MS);
        cr_expect_eq(look(forms[i], "frederic", false, NONCE), TOO_LONG_MS);
    }
}

Test(fenced_scripts, the_same_of_readers_in_the_way_of_a_writer)
{
    static const redlock_kind writers[] = {REDLOCK_KIND_EXCLUSIVE, REDLOCK_KIND_SET,
                                           REDLOCK_KIND_SLOT, REDLOCK_KIND_ELECTION};
    for (size_t i = 0; i < COUNT(writers); i++) {
        int64_t cut = look(writers[i], "g:" OTHER_DIGITS, true, NONCE);
        cr_expect(cut >= MAX_TTL_MS && cut <= MAX_TTL_MS + 1000, "%" PRId64, cut);
        cr_expect_eq(look(writers[i], "g:" OTHER_DIGITS, true, "fedcba9876543210"),
                     TOO_LONG_MS);
        cr_expect_geq(look(writers[i], "s" OTHER_DIGITS, true, NONCE), TOO_LONG_MS,
                      "a reader of a plain lock");
    }
}
