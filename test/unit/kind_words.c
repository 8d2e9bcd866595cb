/* The arguments of each command on the wire. */
#include "core/kind.h"

#include <stdio.h>
#include <string.h>

#include "lease_fixture.h"
#include "scripts.h"

#define WORD(literal) ((struct rl_word){literal, sizeof(literal) - 1})
#define DIGITS        "abcdefghijklmnopqrstuvwxyz234567"

static const struct rl_command_args args = {
    .key = {"the key", 7},
    .token = {"ptoken@here", 11},
    .ttl_ms = 30000,
};

static struct rl_argv command; /* some of its arguments point into it */

static void write_argv(enum rl_command which, bool whole,
                       const struct rl_command_args *about)
{
    memset(&command, 0xa5, sizeof(command));
    const struct rl_kind *kind = about->nonce.len > 0
                                     ? rl_kind_that_is(true, REDLOCK_KIND_EXCLUSIVE)
                                     : rl_kind_of(about->token);
    if (!kind)
        kind = rl_kind_that_is(false, REDLOCK_KIND_EXCLUSIVE);
    rl_kind_argv(kind, which, whole, about, &command);
}

static void expect(size_t words, const struct rl_word *expected)
{
    cr_assert_eq(command.words, words);
    for (size_t i = 0; i < words; i++) {
        cr_assert_eq(command.word[i].len, expected[i].len, "word %zu", i);
        cr_assert_arr_eq(command.word[i].text, expected[i].text, expected[i].len,
                         "word %zu", i);
    }
}

#define EXPECT(...)                                                                        \
    do {                                                                                   \
        const struct rl_word expected[] = {__VA_ARGS__};                                   \
        expect(sizeof(expected) / sizeof(expected[0]), expected);                          \
    } while (0)

Test(argv, acquire_is_what_every_other_redlock_client_sends)
{
    write_argv(RL_CMD_ACQUIRE, false, &args);
    EXPECT(WORD("SET"), args.key, args.token, WORD("NX"), WORD("PX"), WORD("30000"));
    write_argv(RL_CMD_ACQUIRE, true, &args);
    cr_assert_eq(command.words, 6, "it has no script that could be sent in full");
}

Test(argv, extend)
{
    const struct rl_script *script = &rl_script_plain_extend;
    struct rl_word sha1 = {script->sha1, 40}, body = {script->body, script->len};
    write_argv(RL_CMD_EXTEND, false, &args);
    EXPECT(WORD("EVALSHA"), sha1, WORD("1"), args.key, args.token, WORD("30000"),
           WORD("0"));
    struct rl_command_args planting = args;
    planting.recreate = true;
    write_argv(RL_CMD_EXTEND, true, &planting);
    EXPECT(WORD("EVAL"), body, WORD("1"), args.key, args.token, WORD("30000"), WORD("1"));
}

Test(argv, release)
{
    const struct rl_script *script = &rl_script_plain_release;
    struct rl_word sha1 = {script->sha1, 40}, body = {script->body, script->len};
    write_argv(RL_CMD_RELEASE, false, &args);
    EXPECT(WORD("EVALSHA"), sha1, WORD("1"), args.key, args.token);
    write_argv(RL_CMD_RELEASE, true, &args);
    EXPECT(WORD("EVAL"), body, WORD("1"), args.key, args.token);
}

Test(argv, inspect_and_break_need_no_token)
{
    const struct rl_word keys[] = {{"k", 1}, {"other", 5}};
    struct rl_command_args bare = {.key = keys[0], .set = keys, .set_size = 2};
    struct rl_word inspect = {rl_script_inspect.sha1, 40};
    struct rl_word broken = {rl_script_break.body, rl_script_break.len};
    write_argv(RL_CMD_INSPECT, false, &bare);
    EXPECT(WORD("EVALSHA"), inspect, WORD("2"), WORD("k"), WORD("other"));
    write_argv(RL_CMD_BREAK, true, &bare);
    EXPECT(WORD("EVAL"), broken, WORD("1"), WORD("k"));
}

Test(argv, keys_and_tokens_are_bytes)
{
    struct rl_command_args odd = {
        .key = {"a\0b\r\n", 5}, .token = {"p\0\xff", 3}, .ttl_ms = 1};
    write_argv(RL_CMD_ACQUIRE, false, &odd);
    EXPECT(WORD("SET"), odd.key, odd.token, WORD("NX"), WORD("PX"), WORD("1"));
}

Test(argv, numbers_of_every_length)
{
    struct rl_command_args about = args;
    int64_t value = 0;
    for (int length = 1; length <= 19; length++) {
        char expected[32];
        value = value * 10 + length % 10;
        about.ttl_ms = value;
        write_argv(RL_CMD_ACQUIRE, false, &about);
        size_t len = (size_t)snprintf(expected, sizeof(expected), "%lld", (long long)value);
        cr_assert_eq(command.word[5].len, len);
        cr_assert_arr_eq(command.word[5].text, expected, len);
    }
    about.ttl_ms = 0;
    write_argv(RL_CMD_ACQUIRE, false, &about);
    EXPECT(WORD("SET"), about.key, about.token, WORD("NX"), WORD("PX"), WORD("0"));
    about.ttl_ms = INT64_MAX;
    write_argv(RL_CMD_ACQUIRE, false, &about);
    EXPECT(WORD("SET"), about.key, about.token, WORD("NX"), WORD("PX"),
           WORD("9223372036854775807"));
}

