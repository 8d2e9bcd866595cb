/*
 * A node with invalid replies: it is disconnected, it has no vote, and the other nodes
 * decide.
 */
#include <criterion/criterion.h>

#include "fake.h"
#include "quorum.h"

#define FAKE 0 /* the first of three nodes; the others are real */

struct odd {
    struct quorum s;
    struct fake fake;
};

static void open_odd_with(struct odd *odd, const struct fake_line *script,
                          const redlock_options *options)
{
    memset(odd, 0, sizeof(*odd));
    servers_start(&odd->s.servers, 2, NULL);
    odd->s.base = event_base_new();
    fake_open(&odd->fake, odd->s.base, script);
    const char *uri[] = {odd->fake.uri, odd->s.servers.uri[0], odd->s.servers.uri[1]};
    redlock_options mine = quorum_options();
    cr_assert_eq(redlock_client_new(odd->s.base, uri, 3, options ? options : &mine,
                                    &odd->s.client, NULL),
                 REDLOCK_OK);
}

static void open_odd(struct odd *odd, const struct fake_line *script)
{
    open_odd_with(odd, script, NULL);
}

static void close_odd(struct odd *odd)
{
    LOOP_UNTIL(odd->s.base, servers_keys(&odd->s.servers) == 0);
    redlock_client_free(odd->s.client);
    odd->s.client = NULL;
    fake_close(&odd->fake);
    quorum_close(&odd->s);
}

static void await_ready(struct odd *odd)
{
    for (unsigned i = 0; i < 3; i++)
        LOOP_UNTIL(odd->s.base, quorum_is(odd->s.client, i, "ready"));
}

/* --- replies to SET --- */

static const struct {
    const char *name;
    struct fake_line line;
    const char *fault;
} nonsense[] = {
    {"integer", {"SET", ":1\r\n", FAKE_SEND}, "PROTOCOL"},
    {"string", {"SET", "$2\r\nOK\r\n", FAKE_SEND}, "PROTOCOL"},
    {"other status", {"SET", "+QUEUED\r\n", FAKE_SEND}, "PROTOCOL"},
    {"empty status", {"SET", "+\r\n", FAKE_SEND}, "PROTOCOL"},
    {"longer status", {"SET", "+OKAY\r\n", FAKE_SEND}, "PROTOCOL"},
    {"array", {"SET", "*2\r\n+OK\r\n:1\r\n", FAKE_SEND}, "PROTOCOL"},
    {"empty array", {"SET", "*0\r\n", FAKE_SEND}, "PROTOCOL"},
    {"no type", {"SET", "OK\r\n", FAKE_SEND}, "PROTOCOL"},
    {"RESP3", {"SET", "_\r\n", FAKE_SEND}, "PROTOCOL"},
    {"HTTP", {"SET", "HTTP/1.1 400 Bad Request\r\n\r\n", FAKE_SEND}, "PROTOCOL"},
    {"bad length", {"SET", "$x\r\n", FAKE_SEND}, "PROTOCOL"},
    {"negative length", {"SET", "$-2\r\n", FAKE_SEND}, "PROTOCOL"},
    {"negative count", {"SET", "*-2\r\n", FAKE_SEND}, "PROTOCOL"},
    {"bad integer", {"SET", ":99999999999999999999999\r\n", FAKE_SEND}, "PROTOCOL"},
    {"huge count", {"SET", "*2147483647\r\n:1\r\n", FAKE_FLOOD}, "PROTOCOL"},
    {"huge count of strings",
     {"SET", "*2147483647\r\n$0\r\n\r\n$0\r\n\r\n", FAKE_FLOOD},
     "PROTOCOL"},
    {"greater count", {"SET", "*4294967297\r\n", FAKE_FLOOD}, "PROTOCOL"},
    {"endless string", {"SET", "$1000000000\r\nxxxx", FAKE_FLOOD}, "PROTOCOL"},
    {"endless line", {"SET", "+xxxx", FAKE_FLOOD}, "PROTOCOL"},
    {"endless nesting", {"SET", "*1\r\n", FAKE_FLOOD}, "PROTOCOL"},
    {"reset in mid-reply", {"SET", "+O", FAKE_RESET}, "CLOSED"},
    {"closed in mid-reply", {"SET", "+O", FAKE_CLOSE}, "CLOSED"},
    {"closed at once", {"SET", "", FAKE_CLOSE}, "CLOSED"},
    {"cluster", {"SET", "-MOVED 866 127.0.0.1:1\r\n", FAKE_SEND}, "MOVED"},
    {"cluster down",
     {"SET", "-CLUSTERDOWN Hash slot not served\r\n", FAKE_SEND},
     "CLUSTERDOWN"},
    {"loading", {"SET", "-LOADING Redis is loading\r\n", FAKE_SEND}, "LOADING"},
};

