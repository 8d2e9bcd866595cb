#include "operations.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define FENCE_MAX                                                                          \
    (INT64_C(1) << 53) /* and less is what a Lua number represents exactly                 \
                        */

static char long_text[LENGTH_MAX + 1], long_fenced[LENGTH_MAX + 1];

static const struct rl_word keys[] = {
    {"a", 1}, {"b", 1}, {"lock:c", 6}, {"d\0e", 3}, {"d\0f", 3}, {"", 0},
};

/* Any of them goes with any key: a script tells them apart by their position only. */
static const struct rl_word fence_keys[] = {{"a:", 2}, {"d\0:e", 4}, {"d\0:f", 4}};

static const struct rl_word marker_keys[] = {{"!m", 2}, {"d\0!m", 4}};

/* A marker as a script compares it, and markers: most begin in the same way. */
static const struct rl_word nonces[] = {
    {"0123456789abcdef", 16}, {"fedcba9876543210", 16}, {"----------------", 16}};
static const struct rl_word markers[] = {
    {"0123456789abcdef", 16},          {"0123456789abcdef sound 0", 24},
    {"0123456789abcdef barred 1", 25}, {"fedcba9876543210 sound 0", 24},
    {"0123456789abcde", 15},           {"", 0},
};

/* Tokens, and values of others. Three are equal in their first 128 bytes. */
static const struct rl_word values[] = {
    {"p\0x", 3}, {"p1", 2},        {"p\0y", 3},      {"p", 1},
    {"", 0},     {long_text, 128}, {long_text, 129}, {long_text, LENGTH_MAX},
};
static const struct rl_word fenced_values[] = {
    {"f:\0x", 4}, {"f:1", 3},         {"f:\0y", 4},
    {"f:", 2},    {long_fenced, 128}, {long_fenced, LENGTH_MAX},
};

/* Waiters without a subscription are skipped, and so are invalid entries. */
static const struct rl_word places[] = {
    {CHANNEL " 1", 12},   {CHANNEL " 2", 12},  {CHANNEL " 33", 13},  {"!wake:dead 1", 12},
    {"!wake:dead 2", 12}, {CHANNEL " 4x", 13}, {CHANNEL "\0 5", 13}, {"7", 1},
};

#define LIVING 3 /* of these */

#define FAVOURITES 3 /* these come more often, so that holders meet their own token */

void operations_prepare(void)
{
    memset(long_text, 'x', LENGTH_MAX);
    memset(long_fenced, 'x', LENGTH_MAX);
    memcpy(long_fenced, "f:", 2);
}

bool operation_is_same(struct rl_word a, struct rl_word b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.text, b.text, a.len) == 0);
}

struct rl_word operation_value(struct rl_word text)
{
    for (size_t i = 0; i < COUNT(values); i++)
        if (operation_is_same(values[i], text))
            return values[i];
    for (size_t i = 0; i < COUNT(markers); i++)
        if (operation_is_same(markers[i], text))
            return markers[i];
    size_t i = 0;
    while (!operation_is_same(fenced_values[i], text))
        cr_assert_lt(++i, COUNT(fenced_values), "a value that was never stored");
    return fenced_values[i];
}

struct rl_word operation_place(struct rl_word text)
{
    size_t i = 0;
    while (!operation_is_same(places[i], text))
        cr_assert_lt(++i, COUNT(places), "a queue entry that was never written");
    return places[i];
}

struct rl_word operation_queue(struct operation *operation)
{
    static const char end[] = "!queue";
    struct rl_word key = operation->args.key;
    cr_assert_leq(key.len + sizeof(end) - 1, QUEUE_KEY_MAX);
    memcpy(operation->queue_key, key.text, key.len);
    memcpy(operation->queue_key + key.len, end, sizeof(end) - 1);
    return (struct rl_word){operation->queue_key, key.len + sizeof(end) - 1};
}

/* --- the arguments --- */

static const char list_script[] =
    "redis.call('DEL', KEYS[1]) "
    "redis.call('RPUSH', KEYS[1], 'item') "
    "if ARGV[1] ~= '0' then "
    "  redis.call('PEXPIRE', KEYS[1], ARGV[1]) "
    "end";

static void say(struct rl_argv *command, struct rl_word word)
{
    cr_assert_lt(command->words, RL_WORDS_MAX);
    command->word[command->words++] = word;
}

struct rl_word operation_word(const char *text)
{
    return (struct rl_word){text, strlen(text)};
}

static void say_text(struct rl_argv *command, const char *text)
{
    say(command, operation_word(text));
}

static void say_set(struct operation *operation, struct rl_word value)
{
    struct rl_argv *command = &operation->command;
    say_text(command, "SET");
    say(command, operation->args.key);
    say(command, value);
    if (operation->args.ttl_ms == 0)
        return;
    say_text(command, "PX");
    say_text(command, operation->ttl);
}

