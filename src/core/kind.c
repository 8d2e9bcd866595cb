#include "kind.h"

#include <assert.h>
#include <string.h>

#include "fence.h"
#include "scripts.h"

/*
 * A kind that may be fenced has two rows. An acquire without a script is SET NX PX, as
 * every other Redlock client does it.
 */
static const struct rl_kind kinds[] = {
    {
        .type = REDLOCK_KIND_EXCLUSIVE,
        .mark = "p",
        .script[RL_CMD_EXTEND] = &rl_script_plain_extend,
        .script[RL_CMD_RELEASE] = &rl_script_plain_release,
        .script[RL_CMD_INSPECT] = &rl_script_inspect,
        .script[RL_CMD_BREAK] = &rl_script_break,
        .script[RL_CMD_OBSERVE] = &rl_script_observe,
        .script[RL_CMD_LIST] = &rl_script_list,
        .script[RL_CMD_NOTE_HOLD] = &rl_script_note_hold,
    },
    {
        .type = REDLOCK_KIND_EXCLUSIVE,
        .mark = "f:",
        .is_fenced = true,
        .script[RL_CMD_ACQUIRE] = &rl_script_fenced_acquire,
        .script[RL_CMD_RAISE_FENCE] = &rl_script_fenced_raise,
        .script[RL_CMD_EXTEND] = &rl_script_fenced_extend,
        .script[RL_CMD_RELEASE] = &rl_script_fenced_release,
        .script[RL_CMD_INSPECT] = &rl_script_inspect,
        .script[RL_CMD_BREAK] = &rl_script_break,
        .script[RL_CMD_MARKER] = &rl_script_fenced_marker,
    },
    {
        .type = REDLOCK_KIND_SHARED,
        .mark = "s",
        .script[RL_CMD_ACQUIRE] = &rl_script_shared_acquire,
        .script[RL_CMD_EXTEND] = &rl_script_shared_extend,
        .script[RL_CMD_RELEASE] = &rl_script_shared_release,
    },
    {
        .type = REDLOCK_KIND_SHARED,
        .mark = "g:",
        .is_fenced = true,
        .script[RL_CMD_ACQUIRE] = &rl_script_fenced_shared_acquire,
        .script[RL_CMD_RAISE_FENCE] = &rl_script_fenced_shared_raise,
        .script[RL_CMD_EXTEND] = &rl_script_fenced_shared_extend,
        .script[RL_CMD_RELEASE] = &rl_script_fenced_shared_release,
    },
    {
        .type = REDLOCK_KIND_SLOT,
        .mark = "p",
        .word = "SLOT",
        .script[RL_CMD_EXTEND] = &rl_script_plain_extend,
        .script[RL_CMD_RELEASE] = &rl_script_slot_release,
    },
    {
        .type = REDLOCK_KIND_SLOT,
        .mark = "f:",
        .word = "SLOT",
        .is_fenced = true,
        .script[RL_CMD_ACQUIRE] = &rl_script_fenced_acquire,
        .script[RL_CMD_RAISE_FENCE] = &rl_script_fenced_raise,
        .script[RL_CMD_EXTEND] = &rl_script_fenced_extend,
        .script[RL_CMD_RELEASE] = &rl_script_fenced_slot_release,
    },
    {
        .type = REDLOCK_KIND_ELECTION,
        .mark = "f:",
        .word = "TERM",
        .is_fenced = true,
        .script[RL_CMD_ACQUIRE] = &rl_script_fenced_acquire,
        .script[RL_CMD_RAISE_FENCE] = &rl_script_term_raise,
        .script[RL_CMD_EXTEND] = &rl_script_term_extend,
        .script[RL_CMD_RELEASE] = &rl_script_term_release,
    },
    {
        .type = REDLOCK_KIND_RECORD,
        .mark = "p",
        .word = "ONCE",
        .script[RL_CMD_EXTEND] = &rl_script_plain_extend,
        .script[RL_CMD_RELEASE] = &rl_script_plain_release,
    },
    {
        .type = REDLOCK_KIND_REDISSON,
        .mark = "r:",
        .script[RL_CMD_ACQUIRE] = &rl_script_redisson_acquire,
        .script[RL_CMD_EXTEND] = &rl_script_redisson_extend,
        .script[RL_CMD_RELEASE] = &rl_script_redisson_release,
    },
    {
        .type = REDLOCK_KIND_SET,
        .mark = "p",
        .word = "MANY",
        .script[RL_CMD_ACQUIRE] = &rl_script_set_acquire,
        .script[RL_CMD_EXTEND] = &rl_script_set_extend,
        .script[RL_CMD_RELEASE] = &rl_script_set_release,
    },
    {
        .type = REDLOCK_KIND_SET,
        .mark = "f:",
        .word = "MANY",
        .is_fenced = true,
        .script[RL_CMD_ACQUIRE] = &rl_script_fenced_set_acquire,
        .script[RL_CMD_RAISE_FENCE] = &rl_script_fenced_set_raise,
        .script[RL_CMD_EXTEND] = &rl_script_fenced_set_extend,
        .script[RL_CMD_RELEASE] = &rl_script_fenced_set_release,
    },
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static bool is_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '2' && c <= '7');
}

