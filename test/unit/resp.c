/* RESP replies, however their bytes are split. */
#include "net/resp.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TOLD_MAX 512

/* Usual ones, unusual ones, and some that only begin like usual ones. */
static const char stream[] =
    "+OK\r\n"
    ":1\r\n"
    ":12\r\n"
    "$-1\r\n"
    "+OKAY\r\n"
    ":1\r\n"
    "-ERR no\r\n"
    "$5\r\nhello\r\n"
    "+OK\r\n"
    "*2\r\n$4\r\n:1\r\n\r\n:7\r\n"
    "$5\r\n+OK\r\n\r\n"
    ":0\r\n"
    "*3\r\n:1\r\n$-1\r\n+OK\r\n"
    "*3\r\n:1\r\n:-1\r\n:9223372036854775807\r\n"
    "$0\r\n\r\n"
    "$36\r\n1 1800000000 123456 1800000000000000\r\n"
    "$1\r\n\r\r\n"
    "$100\r\n"
    "0123456789012345678901234567890123456789012345678901234567890123456789"
    "012345678901234567890123456789\r\n"
    "$-1\r\n"
    "+OK\r\n";

static const char reported[] =
    "+OK :1 :12 nil +OKAY :1 -ERR no $hello +OK "
    "[$:1\r\n :7 ] $+OK\r\n :0 [:1 nil +OK ] [:1 :-1 :9223372036854775807 ] "
    "$ $1 1800000000 123456 1800000000000000 $\r "
    "$0123456789012345678901234567890123456789012345678901234567890123456789"
    "012345678901234567890123456789 nil +OK ";

static size_t describe(const struct rl_reply *reply, char *text, size_t room)
{
    int len = 0;
    switch (reply->type) {
    case RL_REPLY_NIL: len = snprintf(text, room, "nil "); break;
    case RL_REPLY_INTEGER:
        len = snprintf(text, room, ":%" PRId64 " ", reply->integer);
        break;
    case RL_REPLY_STATUS:
    case RL_REPLY_ERROR:
    case RL_REPLY_STRING:
        len = snprintf(text, room, "%c%.*s ",
                       reply->type == RL_REPLY_STATUS  ? '+'
                       : reply->type == RL_REPLY_ERROR ? '-'
                                                       : '$',
                       (int)reply->len, reply->text);
        break;
    case RL_REPLY_ARRAY:
        len = snprintf(text, room, "[");
        for (size_t i = 0; i < reply->items; i++)
            len += (int)describe(&reply->item[i], text + len, room - (size_t)len);
        len += snprintf(text + len, room - (size_t)len, "] ");
        break;
    }
    return (size_t)len;
}

/* Everything that can be parsed from these bytes, which are freed afterwards. */
static void feed(struct rl_resp *resp, const char *bytes, size_t len, char *text)
{
    char piece[sizeof(stream)];
    const struct rl_reply *reply;
    memcpy(piece, bytes, len);
    rl_resp_feed(resp, piece, len);
    enum rl_resp_result result;
    while ((result = rl_resp_next(resp, &reply)) == RL_RESP_REPLY)
        describe(reply, text + strlen(text), TOLD_MAX - strlen(text));
    cr_assert(result == RL_RESP_MORE);
    memset(piece, '?', len);
}

Test(resp, parses_the_same_wherever_it_is_cut_into_three)
{
    size_t len = sizeof(stream) - 1;
    for (size_t i = 0; i <= len; i++)
        for (size_t j = i; j <= len; j++) {
            char text[TOLD_MAX] = "";
            struct rl_resp *resp = rl_resp_new();
            feed(resp, stream, i, text);
            feed(resp, stream + i, j - i, text);
            feed(resp, stream + j, len - j, text);
            rl_resp_free(resp);
            cr_assert_str_eq(text, reported, "cut at %zu and %zu", i, j);
        }
}

