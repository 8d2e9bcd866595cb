/*
 * A node with invalid replies: it is disconnected, it has no vote, and the other nodes
 * decide.
 */
#include <criterion/criterion.h>

#include "fake_quorum.h"

/* --- replies to SET --- */

static const struct {
    const char *name;
    struct fake_line line;
    const char *fault;
} nonsense[] = {
    {"integer", {"SET", ":1\r\n", FAKE_SEND}, "protocol"},
    {"string", {"SET", "$2\r\nOK\r\n", FAKE_SEND}, "protocol"},
    {"other status", {"SET", "+QUEUED\r\n", FAKE_SEND}, "protocol"},
    {"empty status", {"SET", "+\r\n", FAKE_SEND}, "protocol"},
    {"longer status", {"SET", "+OKAY\r\n", FAKE_SEND}, "protocol"},
    {"array", {"SET", "*2\r\n+OK\r\n:1\r\n", FAKE_SEND}, "protocol"},
    {"empty array", {"SET", "*0\r\n", FAKE_SEND}, "protocol"},
    {"no type", {"SET", "OK\r\n", FAKE_SEND}, "protocol"},
    {"RESP3", {"SET", "_\r\n", FAKE_SEND}, "protocol"},
    {"HTTP", {"SET", "HTTP/1.1 400 Bad Request\r\n\r\n", FAKE_SEND}, "protocol"},
    {"bad length", {"SET", "$x\r\n", FAKE_SEND}, "protocol"},
    {"negative length", {"SET", "$-2\r\n", FAKE_SEND}, "protocol"},
    {"negative count", {"SET", "*-2\r\n", FAKE_SEND}, "protocol"},
    {"bad integer", {"SET", ":99999999999999999999999\r\n", FAKE_SEND}, "protocol"},
    {"huge count", {"SET", "*2147483647\r\n:1\r\n", FAKE_FLOOD}, "protocol"},
    {"huge count of strings",
     {"SET", "*2147483647\r\n$0\r\n\r\n$0\r\n\r\n", FAKE_FLOOD},
     "protocol"},
    {"greater count", {"SET", "*4294967297\r\n", FAKE_FLOOD}, "protocol"},
    {"endless string", {"SET", "$1000000000\r\nxxxx", FAKE_FLOOD}, "protocol"},
    {"endless line", {"SET", "+xxxx", FAKE_FLOOD}, "protocol"},
    {"endless nesting", {"SET", "*1\r\n", FAKE_FLOOD}, "protocol"},
    {"reset in mid-reply", {"SET", "+O", FAKE_RESET}, "closed"},
    {"closed in mid-reply", {"SET", "+O", FAKE_CLOSE}, "closed"},
    {"closed at once", {"SET", "", FAKE_CLOSE}, "closed"},
    {"cluster", {"SET", "-MOVED 866 127.0.0.1:1\r\n", FAKE_SEND}, "moved"},
    {"cluster down",
     {"SET", "-CLUSTERDOWN Hash slot not served\r\n", FAKE_SEND},
     "clusterdown"},
    {"loading", {"SET", "-LOADING Redis is loading\r\n", FAKE_SEND}, "loading"},
};

static void answer_set_by(const struct fake_line *line, const char *name, const char *fault)
{
    struct fake_quorum f;
    struct reported reported;
    const struct fake_line script[] = {*line, {0}};
    fake_quorum_open(&f, script);
    redlock_lease *lease = quorum_acquire(&f.s, "job", NULL, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_OK, "%s", name);
    LOOP_UNTIL(f.s.base, quorum_count_votes(lease, "waiting") == 0);
    cr_assert_eq(quorum_count_votes(lease, "granted"), 2, "%s", name);
    cr_assert_str_eq(redlock_fault_name(quorum_node(lease, FAKE)->fault), fault, "%s",
                     name);
    LOOP_UNTIL(f.s.base, f.fake.connections == 2);
    fake_quorum_await_ready(&f);
    unsigned scripts = f.fake.scripts;
    cr_assert_eq(quorum_release(&f.s, lease), REDLOCK_OK);
    /* unknown whether it executed the command */
    LOOP_UNTIL(f.s.base, f.fake.scripts > scripts);
    redlock_lease_free(lease);
    lease = quorum_hold(&f.s, "job", NULL);
    LOOP_UNTIL(f.s.base, quorum_count_votes(lease, "granted") == 3);
    redlock_lease_free(lease);
    cr_assert_eq(f.fake.connections, 2);
    fake_quorum_close(&f);
}

