/* How replies become votes, whatever a server sends. */
#include "core/fence.h"
#include "core/kind.h"

#include <stdio.h>
#include <string.h>

#include "lease_fixture.h"

#define TEXT(literal) .text = (literal), .len = sizeof(literal) - 1

static struct rl_answer answer;

static bool reads(enum rl_command text, struct rl_reply reply)
{
    memset(&answer, 0xa5, sizeof(answer));
    return rl_kind_read(rl_kind_that_is(false, REDLOCK_KIND_EXCLUSIVE), text, &reply,
                        &answer);
}

static struct rl_reply number(int64_t value)
{
    return (struct rl_reply){.type = RL_REPLY_INTEGER, .integer = value};
}

static struct rl_reply error(const char *text)
{
    return (struct rl_reply){.type = RL_REPLY_ERROR, .text = text, .len = strlen(text)};
}

static const enum rl_command scripted[] = {RL_CMD_EXTEND, RL_CMD_RELEASE, RL_CMD_BREAK};
#define SCRIPTED (sizeof(scripted) / sizeof(scripted[0]))

Test(reply, acquire)
{
    cr_assert(
        reads(RL_CMD_ACQUIRE, (struct rl_reply){.type = RL_REPLY_STATUS, TEXT("OK")}));
    cr_assert_eq(answer.vote, RL_VOTE_GRANTED);
    cr_assert_eq(answer.fault, RL_FAULT_NONE);
    cr_assert_eq(answer.pttl, -1);
    cr_assert(reads(RL_CMD_ACQUIRE, (struct rl_reply){.type = RL_REPLY_NIL}));
    cr_assert_eq(answer.vote, RL_VOTE_HELD);
    cr_assert_eq(answer.value.len, 0, "the holder is not requested");
    cr_assert_eq(answer.pttl, -1);
}

/* A reply that belongs to another command must not count: it would grant a lock. */
Test(reply, acquire_is_granted_by_ok_and_by_nothing_else)
{
    cr_assert_not(
        reads(RL_CMD_ACQUIRE, (struct rl_reply){.type = RL_REPLY_STATUS, TEXT("")}));
    cr_assert_not(
        reads(RL_CMD_ACQUIRE, (struct rl_reply){.type = RL_REPLY_STATUS, TEXT("QUEUED")}));
    cr_assert_not(
        reads(RL_CMD_ACQUIRE, (struct rl_reply){.type = RL_REPLY_STATUS, TEXT("PONG")}));
    cr_assert_not(
        reads(RL_CMD_ACQUIRE, (struct rl_reply){.type = RL_REPLY_STATUS, TEXT("OKAY")}));
    cr_assert_not(
        reads(RL_CMD_ACQUIRE, (struct rl_reply){.type = RL_REPLY_STRING, TEXT("OK")}));
    cr_assert_not(reads(RL_CMD_ACQUIRE, (struct rl_reply){.type = RL_REPLY_ARRAY}));
    cr_assert_not(reads(RL_CMD_ACQUIRE, number(1)));
}

/* The votes of the numbers -1 to 3; UNASKED stands for: rejected. */
static void check_numbers(enum rl_command text, const enum rl_vote *expected)
{
    for (int value = -1; value <= 3; value++) {
        enum rl_vote vote = expected[value + 1];
        cr_assert_eq(reads(text, number(value)), vote != RL_VOTE_UNASKED, "text %d: %d",
                     text, value);
        if (vote != RL_VOTE_UNASKED)
            cr_assert_eq(answer.vote, vote, "text %d: %d", text, value);
    }
    cr_assert_not(reads(text, number(INT64_MAX)));
    cr_assert_not(reads(text, number(INT64_MIN)));
    cr_assert_not(reads(text, number(INT64_C(1) << 32)),
                  "nor a number that is 0 in 32 bits");
}

Test(reply, numbers)
{
    static const enum rl_vote extend[] = {RL_VOTE_UNASKED, RL_VOTE_GONE, RL_VOTE_GRANTED,
                                          RL_VOTE_RECREATED, RL_VOTE_UNASKED};
    static const enum rl_vote release[] = {RL_VOTE_UNASKED, RL_VOTE_GONE, RL_VOTE_GRANTED,
                                           RL_VOTE_GRANTED, RL_VOTE_UNASKED};
    static const enum rl_vote look[] = {RL_VOTE_UNASKED, RL_VOTE_GONE, RL_VOTE_UNASKED,
                                        RL_VOTE_UNASKED, RL_VOTE_UNASKED};
    check_numbers(RL_CMD_EXTEND, extend);
    check_numbers(RL_CMD_RELEASE, release);
    check_numbers(RL_CMD_BREAK, look);
}

