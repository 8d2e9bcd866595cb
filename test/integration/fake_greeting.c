/* A node whose greeting is invalid or that closes, and clients with faulty nodes only. */
#include <criterion/criterion.h>

#include "fake_quorum.h"

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
Test(fake_greeting, invalid_greetings)
{
    struct fake_quorum f;
    fake_quorum_open_with(&f, greetings, NULL);
    unsigned absent = 0;
    while (f.fake.line->expect || !quorum_is(f.s.client, FAKE, "ready")) {
        redlock_lease *lease = quorum_hold(&f.s, "job", NULL);
        absent += quorum_node(lease, FAKE)->verdict == REDLOCK_VERDICT_ABSENT;
        redlock_lease_free(lease);
    }
    cr_assert_gt(absent, 0);
    cr_assert_geq(f.fake.connections, sizeof(greetings) / sizeof(greetings[0]));
    fake_quorum_await_ready(&f);
    redlock_lease *lease = quorum_hold(&f.s, "job", NULL);
    LOOP_UNTIL(f.s.base, quorum_count_votes(lease, "granted") == 3);
    quorum_free_lease(&f.s, lease);
    fake_quorum_close(&f);
}

#define DENIED                                                                             \
    "-DENIED Redis is running in protected mode because protected mode is enabled and no " \
    "password is set for the default user. In this mode connections are only accepted "    \
    "from the loopback interface.\r\n"
#define TOO_MANY "-ERR max number of clients reached\r\n"

/* A server's bytes before it closes, without any command. */
static const struct {
    const char *says, *fault;
} reasons[] = {
    {DENIED, "protected"},
    {"-DENIED Running in protected mode because protected mode is enabled\r\n",
     "protected"},
    {TOO_MANY, "maxclients"},
    {"-ERR max number of clients + cluster connections reached\r\n", "maxclients"},
    {"-ERR no backend is alive\r\n", "err"},
    {"-NOAUTH Authentication required.\r\n", "noauth"},
    {"+OK\r\n", "closed"},
    {"-ERR max number of cli", "closed"},
    {"", "closed"},
};

/* Each connection is refused: the fault of the first one is reported from then on. */
static void hang_up(struct fake_quorum *f, const char *says, enum fake_way way,
                    bool in_greeting, const char *fault)
{
    const struct fake_line line = {"INFO server", says, way};
    const struct fake_line greeting[] = {line, line, line, line, {0}}, nothing[] = {{0}};
    const char *uri[] = {f->fake.uri, f->s.servers.uri[0], f->s.servers.uri[1]};
    f->fake.refusal = in_greeting ? NULL : says;
    f->fake.refusal_way = way;
    f->fake.line = in_greeting ? greeting : nothing;
    redlock_client_free(f->s.client);
    cr_assert_eq(redlock_client_new(f->s.base, uri, 3, NULL, &f->s.client), REDLOCK_OK);
    LOOP_UNTIL(f->s.base,
               quorum_link(f->s.client, FAKE)->fault != REDLOCK_FAULT_CONNECTING);
    const char *reported = redlock_fault_name(quorum_link(f->s.client, FAKE)->fault);
    cr_assert_str_eq(reported, fault, "%s, not %s, of %s%s", reported, fault, says,
                     in_greeting ? " in the greeting" : "");
}

/* It closes at once or in reply to the greeting, by an end or by a reset. */
Test(fake_greeting, the_reason_for_closing_is_reported)
{
    static const struct fake_line nothing[] = {{0}};
    struct fake_quorum f;
    fake_quorum_open_with(&f, nothing, NULL);
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        for (unsigned way = 0; way < 4; way++)
            hang_up(&f, reasons[i].says, way % 2 ? FAKE_RESET : FAKE_CLOSE, way / 2,
                    reasons[i].fault);
    f.fake.refusal = NULL;
    f.fake.line = nothing;
    fake_quorum_await_ready(&f);
    fake_quorum_close(&f);
}

