/* The text format of the marker: what is written can be read, and nothing else can. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/marker.h"
#include "lease_fixture.h"
#include "prng.h"

static uint64_t id_of(unsigned i)
{
    return UINT64_C(0x0123456789abcdef) * (i + 1);
}

static struct rl_marker marker_of(unsigned n)
{
    struct rl_marker marker = {
        .nonce = UINT64_C(0xfedcba9876543210),
        .active = true,
        .index = (uint8_t)(n - 1),
        .roster = {.deployment = 7, .max_ttl_ms = 30000, .n = (uint8_t)n},
    };
    memset(marker.process.run_id, 'a', RL_RUN_ID);
    memset(marker.process.replid, '0', RL_RUN_ID);
    for (unsigned i = 0; i < n; i++)
        marker.roster.member[i] = (struct rl_incarnation){i + 1, id_of(i)};
    return marker;
}

static bool same_marker(const struct rl_marker *a, const struct rl_marker *b)
{
    bool same = a->nonce == b->nonce && a->active == b->active && a->index == b->index &&
                a->promises == b->promises && a->retired == b->retired &&
                rl_process_equal(&a->process, &b->process) &&
                a->roster.deployment == b->roster.deployment &&
                a->roster.max_ttl_ms == b->roster.max_ttl_ms && a->roster.n == b->roster.n;
    for (unsigned i = 0; same && i < a->roster.n; i++)
        same = rl_incarnation_equal(a->roster.member[i], b->roster.member[i]);
    return same;
}

static bool reads(const char *text, size_t len, struct rl_marker *marker)
{
    return rl_marker_read((struct rl_word){text, len}, marker);
}

static void expect_round_trip(const struct rl_marker *marker)
{
    char text[RL_MARKER_MAX];
    struct rl_marker again;
    size_t len = rl_marker_write(marker, text);
    CHECK(len <= RL_MARKER_MAX, "%zu", len);
    CHECK(reads(text, len, &again), "%.*s", (int)len, text);
    CHECK(same_marker(marker, &again), "%.*s", (int)len, text);
}

/* This must not be written as a marker: some field is out of its range. */
static void expect_refusal(const struct rl_marker *marker)
{
    char text[RL_MARKER_MAX];
    struct rl_marker again;
    size_t len = rl_marker_write(marker, text);
    cr_assert_not(reads(text, len, &again), "%.*s", (int)len, text);
}

Test(marker, has_the_documented_format)
{
    static const char expected[] =
        "fedcba9876543210 sound 1 0000000000000007 30000 - "
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa "
        "0000000000000000000000000000000000000000 "
        "1.0123456789abcdef 2.02468acf13579bde";
    struct rl_marker marker = marker_of(2);
    char text[RL_MARKER_MAX];
    size_t len = rl_marker_write(&marker, text);
    cr_assert_eq(len, sizeof(expected) - 1);
    cr_assert_eq(memcmp(text, expected, len), 0, "%.*s", (int)len, text);
    marker.active = false;
    len = rl_marker_write(&marker, text);
    cr_assert_eq(memcmp(text, "fedcba9876543210 barred 1 ", 26), 0, "%.*s", (int)len, text);
}

Test(marker, begins_with_its_nonce)
{
    struct rl_marker marker = marker_of(3);
    char text[RL_MARKER_MAX], nonce[RL_NONCE];
    static const uint64_t nonces[] = {0, 1, UINT64_MAX, UINT64_C(0x8000000000000000)};
    for (size_t i = 0; i < sizeof(nonces) / sizeof(nonces[0]); i++) {
        marker.nonce = nonces[i];
        rl_marker_write(&marker, text);
        rl_marker_nonce(nonces[i], nonce);
        cr_assert_eq(memcmp(text, nonce, RL_NONCE), 0);
    }
}

Test(marker, of_any_number_of_members_is_read_back)
{
    for (unsigned n = 1; n <= RL_NODES_MAX; n++)
        for (unsigned index = 0; index < n; index++) {
            struct rl_marker marker = marker_of(n);
            marker.index = (uint8_t)index;
            expect_round_trip(&marker);
        }
}

Test(marker, is_read_back_with_each_field_at_its_limits)
{
    static const uint64_t ids[] = {1, UINT64_MAX, UINT64_C(1) << 63};
    static const int64_t ttls[] = {0, 1, 9, 10, 86400000, INT64_MAX / RL_SECOND};
    static const uint32_t generations[] = {1, 9, 10, UINT32_MAX};
    struct rl_marker marker = marker_of(RL_NODES_MAX);
    for (size_t i = 0; i < 3; i++) {
        marker.nonce = marker.roster.deployment = ids[i];
        expect_round_trip(&marker);
    }
    marker.nonce = 0;
    expect_round_trip(&marker);
    for (size_t i = 0; i < 6; i++) {
        marker.roster.max_ttl_ms = ttls[i];
        expect_round_trip(&marker);
    }
    for (unsigned i = 0; i < 4; i++) {
        for (unsigned j = 0; j < RL_NODES_MAX; j++)
            marker.roster.member[j] = (struct rl_incarnation){generations[i], UINT64_MAX};
        expect_round_trip(&marker);
    }
    /* another member: not known yet */
    marker.roster.member[0] = (struct rl_incarnation){0, 0};
    expect_round_trip(&marker);
}