/* The end of `begin` at `at`; 0: it is not there. */
static size_t end_of(struct rl_word token, size_t at, const char *begin)
{
    for (; *begin; begin++, at++)
        if (at >= token.len || token.text[at] != *begin)
            return 0;
    return at;
}

/* "p2h...q7" or "p2h...q7@LABEL": another program's value may begin so, too. */
static bool is_of(const struct rl_kind *kind, struct rl_word token)
{
    size_t begin = end_of(token, 0, kind->mark), end = begin + RL_TOKEN_DIGITS;
    size_t random = kind->word ? end_of(token, begin, kind->word) : begin;
    if (begin == 0 || random == 0 || token.len < end ||
        (token.len > end && token.text[end] != '@') || token.len > end + 1 + RL_LABEL_MAX)
        return false;
    for (size_t i = random; i < end; i++)
        if (!is_digit(token.text[i]))
            return false;
    return true;
}

const struct rl_kind *rl_kind_of(struct rl_word token)
{
    for (size_t i = KINDS; i-- > 0;)
        if (is_of(&kinds[i], token))
            return &kinds[i];
    return NULL;
}

const struct rl_kind *rl_kind_that_is(bool fenced, enum redlock_kind type)
{
    for (size_t i = 0; i < KINDS; i++)
        if (kinds[i].type == type && kinds[i].is_fenced == fenced)
            return &kinds[i];
    return NULL;
}

rl_script_set rl_kind_script_bit(const struct rl_kind *kind, enum rl_command command)
{
    const struct rl_script *script = kind->script[command];
    return script ? UINT64_C(1) << script->bit : 0;
}

const struct rl_kind *rl_kinds(size_t *ret_count)
{
    *ret_count = KINDS;
    return kinds;
}

/* Two digits at a time: a fenced lock sends some seventy. */
static struct rl_word digits(char buffer[RL_DIGITS], int64_t value)
{
    assert(value >= 0);
    char *at = buffer + RL_DIGITS;
    uint64_t rest = (uint64_t)value;
    while (rest > 9) {
        unsigned two = (unsigned)(rest % 100);
        rest /= 100;
        *--at = (char)('0' + two % 10);
        *--at = (char)('0' + two / 10);
    }
    if (rest > 0 || at == buffer + RL_DIGITS)
        *--at = (char)('0' + rest);
    return (struct rl_word){at, (size_t)(buffer + RL_DIGITS - at)};
}

static void kind_put(struct rl_argv *argv, const char *text, size_t len)
{
    assert(argv->words < RL_WORDS_MAX);
    argv->word[argv->words++] = (struct rl_word){text, len};
}

#define PUT(argv, literal) kind_put(argv, literal, sizeof(literal) - 1)

static void put_word(struct rl_argv *argv, struct rl_word word)
{
    kind_put(argv, word.text, word.len);
}

static void kind_put_number(struct rl_argv *argv, int64_t value)
{
    assert(argv->numbers < RL_NUMBERS);
    put_word(argv, digits(argv->digits[argv->numbers++], value));
}

/* A key of a set, by its position; scripts count from 1. */
static void put_position(struct rl_argv *argv, unsigned key)
{
    if (key == RL_NO_KEY)
        PUT(argv, "");
    else
        kind_put_number(argv, key + 1);
}

/* Adds the queue entry of a waiter, or removes it. */
static void put_queue_entry(const struct rl_kind *kind, struct rl_argv *argv,
                            const struct rl_command_args *args)
{
    if (args->queue_entry.len == 0)
        return;
    put_word(argv, args->queue_entry);
    if (args->waited < 0)
        PUT(argv, "");
    else
        kind_put_number(argv, args->waited);
    if (rl_kind_is_of_sets(kind)) {
        put_position(argv, args->queue_at);
        put_position(argv, args->queue_from);
    } else if (kind->type != REDLOCK_KIND_SHARED && kind->type != REDLOCK_KIND_SLOT) {
        if (args->intent_ms > 0)
            kind_put_number(argv, args->intent_ms);
        else
            PUT(argv, "");
    }
}