Test(scripts, match_their_names_and_sums)
{
    const struct rl_script *scripts[] = {&rl_script_plain_extend, &rl_script_plain_release,
                                         &rl_script_inspect, &rl_script_break};
    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
        cr_assert_eq(strlen(scripts[i]->body), scripts[i]->len);
        cr_assert_eq(strlen(scripts[i]->sha1), 40);
        cr_assert_eq(strspn(scripts[i]->sha1, "0123456789abcdef"), 40);
        for (size_t j = 0; j < i; j++)
            cr_assert_str_neq(scripts[i]->sha1, scripts[j]->sha1);
    }
    cr_assert_not_null(strstr(rl_script_plain_extend.body, "PEXPIRE"));
    cr_assert_not_null(strstr(rl_script_plain_extend.body, "'NX'"));
    cr_assert_not_null(strstr(rl_script_plain_release.body, "DEL"));
    cr_assert_null(strstr(rl_script_inspect.body, "DEL"), "a read changes nothing");
}

/*
 * A waiter that continues names its queue and how long it waits; one that stops does not.
 */
Test(argv, with_a_queue_entry)
{
    struct rl_command_args waiting = args;
    struct rl_word sha1 = {rl_script_plain_release.sha1, 40};
    waiting.queue_entry = WORD("!wake:0 7");
    waiting.waited = 1500;
    write_argv(RL_CMD_RELEASE, false, &waiting);
    EXPECT(WORD("EVALSHA"), sha1, WORD("1"), args.key, args.token, waiting.queue_entry,
           WORD("1500"), WORD(""));
    waiting.intent_ms = 3200;
    waiting.waited = 0;
    write_argv(RL_CMD_RELEASE, false, &waiting);
    EXPECT(WORD("EVALSHA"), sha1, WORD("1"), args.key, args.token, waiting.queue_entry,
           WORD("0"), WORD("3200"));
    waiting.intent_ms = 0;
    waiting.waited = -1;
    write_argv(RL_CMD_RELEASE, false, &waiting);
    EXPECT(WORD("EVALSHA"), sha1, WORD("1"), args.key, args.token, waiting.queue_entry,
           WORD(""), WORD(""));
    write_argv(RL_CMD_EXTEND, false, &waiting);
    cr_assert_eq(command.words, 7, "only a release has one");
}

Test(argv, of_a_reader)
{
    struct rl_command_args reader = args;
    reader.token = WORD("s" DIGITS);
    reader.waited = 1500;
    write_argv(RL_CMD_ACQUIRE, false, &reader);
    EXPECT(WORD("EVALSHA"), ((struct rl_word){rl_script_shared_acquire.sha1, 40}),
           WORD("1"), args.key, reader.token, WORD("30000"), WORD("1500"));
    reader.queue_entry = WORD("!wake:0 7");
    write_argv(RL_CMD_RELEASE, false, &reader);
    EXPECT(WORD("EVALSHA"), ((struct rl_word){rl_script_shared_release.sha1, 40}),
           WORD("1"), args.key, reader.token, reader.queue_entry, WORD("1500"));
    write_argv(RL_CMD_EXTEND, false, &reader);
    EXPECT(WORD("EVALSHA"), ((struct rl_word){rl_script_shared_extend.sha1, 40}), WORD("1"),
           args.key, reader.token, WORD("30000"), WORD("0"), reader.queue_entry);
}

/* guard.lua reads them; the nonce is the last argument of every command. */
Test(argv, of_a_fenced_lock)
{
    static const enum rl_command texts[] = {RL_CMD_ACQUIRE, RL_CMD_RAISE_FENCE,
                                            RL_CMD_EXTEND, RL_CMD_RELEASE};
    const struct rl_kind *fenced = rl_kind_that_is(true, REDLOCK_KIND_EXCLUSIVE);
    const struct rl_command_args about = {
        .key = WORD("the key"),
        .token = WORD("f:token"),
        .fence_key = WORD("the key!fence"),
        .marker_key = WORD("!marker"),
        .nonce = WORD("0123456789abcdef"),
        .max_ttl_ms = 60000,
        .ttl_ms = 30000,
        .recreate = true,
        .fence = INT64_C(1800000000000001),
        .fences = 64,
        .queue_entry = WORD("!wake:0 7"),
        .waited = 1500,
        .sent_at = INT64_C(1800000000000000),
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        const struct rl_script *script = fenced->script[texts[i]];
        write_argv(texts[i], false, &about);
#define COMMON                                                                             \
    WORD("EVALSHA"), (struct rl_word){script->sha1, 40}, WORD("3"), about.key,             \
        about.fence_key, about.marker_key, about.token, WORD("1800000000000001"),          \
        WORD("60000")
#define STORES WORD("30000"), WORD("1800000000000000")
        if (texts[i] == RL_CMD_ACQUIRE)
            EXPECT(COMMON, STORES, WORD("64"), about.nonce);
        else if (texts[i] == RL_CMD_EXTEND)
            EXPECT(COMMON, STORES, WORD("1"), about.nonce);
        else if (texts[i] == RL_CMD_RELEASE)
            EXPECT(COMMON, about.queue_entry, WORD("1500"), WORD(""), about.nonce);
        else
            EXPECT(COMMON, about.nonce);
    }
    write_argv(RL_CMD_BREAK, false, &about);
    cr_assert_eq(command.words, 4, "an operator's commands do not change");
}

