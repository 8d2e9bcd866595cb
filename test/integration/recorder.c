/* The flight recorder of a client of real servers: what a reader finds in it. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "quorum.h"

#define ROOM 100000

static const char *record_of(const redlock_client *client)
{
    static char text[ROOM];
    cr_assert_lt(redlock_client_record(client, text, sizeof(text)), sizeof(text));
    return text;
}

/* Text after the last line that has `words`; the test fails if none has. */
static const char *after(const char *text, const char *words)
{
    const char *last = NULL;
    for (const char *at = text; (at = strstr(at, words)); at++)
        last = at;
    cr_assert_not_null(last, "no \"%s\" in:\n%s", words, text);
    return strchr(last, '\n') + 1;
}

static unsigned count(const char *text, const char *words)
{
    unsigned found = 0;
    for (const char *at = text; (at = strstr(at, words)); at++)
        found++;
    return found;
}

/* "TIME NAME NAME=VALUE ...", the times of the events in order. */
static void expect_regular(const char *text)
{
    long long before = -1;
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        char name[40], *end;
        long long at = strtoll(line, &end, 10);
        int len;
        cr_assert_eq(sscanf(end, " %39[a-z]%n", name, &len), 1, "%s", line);
        bool is_state = strcmp(name, "record") == 0 || strcmp(name, "client") == 0 ||
                        strcmp(name, "lease") == 0;
        cr_assert(is_state || at >= before, "back in time: %s", line);
        before = is_state ? before : at;
        for (end += len; *end != '\n'; end += len)
            cr_assert_eq(sscanf(end, " %*[a-z_]=%*s%n", &len), 0, "%s", line);
    }
}

struct note {
    struct quorum *quorum;
    char text[ROOM];
    unsigned times;
};

static void note_loss(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct note *note = arg;
    (void)lease;
    (void)result;
    redlock_client_record(note->quorum->client, note->text, sizeof(note->text));
    note->times++;
}

Test(recorder, of_a_lost_lock)
{
    static struct note note;
    struct quorum s;
    redlock_lease_options options = quorum_lease_options();
    options.ttl_ms = 3000;
    options.on_lost = note_loss;
    options.lost_arg = &note;
    note.quorum = &s;
    quorum_open(&s, 5);
    redlock_lease *lease = quorum_hold(&s, "a key", &options);
    cr_assert_null(strstr(record_of(s.client), " of=loss "));
    servers_kill_first(&s.servers, 3);
    LOOP_UNTIL(s.base, note.times > 0);
    expect_regular(note.text);
    const char *lost = after(note.text, " link node=2 by=failed state=down fault=");
    lost = after(lost, " by=tick node=- state=held cause=NO_QUORUM ");
    lost = after(lost, " result lease=1 attempt=1 of=loss cause=EXPIRED valid_until=");
    cr_assert_eq(count(note.text, " of=loss "), 1);
    const char *told = after(lost, " told lease=1 what=loss code=EXPIRED valid_ms=0\n");
    for (unsigned i = 0; i < 5; i++) { /* the last lines */
        char words[200];
        sprintf(words, " node node=%u uri=%s state=%s", i, s.servers.server[i].uri,
                i < 3 ? "" : "ready fault=none");
        told = after(told, words);
    }
    cr_assert_str_empty(told);
    char words[100];
    sprintf(words, " lease lease=1 attempt=1 key=a\\x20key token=%.4s ",
            redlock_token(lease) + 2);
    cr_assert_eq(count(note.text, words), 1, "%s", note.text);
    sprintf(words, "%.5s", redlock_token(lease) + 2);
    cr_assert_null(strstr(note.text, words), "more of the token");
    redlock_lease_free(lease);
    quorum_close(&s);
}

