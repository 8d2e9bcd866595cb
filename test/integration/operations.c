#include "operations.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define FENCE_MAX (INT64_C(1) << 53) /* and less is what a number of Lua tells exactly */

static char long_text[LENGTH_MAX + 1], long_fenced[LENGTH_MAX + 1];

static const struct rl_word keys[] = {
    {"a", 1}, {"b", 1}, {"lock:c", 6}, {"d\0e", 3}, {"d\0f", 3}, {"", 0},
};

/* Any of them goes with any key: a script knows them apart by their place only. */
static const struct rl_word fence_keys[] = {{"a:", 2}, {"d\0:e", 4}, {"d\0:f", 4}};

static const struct rl_word marker_keys[] = {{"!m", 2}, {"d\0!m", 4}};

/* What a script says of a marker, and markers: most begin so. */
static const struct rl_word nonces[] = {
    {"0123456789abcdef", 16}, {"fedcba9876543210", 16}, {"----------------", 16}};
static const struct rl_word markers[] = {
    {"0123456789abcdef", 16},          {"0123456789abcdef sound 0", 24},
    {"0123456789abcdef barred 1", 25}, {"fedcba9876543210 sound 0", 24},
    {"0123456789abcde", 15},           {"", 0},
};

/* Tokens, and what others store. Three are the same in their first 128 bytes. */
static const struct rl_word values[] = {
    {"p\0x", 3}, {"p1", 2},        {"p\0y", 3},      {"p", 1},
    {"", 0},     {long_text, 128}, {long_text, 129}, {long_text, LENGTH_MAX},
};
static const struct rl_word fenced_values[] = {
    {"f:\0x", 4}, {"f:1", 3},         {"f:\0y", 4},
    {"f:", 2},    {long_fenced, 128}, {long_fenced, LENGTH_MAX},
};

/* Those whom nobody hears are passed over, and so is what is no place. */
static const struct rl_word places[] = {
    {CHANNEL " 1", 12},   {CHANNEL " 2", 12},  {CHANNEL " 33", 13},  {"!wake:dead 1", 12},
    {"!wake:dead 2", 12}, {CHANNEL " 4x", 13}, {CHANNEL "\0 5", 13}, {"7", 1},
};

#define LIVING 3 /* of these */

#define FAVOURITES 3 /* these come more often, so that holders meet their own */

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
        cr_assert_lt(++i, COUNT(fenced_values), "a value that nobody stored");
    return fenced_values[i];
}

struct rl_word operation_place(struct rl_word text)
{
    size_t i = 0;
    while (!operation_is_same(places[i], text))
        cr_assert_lt(++i, COUNT(places), "a place that nobody took");
    return places[i];
}

struct rl_word operation_queue(struct operation *operation)
{
    static const char end[] = "!queue";
    struct rl_word key = operation->subject.key;
    cr_assert_leq(key.len + sizeof(end) - 1, QUEUE_KEY_MAX);
    memcpy(operation->queue_key, key.text, key.len);
    memcpy(operation->queue_key + key.len, end, sizeof(end) - 1);
    return (struct rl_word){operation->queue_key, key.len + sizeof(end) - 1};
}

/* --- its words --- */

static const char list_script[] =
    "redis.call('DEL', KEYS[1]) "
    "redis.call('RPUSH', KEYS[1], 'item') "
    "if ARGV[1] ~= '0' then "
    "  redis.call('PEXPIRE', KEYS[1], ARGV[1]) "
    "end";

static void say(struct rl_command *command, struct rl_word word)
{
    cr_assert_lt(command->words, RL_WORDS_MAX);
    command->word[command->words++] = word;
}

struct rl_word operation_word(const char *text)
{
    return (struct rl_word){text, strlen(text)};
}

static void say_text(struct rl_command *command, const char *text)
{
    say(command, operation_word(text));
}

static void say_set(struct operation *operation, struct rl_word value)
{
    struct rl_command *command = &operation->command;
    say_text(command, "SET");
    say(command, operation->subject.key);
    say(command, value);
    if (operation->subject.ttl_ms == 0)
        return;
    say_text(command, "PX");
    say_text(command, operation->ttl);
}