static void say_list(struct operation *operation)
{
    struct rl_argv *command = &operation->command;
    say_text(command, "EVAL");
    say_text(command, list_script);
    say_text(command, "1");
    say(command, operation->args.key);
    say_text(command, operation->ttl);
}

/* In a pause keys live to their end; otherwise something happens to them long before. */
static void say_plain(struct operation *operation)
{
    static const char *const words[][4] = {
        [ACT_FLUSH] = {"FLUSHALL"},
        [ACT_FORGET] = {"SCRIPT", "FLUSH"},
        [ACT_PAUSE] = {"DEBUG", "SLEEP", "0.001"},
    };
    for (const char *const *word = words[operation->act]; *word; word++)
        say_text(&operation->command, *word);
}

/* Operations that are no commands of the library. */
static void say_foreign(struct operation *operation)
{
    const struct rl_command_args *args = &operation->args;
    operation->command.words = 0;
    snprintf(operation->ttl, sizeof(operation->ttl), "%" PRId64, args->ttl_ms);
    snprintf(operation->fence, sizeof(operation->fence), "%" PRId64, args->fence);
    switch (operation->act) {
    case ACT_SET: say_set(operation, args->token); break;
    case ACT_FENCE: say_set(operation, operation_word(operation->fence)); break;
    case ACT_LIST: say_list(operation); break;
    case ACT_DELETE:
        say_text(&operation->command, "DEL");
        say(&operation->command, args->key);
        break;
    default: say_plain(operation);
    }
}

/* --- the choice --- */

/* Which of these weights a number below their sum belongs to. */
static unsigned pick(struct prng *prng, const unsigned *weight, unsigned n)
{
    unsigned sum = 0, i = 0;
    for (unsigned j = 0; j < n; j++)
        sum += weight[j];
    for (unsigned at = prng_below(prng, sum); at >= weight[i]; i++)
        at -= weight[i];
    return i;
}

static int64_t some_ttl(struct prng *prng)
{
    switch (prng_below(prng, 16)) {
    case 0: return 1000 + prng_below(prng, 60000);
    case 1: return 1 + prng_below(prng, 50);
    default: return 1 + prng_below(prng, 5);
    }
}

/* The time at which the server will run it is not known to the microsecond. */
static int64_t around(struct prng *prng, int64_t border)
{
    static const unsigned spreads[] = {20, 200, 3000};
    unsigned spread = spreads[prng_below(prng, COUNT(spreads))];
    return border - spread + prng_below(prng, 2 * spread);
}

/* Few, so that they repeat; Lua would read some as another number. */
static int64_t some_fence(struct prng *prng, rl_time now, rl_time era)
{
    static const int64_t known[] = {0,
                                    1,
                                    2,
                                    INT64_C(99999999999999),
                                    INT64_C(100000000000000),
                                    INT64_C(1000000000000000),
                                    INT64_C(1700000000000000),
                                    INT64_C(1800000000000000),
                                    FENCE_MAX - 1};
    switch (prng_below(prng, 8)) {
    case 0:
    case 1: return around(prng, now + KAPPA);
    case 2:
    case 3: return known[prng_below(prng, COUNT(known))];
    default: return era + prng_below(prng, 3);
    }
}

static rl_time some_said(struct prng *prng, rl_time now)
{
    switch (prng_below(prng, 16)) {
    case 0:
    case 1:
    case 2:
    case 3: return around(prng, now - LATENESS);
    case 4: return prng_below(prng, 2) ? now - 2 * LATENESS : 0;
    case 5: return now + KAPPA;
    default: return now - prng_below(prng, LATENESS / 2);
    }
}

/* Short ones are below what locks and others set, so that some are truncated. */
static int64_t some_max_ttl(struct prng *prng)
{
    return prng_below(prng, 3) ? 3600000 : 1 + prng_below(prng, 4);
}

/* An entry of `none` is invalid. */
static struct rl_word some_marker(struct prng *prng, unsigned none)
{
    if (prng_below(prng, none) == 0)
        return markers[COUNT(markers) - 1];
    return markers[prng_below(prng, prng_below(prng, 12) ? 3 : COUNT(markers))];
}

static struct rl_word some_value(struct prng *prng, bool is_fenced)
{
    bool favourite = prng_below(prng, 4);
    if (is_fenced)
        return fenced_values[prng_below(prng,
                                        favourite ? FAVOURITES : COUNT(fenced_values))];
    return values[prng_below(prng, favourite ? FAVOURITES : COUNT(values))];
}

/*
 * None of the texts that others set is a number: tonumber() accepts more than the model. A
 * value that is no fence and no marker exists for a short time only: meanwhile most
 * commands fail.
 */