/* Each command, each reply, and what the caller asked and was told. */
Test(recorder, of_a_lock_that_is_extended_and_released)
{
    struct quorum s;
    redlock_lease_options options = quorum_quiet_options();
    quorum_open(&s, 3);
    redlock_lease *lease = quorum_hold(&s, "key-of-this-test", &options);
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_OK);
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
    quorum_drain(&s);
    const char *text = record_of(s.client);
    expect_regular(text);
    cr_assert_eq(count(text, " link node=1 by=greeted state=ready fault=none"), 1);
    cr_assert_eq(count(text, " startup ready=0,1,2\n"), 1);
    char words[200];
    const char *at = after(text,
                           " sent lease=1 attempt=1 command=acquire round=1 "
                           "nodes=0,1,2 state=acquiring key_end=his-test\n");
    static const char *const commands[] = {"acquire", "extend", "release"};
    for (unsigned i = 0; i < 3; i++)
        for (unsigned node = 0; node < 3; node++) {
            sprintf(words,
                    " reply lease=1 attempt=1 node=%u command=%s round=%u vote=granted "
                    "fault=none pttl_ms=-1 fence=0\n",
                    node, commands[i], i + 1);
            cr_assert_eq(count(at, words), 1, "%s", words);
        }
    at = after(at, " result lease=1 attempt=1 of=acquire cause=NONE valid_until=");
    at = after(at, " asked lease=1 what=extend ms=0\n");
    at = after(at,
               " sent lease=1 attempt=1 command=extend round=2 nodes=0,1,2 state=held "
               "recreate=1\n");
    at = after(at, " result lease=1 attempt=1 of=extend cause=NONE valid_until=");
    at = after(at,
               " sent lease=1 attempt=1 command=release round=3 nodes=0,1,2 "
               "state=releasing recreate=0\n");
    after(at, " result lease=1 attempt=1 of=release cause=NONE valid_until=");
    redlock_lease_free(lease);
    quorum_close_empty(&s);
}

static unsigned failures(const char *text)
{
    unsigned found = 0;
    const char *line = strstr(text, " node node=0 ");
    cr_assert_not_null(line);
    cr_assert_eq(sscanf(strstr(line, " failures="), " failures=%u", &found), 1);
    return found;
}

/* A node that stays down does not overwrite what happened before. */
Test(recorder, of_nodes_that_stay_down)
{
    struct quorum s;
    quorum_open(&s, 3);
    redlock_lease *lease = quorum_hold(&s, "job", NULL);
    servers_kill_first(&s.servers, 1);
    LOOP_UNTIL(s.base, failures(record_of(s.client)) >= 6);
    const char *text = record_of(s.client);
    cr_assert_leq(count(text, " link node=0 by=failed "), 2, "%s", text);
    cr_assert_eq(count(text, " sent lease=1 attempt=1 command=acquire "), 1);
    redlock_lease_free(lease);
    quorum_close(&s);
}

Test(recorder, of_attempts_and_their_delays)
{
    struct quorum s;
    struct reported reported = {0};
    redlock_lease_options options = quorum_quiet_options();
    quorum_open(&s, 3);
    servers_do_first(&s.servers, 3, "SET job another PX 60000");
    options.wait_ms = REDLOCK_FOREVER;
    redlock_lease *lease = quorum_start(&s, "job", &options, &reported);
    LOOP_UNTIL(s.base, strstr(record_of(s.client), " attempt=3 command=acquire "));
    redlock_cancel(lease);
    EXPECT_REPORTED(&s, &reported, REDLOCK_CANCELLED);
    const char *text = record_of(s.client);
    expect_regular(text);
    const char *at =
        after(text,
              " reply lease=1 attempt=1 node=0 command=acquire round=1 vote=held "
              "fault=none pttl_ms=");
    at = after(at, " result lease=1 attempt=1 of=attempt cause=TAKEN ");
    at = after(at, " sent lease=1 attempt=2 command=acquire ");
    at = after(at, " asked lease=1 what=cancel ms=0\n");
    after(at, " told lease=1 what=acquire code=CANCELLED valid_ms=0\n");
    cr_assert_geq(count(text, " delayed lease=1 until="), 2);
    redlock_lease_free(lease);
    quorum_close(&s);
}