Test(kinds, each_script_has_its_own_bit)
{
    const struct rl_script *of_bit[RL_SCRIPTS_MAX] = {NULL};
    size_t count;
    const struct rl_kind *kind = rl_kinds(&count);
    for (size_t i = 0; i < count; i++)
        for (int text = 0; text < RL_COMMANDS; text++) {
            const struct rl_script *script = kind[i].script[text];
            rl_script_set bit = rl_kind_script_bit(&kind[i], (enum rl_command)text);
            cr_assert_eq(bit, script ? UINT64_C(1) << script->bit : 0);
            if (!script)
                continue;
            cr_assert_lt(script->bit, RL_SCRIPTS_MAX);
            cr_assert(!of_bit[script->bit] || of_bit[script->bit] == script);
            of_bit[script->bit] = script;
        }
    const struct rl_kind *plain = rl_kind_that_is(false, REDLOCK_KIND_EXCLUSIVE);
    const struct rl_kind *fenced = rl_kind_that_is(true, REDLOCK_KIND_EXCLUSIVE);
    cr_assert_eq(rl_kind_script_bit(plain, RL_CMD_ACQUIRE), 0, "SET is no script");
    cr_assert_neq(rl_kind_script_bit(fenced, RL_CMD_ACQUIRE), 0);
}

static void expect_kind(struct rl_word token, bool fenced, enum redlock_kind type)
{
    const struct rl_kind *kind = rl_kind_of(token);
    cr_assert_not_null(kind, "%s", token.text);
    cr_assert_eq(kind->type, type, "%s", token.text);
    cr_assert_eq(kind->is_fenced, fenced, "%s", token.text);
    cr_assert_eq(kind, rl_kind_that_is(fenced, type), "%s", token.text);
}

#define REST "efghijklmnopqrstuvwxyz234567"

Test(kinds, the_first_letter_of_a_token_names_it)
{
    expect_kind(WORD("p" DIGITS), false, REDLOCK_KIND_EXCLUSIVE);
    expect_kind(WORD("f:" DIGITS "@host:1"), true, REDLOCK_KIND_EXCLUSIVE);
    expect_kind(WORD("s" DIGITS "@host:1"), false, REDLOCK_KIND_SHARED);
    expect_kind(WORD("g:" DIGITS), true, REDLOCK_KIND_SHARED);
    expect_kind(WORD("r:" DIGITS), false, REDLOCK_KIND_REDISSON);
}

Test(kinds, a_word_behind_the_letter_names_what_the_lock_is_part_of)
{
    expect_kind(WORD("pSLOT" REST "@host:1"), false, REDLOCK_KIND_SLOT);
    expect_kind(WORD("f:SLOT" REST), true, REDLOCK_KIND_SLOT);
    expect_kind(WORD("f:TERM" REST), true, REDLOCK_KIND_ELECTION);
    expect_kind(WORD("pslot" REST), false, REDLOCK_KIND_EXCLUSIVE); /* digits */
    expect_kind(WORD("pONCE" REST), false, REDLOCK_KIND_RECORD);
    expect_kind(WORD("pMANY" REST), false, REDLOCK_KIND_SET);
    expect_kind(WORD("f:MANY" REST), true, REDLOCK_KIND_SET);
}

/* Servers and users may give any bytes. */
Test(kinds, any_other_value_has_none)
{
    const struct rl_word values[] = {
        {NULL, 0},
        {"", 1},
        WORD("p"),
        WORD("f:"),
        WORD("f:123"),
        WORD("f00d-of-another-library"),
        WORD("0f3a-uuid-of-another-library"),
        WORD("service-1"),
        WORD("pSLOT-machine"),
        WORD("f:TERMinal"),
        WORD("pTERM" REST),
        WORD("f:ONCE" REST),
        WORD("x" DIGITS),
        WORD("sabcdefghijklmnopqrstuvwxyz23456"),
        WORD("p" DIGITS "2"),
        WORD("p" DIGITS "\0@host"),
        WORD("pabcdefghijklmnopqrstuvwxyz23456\0"),
        WORD("p" REST "\xff\xff\xff\xff"),
        WORD("P" DIGITS),
        WORD("SLOT" REST),
        WORD("MANY" REST "@host:1"),
    };
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        cr_assert_null(rl_kind_of(values[i]), "%zu", i);
}
