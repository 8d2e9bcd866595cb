#include "kind.h"

#include <assert.h>
#include <string.h>

#include "scripts.h"

/* The plain lock acquires by SET NX PX, as every other Redlock client does. */
static const struct rl_kind kinds[] = {
    {
        .mark = "p",
        .script =
            {
                [RL_EXTEND] = &rl_script_plain_extend,
                [RL_RELEASE] = &rl_script_plain_release,
                [RL_INSPECT] = &rl_script_inspect,
                [RL_BREAK] = &rl_script_break,
            },
    },
    {
        .mark = "f:",
        .is_fenced = true,
        .script =
            {
                [RL_ACQUIRE] = &rl_script_fenced_acquire,
                [RL_SETTLE] = &rl_script_fenced_settle,
                [RL_EXTEND] = &rl_script_fenced_extend,
                [RL_RELEASE] = &rl_script_fenced_release,
                [RL_INSPECT] = &rl_script_inspect,
                [RL_BREAK] = &rl_script_break,
                [RL_MARK] = &rl_script_fenced_marker,
            },
    },
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

const struct rl_kind *rl_kind_of(struct rl_word token)
{
    for (size_t i = 0; i < KINDS; i++) {
        size_t len = strlen(kinds[i].mark);
        if (token.len >= len && memcmp(token.text, kinds[i].mark, len) == 0)
            return &kinds[i];
    }
    return &kinds[0];
}

const struct rl_kind *rl_kind_that_is(bool fenced)
{
    const struct rl_kind *kind = kinds;
    while (kind->is_fenced != fenced)
        kind++;
    return kind;
}

uint32_t rl_kind_script_bit(const struct rl_kind *kind, enum rl_text text)
{
    size_t row = (size_t)(kind - kinds);
    _Static_assert(KINDS * RL_TEXTS <= 32, "a bit for each");
    return kind->script[text] ? UINT32_C(1) << (row * RL_TEXTS + text) : 0;
}

const struct rl_kind *rl_kinds(size_t *ret_count)
{
    *ret_count = KINDS;
    return kinds;
}

static struct rl_word digits(char buffer[RL_DIGITS], int64_t value)
{
    assert(value >= 0);
    char *at = buffer + RL_DIGITS;
    do {
        *--at = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    return (struct rl_word){at, (size_t)(buffer + RL_DIGITS - at)};
}

static void say(struct rl_command *command, const char *text, size_t len)
{
    assert(command->words < RL_WORDS_MAX);
    command->word[command->words++] = (struct rl_word){text, len};
}

#define SAY(command, literal) say(command, literal, sizeof(literal) - 1)

static void say_word(struct rl_command *command, struct rl_word word)
{
    say(command, word.text, word.len);
}

/* Whoever has given up for now takes a place in the queue, or leaves it. */
static void say_place(struct rl_command *command, const struct rl_subject *subject)
{
    if (subject->place.len == 0)
        return;
    say_word(command, subject->place);
    if (subject->waited < 0)
        SAY(command, "");
    else
        say_word(command, digits(command->digits[4], subject->waited));
}

/* What guard.lua begins with reads most of them; what a text does not read is not said. */
static void say_fenced(struct rl_command *command, enum rl_text text,
                       const struct rl_subject *subject)
{
    SAY(command, "3");
    say_word(command, subject->key);
    say_word(command, subject->fence_key);
    say_word(command, subject->marker_key);
    say_word(command, subject->token);
    say_word(command, digits(command->digits[0], subject->fence));
    say_word(command, digits(command->digits[1], subject->max_ttl_ms));
    if (text == RL_ACQUIRE || text == RL_EXTEND) {
        say_word(command, digits(command->digits[2], subject->ttl_ms));
        say_word(command, digits(command->digits[3], subject->said));
    }
    if (text == RL_ACQUIRE)
        say_word(command, digits(command->digits[4], subject->fences));
    else if (text == RL_EXTEND)
        say(command, subject->plant ? "1" : "0", 1);
    else if (text == RL_RELEASE)
        say_place(command, subject);
    say_word(command, subject->nonce); /* the last one: it differs from node to node */
}

static void say_mark(struct rl_command *command, const struct rl_subject *subject)
{
    SAY(command, "1");
    say_word(command, subject->marker_key);
    if (!subject->write)
        return;
    say_word(command, subject->expected);
    say_word(command, subject->wanted);
}

static void say_plain(struct rl_command *command, enum rl_text text,
                      const struct rl_subject *subject)
{
    SAY(command, "1");
    say_word(command, subject->key);
    if (text == RL_INSPECT || text == RL_BREAK)
        return;
    say_word(command, subject->token);
    if (text == RL_RELEASE) {
        say_place(command, subject);
        return;
    }
    say_word(command, digits(command->digits[0], subject->ttl_ms));
    say(command, subject->plant ? "1" : "0", 1);
}

void rl_kind_command(const struct rl_kind *kind, enum rl_text text, bool whole,
                     const struct rl_subject *subject, struct rl_command *ret_command)
{
    const struct rl_script *script = kind->script[text];
    ret_command->words = 0;
    if (!script) {
        assert(text == RL_ACQUIRE);
        SAY(ret_command, "SET");
        say_word(ret_command, subject->key);
        say_word(ret_command, subject->token);
        SAY(ret_command, "NX");
        SAY(ret_command, "PX");
        say_word(ret_command, digits(ret_command->digits[0], subject->ttl_ms));
        return;
    }
    if (whole) {
        SAY(ret_command, "EVAL");
        say(ret_command, script->body, script->len);
    } else {
        SAY(ret_command, "EVALSHA");
        say(ret_command, script->sha1, 40);
    }
    if (text == RL_MARK)
        say_mark(ret_command, subject);
    else if (kind->is_fenced && text != RL_INSPECT && text != RL_BREAK)
        say_fenced(ret_command, text, subject);
    else
        say_plain(ret_command, text, subject);
}

/* An error inside a script may have come after its first write. */
static bool is_from_inside_a_script(const struct rl_reply *reply)
{
    static const char mark[] = " script: ";
    for (size_t i = 0; i + sizeof(mark) - 1 <= reply->len; i++)
        if (memcmp(reply->text + i, mark, sizeof(mark) - 1) == 0)
            return true;
    return false;
}

/* WRONGTYPE comes before a script has written: nothing was done, and the key is taken. */
static bool read_error(enum rl_text text, const struct rl_reply *reply,
                       struct rl_answer *answer)
{
    answer->fault = rl_fault_of_error(reply->text, reply->len);
    if (answer->fault == RL_FAULT_WRONGTYPE)
        answer->vote = text == RL_BREAK ? RL_VOTE_ERROR : RL_VOTE_HELD;
    else
        answer->vote = is_from_inside_a_script(reply) ? RL_VOTE_UNKNOWN : RL_VOTE_ERROR;
    return true;
}

/*
 * {value, remaining milliseconds}, and of a fenced kind the node's time. A release that was
 * to take a place in the queue, and could not, adds a 0.
 */
static bool read_value(enum rl_text text, const struct rl_reply *reply, bool is_fenced,
                       struct rl_answer *answer)
{
    size_t usual = is_fenced ? 3 : 2;
    answer->unplaced = text == RL_RELEASE && reply->items == usual + 1;
    if (reply->items != usual + answer->unplaced || reply->item[0].type != RL_REPLY_STRING)
        return false;
    for (size_t i = 1; i < reply->items; i++)
        if (reply->item[i].type != RL_REPLY_INTEGER)
            return false;
    if (answer->unplaced && reply->item[usual].integer != 0)
        return false;
    answer->time = is_fenced ? reply->item[2].integer : 0;
    int64_t pttl = reply->item[1].integer;
    answer->vote = RL_VOTE_HELD;
    answer->value = (struct rl_word){reply->item[0].text, reply->item[0].len};
    answer->pttl = pttl < 0 ? -1 : pttl > INT32_MAX ? INT32_MAX : (int32_t)pttl;
    return true;
}

/* OK and nothing else grants: +PONG is the answer to another question. */
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

static bool read_code(enum rl_text text, int64_t code, struct rl_answer *answer)
{
    static const enum rl_vote votes[] = {RL_VOTE_GONE, RL_VOTE_GRANTED, RL_VOTE_PLANTED};
    bool can_grant = text != RL_INSPECT && text != RL_BREAK;
    int64_t most = text == RL_EXTEND || text == RL_RELEASE ? 2 : can_grant ? 1 : 0;
    if (code < 0 || code > most)
        return false;
    answer->awaited = text == RL_RELEASE && code == 2;
    answer->vote = answer->awaited ? RL_VOTE_GRANTED : votes[code];
    return true;
}

#define ANSWER_NUMBERS 4
#define ANSWER_DIGITS  18

/* So many, with a space between them. */
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

/* "code seconds microseconds fence", as the node has them. An acquire is never "gone". */
static bool read_fenced(enum rl_text text, const struct rl_reply *reply,
                        struct rl_answer *answer)
{
    int64_t number[ANSWER_NUMBERS];
    if (reply->type == RL_REPLY_ARRAY && reply->items >= 3)
        return read_value(text, reply, true, answer);
    if (reply->type != RL_REPLY_STRING || !read_numbers(reply, number) ||
        number[1] >= RL_NEVER / RL_SECOND || number[2] >= RL_SECOND)
        return false;
    answer->time = number[1] * RL_SECOND + number[2];
    answer->fence = number[3];
    return read_code(text, number[0], answer) &&
           (text != RL_ACQUIRE || answer->vote == RL_VOTE_GRANTED);
}

/* {marker, the node's time} */
static bool read_mark(const struct rl_reply *reply, struct rl_answer *answer)
{
    if (reply->type != RL_REPLY_ARRAY || reply->items != 2 ||
        reply->item[0].type != RL_REPLY_STRING || reply->item[1].type != RL_REPLY_INTEGER ||
        reply->item[1].integer < 0)
        return false;
    answer->vote = RL_VOTE_GRANTED;
    answer->value = (struct rl_word){reply->item[0].text, reply->item[0].len};
    answer->time = reply->item[1].integer;
    return true;
}

static bool read_reply(const struct rl_kind *kind, enum rl_text text,
                       const struct rl_reply *reply, struct rl_answer *ret_answer)
{
    bool of_operators = text == RL_INSPECT || text == RL_BREAK;
    if (reply->type == RL_REPLY_ERROR)
        return read_error(text, reply, ret_answer);
    if (text == RL_MARK)
        return read_mark(reply, ret_answer);
    if (kind->is_fenced && !of_operators)
        return read_fenced(text, reply, ret_answer);
    if (text == RL_ACQUIRE)
        return read_set(reply, ret_answer);
    if (reply->type == RL_REPLY_INTEGER)
        return read_code(text, reply->integer, ret_answer);
    return reply->type == RL_REPLY_ARRAY && reply->items >= 2 &&
           read_value(text, reply, false, ret_answer);
}

bool rl_kind_read(const struct rl_kind *kind, enum rl_text text,
                  const struct rl_reply *reply, struct rl_answer *ret_answer)
{
    static const struct rl_answer nothing = {.pttl = -1};
    *ret_answer = nothing;
    if (read_reply(kind, text, reply, ret_answer))
        return true;
    *ret_answer = nothing; /* not the half that could be read: its time, for instance */
    return false;
}
