/* The flight recorder: it keeps the last events in their order, and makes text of each. */
#include "client/recorder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"

#define BEGAN 1000000

static redlock_client client; /* without nodes and leases */
static char text[100000];

static void open_client(void)
{
    struct rl_loop *loop = &client.loop;
    TAILQ_INIT(&loop->list);
    loop->now = BEGAN;
    rl_recorder_init(&loop->recorder, BEGAN);
}

TestSuite(recorder, .init = open_client);

/* Its numbers tell the events apart. */
static void ask(int64_t number)
{
    client.loop.now = BEGAN + number;
    struct rl_record *record =
        rl_loop_record(&client.loop, RL_RECORD_ASKED, rl_record_lease(3));
    record->head.what = RL_RECORD_EXTEND;
    record->ms = number;
}

/* The text from its first event on. */
static const char *events(void)
{
    size_t len = redlock_client_record(&client, text, sizeof(text));
    cr_assert_lt(len, sizeof(text));
    cr_assert_eq(len, strlen(text));
    const char *client_line = strstr(text, " client ");
    cr_assert_not_null(client_line);
    return strchr(client_line, '\n') + 1;
}

static void expect_numbers(int64_t first, int64_t end)
{
    const char *at = events();
    for (int64_t number = first; number < end; number++) {
        char line[100];
        int len =
            sprintf(line, "%d asked lease=3 what=extend ms=%d\n", (int)number, (int)number);
        cr_assert(strncmp(at, line, (size_t)len) == 0, "%s instead of %s", at, line);
        at += len;
    }
    cr_assert_str_empty(at);
}

Test(recorder, without_events)
{
    cr_assert_str_empty(events());
    cr_assert_not_null(strstr(text, "0 record format=1 "));
    cr_assert_not_null(strstr(text, " full=0\n"));
    cr_assert_not_null(strstr(text, "0 client nodes=0 quorum=0 "));
}

Test(recorder, the_last_256_events_in_their_order)
{
    for (int64_t number = 0; number < 3 * RL_RECORDS; number++) {
        ask(number);
        expect_numbers(number < RL_RECORDS ? 0 : number + 1 - RL_RECORDS, number + 1);
        cr_assert_eq(strstr(text, " full=1\n") != NULL, number + 1 >= RL_RECORDS);
    }
}

/* The end that fits, from the beginning of a line. */
Test(recorder, a_text_that_is_too_long)
{
    for (int64_t number = 0; number < 10; number++)
        ask(number);
    size_t len = redlock_client_record(&client, text, sizeof(text));
    cr_assert_eq(redlock_client_record(&client, NULL, 0), len);
    for (size_t room = 1; room <= len + 1; room++) {
        char *part = malloc(room); /* its end is watched by the sanitizer and valgrind */
        cr_assert_eq(redlock_client_record(&client, part, room), len);
        size_t kept = strlen(part);
        const char *end = text + len - kept;
        cr_assert_lt(kept, room);
        cr_assert_str_eq(part, end);
        cr_assert(end == text || end[-1] == '\n');
        const char *before = end - 1;
        while (end > text && before > text && before[-1] != '\n')
            before--;
        cr_assert(end == text || strlen(before) >= room, "a line more would fit");
        free(part);
    }
}

static struct rl_record *add(enum rl_record_type type)
{
    return rl_loop_record(&client.loop, type, rl_record_attempt(rl_record_lease(7), 1));
}

static void expect_line(const char *line)
{
    cr_assert_str_eq(events(), line);
    memset(&client.loop.recorder, 0, sizeof(client.loop.recorder));
    rl_recorder_init(&client.loop.recorder, BEGAN);
    client.loop.now += 5;
}

static void add_acquire(const char *key)
{
    struct rl_record *record = add(RL_RECORD_SENT);
    size_t room = sizeof(record->sent.key_end),
           len = strlen(key) < room ? strlen(key) : room;
    char *end = (char *)&record->sent.key_end;
    record->head.what = RL_CMD_ACQUIRE;
    record->head.state = RL_LEASE_ACQUIRING;
    record->sent.nodes = 0x15;
    record->sent.round = 1;
    record->sent.key_len = (uint16_t)strlen(key);
    memset(end, '?', room);
    memcpy(end + room - len, key + strlen(key) - len, len);
}

Test(recorder, commands)
{
    add_acquire("a long key");
    expect_line(
        "0 sent lease=7 attempt=2 command=acquire round=1 nodes=0,2,4 "
        "state=acquiring key_end=long\\x20key\n");
    add_acquire("k\n");
    expect_line(
        "5 sent lease=7 attempt=2 command=acquire round=1 nodes=0,2,4 "
        "state=acquiring key_end=k\\x0a\n");
    struct rl_record *record = add(RL_RECORD_SENT);
    record->head.what = RL_CMD_EXTEND;
    record->head.state = RL_LEASE_HELD;
    record->sent.nodes = 1;
    record->sent.round = 70000;
    record->sent.recreate = true;
    expect_line(
        "10 sent lease=7 attempt=2 command=extend round=70000 nodes=0 state=held "
        "recreate=1\n");
    record = add(RL_RECORD_REPLY);
    record->event = (struct rl_lease_event){
        .type = RL_EVENT_VOTE,
        .command = RL_CMD_RAISE_FENCE,
        .node = 31,
        .vote = RL_VOTE_ERROR,
        .fault = RL_FAULT_OOM,
        .seq = 70000,
        .pttl = -1,
        .fence = 1700000000000000,
    };
    expect_line(
        "15 reply lease=7 attempt=2 node=31 command=raise_fence round=70000 vote=error "
        "fault=oom pttl_ms=-1 fence=1700000000000000\n");
}