static void say_list(struct operation *operation)
{
    struct rl_command *command = &operation->command;
    say_text(command, "EVAL");
    say_text(command, list_script);
    say_text(command, "1");
    say(command, operation->subject.key);
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

/* What others do. */
static void say_foreign(struct operation *operation)
{
    const struct rl_subject *subject = &operation->subject;
    operation->command.words = 0;
    snprintf(operation->ttl, sizeof(operation->ttl), "%" PRId64, subject->ttl_ms);
    snprintf(operation->fence, sizeof(operation->fence), "%" PRId64, subject->fence);
    switch (operation->act) {
    case ACT_SET: say_set(operation, subject->token); break;
    case ACT_FENCE: say_set(operation, operation_word(operation->fence)); break;
    case ACT_LIST: say_list(operation); break;
    case ACT_DELETE:
        say_text(&operation->command, "DEL");
        say(&operation->command, subject->key);
        break;
    default: say_plain(operation);
    }
}

/* --- what it is about --- */

/* Which of these weights a number below their sum falls on. */
static unsigned pick(struct chance *chance, const unsigned *weight, unsigned n)
{
    unsigned sum = 0, i = 0;
    for (unsigned j = 0; j < n; j++)
        sum += weight[j];
    for (unsigned at = chance_below(chance, sum); at >= weight[i]; i++)
        at -= weight[i];
    return i;
}

static int64_t some_ttl(struct chance *chance)
{
    switch (chance_below(chance, 16)) {
    case 0: return 1000 + chance_below(chance, 60000);
    case 1: return 1 + chance_below(chance, 50);
    default: return 1 + chance_below(chance, 5);
    }
}

/* Nobody knows to the microsecond when the server will run it. */
static int64_t around(struct chance *chance, int64_t border)
{
    static const unsigned spreads[] = {20, 200, 3000};
    unsigned spread = spreads[chance_below(chance, COUNT(spreads))];
    return border - spread + chance_below(chance, 2 * spread);
}

/* Few, so that they meet again; some would read in another way as a number of Lua. */
static int64_t some_fence(struct chance *chance, rl_time now, rl_time era)
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
    switch (chance_below(chance, 8)) {
    case 0:
    case 1: return around(chance, now + KAPPA);
    case 2:
    case 3: return known[chance_below(chance, COUNT(known))];
    default: return era + chance_below(chance, 3);
    }
}

static rl_time some_said(struct chance *chance, rl_time now)
{
    switch (chance_below(chance, 16)) {
    case 0:
    case 1:
    case 2:
    case 3: return around(chance, now - LATENESS);
    case 4: return chance_below(chance, 2) ? now - 2 * LATENESS : 0;
    case 5: return now + KAPPA;
    default: return now - chance_below(chance, LATENESS / 2);
    }
}

/* Short ones are below what locks and others set, so that some are cut. */
static int64_t some_max_ttl(struct chance *chance)
{
    return chance_below(chance, 3) ? 3600000 : 1 + chance_below(chance, 4);
}

/* One of `none` is none. */
static struct rl_word some_marker(struct chance *chance, unsigned none)
{
    if (chance_below(chance, none) == 0)
        return markers[COUNT(markers) - 1];
    return markers[chance_below(chance, chance_below(chance, 12) ? 3 : COUNT(markers))];
}

static struct rl_word some_value(struct chance *chance, bool is_fenced)
{
    bool favourite = chance_below(chance, 4);
    if (is_fenced)
        return fenced_values[chance_below(chance,
                                          favourite ? FAVOURITES : COUNT(fenced_values))];
    return values[chance_below(chance, favourite ? FAVOURITES : COUNT(values))];
}

/*
 * None of the texts that others set is a number: tonumber() reads more than the model. What
 * is no fence and no marker stays for a short time only: little else is answered meanwhile.
 */