Test(fake, invalid_replies_to_set)
{
    for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++)
        answer_set_by(&nonsense[i].line, nonsense[i].name, nonsense[i].fault);
}

/* These are refusals; the connection stays open. */
Test(fake, error_replies_to_set)
{
    static const struct fake_line script[] = {
        {"SET", "-ERR something\r\n", FAKE_SEND},
        {"SET", "-OOM command not allowed\r\n", FAKE_SEND},
        {"SET", "-BUSY Redis is busy\r\n", FAKE_SEND},
        {"SET", "-\r\n", FAKE_SEND},
        {"SET", "-OOMPH\r\n", FAKE_SEND},
        {"SET", "$-1\r\n", FAKE_SEND},
        {"SET", "*-1\r\n", FAKE_SEND},
        {0},
    };
    static const redlock_fault fault[] = {
        REDLOCK_FAULT_ERR, REDLOCK_FAULT_OOM,  REDLOCK_FAULT_BUSY, REDLOCK_FAULT_ERR,
        REDLOCK_FAULT_ERR, REDLOCK_FAULT_NONE, REDLOCK_FAULT_NONE,
    };
    struct fake_quorum f;
    fake_quorum_open(&f, script);
    for (int i = 0; i < 7; i++) {
        redlock_lease *lease = quorum_hold(&f.s, "job", NULL);
        LOOP_UNTIL(f.s.base, quorum_count_votes(lease, "waiting") == 0);
        cr_assert_eq(quorum_node(lease, FAKE)->verdict,
                     i < 5 ? REDLOCK_VERDICT_ERROR : REDLOCK_VERDICT_HELD);
        cr_assert_eq(quorum_node(lease, FAKE)->fault, fault[i]);
        quorum_free_lease(&f.s, lease);
    }
    cr_assert_eq(f.fake.connections, 1);
    fake_quorum_close(&f);
}

Test(fake, a_reply_byte_by_byte)
{
    static const struct fake_line script[] = {
        {"SET", "+OK\r\n", FAKE_BYTEWISE},
        {"EVAL", ":1\r\n", FAKE_BYTEWISE},
        {"SET", "$-1\r\n", FAKE_BYTEWISE},
        {"EVAL", "*2\r\n$8\r\nstranger\r\n:1234\r\n", FAKE_BYTEWISE},
        {0},
    };
    struct fake_quorum f;
    fake_quorum_open(&f, script);
    redlock_lease *lease = quorum_hold(&f.s, "job", NULL);
    LOOP_UNTIL(f.s.base, quorum_count_votes(lease, "granted") == 3);
    quorum_free_lease(&f.s, lease);
    struct reported reported;
    servers_do(&f.s.servers, 0, "SET job stranger");
    lease = quorum_acquire(&f.s, "job", NULL, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_TAKEN);
    cr_assert_str_eq(quorum_node(lease, FAKE)->holder, "stranger");
    cr_assert_eq(quorum_node(lease, FAKE)->remaining_us, 1234000);
    redlock_lease_free(lease);
    servers_do(&f.s.servers, 0, "DEL job");
    cr_assert_eq(f.fake.connections, 1);
    fake_quorum_close(&f);
}

/*
 * The reply to the command counts; the second reply proves that the stream is out of order.
 */