/* The node has no vote as long as it refuses the script of the greeting. */
Test(fake_greeting, a_server_that_runs_no_scripts)
{
    static const struct {
        const char *says;
        redlock_fault fault;
    } refusals[] = {
        {"-NOPERM User me has no permissions to run the 'eval' command\r\n",
         REDLOCK_FAULT_NOPERM},
        {"-ERR unknown command 'EVAL', with args beginning with: 'return 1' '0' \r\n",
         REDLOCK_FAULT_NO_EVAL},
        {"-ERR Could not find scripting engine 'lua'\r\n", REDLOCK_FAULT_NO_EVAL},
        {"-BUSY Redis is busy running a script.\r\n", REDLOCK_FAULT_BUSY},
        {"-LOADING Redis is loading the dataset in memory\r\n", REDLOCK_FAULT_LOADING},
        {"+OK\r\n", REDLOCK_FAULT_PROTOCOL},
        {"-OOM command not allowed when used memory > 'maxmemory'.\r\n", REDLOCK_FAULT_OOM},
    };
    static const struct fake_line nothing[] = {{0}};
    struct fake_quorum f;
    fake_quorum_open_with(&f, nothing, NULL);
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        const struct fake_line refused[] = {
            {"EVAL return 1", refusals[i].says, FAKE_FOREVER}, {0}};
        const char *uri[] = {f.fake.uri, f.s.servers.uri[0], f.s.servers.uri[1]};
        f.fake.line = refused;
        redlock_client_free(f.s.client);
        cr_assert_eq(redlock_client_new(f.s.base, uri, 3, NULL, &f.s.client), REDLOCK_OK);
        LOOP_UNTIL(f.s.base, quorum_link(f.s.client, FAKE)->fault == refusals[i].fault);
        unsigned asked = f.fake.commands;
        redlock_lease *lease = quorum_hold(&f.s, "job", NULL);
        cr_assert_eq(quorum_node(lease, FAKE)->verdict, REDLOCK_VERDICT_ABSENT);
        quorum_free_lease(&f.s, lease);
        cr_assert_eq(f.fake.commands, asked);
        f.fake.line = nothing;
        fake_quorum_await_ready(&f); /* it is asked again, and is not refused for ever */
    }
    fake_quorum_close(&f);
}

Test(fake_greeting, a_greeting_without_a_reply)
{
    static const struct fake_line script[] = {{"INFO server", NULL, FAKE_FOREVER}, {0}},
                                  answered[] = {{0}};
    redlock_options options = quorum_options();
    options.connect_timeout_ms = 3000; /* enough for the two others, on any machine */
    struct fake_quorum f;
    fake_quorum_open_with(&f, script, &options);
    redlock_lease *lease = quorum_hold(&f.s, "job", NULL);
    cr_assert_eq(quorum_node(lease, FAKE)->verdict, REDLOCK_VERDICT_ABSENT);
    redlock_lease_free(lease);
    LOOP_UNTIL(f.s.base, quorum_link(f.s.client, FAKE)->fault == REDLOCK_FAULT_TIMEOUT);
    f.fake.line = answered;
    fake_quorum_await_ready(&f);
    quorum_drain(&f.s);
    fake_quorum_close(&f);
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
        redlock_client_new(crowd->s.base, crowd->uri, count, NULL, &crowd->s.client),
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
static void expect_refused(const char *says, redlock_code code, redlock_reason reason,
                           const char *fault)
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
    cr_assert_eq(reported.result.reason, reason);
    for (unsigned i = 0; i < CROWD; i++) {
        cr_assert_str_eq(redlock_fault_name(quorum_node(lease, i)->fault), fault);
        cr_assert_eq(quorum_node(lease, i)->denied, code == REDLOCK_DENIED);
    }
    redlock_lease_free(lease);
    close_crowd(&crowd, CROWD);
}

Test(fake_greeting, every_server_in_protected_mode)
{
    expect_refused(DENIED, REDLOCK_DENIED, REDLOCK_REASON_PROTECTED, "protected");
}

Test(fake_greeting, every_server_has_too_many_clients)
{
    expect_refused(TOO_MANY, REDLOCK_NO_QUORUM, REDLOCK_REASON_REFUSED, "maxclients");
}

Test(fake_greeting, only_invalid_replies)
{
    static const struct fake_line script[] = {{"SET", ":1\r\n", FAKE_FOREVER}, {0}};
    struct crowd crowd;
    open_crowd(&crowd, script, 1);
    for (int i = 0; i < 10; i++)
        expect_no_lock(&crowd);
    close_crowd(&crowd, 1);
}

/* Each grants everything, but all identify themselves as the same server. */
Test(fake_greeting, one_server_under_three_names)
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