static void add_step(enum rl_lease_event_type by)
{
    struct rl_record *record = add(RL_RECORD_STEP);
    record->head.node = 2;
    record->step.by = by;
    record->step.state = RL_LEASE_HELD;
    record->step.cause = RL_CAUSE_NO_QUORUM;
    record->step.granted = 0;
    record->step.waiting = 1;
    record->step.missing = ~UINT32_C(0);
}

Test(recorder, steps)
{
    static const char state[] =
        "state=held cause=NO_QUORUM granted=- waiting=0 missing=0,1,2,3,4,5,6,7,8,9,10,11,"
        "12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n";
    char line[300];
    add_step(RL_EVENT_TICK);
    sprintf(line, "0 step lease=7 attempt=2 by=tick node=- %s", state);
    expect_line(line);
    add_step(RL_EVENT_RESTARTED);
    sprintf(line, "5 step lease=7 attempt=2 by=restarted node=2 %s", state);
    expect_line(line);
}

static void set_result(struct rl_record *record, unsigned reports, enum rl_cause cause)
{
    record->head.what = reports & 0xff;
    record->head.state = cause;
    record->until = BEGAN + 70;
}

static void add_result(unsigned reports, enum rl_cause cause)
{
    set_result(add(RL_RECORD_RESULT), reports, cause);
}

Test(recorder, results)
{
    add_result(RL_REPORT_LOST | RL_REPORT_NOT_EXTENDED, RL_CAUSE_GONE);
    expect_line(
        "0 result lease=7 attempt=2 of=loss,no_extension cause=GONE "
        "valid_until=70\n");
    add_result(RL_REPORT_HELD, RL_CAUSE_NONE);
    expect_line("5 result lease=7 attempt=2 of=acquire cause=NONE valid_until=70\n");
    add_result(RL_REPORT_FAILED, RL_CAUSE_TAKEN);
    expect_line("10 result lease=7 attempt=2 of=attempt cause=TAKEN valid_until=70\n");
    add_result(RL_REPORT_EXTENDED, RL_CAUSE_NONE);
    expect_line("15 result lease=7 attempt=2 of=extend cause=NONE valid_until=70\n");
    add_result(RL_REPORT_RENEWED, RL_CAUSE_NONE);
    expect_line(
        "20 result lease=7 attempt=2 of=watchdog_extend cause=NONE valid_until=70\n");
    add_result(RL_REPORT_RELEASED, RL_CAUSE_UNCONFIRMED);
    expect_line(
        "25 result lease=7 attempt=2 of=release cause=UNCONFIRMED "
        "valid_until=70\n");
}

/* A reply that decides a round, and a step, have their result in the same record. */
Test(recorder, events_with_a_result)
{
    struct rl_record *record = add(RL_RECORD_REPLY);
    record->event = (struct rl_lease_event){
        .type = RL_EVENT_VOTE, .vote = RL_VOTE_GRANTED, .seq = 1, .pttl = -1};
    cr_assert_eq(rl_record_lines(record), 1);
    set_result(record, RL_REPORT_HELD, RL_CAUSE_NONE);
    cr_assert_eq(rl_record_lines(record), 2);
    expect_line(
        "0 reply lease=7 attempt=2 node=0 command=acquire round=1 vote=granted fault=none "
        "pttl_ms=-1 fence=0\n"
        "0 result lease=7 attempt=2 of=acquire cause=NONE valid_until=70\n");
    add_step(RL_EVENT_TICK);
    record = client.loop.recorder.record;
    set_result(record, RL_REPORT_LOST, RL_CAUSE_EXPIRED);
    const char *result = strchr(events(), '\n') + 1;
    cr_assert_str_eq(result,
                     "5 result lease=7 attempt=2 of=loss cause=EXPIRED valid_until=70\n");
}

Test(recorder, the_caller)
{
    struct rl_record *record = add(RL_RECORD_TOLD);
    record->head.what = RL_RECORD_LOSS;
    record->head.state = REDLOCK_EXPIRED;
    record->ms = 17;
    expect_line("0 told lease=7 what=loss code=EXPIRED valid_ms=17\n");
    add(RL_RECORD_DELAYED)->until = BEGAN + 30;
    expect_line("5 delayed lease=7 until=30\n");
    add(RL_RECORD_DELAYED)->until = RL_NEVER;
    expect_line("10 delayed lease=7 until=-1\n");
    record = add(RL_RECORD_NOTIFIED);
    record->head.node = 1;
    record->head.state = 0;
    expect_line("15 notified lease=7 node=1 position=0\n");
}

Test(recorder, nodes)
{
    struct rl_record *record = add(RL_RECORD_LINK);
    record->head.what = RL_LINK_FAILED;
    record->head.node = 1;
    record->head.state = RL_LINK_DOWN;
    record->link.fault = RL_FAULT_CONNECT;
    record->link.restarted = false;
    expect_line("0 link node=1 by=failed state=down fault=connect restarted=0\n");
    record = add(RL_RECORD_SUBSCRIBED);
    record->head.node = 1;
    record->head.state = true;
    expect_line("5 subscribed node=1 on=1\n");
    add(RL_RECORD_STARTUP)->nodes = 3;
    expect_line("10 startup ready=0,1\n");
    add(RL_RECORD_MEMBERS)->nodes = 0;
    expect_line("15 members active=-\n");
}

/* The number of an attempt wraps: it never changes that of its lease. */
Test(recorder, numbers_of_attempts)
{
    uint32_t first = rl_record_lease(4);
    for (unsigned retries = 0; retries < 1000; retries++)
        cr_assert_eq(rl_record_attempt(first, retries) >> 8, 4u);
    cr_assert_eq(rl_record_attempt(first, 0), first);
    cr_assert_neq(rl_record_attempt(first, 1), first);
}