Test(fake, a_reply_without_a_command)
{
    static const struct fake_line script[] = {{"SET", "+OK\r\n+OK\r\n", FAKE_SEND}, {0}};
    struct fake_quorum f;
    fake_quorum_open(&f, script);
    redlock_lease *lease = quorum_hold(&f.s, "job", NULL);
    LOOP_UNTIL(f.s.base, f.fake.connections == 2);
    fake_quorum_await_ready(&f);
    cr_assert_eq(quorum_release(&f.s, lease), REDLOCK_OK);
    quorum_free_lease(&f.s, lease);
    cr_assert_geq(f.fake.scripts, 1);
    fake_quorum_close(&f);
}

/* --- replies to scripts --- */

Test(fake, invalid_replies_to_an_extension)
{
    static const struct fake_line script[] = {
        {"EVAL", ":3\r\n", FAKE_SEND},
        {"EVAL", ":-1\r\n", FAKE_SEND},
        {"EVAL", "+OK\r\n", FAKE_SEND},
        {"EVAL", "$-1\r\n", FAKE_SEND},
        {"EVAL", "*2\r\n:1\r\n:2\r\n", FAKE_SEND},
        {"EVAL", "*3\r\n$1\r\nx\r\n:2\r\n:3\r\n", FAKE_SEND},
        {"EVAL", "*1\r\n$1\r\nx\r\n", FAKE_SEND},
        {"EVAL", "*2\r\n*1\r\n:1\r\n:2\r\n", FAKE_SEND},
        {0},
    };
    redlock_lease_options options = quorum_quiet_options();
    struct fake_quorum f;
    fake_quorum_open(&f, script);
    redlock_lease *lease = quorum_hold(&f.s, "job", &options);
    quorum_drain(&f.s);
    for (unsigned i = 0; i < 8; i++) {
        cr_assert_eq(quorum_extend(&f.s, lease, 0), REDLOCK_OK, "line %u", i);
        LOOP_UNTIL(f.s.base, quorum_count_votes(lease, "waiting") == 0);
        cr_assert_eq(quorum_node(lease, FAKE)->verdict, REDLOCK_VERDICT_UNKNOWN, "line %u",
                     i);
        cr_assert_eq(quorum_node(lease, FAKE)->fault, REDLOCK_FAULT_PROTOCOL, "line %u", i);
        LOOP_UNTIL(f.s.base, f.fake.connections == i + 2);
        fake_quorum_await_ready(&f);
    }
    cr_assert_eq(quorum_release(&f.s, lease), REDLOCK_OK);
    quorum_free_lease(&f.s, lease);
    fake_quorum_close(&f);
}

/*
 * It released, or released and notified a waiter, or did neither: a third number is
 * invalid.
 */