/*
 * In a release 2 means that it was released and another client waits; in an extension it
 * does not.
 */
Test(reply, release_reports_whether_another_waits)
{
    for (int value = 0; value <= 2; value++) {
        cr_assert(reads(RL_CMD_RELEASE, number(value)));
        cr_assert_eq(answer.has_waiters, value == 2);
        cr_assert(reads(RL_CMD_EXTEND, number(value)));
        cr_assert_not(answer.has_waiters);
    }
}

static struct rl_reply pair(const struct rl_reply *item, size_t items)
{
    return (struct rl_reply){.type = RL_REPLY_ARRAY, .item = item, .items = items};
}

Test(reply, another_holders_value_and_its_remaining_time)
{
    struct rl_reply item[2] = {{.type = RL_REPLY_STRING, TEXT("another")}, number(1234)};
    for (size_t i = 0; i < SCRIPTED; i++) {
        cr_assert(reads(scripted[i], pair(item, 2)));
        cr_assert_eq(answer.vote, RL_VOTE_HELD);
        cr_assert_eq(answer.pttl, 1234);
        cr_assert_eq(answer.value.len, 7);
        cr_assert_eq(answer.value.text, item[0].text);
    }
}

static bool finds(const char *text)
{
    struct rl_reply reply = {.type = RL_REPLY_STRING, .text = text, .len = strlen(text)};
    return reads(RL_CMD_INSPECT, reply);
}

/* A shared lock, a free key, and a Java owner. */
Test(reply, what_an_inspection_finds)
{
    cr_assert(finds("1 5 1234 0 7 90000 1800000000000000 xsa sb- 1 0 -1 3 0 0 0 y"));
    cr_assert_eq(answer.vote, RL_VOTE_HELD);
    cr_assert_eq(answer.value.len, 1);
    cr_assert_eq(*answer.value.text, 'x');
    cr_assert_eq(answer.pttl, 1234);
    cr_assert_eq(answer.waiting, 7);
    cr_assert_eq(answer.waited, 90000);
    cr_assert_eq(answer.fence, 1800000000000000);
    cr_assert_eq(answer.readers.len, 5);
    cr_assert(memcmp(answer.readers.text, "sa sb", 5) == 0);
    cr_assert(finds(answer.rest.text));
    cr_assert_eq(answer.vote, RL_VOTE_GONE);
    cr_assert(finds(answer.rest.text));
    cr_assert_eq(answer.vote, RL_VOTE_HELD);
    cr_assert_eq(answer.pttl, -1);
    cr_assert_eq(answer.depth, 3);
    cr_assert_eq(answer.rest.len, 0);
    cr_assert(finds("0 0 9999999999 0 0 -5 0 "),
              "an empty value, and a clock that went back");
    cr_assert_eq(answer.pttl, INT32_MAX);
    cr_assert_eq(answer.waited, 0);
    cr_assert_eq(answer.value.len, 0);
    cr_assert(finds("0 0 9223372036854775807 0 0 0 0 "));
    cr_assert_eq(answer.pttl, INT32_MAX);
}