/* The longest possible marker fits into its buffers. */
Test(marker, of_the_greatest_length_fits)
{
    struct rl_marker marker = marker_of(RL_NODES_MAX);
    char text[RL_MARKER_MAX];
    marker.active = false;
    marker.roster.max_ttl_ms = INT64_MAX / RL_SECOND;
    for (unsigned i = 0; i < RL_NODES_MAX; i++)
        marker.roster.member[i] = (struct rl_incarnation){UINT32_MAX, UINT64_MAX};
    cr_assert_leq(rl_marker_write(&marker, text), RL_MARKER_MAX);
    expect_round_trip(&marker);
}

Test(marker, must_name_a_deployment_and_an_incarnation_of_its_own_index)
{
    struct rl_marker marker = marker_of(3);
    marker.roster.deployment = 0;
    expect_refusal(&marker);
    marker = marker_of(3);
    marker.roster.member[marker.index].generation = 0;
    expect_refusal(&marker);
    marker = marker_of(3);
    marker.index = 3;
    expect_refusal(&marker);
    marker = marker_of(3);
    marker.roster.n = 0;
    expect_refusal(&marker);
    marker = marker_of(3);
    marker.roster.max_ttl_ms = INT64_MAX / RL_SECOND + 1;
    expect_refusal(&marker);
}

Test(marker, names_processes_by_hex_digits)
{
    static const char bad[] = "gGA `/:\xff";
    for (size_t i = 0; i < sizeof(bad); i++) {
        struct rl_marker marker = marker_of(3);
        marker.process.run_id[RL_RUN_ID - 1] = bad[i];
        expect_refusal(&marker);
        marker = marker_of(3);
        marker.process.replid[0] = bad[i];
        expect_refusal(&marker);
    }
}

/* A truncated text may be a marker of fewer members, but never one of as many. */
Test(marker, that_is_truncated_is_none_of_that_deployment)
{
    for (unsigned n = 1; n <= RL_NODES_MAX; n++) {
        struct rl_marker marker = marker_of(n), again;
        char text[RL_MARKER_MAX];
        size_t len = rl_marker_write(&marker, text);
        for (size_t cut = 0; cut < len; cut++)
            if (reads(text, cut, &again))
                CHECK(again.roster.n < n, "%.*s", (int)cut, text);
        for (size_t cut = 1; cut <= len; cut++)
            CHECK(!reads(text + cut, len - cut, &again), "%.*s", (int)(len - cut),
                  text + cut);
    }
}

/*
 * Every text that can be read is written back unchanged: no two texts are the same marker.
 */
static void expect_canonical(const char *text, size_t len, const struct rl_marker *other)
{
    struct rl_marker marker;
    char again[RL_MARKER_MAX];
    if (!reads(text, len, &marker))
        return;
    size_t written = rl_marker_write(&marker, again);
    CHECK(written == len && memcmp(text, again, len) == 0, "%.*s reads as %.*s", (int)len,
          text, (int)written, again);
    CHECK(!other || !same_marker(&marker, other), "%.*s", (int)len, text);
}

Test(marker, differs_for_each_character_that_differs)
{
    struct rl_marker marker = marker_of(3);
    char text[RL_MARKER_MAX];
    size_t len = rl_marker_write(&marker, text);
    for (size_t i = 0; i < len; i++)
        for (unsigned c = 0; c < 256; c++) {
            char was = text[i];
            if ((char)c == was)
                continue;
            text[i] = (char)c;
            expect_canonical(text, len, &marker);
            text[i] = was;
        }
}

Test(marker, has_no_text_that_is_a_character_longer_or_shorter)
{
    static const char more[] = " \n0a1.";
    struct rl_marker marker = marker_of(3);
    char text[RL_MARKER_MAX], other[RL_MARKER_MAX + 1];
    size_t len = rl_marker_write(&marker, text);
    for (size_t i = 0; i <= len; i++) {
        for (size_t j = 0; j <= sizeof(more) - 1; j++) { /* the NUL, too */
            memcpy(other, text, i);
            other[i] = more[j];
            memcpy(other + i + 1, text + i, len - i);
            expect_canonical(other, len + 1, &marker);
        }
        if (i == len)
            break;
        memcpy(other, text, i);
        memcpy(other + i, text + i + 1, len - i - 1);
        expect_canonical(other, len - 1, &marker);
    }
}

