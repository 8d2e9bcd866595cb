/* Sets of keys: the arguments of their commands, and how replies become votes. */
#include <stdio.h>
#include <string.h>

#include "core/kind.h"
#include "lease_fixture.h"

#define WORD(literal) ((struct rl_word){literal, sizeof(literal) - 1})

/* The keys, and then their fence keys. */
static const struct rl_word set[] = {{"a", 1}, {"b", 1}, {"a!fence", 7}, {"b!fence", 7}};

static const struct rl_command_args args = {
    .set = set,
    .set_size = 2,
    .token = {"token", 5},
    .ttl_ms = 30000,
    .marker_key = {"!marker", 7},
    .nonce = {"0123456789abcdef", 16},
    .max_ttl_ms = 60000,
    .fence = 17,
    .fences = 3,
    .sent_at = 11,
};

/* The words behind EVALSHA and the hash, with a space between them; "-": an empty one. */
static void expect(bool fenced, enum rl_command text, const struct rl_command_args *about,
                   const char *expected)
{
    struct rl_argv command;
    char words[512] = "";
    memset(&command, 0xa5, sizeof(command));
    rl_kind_argv(rl_kind_that_is(fenced, REDLOCK_KIND_SET), text, false, about, &command);
    for (size_t i = 2; i < command.words; i++) {
        strcat(words, i > 2 ? " " : "");
        strncat(words, command.word[i].len ? command.word[i].text : "-",
                command.word[i].len ? command.word[i].len : 1);
    }
    cr_assert_str_eq(words, expected);
}

#define FENCED "5 a b a!fence b!fence !marker token 17 60000"
#define NONCE  "0123456789abcdef"

Test(sets, arguments_of_each_command)
{
    struct rl_command_args about = args;
    expect(false, RL_CMD_ACQUIRE, &about, "2 a b token 30000");
    expect(false, RL_CMD_EXTEND, &about, "2 a b token 30000 0");
    expect(false, RL_CMD_RELEASE, &about, "2 a b token");
    expect(true, RL_CMD_ACQUIRE, &about, FENCED " 30000 11 3 " NONCE);
    expect(true, RL_CMD_RAISE_FENCE, &about, FENCED " " NONCE);
    about.recreate = true;
    expect(true, RL_CMD_EXTEND, &about, FENCED " 30000 11 1 " NONCE);
    expect(true, RL_CMD_RELEASE, &about, FENCED " " NONCE);
}

Test(sets, a_waiter_names_its_queue_and_the_one_that_it_leaves)
{
    struct rl_command_args about = args;
    about.queue_entry = WORD("!wake:0_7");
    about.waited = 1500;
    about.queue_at = 1;
    about.queue_from = RL_NO_KEY;
    expect(false, RL_CMD_RELEASE, &about, "2 a b token !wake:0_7 1500 2 -");
    about.queue_from = 0;
    expect(true, RL_CMD_RELEASE, &about, FENCED " !wake:0_7 1500 2 1 " NONCE);
    about.waited = -1;
    expect(false, RL_CMD_RELEASE, &about, "2 a b token !wake:0_7 - 2 1");
}

Test(sets, the_largest_one_has_room)
{
    struct rl_word many[2 * RL_SET_MAX];
    struct rl_command_args about = args;
    struct rl_argv command;
    for (unsigned i = 0; i < 2 * RL_SET_MAX; i++)
        many[i] = WORD("k");
    about.set = many;
    about.set_size = RL_SET_MAX;
    about.queue_entry = WORD("!wake:0 7");
    rl_kind_argv(rl_kind_that_is(true, REDLOCK_KIND_SET), RL_CMD_RELEASE, true, &about,
                 &command);
    cr_assert_eq(command.words, 2 + 1 + 2 * RL_SET_MAX + 1 + 3 + 4 + 1);
}

/* --- replies --- */

static struct rl_answer answer;

static bool reads(bool fenced, enum rl_command text, struct rl_reply reply)
{
    memset(&answer, 0xa5, sizeof(answer));
    return rl_kind_read(rl_kind_that_is(fenced, REDLOCK_KIND_SET), text, &reply, &answer);
}

static struct rl_reply number(int64_t value)
{
    return (struct rl_reply){.type = RL_REPLY_INTEGER, .integer = value};
}

/* {value, numbers ...} */
static struct rl_reply held(size_t numbers, const int64_t *value)
{
    static struct rl_reply item[6];
    item[0] = (struct rl_reply){.type = RL_REPLY_STRING, .text = "other", .len = 5};
    for (size_t i = 0; i < numbers; i++)
        item[i + 1] = number(value[i]);
    return (struct rl_reply){.type = RL_REPLY_ARRAY, .item = item, .items = numbers + 1};
}

Test(sets, a_refusal_names_the_key)
{
    static const enum rl_command texts[] = {RL_CMD_ACQUIRE, RL_CMD_EXTEND, RL_CMD_RELEASE};
    for (unsigned i = 0; i < 3; i++)
        for (int64_t n = -1; n <= RL_SET_MAX + 1; n++) {
            const int64_t plain[] = {700, n}, fenced[] = {700, 5, n};
            bool right = n >= 1 && n <= RL_SET_MAX;
            cr_assert_eq(reads(false, texts[i], held(2, plain)), right);
            if (!right)
                continue;
            cr_assert_eq(answer.vote, RL_VOTE_HELD);
            cr_assert_eq(answer.key, n - 1);
            cr_assert_eq(answer.pttl, 700);
            cr_assert(reads(true, texts[i], held(3, fenced)));
            cr_assert_eq(answer.key, n - 1);
            cr_assert_eq(answer.time, 5);
        }
}

Test(sets, a_refusal_has_as_many_numbers_as_its_kind)
{
    const int64_t numbers[] = {700, 1, 1, 0, 0};
    for (size_t count = 0; count <= 5; count++) {
        cr_assert_eq(reads(false, RL_CMD_ACQUIRE, held(count, numbers)), count == 2);
        cr_assert_eq(reads(true, RL_CMD_ACQUIRE, held(count, numbers)), count == 3);
    }
    const int64_t plain[] = {700, 1, 0}, fenced[] = {700, 5, 1, 0};
    cr_assert(reads(false, RL_CMD_RELEASE, held(3, plain)) && answer.not_queued);
    cr_assert(reads(true, RL_CMD_RELEASE, held(4, fenced)) && answer.not_queued);
    cr_assert_not(reads(false, RL_CMD_EXTEND, held(3, plain)));
}

/* SET's OK is no reply to a script, and an acquire finds no key gone. */
Test(sets, an_acquire_is_granted_by_1_alone)
{
    struct rl_reply ok = {.type = RL_REPLY_STATUS, .text = "OK", .len = 2};
    cr_assert_not(reads(false, RL_CMD_ACQUIRE, ok));
    for (int64_t code = -1; code <= 3; code++)
        cr_assert_eq(reads(false, RL_CMD_ACQUIRE, number(code)), code == 1);
    cr_assert_eq((reads(false, RL_CMD_ACQUIRE, number(1)), answer.vote), RL_VOTE_GRANTED);
    cr_assert(reads(false, RL_CMD_EXTEND, number(2)) && answer.vote == RL_VOTE_RECREATED);
    cr_assert(reads(false, RL_CMD_RELEASE, number(2)) && answer.has_waiters);
}