/* The number of keys, and the keys. */
static void put_keys(const struct rl_kind *kind, enum rl_command command,
                     struct rl_argv *argv, const struct rl_command_args *args)
{
    bool has_base = kind->type == REDLOCK_KIND_SLOT && command == RL_CMD_RELEASE;
    unsigned keys = rl_kind_is_of_sets(kind) ? args->set_size : 1;
    if (kind->is_fenced)
        keys *= 2;
    kind_put_number(argv, keys + has_base + kind->is_fenced);
    if (!rl_kind_is_of_sets(kind)) {
        put_word(argv, args->key);
        if (kind->is_fenced)
            put_word(argv, args->fence_key);
    }
    for (unsigned i = 0; rl_kind_is_of_sets(kind) && i < keys; i++)
        put_word(argv, args->set[i]);
    if (has_base)
        put_word(argv, args->base);
    if (kind->is_fenced)
        put_word(argv, args->marker_key);
}

/* The arguments besides token, TTL and fence, the same for plain and fenced kinds. */
static void put_of_kind(const struct rl_kind *kind, enum rl_command command,
                        const struct rl_command_args *args, struct rl_argv *argv)
{
    bool is_shared = kind->type == REDLOCK_KIND_SHARED;
    if (command == RL_CMD_RELEASE && kind->type == REDLOCK_KIND_SLOT)
        kind_put_number(argv, args->slots);
    if (command == RL_CMD_RELEASE)
        put_queue_entry(kind, argv, args);
    else if (command == RL_CMD_ACQUIRE && is_shared)
        kind_put_number(argv, args->waited);
    else if (command == RL_CMD_EXTEND)
        kind_put(argv, args->recreate ? "1" : "0", 1);
    if (command == RL_CMD_EXTEND && is_shared && args->queue_entry.len > 0)
        put_word(argv, args->queue_entry);
}

/* guard.lua reads most of these. An argument that a command does not read is not sent. */
static void put_fenced(const struct rl_kind *kind, enum rl_command command,
                       const struct rl_command_args *args, struct rl_argv *argv)
{
    put_keys(kind, command, argv, args);
    put_word(argv, args->token);
    kind_put_number(argv, args->fence);
    kind_put_number(argv, args->max_ttl_ms);
    if (command == RL_CMD_ACQUIRE || command == RL_CMD_EXTEND) {
        kind_put_number(argv, args->ttl_ms);
        kind_put_number(argv, args->sent_at);
    }
    if (command == RL_CMD_ACQUIRE)
        kind_put_number(argv, args->fences);
    put_of_kind(kind, command, args, argv);
    put_word(argv, args->nonce); /* differs from node to node (safety.md, The marker) */
}

static void put_marker_command(struct rl_argv *argv, const struct rl_command_args *args)
{
    PUT(argv, "1");
    put_word(argv, args->marker_key);
    if (!args->wanted.text)
        return;
    put_word(argv, args->expected);
    put_word(argv, args->wanted);
}

static void put_plain(const struct rl_kind *kind, enum rl_command command,
                      const struct rl_command_args *args, struct rl_argv *argv)
{
    put_keys(kind, command, argv, args);
    put_word(argv, args->token);
    if (command != RL_CMD_RELEASE)
        kind_put_number(argv, args->ttl_ms);
    put_of_kind(kind, command, args, argv);
}

static void put_observe(struct rl_argv *argv, const struct rl_command_args *args)
{
    PUT(argv, "1");
    put_word(argv, args->key);
    if (args->queue_entry.len > 0) {
        put_word(argv, args->queue_entry);
        kind_put_number(argv, args->intent_ms);
    }
}