Test(resp, parses_the_same_byte_by_byte)
{
    char text[TOLD_MAX] = "";
    struct rl_resp *resp = rl_resp_new();
    for (size_t i = 0; i < sizeof(stream) - 1; i++)
        feed(resp, stream + i, 1, text);
    rl_resp_free(resp);
    cr_assert_str_eq(text, reported);
}

static enum rl_resp_result parse_one(const char *bytes)
{
    const struct rl_reply *reply;
    struct rl_resp *resp = rl_resp_new();
    rl_resp_feed(resp, bytes, strlen(bytes));
    enum rl_resp_result result = rl_resp_next(resp, &reply);
    rl_resp_free(resp);
    return result;
}

Test(resp, an_invalid_reply_is_broken)
{
    cr_assert(parse_one("hello\r\n") == RL_RESP_BROKEN);
    cr_assert(parse_one(":one\r\n") == RL_RESP_BROKEN);
    cr_assert(parse_one("%1\r\n+a\r\n+b\r\n") == RL_RESP_BROKEN);
}

Test(resp, a_reply_has_an_end)
{
    static char bytes[RL_RESP_MAX];
    const struct rl_reply *reply;
    struct rl_resp *resp = rl_resp_new();
    enum rl_resp_result result = RL_RESP_MORE;
    memset(bytes, 'a', sizeof(bytes));
    bytes[0] = '+';
    size_t fed = 0;
    for (; result == RL_RESP_MORE && fed < 4 * sizeof(bytes); fed += sizeof(bytes)) {
        rl_resp_feed(resp, bytes, sizeof(bytes));
        result = rl_resp_next(resp, &reply);
    }
    rl_resp_free(resp);
    cr_assert(result == RL_RESP_BROKEN);
}

/* A string of `len` bytes, fed in pieces as a connection reads them. */
static enum rl_resp_result feed_string(struct rl_resp *resp, size_t len,
                                       const struct rl_reply **ret_reply)
{
    static char bytes[RL_RESP_MAX];
    char header[32];
    memset(bytes, 'a', sizeof(bytes));
    rl_resp_feed(resp, header, (size_t)sprintf(header, "$%zu\r\n", len));
    enum rl_resp_result result = rl_resp_next(resp, ret_reply);
    for (size_t piece; result == RL_RESP_MORE && len > 0; len -= piece) {
        piece = len < 16384 ? len : 16384;
        rl_resp_feed(resp, bytes, piece);
        result = rl_resp_next(resp, ret_reply);
    }
    if (result == RL_RESP_MORE) {
        rl_resp_feed(resp, "\r\n", 2);
        result = rl_resp_next(resp, ret_reply);
    }
    return result;
}

Test(resp, a_long_string_is_kept_whole_where_that_is_wanted)
{
    static const size_t lens[] = {
        200,         RL_RESP_TEXT - 1, RL_RESP_TEXT,          RL_RESP_TEXT + 1,
        RL_RESP_MAX, 40 * RL_RESP_MAX, RL_RESP_WHOLE - 32768, RL_RESP_TEXT,
        150};
    struct rl_resp *resp = rl_resp_new();
    const struct rl_reply *reply;
    cr_assert(feed_string(resp, RL_RESP_TEXT + 1, &reply) == RL_RESP_REPLY);
    cr_assert_eq(rl_resp_whole(resp, reply).len, RL_RESP_TEXT);
    rl_resp_keep_whole(resp);
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        cr_assert(feed_string(resp, lens[i], &reply) == RL_RESP_REPLY, "%zu", lens[i]);
        cr_assert_eq(reply->len, lens[i] < RL_RESP_TEXT ? lens[i] : RL_RESP_TEXT);
        struct rl_word whole = rl_resp_whole(resp, reply);
        cr_assert_eq(whole.len, lens[i]);
        cr_assert(whole.text[0] == 'a' && whole.text[whole.len - 1] == 'a');
    }
    cr_assert(feed_string(resp, 2 * RL_RESP_WHOLE, &reply) == RL_RESP_BROKEN);
    rl_resp_free(resp);
}