Test(reply, a_malformed_inspection_is_rejected)
{
    static const char *const texts[] = {
        "",
        "-",
        "-1 ",
        "x",
        "1 0 1 0 0 0 0",
        "1 0 1 0 0 0 0 ",
        "1 0 1 0 0 0 x",
        "0 2 1 0 0 0 0 x",
        "-1 2 1 0 0 0 0 xx",
        "2 -1 1 0 0 0 0 xx",
        "1 0 1 0 0 0 -1 x",
        "1 0  0 0 0 0 x",
        "1 0 - 0 0 0 0 x",
        "1 0 1.5 0 0 0 0 x",
        "999999999999999999 0 1 0 0 0 0 x",
        "9999999999999999999 0 1 0 0 0 0 x",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        cr_assert_not(finds(texts[i]), "%s", texts[i]);
    cr_assert_not(reads(RL_CMD_INSPECT, number(0)));
    cr_assert_not(reads(RL_CMD_INSPECT, (struct rl_reply){.type = RL_REPLY_NIL}));
}

/* A second number 0: a release without room for the queue entry, and nothing else. */
Test(reply, whether_the_queue_entry_was_written)
{
    struct rl_reply item[4] = {
        {.type = RL_REPLY_STRING, TEXT("another")}, number(1234), number(0), number(0)};
    for (size_t i = 0; i < SCRIPTED; i++) {
        cr_assert(reads(scripted[i], pair(item, 2)));
        cr_assert_not(answer.not_queued);
        cr_assert_eq(reads(scripted[i], pair(item, 3)), scripted[i] == RL_CMD_RELEASE);
        cr_assert_eq(answer.not_queued, scripted[i] == RL_CMD_RELEASE);
        cr_assert_not(reads(scripted[i], pair(item, 4)));
    }
    cr_assert(reads(RL_CMD_RELEASE, pair(item, 3)));
    cr_assert_eq(answer.vote, RL_VOTE_HELD);
    cr_assert_eq(answer.pttl, 1234);
    cr_assert_eq(answer.time, 0);
}

Test(reply, the_remaining_time_is_unknown_or_capped)
{
    static const struct {
        int64_t pttl;
        int32_t read;
    } rows[] = {{-1, -1},
                {-2, -1},
                {INT64_MIN, -1},
                {0, 0},
                {INT32_MAX, INT32_MAX},
                {INT64_C(1) << 31, INT32_MAX},
                {INT64_MAX, INT32_MAX}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rl_reply item[2] = {{.type = RL_REPLY_STRING, TEXT("x")},
                                   number(rows[i].pttl)};
        cr_assert(reads(RL_CMD_BREAK, pair(item, 2)));
        cr_assert_eq(answer.pttl, rows[i].read, "row %zu", i);
    }
}

Test(reply, a_malformed_reply_is_rejected)
{
    struct rl_reply text = {.type = RL_REPLY_STRING, TEXT("x")};
    struct rl_reply good[3] = {text, number(1), number(1)};
    struct rl_reply swapped[2] = {number(1), text};
    struct rl_reply texts[2] = {text, text};
    struct rl_reply nil[2] = {{.type = RL_REPLY_NIL}, number(1)};
    for (size_t i = 0; i < SCRIPTED; i++) {
        cr_assert_not(reads(scripted[i], pair(NULL, 0)));
        cr_assert_not(reads(scripted[i], pair(good, 1)));
        cr_assert_not(reads(scripted[i], pair(good, 3)));
        cr_assert_not(reads(scripted[i], pair(swapped, 2)));
        cr_assert_not(reads(scripted[i], pair(texts, 2)));
        cr_assert_not(reads(scripted[i], pair(nil, 2)));
        cr_assert_not(reads(scripted[i], text));
        cr_assert_not(
            reads(scripted[i],
                  (struct rl_reply){.type = RL_REPLY_STATUS, .item = good, .items = 2}));
        cr_assert_not(reads(scripted[i], (struct rl_reply){.type = RL_REPLY_NIL}));
        cr_assert_not(
            reads(scripted[i], (struct rl_reply){.type = RL_REPLY_STATUS, TEXT("OK")}));
    }
}

Test(reply, an_error_is_a_refusal_of_any_text)
{
    for (int text = 0; text < RL_COMMANDS; text++) {
        cr_assert(reads((enum rl_command)text,
                        error("OOM command not allowed when used memory > 'maxmemory'.")));
        cr_assert_eq(answer.vote, RL_VOTE_ERROR);
        cr_assert_eq(answer.fault, RL_FAULT_OOM);
        cr_assert_eq(answer.pttl, -1);
    }
    cr_assert(reads(RL_CMD_EXTEND, error("NOSCRIPT No matching script. Please use EVAL.")));
    cr_assert_eq(answer.vote, RL_VOTE_ERROR);
    cr_assert_eq(answer.fault, RL_FAULT_NOSCRIPT);
    cr_assert(
        reads(RL_CMD_EXTEND, error("BUSY Redis is busy running a script. You can only "
                                   "call SCRIPT KILL or SHUTDOWN NOSAVE.")));
    cr_assert_eq(answer.vote, RL_VOTE_ERROR, "it did not begin");
    cr_assert(reads(RL_CMD_RELEASE, error("")));
    cr_assert_eq(answer.fault, RL_FAULT_ERR);
}

/* The error may have come after the script's first write. */
Test(reply, an_error_inside_a_script_is_unknown)
{
    cr_assert(
        reads(RL_CMD_EXTEND, error("ERR user_script:3: oops script: 6b1bf486c81ceb7edf3c"
                                   "093f4de16f9f49a0a2ce, on @user_script:3.")));
    cr_assert_eq(answer.vote, RL_VOTE_UNKNOWN);
    cr_assert(
        reads(RL_CMD_EXTEND, error("OOM command not allowed when used memory > "
                                   "'maxmemory'. script: 6b1bf4, on @user_script:7.")));
    cr_assert_eq(answer.vote, RL_VOTE_UNKNOWN);
    cr_assert_eq(answer.fault, RL_FAULT_OOM);
    cr_assert(reads(RL_CMD_EXTEND, error("ERR x script: ")));
    cr_assert_eq(answer.vote, RL_VOTE_UNKNOWN, "to the very end");
    cr_assert(reads(RL_CMD_EXTEND, error("ERR x script:")));
    cr_assert_eq(answer.vote, RL_VOTE_ERROR);
    cr_assert(reads(RL_CMD_EXTEND, error("script: ")));
    cr_assert_eq(answer.vote, RL_VOTE_ERROR);
}

Test(faults, are_named_by_the_first_word_of_the_error)
{
#define X(fault, name, prefix, text)                                                       \
    {                                                                                      \
        const char *word = prefix;                                                         \
        cr_assert_str_eq(rl_fault_name(RL_FAULT_##fault), name);                           \
        cr_assert_str_eq(rl_fault_text(RL_FAULT_##fault), text);                           \
        if (word) {                                                                        \
            char longer[64];                                                               \
            snprintf(longer, sizeof(longer), "%s and more", word);                         \
            cr_assert_eq(rl_fault_of_error(word, strlen(word)), RL_FAULT_##fault);         \
            cr_assert_eq(rl_fault_of_error(longer, strlen(longer)), RL_FAULT_##fault);     \
            snprintf(longer, sizeof(longer), "%sX more", word);                            \
            cr_assert_eq(rl_fault_of_error(longer, strlen(longer)), RL_FAULT_ERR);         \
            cr_assert_eq(rl_fault_of_error(word, strlen(word) - 1), RL_FAULT_ERR);         \
        }                                                                                  \
    }
    REDLOCK_FAULTS(X)
#undef X
    cr_assert_eq(rl_fault_of_error("oom in lower case", 17), RL_FAULT_ERR);
    static const char *const denials[] = {
        "ERR The user executing the script can't run this command or subcommand script: 7",
        "ERR ACL failure in script: User app has no permissions to run the 'set' command"};
    for (int i = 0; i < 2; i++)
        cr_assert_eq(rl_fault_of_error(denials[i], strlen(denials[i])), RL_FAULT_NOPERM);
    cr_assert_eq(rl_fault_of_error("", 0), RL_FAULT_ERR);
    cr_assert_str_eq(rl_fault_name(RL_FAULT_COUNT), "?");
    cr_assert_str_eq(rl_fault_text(RL_FAULT_COUNT), "?");
}

Test(faults, about_credentials_are_told_from_faults_of_the_node)
{
    for (int i = 0; i < RL_FAULT_COUNT; i++) {
        enum rl_fault fault = (enum rl_fault)i;
        bool denial = fault == RL_FAULT_NOAUTH || fault == RL_FAULT_WRONGPASS ||
                      fault == RL_FAULT_NOPERM || fault == RL_FAULT_NO_EVAL ||
                      fault == RL_FAULT_PROTECTED || fault == RL_FAULT_TLS_CA ||
                      fault == RL_FAULT_TLS_NAME || fault == RL_FAULT_TLS_EXPIRED ||
                      fault == RL_FAULT_TLS_NOT_YET_VALID ||
                      fault == RL_FAULT_TLS_CERTIFICATE || fault == RL_FAULT_TLS_CLIENT;
        bool node = fault == RL_FAULT_LOADING || fault == RL_FAULT_READONLY ||
                    fault == RL_FAULT_MASTERDOWN || fault == RL_FAULT_CLUSTERDOWN ||
                    fault == RL_FAULT_MOVED || fault == RL_FAULT_CROSSSLOT ||
                    fault == RL_FAULT_NOAUTH;
        cr_assert_eq(rl_fault_is_denial(fault), denial, "%s", rl_fault_name(fault));
        cr_assert_eq(rl_fault_is_of_node(fault), node, "%s", rl_fault_name(fault));
    }
}

/* --- fenced --- */

static bool fenced_reads(enum rl_command text, struct rl_reply reply)
{
    memset(&answer, 0xa5, sizeof(answer));
    return rl_kind_read(rl_kind_that_is(true, REDLOCK_KIND_EXCLUSIVE), text, &reply,
                        &answer);
}

static struct rl_reply three(const struct rl_reply items[3])
{
    return (struct rl_reply){.type = RL_REPLY_ARRAY, .item = items, .items = 3};
}

#define TIME  INT64_C(1800000000000000)
#define FENCE INT64_C(1800000000000007)

static const enum rl_command fenced_texts[] = {RL_CMD_ACQUIRE, RL_CMD_RAISE_FENCE,
                                               RL_CMD_EXTEND, RL_CMD_RELEASE};

/* The votes of the codes -1 to 3; UNASKED stands for: rejected. */
static const enum rl_vote fenced_votes[][5] = {
    {RL_VOTE_UNASKED, RL_VOTE_UNASKED, RL_VOTE_GRANTED, RL_VOTE_UNASKED, RL_VOTE_UNASKED},
    {RL_VOTE_UNASKED, RL_VOTE_GONE, RL_VOTE_GRANTED, RL_VOTE_UNASKED, RL_VOTE_UNASKED},
    {RL_VOTE_UNASKED, RL_VOTE_GONE, RL_VOTE_GRANTED, RL_VOTE_RECREATED, RL_VOTE_UNASKED},
    {RL_VOTE_UNASKED, RL_VOTE_GONE, RL_VOTE_GRANTED, RL_VOTE_GRANTED, RL_VOTE_UNASKED},
};

static struct rl_reply some_text(const char *text)
{
    return (struct rl_reply){.type = RL_REPLY_STRING, .text = text, .len = strlen(text)};
}

Test(fenced, a_code_the_time_and_the_fence)
{
    for (unsigned i = 0; i < 4; i++)
        for (int code = -1; code <= 3; code++) {
            char text[80];
            snprintf(text, sizeof(text), "%d %jd %jd %jd", code, (intmax_t)TIME / 1000000,
                     (intmax_t)TIME % 1000000, (intmax_t)FENCE);
            enum rl_vote expected = fenced_votes[i][code + 1];
            bool read = fenced_reads(fenced_texts[i], some_text(text));
            cr_assert_eq(read, expected != RL_VOTE_UNASKED, "text %u, code %d", i, code);
            if (!read)
                continue;
            cr_assert_eq(answer.vote, expected);
            cr_assert_eq(answer.fence, FENCE);
            cr_assert_eq(answer.time, TIME);
            cr_assert_eq(answer.has_waiters,
                         fenced_texts[i] == RL_CMD_RELEASE && code == 2);
        }
}

Test(fenced, a_reply_with_other_numbers_is_rejected)
{
    static const char *const texts[] = {
        "",
        "1",
        "1 2 3",
        "1 2 3 ",
        " 1 2 3 4",
        "1 2 3 4 ",
        "1  2 3 4",
        "1 2 3 4 5",
        "1 2 -3 4",
        "1 2 3 -4",
        "1 2 3 4x",
        "1,2,3,4",
        "1 2 3 4.5",
        "+1 2 3 4",
        "1 2 1000000 4",
        "1\t2 3 4",
        "OK",
        "1 9999999999999 3 4",
        "1 2 3 1234567890123456789",
    };
    cr_assert(fenced_reads(RL_CMD_ACQUIRE, some_text("1 2 3 4")));
    cr_assert_eq(answer.time, 2000003);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        cr_assert_not(fenced_reads(RL_CMD_ACQUIRE, some_text(texts[i])), "\"%s\"",
                      texts[i]);
    struct rl_reply cut = some_text("1 2 3 45");
    cut.len--;
    cr_assert(fenced_reads(RL_CMD_ACQUIRE, cut));
    cr_assert_eq(answer.fence, 4, "a NUL does not end the value");
}

Test(fenced, another_holds_it)
{
    const struct rl_reply value = {.type = RL_REPLY_STRING, TEXT("f:other")};
    const struct rl_reply items[] = {value, number(1234), number(TIME)};
    for (unsigned i = 0; i < 4; i++) {
        cr_assert(fenced_reads(fenced_texts[i], three(items)));
        cr_assert_eq(answer.vote, RL_VOTE_HELD);
        cr_assert_eq(answer.pttl, 1234);
        cr_assert_eq(answer.time, TIME);
        cr_assert_eq(answer.fence, 0);
    }
}

/* A server that lies must not make a sum of times overflow. */
Test(fenced, a_time_that_no_clock_can_show_is_rejected)
{
    static const int64_t times[] = {-1, INT64_MIN, INT64_MAX, RL_NODE_TIME_MAX + 1};
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        const struct rl_reply value = {.type = RL_REPLY_STRING, TEXT("f:other")};
        const struct rl_reply items[] = {value, number(1234), number(times[i])};
        cr_assert_not(fenced_reads(RL_CMD_ACQUIRE, three(items)));
        const struct rl_reply marker[] = {value, number(times[i])};
        cr_assert_not(fenced_reads(RL_CMD_MARKER, pair(marker, 2)));
    }
    cr_assert_not(fenced_reads(RL_CMD_ACQUIRE, some_text("1 4611686018428 0 4")));
}

Test(fenced, whether_the_queue_entry_was_written)
{
    const struct rl_reply value = {.type = RL_REPLY_STRING, TEXT("f:other")};
    const struct rl_reply items[] = {value, number(1234), number(TIME), number(0)};
    const struct rl_reply code[] = {some_text("0"), some_text("1"), some_text("1"),
                                    number(0)};
    struct rl_reply four = {.type = RL_REPLY_ARRAY, .item = items, .items = 4};
    for (unsigned i = 0; i < 4; i++) {
        cr_assert(fenced_reads(fenced_texts[i], three(items)));
        cr_assert_not(answer.not_queued);
        cr_assert_eq(fenced_reads(fenced_texts[i], four),
                     fenced_texts[i] == RL_CMD_RELEASE);
    }
    cr_assert(answer.not_queued);
    cr_assert_eq(answer.vote, RL_VOTE_HELD);
    cr_assert_eq(answer.time, TIME);
    four.item = code;
    cr_assert_not(fenced_reads(RL_CMD_RELEASE, four));
}

Test(fenced, refuses_a_late_or_early_command)
{
    cr_assert(fenced_reads(RL_CMD_ACQUIRE, error("LATE to lock anything")));
    cr_assert_eq(answer.vote, RL_VOTE_ERROR, "nothing was done");
    cr_assert_eq(answer.fault, RL_FAULT_LATE);
    cr_assert(fenced_reads(RL_CMD_RAISE_FENCE, error("AHEAD of the clock")));
    cr_assert_eq(answer.vote, RL_VOTE_ERROR);
    cr_assert_eq(answer.fault, RL_FAULT_AHEAD);
}

/* A plain lock's grant is no grant of a fenced one, and the other way round. */
Test(fenced, a_grant_of_the_other_kind_is_rejected)
{
    const struct rl_reply text = {.type = RL_REPLY_STRING, TEXT("1")};
    const struct rl_reply mixed[] = {number(1), text, number(FENCE)};
    const struct rl_reply negative[] = {number(1), number(-1), number(FENCE)};
    const struct rl_reply whole[] = {number(1), number(TIME), number(FENCE)};
    const struct rl_reply odd[] = {text, number(1), text};
    const struct rl_reply ok = {.type = RL_REPLY_STATUS, TEXT("OK")};
    cr_assert_not(fenced_reads(RL_CMD_ACQUIRE, ok));
    cr_assert_not(fenced_reads(RL_CMD_ACQUIRE, number(1)));
    cr_assert_not(fenced_reads(RL_CMD_ACQUIRE, three(mixed)));
    cr_assert_not(fenced_reads(RL_CMD_ACQUIRE, three(negative)));
    cr_assert_not(fenced_reads(RL_CMD_EXTEND, three(odd)));
    cr_assert_not(
        fenced_reads(RL_CMD_EXTEND,
                     (struct rl_reply){.type = RL_REPLY_ARRAY, .item = whole, .items = 2}));
    cr_assert_not(fenced_reads(RL_CMD_EXTEND, three(whole)));
    cr_assert_not(reads(RL_CMD_EXTEND, three(whole)));
    cr_assert_not(reads(RL_CMD_ACQUIRE, three(whole)));
    cr_assert_not(reads(RL_CMD_EXTEND, some_text("1 2 3 4")));
    cr_assert_not(reads(RL_CMD_ACQUIRE, some_text("1 2 3 4")));
}