void rl_kind_argv(const struct rl_kind *kind, enum rl_command command, bool whole,
                  const struct rl_command_args *args, struct rl_argv *ret_argv)
{
    const struct rl_script *script = kind->script[command];
    ret_argv->words = ret_argv->numbers = 0;
    if (!script) {
        assert(command == RL_CMD_ACQUIRE);
        PUT(ret_argv, "SET");
        put_word(ret_argv, args->key);
        put_word(ret_argv, args->token);
        PUT(ret_argv, "NX");
        PUT(ret_argv, "PX");
        kind_put_number(ret_argv, args->ttl_ms);
        return;
    }
    if (whole) {
        PUT(ret_argv, "EVAL");
        kind_put(ret_argv, script->body, script->len);
    } else {
        PUT(ret_argv, "EVALSHA");
        kind_put(ret_argv, script->sha1, 40);
    }
    if (command == RL_CMD_MARKER) {
        put_marker_command(ret_argv, args);
    } else if (command == RL_CMD_INSPECT) {
        kind_put_number(ret_argv, args->set_size);
        for (unsigned i = 0; i < args->set_size; i++)
            put_word(ret_argv, args->set[i]);
    } else if (command == RL_CMD_BREAK) {
        PUT(ret_argv, "1");
        put_word(ret_argv, args->key);
    } else if (command == RL_CMD_OBSERVE) {
        put_observe(ret_argv, args);
    } else if (kind->is_fenced) {
        put_fenced(kind, command, args, ret_argv);
    } else {
        put_plain(kind, command, args, ret_argv);
    }
}

/* A script that fails may have written before the error (safety.md, rule 4). */
static bool is_from_inside_a_script(const struct rl_reply *reply)
{
    static const char mark[] = " script: ";
    for (size_t i = 0; i + sizeof(mark) - 1 <= reply->len; i++)
        if (memcmp(reply->text + i, mark, sizeof(mark) - 1) == 0)
            return true;
    return false;
}

/* A script gets WRONGTYPE before it writes: nothing was changed, and the key is taken
   (safety.md, rule 4). */
static bool read_error(enum rl_command command, const struct rl_reply *reply,
                       struct rl_answer *answer)
{
    answer->fault = rl_fault_of_error(reply->text, reply->len);
    if (answer->fault == RL_FAULT_WRONGTYPE)
        answer->vote = command == RL_CMD_BREAK ? RL_VOTE_ERROR : RL_VOTE_HELD;
    else
        answer->vote = is_from_inside_a_script(reply) ? RL_VOTE_UNKNOWN : RL_VOTE_ERROR;
    return true;
}

static bool is_time(int64_t time)
{
    return time >= 0 && time <= RL_NODE_TIME_MAX;
}

/*
 * {value, remaining milliseconds}; a fenced kind adds the node's time, a kind of sets the
 * number of the key. A release that could not update the queue entry adds a 0.
 */
static bool read_value(const struct rl_kind *kind, enum rl_command command,
                       const struct rl_reply *reply, struct rl_answer *answer)
{
    const struct rl_reply *item = reply->item;
    bool is_set = rl_kind_is_of_sets(kind);
    size_t usual = 2U + kind->is_fenced + is_set, at = usual - 1;
    answer->not_queued = command == RL_CMD_RELEASE && reply->items == usual + 1;
    if (reply->items != usual + answer->not_queued || item[0].type != RL_REPLY_STRING)
        return false;
    for (size_t i = 1; i < reply->items; i++)
        if (item[i].type != RL_REPLY_INTEGER)
            return false;
    if ((answer->not_queued && item[usual].integer != 0) ||
        (is_set && (item[at].integer < 1 || item[at].integer > RL_SET_MAX)))
        return false;
    answer->time = kind->is_fenced ? item[2].integer : 0;
    if (!is_time(answer->time))
        return false;
    answer->key = is_set ? (unsigned)item[at].integer - 1 : 0;
    int64_t pttl = item[1].integer;
    answer->vote = RL_VOTE_HELD;
    answer->value = (struct rl_word){item[0].text, item[0].len};
    answer->pttl = pttl < 0 ? -1 : pttl > INT32_MAX ? INT32_MAX : (int32_t)pttl;
    return true;
}

/* A number, or if it is larger INT64_MAX / 100, and the space behind it. */
static bool take_number(struct rl_word *text, int64_t *ret_number)
{
    size_t first = text->len > 0 && text->text[0] == '-', at = first;
    int64_t number = 0;
    for (; at < text->len && text->text[at] >= '0' && text->text[at] <= '9'; at++)
        number = rl_min(10 * number + (text->text[at] - '0'), INT64_MAX / 100);
    if (at == first || at == text->len || text->text[at] != ' ')
        return false;
    *text = (struct rl_word){text->text + at + 1, text->len - at - 1};
    *ret_number = first ? -number : number;
    return true;
}

static struct rl_word take_text(struct rl_word *text, int64_t len)
{
    struct rl_word taken = {text->text, (size_t)len};
    *text = (struct rl_word){text->text + len, text->len - (size_t)len};
    return taken;
}