static void answer_set_by(const struct fake_line *line, const char *name, const char *fault)
{
    struct odd odd;
    struct reported reported;
    const struct fake_line script[] = {*line, {0}};
    open_odd(&odd, script);
    await_ready(&odd);
    redlock_lease *lease = quorum_acquire(&odd.s, "job", NULL, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_OK, "%s", name);
    LOOP_UNTIL(odd.s.base, quorum_count_votes(lease, "waiting") == 0);
    cr_assert_eq(quorum_count_votes(lease, "granted"), 2, "%s", name);
    cr_assert_str_eq(redlock_fault_name(quorum_node(lease, FAKE)->fault), fault, "%s",
                     name);
    LOOP_UNTIL(odd.s.base, odd.fake.connections == 2);
    await_ready(&odd);
    unsigned scripts = odd.fake.scripts;
    cr_assert_eq(quorum_release(&odd.s, lease), REDLOCK_OK);
    /* unknown whether it executed the command */
    LOOP_UNTIL(odd.s.base, odd.fake.scripts > scripts);
    redlock_lease_free(lease);
    lease = quorum_hold(&odd.s, "job", NULL);
    LOOP_UNTIL(odd.s.base, quorum_count_votes(lease, "granted") == 3);
    redlock_lease_free(lease);
    cr_assert_eq(odd.fake.connections, 2);
    close_odd(&odd);
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
    struct odd odd;
    open_odd(&odd, script);
    await_ready(&odd);
    for (int i = 0; i < 7; i++) {
        redlock_lease *lease = quorum_hold(&odd.s, "job", NULL);
        LOOP_UNTIL(odd.s.base, quorum_count_votes(lease, "waiting") == 0);
        cr_assert_eq(quorum_node(lease, FAKE)->verdict,
                     i < 5 ? REDLOCK_VERDICT_ERROR : REDLOCK_VERDICT_HELD);
        cr_assert_eq(quorum_node(lease, FAKE)->fault, fault[i]);
        redlock_lease_free(lease);
        quorum_drain(&odd.s);
    }
    cr_assert_eq(odd.fake.connections, 1);
    close_odd(&odd);
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
    struct odd odd;
    open_odd(&odd, script);
    await_ready(&odd);
    redlock_lease *lease = quorum_hold(&odd.s, "job", NULL);
    LOOP_UNTIL(odd.s.base, quorum_count_votes(lease, "granted") == 3);
    redlock_lease_free(lease);
    quorum_drain(&odd.s);
    struct reported reported;
    servers_do(&odd.s.servers, 0, "SET job stranger");
    lease = quorum_acquire(&odd.s, "job", NULL, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_TAKEN);
    cr_assert_str_eq(quorum_node(lease, FAKE)->holder, "stranger");
    cr_assert_eq(quorum_node(lease, FAKE)->remaining_us, 1234000);
    redlock_lease_free(lease);
    servers_do(&odd.s.servers, 0, "DEL job");
    cr_assert_eq(odd.fake.connections, 1);
    close_odd(&odd);
}