Test(fake, invalid_replies_to_a_release)
{
    static const struct fake_line script[] = {{"EVAL", ":3\r\n", FAKE_SEND}, {0}};
    struct fake_quorum f;
    fake_quorum_open(&f, script);
    redlock_lease *lease = quorum_hold(&f.s, "job", NULL);
    quorum_drain(&f.s);
    cr_assert_eq(quorum_release(&f.s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    LOOP_UNTIL(f.s.base, f.fake.connections == 2 && f.fake.scripts >= 2);
    fake_quorum_close(&f);
}

/* It gets the script itself, once; if it still does not know it, that is its fault. */
Test(fake, a_node_that_never_knows_a_script)
{
    static const struct fake_line script[] = {
        {"EVAL", "-NOSCRIPT No matching script\r\n", FAKE_FOREVER}, {0}};
    redlock_lease_options options = quorum_quiet_options();
    struct fake_quorum f;
    fake_quorum_open(&f, script);
    redlock_lease *lease = quorum_hold(&f.s, "job", &options);
    quorum_drain(&f.s);
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(quorum_extend(&f.s, lease, 0), REDLOCK_OK);
        LOOP_UNTIL(f.s.base, quorum_count_votes(lease, "waiting") == 0);
        cr_assert_eq(quorum_node(lease, FAKE)->fault, REDLOCK_FAULT_NOSCRIPT);
    }
    cr_assert_leq(f.fake.scripts, 10);
    cr_assert_eq(quorum_release(&f.s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    fake_quorum_close(&f);
}

/* A SET is no script: it has no other form, and is sent once under its token. */
Test(fake, noscript_in_reply_to_set_is_a_refusal)
{
    static const struct fake_line script[] = {
        {"SET", "-NOSCRIPT No matching script\r\n", FAKE_FOREVER}, {0}};
    struct fake_quorum f;
    fake_quorum_open(&f, script);
    for (unsigned i = 1; i <= 3; i++) {
        redlock_lease *lease = quorum_hold(&f.s, "job", NULL);
        LOOP_UNTIL(f.s.base, quorum_count_votes(lease, "waiting") == 0 ||
                                 f.fake.commands - f.fake.scripts > i);
        unsigned sets = f.fake.commands - f.fake.scripts;
        cr_assert_eq(sets, i, "it was sent %u times by %u attempts", sets, i);
        cr_assert_eq(quorum_node(lease, FAKE)->verdict, REDLOCK_VERDICT_ERROR);
        cr_assert_eq(quorum_node(lease, FAKE)->fault, REDLOCK_FAULT_NOSCRIPT);
        quorum_free_lease(&f.s, lease);
    }
    cr_assert_eq(f.fake.connections, 1);
    fake_quorum_close(&f);
}

/* The script that writes markers is sent in full once, and then once after each pause. */
Test(fake, noscript_in_reply_to_a_full_script_is_a_refusal)
{
    static const struct fake_line script[] = {
        {"EVAL", "*2\r\n$1\r\n0\r\n$0\r\n\r\n", FAKE_SEND},
        {"EVAL", "-NOSCRIPT No matching script\r\n", FAKE_FOREVER},
        {0},
    }; /* to the scan for keys: none; and then to the markers */
    const int64_t rest_ms = 1000;
    struct fake_quorum f;
    struct admitted admitted = {0};
    fake_quorum_open(&f, script);
    int64_t start = loop_clock_ms();
    cr_assert_eq(
        redlock_admit(f.s.client, REDLOCK_ADMIT_AT_ONCE, 0, admitted_note, &admitted),
        REDLOCK_OK);
    LOOP_UNTIL(f.s.base, f.fake.scripts > 1);
    loop_run_for(f.s.base, rest_ms / 2);
    int64_t rests = (loop_clock_ms() - start) / rest_ms;
    cr_assert_leq((int64_t)f.fake.scripts, 2 + rests, "%u in %lld rests", f.fake.scripts,
                  (long long)rests);
    redlock_client_free(f.s.client);
    f.s.client = NULL;
    fake_close(&f.fake);
    quorum_close(&f.s);
}

/* Half a reply, and then nothing: the deadline counts, and the connection is given up. */
Test(fake, half_a_reply)
{
    static const struct fake_line script[] = {
        {"SET", "+O", FAKE_SEND}, {"SET", "*2147483647\r\n", FAKE_SEND}, {0}};
    redlock_options options = quorum_options();
    options.node_timeout_ms = 200;
    struct fake_quorum f;
    fake_quorum_open_with(&f, script, &options);
    for (unsigned i = 0; i < 2; i++) {
        fake_quorum_await_ready(&f);
        redlock_lease *lease = quorum_hold(&f.s, "job", NULL);
        LOOP_UNTIL(f.s.base, quorum_count_votes(lease, "silent") == 1);
        LOOP_UNTIL(f.s.base, f.fake.connections == i + 2);
        redlock_lease_free(lease);
    }
    fake_quorum_await_ready(&f);
    quorum_drain(&f.s);
    fake_quorum_close(&f);
}