/* The entry of the first key; see lua/inspect.lua. */
static bool read_inspection(const struct rl_reply *reply, struct rl_answer *answer)
{
    enum { VALUE, READERS, PTTL, DEPTH, WAITING, WAITED, FENCE, NUMBERS };
    struct rl_word rest = {reply->text, reply->len};
    int64_t number[NUMBERS];
    if (reply->type != RL_REPLY_STRING)
        return false;
    if (rest.len >= 2 && memcmp(rest.text, "- ", 2) == 0) {
        (void)take_text(&rest, 2);
        answer->vote = RL_VOTE_GONE;
        answer->rest = rest;
        return true;
    }
    for (unsigned i = 0; i < NUMBERS; i++)
        if (!take_number(&rest, &number[i]) || (i < PTTL && number[i] < 0))
            return false;
    if (number[VALUE] + number[READERS] > (int64_t)rest.len || number[FENCE] < 0)
        return false;
    answer->vote = RL_VOTE_HELD;
    answer->value = take_text(&rest, number[VALUE]);
    answer->readers = take_text(&rest, number[READERS]);
    answer->pttl = (int32_t)rl_clamp(number[PTTL], -1, INT32_MAX);
    answer->depth = (uint32_t)rl_clamp(number[DEPTH], 0, UINT32_MAX);
    answer->waiting = (uint32_t)rl_clamp(number[WAITING], 0, INT32_MAX);
    answer->waited = (uint32_t)rl_clamp(number[WAITED], 0, UINT32_MAX);
    answer->fence = number[FENCE];
    answer->rest = rest;
    return true;
}

/*
 * {code, value, remaining milliseconds, free slots, queued}; a fenced kind adds the node's
 * time and the fence.
 */
static bool read_slot_release(const struct rl_kind *kind, const struct rl_reply *reply,
                              struct rl_answer *answer)
{
    static const enum rl_vote votes[] = {RL_VOTE_GONE, RL_VOTE_GRANTED, RL_VOTE_GRANTED,
                                         RL_VOTE_HELD};
    const struct rl_reply *item = reply->item;
    if (reply->type != RL_REPLY_ARRAY || reply->items != 5U + 2 * kind->is_fenced)
        return false;
    for (size_t i = 0; i < reply->items; i++)
        if (item[i].type != (i == 1 || i == 3 ? RL_REPLY_STRING : RL_REPLY_INTEGER))
            return false;
    if (item[0].integer < 0 || item[0].integer > 3 || item[3].len > RL_SLOTS_MAX ||
        item[4].integer < 0 || item[4].integer > 1)
        return false;
    int64_t pttl = item[2].integer;
    answer->vote = votes[item[0].integer];
    answer->has_waiters = item[0].integer == 2;
    answer->free = (struct rl_word){item[3].text, item[3].len};
    answer->not_queued = item[4].integer == 0;
    if (answer->vote == RL_VOTE_HELD) {
        answer->value = (struct rl_word){item[1].text, item[1].len};
        answer->pttl = pttl < 0 ? -1 : pttl > INT32_MAX ? INT32_MAX : (int32_t)pttl;
    }
    if (kind->is_fenced) {
        if (!is_time(item[5].integer) || item[6].integer < 0)
            return false;
        answer->time = item[5].integer;
        answer->fence = item[6].integer;
    }
    return true;
}

/* Only OK is a grant: +PONG, for example, is the reply to another command (safety.md,
   rule 4). */
static bool read_set(const struct rl_reply *reply, struct rl_answer *answer)
{
    if (reply->type == RL_REPLY_NIL)
        answer->vote = RL_VOTE_HELD;
    else if (reply->type == RL_REPLY_STATUS && reply->len == 2 &&
             memcmp(reply->text, "OK", 2) == 0)
        answer->vote = RL_VOTE_GRANTED;
    else
        return false;
    return true;
}

/* RECREATED is no grant (safety.md, rule 5). */
static bool read_code(enum rl_command command, int64_t code, struct rl_answer *answer)
{
    static const enum rl_vote votes[] = {RL_VOTE_GONE, RL_VOTE_GRANTED, RL_VOTE_RECREATED};
    bool can_grant = command != RL_CMD_BREAK && command != RL_CMD_OBSERVE;
    bool has_code_2 = command == RL_CMD_EXTEND || command == RL_CMD_RELEASE;
    int64_t most = has_code_2 ? 2 : can_grant;
    if (code < 0 || code > most)
        return false;
    answer->has_waiters = command == RL_CMD_RELEASE && code == 2;
    answer->vote = answer->has_waiters ? RL_VOTE_GRANTED : votes[code];
    return true;
}