static void choose_key(struct operation *operation, struct prng *prng)
{
    struct rl_command_args *args = &operation->args;
    unsigned which = prng_below(prng, 8);
    bool spoils = operation->act == ACT_LIST || operation->act == ACT_SET;
    if (operation->act == ACT_FENCE || which < 2) {
        args->key = args->fence_key;
        spoils = spoils && operation->act != ACT_FENCE;
    } else if (which < 4) {
        args->key = args->marker_key;
        args->token = some_marker(prng, 12);
        spoils = operation->act == ACT_LIST;
    } else {
        spoils = false;
    }
    if (spoils)
        args->ttl_ms = 1 + prng_below(prng, 2);
    else if (prng_below(prng, 6) == 0)
        args->ttl_ms = 0;
}

/* Few times and far apart: then the test knows which client has waited longer. */
static void choose_place(struct rl_command_args *args, struct prng *prng)
{
    static const rl_time waits[] = {
        -1, -1, -1, 0, 0, 0, 1000 * RL_SECOND, 1000000 * RL_SECOND};
    if (prng_below(prng, 5) ==
        0) /* only a client that does not continue to wait notifies others */
        return;
    size_t which = prng_below(prng, prng_below(prng, 2) ? LIVING : COUNT(places));
    size_t longest = prng_below(prng, 2) && which >= LIVING ? COUNT(waits) - 1 : 0;
    args->queue_entry = places[which];
    args->waited = waits[longest ? longest : prng_below(prng, COUNT(waits))];
}

static void make_command(struct operation *operation, struct prng *prng)
{
    static const unsigned plain[RL_COMMANDS] = {[RL_CMD_ACQUIRE] = 19,
                                                [RL_CMD_EXTEND] = 29,
                                                [RL_CMD_RELEASE] = 17,
                                                [RL_CMD_INSPECT] = 19,
                                                [RL_CMD_BREAK] = 16};
    static const unsigned fenced[RL_COMMANDS] = {[RL_CMD_ACQUIRE] = 24,
                                                 [RL_CMD_RAISE_FENCE] = 28,
                                                 [RL_CMD_EXTEND] = 38,
                                                 [RL_CMD_RELEASE] = 18,
                                                 [RL_CMD_MARKER] = 14};
    operation->text =
        (enum rl_command)pick(prng, operation->is_fenced ? fenced : plain, RL_COMMANDS);
    operation->whole = prng_below(prng, 2);
    operation->may_call =
        operation->text == RL_CMD_RELEASE || operation->text == RL_CMD_BREAK;
    if (operation->text == RL_CMD_RELEASE)
        choose_place(&operation->args, prng);
    rl_kind_argv(rl_kind_that_is(operation->is_fenced, REDLOCK_KIND_EXCLUSIVE),
                 operation->text, operation->whole, &operation->args, &operation->command);
}

void operation_make(struct operation *operation, struct prng *prng, rl_time now,
                    rl_time era)
{
    static const unsigned acts[] = {
        [ACT_COMMAND] = 934, [ACT_SET] = 15,  [ACT_LIST] = 8,    [ACT_DELETE] = 8,
        [ACT_FENCE] = 30,    [ACT_FLUSH] = 5, [ACT_FORGET] = 10, [ACT_PAUSE] = 25};
    bool is_fenced = prng_below(prng, 5) < 3;
    operation->act = (enum act)pick(prng, acts, COUNT(acts));
    operation->is_fenced = is_fenced && operation->act == ACT_COMMAND;
    operation->may_call = operation->act == ACT_FLUSH;
    operation->args = (struct rl_command_args){
        .key = keys[prng_below(prng, COUNT(keys))],
        .fence_key = fence_keys[prng_below(prng, COUNT(fence_keys))],
        .token = some_value(prng, is_fenced),
        .ttl_ms = some_ttl(prng),
        .fence = some_fence(prng, now, era),
        .fences = prng_below(prng, 2) ? 1 : 1 + (unsigned)prng_below(prng, 64),
        .sent_at = some_said(prng, now),
        .marker_key = marker_keys[prng_below(prng, 8) == 0],
        .nonce = nonces[prng_below(prng, 12) ? 0 : prng_below(prng, COUNT(nonces))],
        .max_ttl_ms = some_max_ttl(prng),
        .expected = some_marker(prng, 2),
        .wanted = some_marker(prng, 12),
        .recreate = prng_below(prng, 3) > 0,
    };
    if (prng_below(prng, 3) == 0) /* the marker is only read */
        operation->args.wanted.text = NULL;
    if (operation->act == ACT_COMMAND) {
        make_command(operation, prng);
        return;
    }
    choose_key(operation, prng);
    say_foreign(operation);
}