static void choose_key(struct operation *operation, struct chance *chance)
{
    struct rl_subject *subject = &operation->subject;
    unsigned which = chance_below(chance, 8);
    bool spoils = operation->act == ACT_LIST || operation->act == ACT_SET;
    if (operation->act == ACT_FENCE || which < 2) {
        subject->key = subject->fence_key;
        spoils = spoils && operation->act != ACT_FENCE;
    } else if (which < 4) {
        subject->key = subject->marker_key;
        subject->token = some_marker(chance, 12);
        spoils = operation->act == ACT_LIST;
    } else {
        spoils = false;
    }
    if (spoils)
        subject->ttl_ms = 1 + chance_below(chance, 2);
    else if (chance_below(chance, 6) == 0)
        subject->ttl_ms = 0;
}

/* Few spans and far apart: then it is known who has waited longer. */
static void choose_place(struct rl_subject *subject, struct chance *chance)
{
    static const rl_time waits[] = {
        -1, -1, -1, 0, 0, 0, 1000 * RL_SECOND, 1000000 * RL_SECOND};
    if (chance_below(chance, 5) == 0) /* only who does not go on waiting calls others */
        return;
    size_t which = chance_below(chance, chance_below(chance, 2) ? LIVING : COUNT(places));
    size_t longest = chance_below(chance, 2) && which >= LIVING ? COUNT(waits) - 1 : 0;
    subject->place = places[which];
    subject->waited = waits[longest ? longest : chance_below(chance, COUNT(waits))];
}

static void make_command(struct operation *operation, struct chance *chance)
{
    static const unsigned plain[RL_TEXTS] = {[RL_ACQUIRE] = 19,
                                             [RL_EXTEND] = 29,
                                             [RL_RELEASE] = 17,
                                             [RL_INSPECT] = 19,
                                             [RL_BREAK] = 16};
    static const unsigned fenced[RL_TEXTS] = {[RL_ACQUIRE] = 24,
                                              [RL_SETTLE] = 28,
                                              [RL_EXTEND] = 38,
                                              [RL_RELEASE] = 18,
                                              [RL_MARK] = 14};
    operation->text =
        (enum rl_text)pick(chance, operation->is_fenced ? fenced : plain, RL_TEXTS);
    operation->whole = chance_below(chance, 2);
    operation->may_call = operation->text == RL_RELEASE || operation->text == RL_BREAK;
    if (operation->text == RL_RELEASE)
        choose_place(&operation->subject, chance);
    rl_kind_command(rl_kind_of(operation->subject.token), operation->text, operation->whole,
                    &operation->subject, &operation->command);
}

void operation_make(struct operation *operation, struct chance *chance, rl_time now,
                    rl_time era)
{
    static const unsigned acts[] = {
        [ACT_COMMAND] = 934, [ACT_SET] = 15,  [ACT_LIST] = 8,    [ACT_DELETE] = 8,
        [ACT_FENCE] = 30,    [ACT_FLUSH] = 5, [ACT_FORGET] = 10, [ACT_PAUSE] = 25};
    bool is_fenced = chance_below(chance, 5) < 3;
    operation->act = (enum act)pick(chance, acts, COUNT(acts));
    operation->is_fenced = is_fenced && operation->act == ACT_COMMAND;
    operation->may_call = operation->act == ACT_FLUSH;
    operation->subject = (struct rl_subject){
        .key = keys[chance_below(chance, COUNT(keys))],
        .fence_key = fence_keys[chance_below(chance, COUNT(fence_keys))],
        .token = some_value(chance, is_fenced),
        .ttl_ms = some_ttl(chance),
        .fence = some_fence(chance, now, era),
        .fences = chance_below(chance, 2) ? 1 : 1 + (unsigned)chance_below(chance, 64),
        .said = some_said(chance, now),
        .marker_key = marker_keys[chance_below(chance, 8) == 0],
        .nonce = nonces[chance_below(chance, 12) ? 0 : chance_below(chance, COUNT(nonces))],
        .max_ttl_ms = some_max_ttl(chance),
        .write = chance_below(chance, 3) > 0,
        .expected = some_marker(chance, 2),
        .wanted = some_marker(chance, 12),
        .plant = chance_below(chance, 3) > 0,
    };
    if (operation->act == ACT_COMMAND) {
        make_command(operation, chance);
        return;
    }
    choose_key(operation, chance);
    say_foreign(operation);
}