#define ANSWER_NUMBERS 4
#define ANSWER_DIGITS  18

/* Parses ANSWER_NUMBERS numbers with a space between them. */
static bool read_numbers(const struct rl_reply *reply, int64_t ret_number[ANSWER_NUMBERS])
{
    const char *at = reply->text, *end = reply->text + reply->len;
    for (unsigned i = 0; i < ANSWER_NUMBERS; i++) {
        const char *first = at;
        int64_t number = 0;
        for (; at < end && *at >= '0' && *at <= '9' && at - first < ANSWER_DIGITS; at++)
            number = 10 * number + (*at - '0');
        bool is_last = i == ANSWER_NUMBERS - 1;
        if (at == first || (is_last ? at != end : at == end || *at++ != ' '))
            return false;
        ret_number[i] = number;
    }
    return true;
}

/* "code seconds microseconds fence", by the node. An acquire has no code 0 (gone). */
static bool read_fenced(const struct rl_kind *kind, enum rl_command command,
                        const struct rl_reply *reply, struct rl_answer *answer)
{
    int64_t number[ANSWER_NUMBERS];
    if (reply->type == RL_REPLY_ARRAY && reply->items >= 3)
        return read_value(kind, command, reply, answer);
    if (reply->type != RL_REPLY_STRING || !read_numbers(reply, number) ||
        number[1] >= RL_NODE_TIME_MAX / RL_SECOND || number[2] >= RL_SECOND)
        return false;
    answer->time = number[1] * RL_SECOND + number[2];
    answer->fence = number[3];
    return read_code(command, number[0], answer) &&
           (command != RL_CMD_ACQUIRE || answer->vote == RL_VOTE_GRANTED);
}

/* {marker, the node's time} */
static bool read_marker(const struct rl_reply *reply, struct rl_answer *answer)
{
    if (reply->type != RL_REPLY_ARRAY || reply->items != 2 ||
        reply->item[0].type != RL_REPLY_STRING || reply->item[1].type != RL_REPLY_INTEGER ||
        !is_time(reply->item[1].integer))
        return false;
    answer->vote = RL_VOTE_GRANTED;
    answer->value = (struct rl_word){reply->item[0].text, reply->item[0].len};
    answer->time = reply->item[1].integer;
    return true;
}

static bool read_reply(const struct rl_kind *kind, enum rl_command command,
                       const struct rl_reply *reply, struct rl_answer *ret_answer)
{
    if (reply->type == RL_REPLY_ERROR)
        return read_error(command, reply, ret_answer);
    if (command == RL_CMD_MARKER)
        return read_marker(reply, ret_answer);
    if (command == RL_CMD_INSPECT)
        return read_inspection(reply, ret_answer);
    if (command == RL_CMD_BREAK || command == RL_CMD_OBSERVE)
        kind = rl_kind_that_is(false, REDLOCK_KIND_EXCLUSIVE);
    if (kind->type == REDLOCK_KIND_SLOT && command == RL_CMD_RELEASE)
        return read_slot_release(kind, reply, ret_answer);
    if (kind->is_fenced)
        return read_fenced(kind, command, reply, ret_answer);
    if (!kind->script[command])
        return read_set(reply, ret_answer);
    if (reply->type == RL_REPLY_INTEGER)
        return read_code(command, reply->integer, ret_answer) &&
               (command != RL_CMD_ACQUIRE || ret_answer->vote == RL_VOTE_GRANTED);
    return reply->type == RL_REPLY_ARRAY && reply->items >= 2 &&
           read_value(kind, command, reply, ret_answer);
}

/* (safety.md, rule 4) */
bool rl_kind_read(const struct rl_kind *kind, enum rl_command command,
                  const struct rl_reply *reply, struct rl_answer *ret_answer)
{
    static const struct rl_answer nothing = {.pttl = -1};
    *ret_answer = nothing;
    if (read_reply(kind, command, reply, ret_answer))
        return true;
    *ret_answer = nothing; /* drop what was parsed, for example the time */
    return false;
}

bool rl_kind_read_rest(struct rl_answer *answer)
{
    const struct rl_reply rest = {
        .type = RL_REPLY_STRING, .text = answer->rest.text, .len = answer->rest.len};
    *answer = (struct rl_answer){.pttl = -1};
    return read_inspection(&rest, answer);
}