/*
 * The reply to the command counts; the second reply proves that the stream is out of order.
 */
Test(fake, a_reply_without_a_command)
{
    static const struct fake_line script[] = {{"SET", "+OK\r\n+OK\r\n", FAKE_SEND}, {0}};
    struct odd odd;
    open_odd(&odd, script);
    await_ready(&odd);
    redlock_lease *lease = quorum_hold(&odd.s, "job", NULL);
    LOOP_UNTIL(odd.s.base, odd.fake.connections == 2);
    await_ready(&odd);
    cr_assert_eq(quorum_release(&odd.s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    quorum_drain(&odd.s);
    cr_assert_geq(odd.fake.scripts, 1);
    close_odd(&odd);
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
    redlock_lease_options options = quorum_lease_options();
    options.watchdog = false;
    struct odd odd;
    open_odd(&odd, script);
    await_ready(&odd);
    redlock_lease *lease = quorum_hold(&odd.s, "job", &options);
    quorum_drain(&odd.s);
    for (unsigned i = 0; i < 8; i++) {
        cr_assert_eq(quorum_extend(&odd.s, lease, 0), REDLOCK_OK, "line %u", i);
        LOOP_UNTIL(odd.s.base, quorum_count_votes(lease, "waiting") == 0);
        cr_assert_eq(quorum_node(lease, FAKE)->verdict, REDLOCK_VERDICT_UNKNOWN, "line %u",
                     i);
        cr_assert_eq(quorum_node(lease, FAKE)->fault, REDLOCK_FAULT_PROTOCOL, "line %u", i);
        LOOP_UNTIL(odd.s.base, odd.fake.connections == i + 2);
        await_ready(&odd);
    }
    cr_assert_eq(quorum_release(&odd.s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    quorum_drain(&odd.s);
    close_odd(&odd);
}

/*
 * It released, or released and notified a waiter, or did neither: a third number is
 * invalid.
 */
Test(fake, invalid_replies_to_a_release)
{
    static const struct fake_line script[] = {{"EVAL", ":3\r\n", FAKE_SEND}, {0}};
    struct odd odd;
    open_odd(&odd, script);
    await_ready(&odd);
    redlock_lease *lease = quorum_hold(&odd.s, "job", NULL);
    quorum_drain(&odd.s);
    cr_assert_eq(quorum_release(&odd.s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    LOOP_UNTIL(odd.s.base, odd.fake.connections == 2 && odd.fake.scripts >= 2);
    close_odd(&odd);
}

/* It gets the script itself, once; if it still does not know it, that is its fault. */
Test(fake, a_node_that_never_knows_a_script)
{
    static const struct fake_line script[] = {
        {"EVAL", "-NOSCRIPT No matching script\r\n", FAKE_FOREVER}, {0}};
    redlock_lease_options options = quorum_lease_options();
    options.watchdog = false;
    struct odd odd;
    open_odd(&odd, script);
    await_ready(&odd);
    redlock_lease *lease = quorum_hold(&odd.s, "job", &options);
    quorum_drain(&odd.s);
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(quorum_extend(&odd.s, lease, 0), REDLOCK_OK);
        LOOP_UNTIL(odd.s.base, quorum_count_votes(lease, "waiting") == 0);
        cr_assert_eq(quorum_node(lease, FAKE)->fault, REDLOCK_FAULT_NOSCRIPT);
    }
    cr_assert_leq(odd.fake.scripts, 10);
    cr_assert_eq(quorum_release(&odd.s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    close_odd(&odd);
}

/* A SET is no script: it has no other form, and is sent once under its token. */
Test(fake, noscript_in_reply_to_set_is_a_refusal)
{
    static const struct fake_line script[] = {
        {"SET", "-NOSCRIPT No matching script\r\n", FAKE_FOREVER}, {0}};
    struct odd odd;
    open_odd(&odd, script);
    await_ready(&odd);
    for (unsigned i = 1; i <= 3; i++) {
        redlock_lease *lease = quorum_hold(&odd.s, "job", NULL);
        LOOP_UNTIL(odd.s.base, quorum_count_votes(lease, "waiting") == 0 ||
                                   odd.fake.commands - odd.fake.scripts > i);
        unsigned sets = odd.fake.commands - odd.fake.scripts;
        cr_assert_eq(sets, i, "it was sent %u times by %u attempts", sets, i);
        cr_assert_eq(quorum_node(lease, FAKE)->verdict, REDLOCK_VERDICT_ERROR);
        cr_assert_eq(quorum_node(lease, FAKE)->fault, REDLOCK_FAULT_NOSCRIPT);
        redlock_lease_free(lease);
        quorum_drain(&odd.s);
    }
    cr_assert_eq(odd.fake.connections, 1);
    close_odd(&odd);
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
    struct odd odd;
    struct admitted admitted = {0};
    open_odd(&odd, script);
    await_ready(&odd);
    int64_t start = loop_clock_ms();
    cr_assert_eq(
        redlock_admit(odd.s.client, REDLOCK_ADMIT_AT_ONCE, 0, admitted_note, &admitted),
        REDLOCK_OK);
    LOOP_UNTIL(odd.s.base, odd.fake.scripts > 1);
    loop_run_for(odd.s.base, rest_ms / 2);
    int64_t rests = (loop_clock_ms() - start) / rest_ms;
    cr_assert_leq((int64_t)odd.fake.scripts, 2 + rests, "%u in %lld rests",
                  odd.fake.scripts, (long long)rests);
    redlock_client_free(odd.s.client);
    odd.s.client = NULL;
    fake_close(&odd.fake);
    quorum_close(&odd.s);
}

/* --- greetings --- */

static const struct fake_line greetings[] = {
    {"INFO server", "+OK\r\n", FAKE_SEND},
    {"INFO server", ":1\r\n", FAKE_SEND},
    {"INFO server", "$-1\r\n", FAKE_SEND},
    {"INFO server", "$0\r\n\r\n", FAKE_SEND},
    {"INFO server", "$12\r\nrun_id:short\r\n", FAKE_SEND},
    {"INFO server", "*1\r\n+OK\r\n", FAKE_SEND},
    {"INFO server", "-ERR unknown command\r\n", FAKE_SEND},
    {"INFO server", "?\r\n", FAKE_SEND},
    {"INFO server", "$20", FAKE_CLOSE},
    {"INFO server", "$20\r\nrun_id:0000", FAKE_RESET},
    {"INFO server", "$1000000000\r\nxxxx", FAKE_FLOOD},
    {0},
};

/* Each connection gets another invalid greeting, until the lines are used up. */
Test(fake, invalid_greetings)
{
    struct odd odd;
    open_odd(&odd, greetings);
    unsigned absent = 0;
    while (odd.fake.line->expect || !quorum_is(odd.s.client, FAKE, "ready")) {
        redlock_lease *lease = quorum_hold(&odd.s, "job", NULL);
        absent += quorum_node(lease, FAKE)->verdict == REDLOCK_VERDICT_ABSENT;
        redlock_lease_free(lease);
    }
    cr_assert_gt(absent, 0);
    cr_assert_geq(odd.fake.connections, sizeof(greetings) / sizeof(greetings[0]));
    await_ready(&odd);
    redlock_lease *lease = quorum_hold(&odd.s, "job", NULL);
    LOOP_UNTIL(odd.s.base, quorum_count_votes(lease, "granted") == 3);
    redlock_lease_free(lease);
    quorum_drain(&odd.s);
    close_odd(&odd);
}

#define DENIED                                                                             \
    "-DENIED Redis is running in protected mode because protected mode is enabled and no " \
    "password is set for the default user. In this mode connections are only accepted "    \
    "from the loopback interface.\r\n"
#define TOO_MANY "-ERR max number of clients reached\r\n"

/* What a server sends before it closes, without any command. */
static const struct {
    const char *says, *fault;
} reasons[] = {
    {DENIED, "PROTECTED"},
    {"-DENIED Running in protected mode because protected mode is enabled\r\n",
     "PROTECTED"},
    {TOO_MANY, "MAXCLIENTS"},
    {"-ERR max number of clients + cluster connections reached\r\n", "MAXCLIENTS"},
    {"-ERR no backend is alive\r\n", "ERR"},
    {"-NOAUTH Authentication required.\r\n", "NOAUTH"},
    {"+OK\r\n", "CLOSED"},
    {"-ERR max number of cli", "CLOSED"},
    {"", "CLOSED"},
};

/* Each connection is refused: the fault of the first one is reported from then on. */
static void hang_up(struct odd *odd, const char *says, enum fake_way way, bool in_greeting,
                    const char *fault)
{
    const struct fake_line line = {"INFO server", says, way};
    const struct fake_line greeting[] = {line, line, line, line, {0}}, nothing[] = {{0}};
    const char *uri[] = {odd->fake.uri, odd->s.servers.uri[0], odd->s.servers.uri[1]};
    odd->fake.refusal = in_greeting ? NULL : says;
    odd->fake.refusal_way = way;
    odd->fake.line = in_greeting ? greeting : nothing;
    redlock_client_free(odd->s.client);
    cr_assert_eq(redlock_client_new(odd->s.base, uri, 3, NULL, &odd->s.client, NULL),
                 REDLOCK_OK);
    LOOP_UNTIL(odd->s.base,
               quorum_link(odd->s.client, FAKE)->fault != REDLOCK_FAULT_CONNECTING);
    const char *reported = redlock_fault_name(quorum_link(odd->s.client, FAKE)->fault);
    cr_assert_str_eq(reported, fault, "%s, not %s, of %s%s", reported, fault, says,
                     in_greeting ? " in the greeting" : "");
}

/* It closes at once or in reply to the greeting, by an end or by a reset. */
Test(fake, the_reason_for_closing_is_reported)
{
    static const struct fake_line nothing[] = {{0}};
    struct odd odd;
    open_odd(&odd, nothing);
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        for (unsigned way = 0; way < 4; way++)
            hang_up(&odd, reasons[i].says, way % 2 ? FAKE_RESET : FAKE_CLOSE, way / 2,
                    reasons[i].fault);
    odd.fake.refusal = NULL;
    odd.fake.line = nothing;
    await_ready(&odd);
    close_odd(&odd);
}

Test(fake, a_greeting_without_a_reply)
{
    static const struct fake_line script[] = {{"INFO server", NULL, FAKE_SEND}, {0}};
    redlock_options options = quorum_options();
    options.connect_timeout_ms = 3000; /* enough for the two others, on any machine */
    struct odd odd;
    open_odd_with(&odd, script, &options);
    redlock_lease *lease = quorum_hold(&odd.s, "job", NULL);
    cr_assert_eq(quorum_node(lease, FAKE)->verdict, REDLOCK_VERDICT_ABSENT);
    redlock_lease_free(lease);
    LOOP_UNTIL(odd.s.base, quorum_link(odd.s.client, FAKE)->fault == REDLOCK_FAULT_TIMEOUT);
    await_ready(&odd);
    quorum_drain(&odd.s);
    close_odd(&odd);
}

/* Half a reply, and then nothing: the deadline counts, and the connection is given up. */
Test(fake, half_a_reply)
{
    static const struct fake_line script[] = {
        {"SET", "+O", FAKE_SEND}, {"SET", "*2147483647\r\n", FAKE_SEND}, {0}};
    redlock_options options = quorum_options();
    options.node_timeout_ms = 200;
    struct odd odd;
    open_odd_with(&odd, script, &options);
    for (unsigned i = 0; i < 2; i++) {
        await_ready(&odd);
        redlock_lease *lease = quorum_hold(&odd.s, "job", NULL);
        LOOP_UNTIL(odd.s.base, quorum_count_votes(lease, "silent") == 1);
        LOOP_UNTIL(odd.s.base, odd.fake.connections == i + 2);
        redlock_lease_free(lease);
    }
    await_ready(&odd);
    quorum_drain(&odd.s);
    close_odd(&odd);
}

/* --- only faulty nodes --- */

#define CROWD 3

struct crowd {
    struct quorum s; /* without servers */
    struct fake fake[CROWD];
    const char *uri[CROWD];
};

static void open_crowd(struct crowd *crowd, const struct fake_line *script, size_t count)
{
    memset(crowd, 0, sizeof(*crowd));
    crowd->s.base = event_base_new();
    for (size_t i = 0; i < count; i++) {
        fake_open(&crowd->fake[i], crowd->s.base, script);
        crowd->uri[i] = crowd->fake[i].uri;
    }
    cr_assert_eq(
        redlock_client_new(crowd->s.base, crowd->uri, count, NULL, &crowd->s.client, NULL),
        REDLOCK_OK);
}

static void close_crowd(struct crowd *crowd, size_t count)
{
    redlock_client_free(crowd->s.client);
    for (size_t i = 0; i < count; i++)
        fake_close(&crowd->fake[i]);
    event_base_free(crowd->s.base);
}

static void expect_no_lock(struct crowd *crowd)
{
    struct reported reported;
    redlock_lease *lease = quorum_acquire(&crowd->s, "job", NULL, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_NO_QUORUM);
    cr_assert_eq(redlock_valid_ms(lease), 0);
    redlock_lease_free(lease);
}

/* Waiting does not help if no node accepts this host: that is reported as it is. */
static void expect_refused(const char *says, redlock_code code, const char *fault,
                           bool denied)
{
    static const struct fake_line nothing[] = {{0}};
    struct crowd crowd;
    struct reported reported;
    open_crowd(&crowd, nothing, CROWD);
    for (int i = 0; i < CROWD; i++) {
        crowd.fake[i].refusal = says;
        crowd.fake[i].refusal_way = FAKE_CLOSE;
    }
    redlock_lease *lease = quorum_acquire(&crowd.s, "job", NULL, &reported);
    cr_assert_eq(reported.result.code, code, "%s", redlock_code_name(reported.result.code));
    for (unsigned i = 0; i < CROWD; i++) {
        cr_assert_str_eq(redlock_fault_name(quorum_node(lease, i)->fault), fault);
        cr_assert_eq(quorum_node(lease, i)->denied, denied);
    }
    redlock_lease_free(lease);
    close_crowd(&crowd, CROWD);
}

Test(fake, every_server_in_protected_mode)
{
    expect_refused(DENIED, REDLOCK_DENIED, "PROTECTED", true);
}

Test(fake, every_server_has_too_many_clients)
{
    expect_refused(TOO_MANY, REDLOCK_NO_QUORUM, "MAXCLIENTS", false);
}

Test(fake, only_invalid_replies)
{
    static const struct fake_line script[] = {{"SET", ":1\r\n", FAKE_FOREVER}, {0}};
    struct crowd crowd;
    open_crowd(&crowd, script, 1);
    for (int i = 0; i < 10; i++)
        expect_no_lock(&crowd);
    close_crowd(&crowd, 1);
}

/* Each grants everything, but all identify themselves as the same server. */
Test(fake, one_server_under_three_names)
{
    static const struct fake_line script[] = {{0}};
    struct crowd crowd;
    open_crowd(&crowd, script, CROWD);
    for (int i = 0; i < 3; i++)
        expect_no_lock(&crowd);
    cr_assert_eq(crowd.fake[0].commands + crowd.fake[1].commands + crowd.fake[2].commands,
                 0);
    close_crowd(&crowd, CROWD);
}