/* One number, written in another way. */
Test(marker, has_one_way_to_write_a_number)
{
    static const char *const texts[] = {
        "0000000000000001 sound 00 0000000000000007 1 - ",
        "0000000000000001 sound 0 0000000000000007 01 - ",
        "0000000000000001 sound +0 0000000000000007 1 - ",
        "0000000000000001 sound 0 0000000000000007 1.0 - ",
        "0000000000000001 Sound 0 0000000000000007 1 - ",
        "0000000000000001  sound 0 0000000000000007 1 - ",
        "000000000000000A sound 0 0000000000000007 1 - ",
        "0000000000000001 sound 0 0000000000000007 -1 - ",
        "0000000000000001 sound 0 0000000000000007 99999999999999999999999 - ",
        "0000000000000001 sound 4294967296 0000000000000007 1 - ",
        "0000000000000001 sound 256 0000000000000007 1 - ",
    };
    static const char rest[] =
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa "
        "0000000000000000000000000000000000000000 ";
    struct rl_marker marker;
    char text[512];
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        int len = snprintf(text, sizeof(text), "%s%s1.0000000000000001", texts[i], rest);
        cr_assert_not(reads(text, (size_t)len, &marker), "%s", text);
    }
    static const char *const members[] = {
        "01.0000000000000001",         "4294967297.0000000000000001",
        "4294967296.0000000000000001", "1.000000000000001",
        "1.00000000000000001",         "1.0000000000000001 ",
        " 1.0000000000000001",         "1,0000000000000001",
        "1.000000000000000g",          "",
    };
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        int len = snprintf(text, sizeof(text),
                           "0000000000000001 sound 0 0000000000000007 1 - %s%s", rest,
                           members[i]);
        cr_assert_not(reads(text, (size_t)len, &marker), "%s", text);
    }
}

/* Each small letter is kept; a capital one makes the marker invalid. */
Test(marker, has_a_sorted_word_of_promises)
{
    static const struct {
        const char *word;
        bool is_valid;
        uint32_t promises;
    } words[] = {
        {"-", true, 0},
        {"d", true, RL_PROMISE_DURABLE},
        {"ds", true, RL_PROMISE_DURABLE | RL_PROMISE_SOLE},
        {"dqsz", true, RL_PROMISES | RL_PROMISE('q') | RL_PROMISE('z')},
        {"abcdefghijklmnopqrstuvwxyz", true, (UINT32_C(1) << RL_PROMISE_LETTERS) - 1},
        {"", false, 0},
        {"sd", false, 0},
        {"dd", false, 0},
        {"d-", false, 0},
        {"-d", false, 0},
        {"D", false, 0},
        {"R", true, 0},
        {"Rd", true, RL_PROMISE_DURABLE},
        {"dR", false, 0},
        {"RR", false, 0},
        {"RA", false, 0},
        {"-R", false, 0},
        {"d1", false, 0},
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        char text[512];
        struct rl_marker marker;
        int len = snprintf(text, sizeof(text),
                           "0000000000000001 sound 0 0000000000000007 1 %s "
                           "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa "
                           "0000000000000000000000000000000000000000 1.0000000000000001",
                           words[i].word);
        cr_assert_eq(reads(text, (size_t)len, &marker), words[i].is_valid, "%s", text);
        if (words[i].is_valid)
            cr_assert_eq(marker.promises, words[i].promises, "%s", text);
    }
}

Test(marker, of_a_retired_server_is_read_back)
{
    struct rl_marker marker = marker_of(3);
    marker.retired = true;
    expect_round_trip(&marker);
    marker.promises = RL_PROMISES;
    expect_round_trip(&marker);
}

Test(marker, has_no_more_members_than_there_can_be_nodes)
{
    struct rl_marker marker = marker_of(RL_NODES_MAX);
    char text[RL_MARKER_MAX + 64];
    size_t len = rl_marker_write(&marker, text);
    cr_assert(reads(text, len, &marker));
    memcpy(text + len, " 1.0000000000000001", 19);
    cr_assert_not(reads(text, len + 19, &marker));
}

/* Random bytes, and random changes of valid markers: nothing reads beyond their end. */
Test(marker, is_not_read_from_random_bytes)
{
    struct prng prng = {1};
    unsigned read = 0;
    for (unsigned turn = 0; turn < 200000; turn++) {
        struct rl_marker marker = marker_of(1 + prng_below(&prng, 4));
        char whole[RL_MARKER_MAX];
        size_t len = rl_marker_write(&marker, whole);
        for (unsigned changes = 1 + prng_below(&prng, 4); changes > 0; changes--)
            whole[prng_below(&prng, (unsigned)len)] =
                "0123456789abcdef. sbx\0"[prng_below(&prng, 22)];
        if (turn % 2)
            len = prng_below(&prng, (unsigned)len + 1);
        char *text = malloc(len + !len); /* so that valgrind knows its end */
        memcpy(text, whole, len);
        expect_canonical(text, len, NULL);
        read += reads(text, len, &marker);
        free(text);
    }
    cr_assert_gt(read, 1000, "hardly anything was changed into another marker: %u", read);
}

Test(marker, is_unchanged_by_a_text_that_is_none)
{
    struct rl_marker marker, before;
    memset(&marker, 0x5a, sizeof(marker));
    before = marker;
    cr_assert_not(reads("", 0, &marker));
    cr_assert_not(reads("nothing", 7, &marker));
    cr_assert_eq(memcmp(&marker, &before, sizeof(marker)), 0);
}
