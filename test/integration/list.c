/* All locks on the nodes: redlock_list(). */
#include <criterion/criterion.h>
#include <stdio.h>

#include "fake_quorum.h"
#include "redlock/admin.h"

#define LOCKS 200

struct seen {
    unsigned keys, ends;
    redlock_code code;
    bool found[LOCKS];
    unsigned frees_at;      /* the client, at which key; 0: at none */
    struct servers *pauses; /* NULL, or all of them, at the first key */
    unsigned unknown;
};

#define PAUSE_MS                                                                           \
    400 /* longer than a reply is waited for, shorter than a connection lives */

static void note(redlock_client *client, const redlock_listed *listed, void *arg)
{
    struct seen *seen = arg;
    unsigned number;
    if (!listed->inspection) {
        cr_assert_null(listed->key);
        seen->ends++;
        seen->code = listed->code;
        return;
    }
    char text[32];
    cr_assert_eq(seen->ends, 0);
    snprintf(text, sizeof(text), "%.*s", (int)listed->key_len, (const char *)listed->key);
    cr_assert_eq(sscanf(text, "job:%u", &number), 1, "%s", text);
    cr_assert_not(seen->found[number], "%s is there twice", text);
    seen->found[number] = true;
    seen->keys++;
    cr_assert_eq(listed->inspection->agreeing, listed->inspection->held);
    cr_assert_eq(listed->code, listed->inspection->code);
    seen->unknown += listed->code == REDLOCK_NO_QUORUM;
    for (unsigned i = 0; seen->pauses && i < 3; i++)
        servers_do(seen->pauses, i, "CLIENT PAUSE %d ALL", PAUSE_MS);
    seen->pauses = NULL;
    if (seen->keys == seen->frees_at)
        redlock_client_free(client);
}

static redlock_code list(struct quorum *s, struct seen *seen)
{
    *seen = (struct seen){0};
    cr_assert_eq(redlock_list(s->client, "job:", 4, 0, note, seen), REDLOCK_OK);
    LOOP_UNTIL(s->base, seen->ends > 0);
    return seen->code;
}

/* Lock i is on all nodes, or on node i % 3 only. */
static void fill(struct quorum *s)
{
    for (unsigned i = 0; i < LOCKS; i++)
        for (unsigned node = 0; node < 3; node++)
            if (i % 4 != 0 || node == i % 3)
                servers_do(&s->servers, node,
                           "SET job:%u paaaaaaaabbbbbbbbccccccccdddddddd", i);
}

Test(list, each_lock_once)
{
    struct quorum s;
    struct seen seen;
    quorum_open(&s, 3);
    cr_assert_eq(list(&s, &seen), REDLOCK_OK);
    cr_assert_eq(seen.keys, 0);
    fill(&s);
    cr_assert_eq(list(&s, &seen), REDLOCK_OK);
    cr_assert_eq(seen.keys, LOCKS);
    quorum_close(&s);
}

Test(list, nodes_that_pause)
{
    struct quorum s;
    struct seen seen = {0};
    quorum_open(&s, 3);
    fill(&s);
    seen.pauses = &s.servers;
    cr_assert_eq(redlock_list(s.client, "job:", 4, 0, note, &seen), REDLOCK_OK);
    LOOP_UNTIL(s.base, seen.ends > 0);
    cr_assert_eq(seen.code, REDLOCK_OK);
    cr_assert_eq(seen.keys, LOCKS);
    cr_assert_eq(seen.unknown, 0);
    quorum_close(&s);
}

/* Of the keys that node 1 or 2 alone has, node 0 might have made a quorum. */
Test(list, keys_that_a_dead_node_may_have)
{
    struct quorum s;
    struct seen seen;
    quorum_open(&s, 3);
    fill(&s);
    servers_kill(&s.servers, 0);
    cr_assert_eq(list(&s, &seen), REDLOCK_OK);
    for (unsigned i = 0; i < LOCKS; i++)
        cr_assert_eq(seen.found[i], i % 4 != 0 || i % 3 != 0);
    cr_assert_eq(seen.unknown, seen.keys - LOCKS * 3 / 4);
    quorum_close(&s);
}

Test(list, too_few_nodes)
{
    struct quorum s;
    struct seen seen;
    quorum_open(&s, 3);
    fill(&s);
    servers_kill(&s.servers, 0);
    cr_assert_eq(list(&s, &seen), REDLOCK_OK);
    servers_kill(&s.servers, 1);
    cr_assert_eq(list(&s, &seen), REDLOCK_NO_QUORUM);
    quorum_close(&s);
}

Test(list, a_user_without_the_right)
{
    struct quorum s;
    struct seen seen;
    quorum_open(&s, 3);
    for (unsigned i = 0; i < 3; i++)
        servers_do(&s.servers, i, "ACL SETUSER default -scan");
    cr_assert_eq(list(&s, &seen), REDLOCK_DENIED);
    quorum_close(&s);
}

/* One that is always at the same place, whether it has keys or not. */
static void list_beside(const char *page)
{
    const struct fake_line script[] = {{"EVAL", page, FAKE_FOREVER}, {0}};
    struct fake_quorum f;
    struct seen seen = {0};
    fake_quorum_open(&f, script);
    for (unsigned i = 0; i < 2; i++)
        servers_do(&f.s.servers, i,
                   "SET job:7 paaaaaaaabbbbbbbbccccccccdddddddd PX 600000");
    cr_assert_eq(list(&f.s, &seen), REDLOCK_OK);
    cr_assert(seen.found[7]);
    for (unsigned i = 0; i < 2; i++)
        servers_do(&f.s.servers, i, "DEL job:7");
    fake_quorum_close(&f);
}

Test(list, a_scan_that_never_ends)
{
    list_beside("*4\r\n$1\r\n7\r\n:0\r\n$0\r\n\r\n:0\r\n");
}

Test(list, the_client_is_freed)
{
    struct quorum s;
    struct seen seen = {0};
    quorum_open(&s, 3);
    fill(&s);
    cr_assert_eq(redlock_list(s.client, "", 0, 0, note, &seen), REDLOCK_OK);
    redlock_client_free(s.client);
    s.client = NULL;
    cr_assert_eq(seen.ends, 1);
    cr_assert_eq(seen.code, REDLOCK_CANCELLED);
    quorum_close(&s);
}

/* Some locks have so many readers that a reply has room for one of them. */
static void fill_readers(struct quorum *s)
{
    static const char script[] =
        "for i = 1, 64 do for reader = 10, 39 do redis.call('ZADD', 'job:' .. 3 * i, 9e15, "
        "'s' .. string.rep('a', 30) .. string.gsub(reader, '[0189]', 'b') .. '@' .. "
        "string.rep(reader, 32)) end end";
    for (unsigned node = 0; node < 3; node++) {
        for (unsigned i = 3; i <= 192; i += 3)
            servers_do(&s->servers, node, "DEL job:%u", i);
        servers_do(&s->servers, node, "EVAL %s 0", script);
    }
}

/* At each key of the first pages: it may be the last one of a command, or of a reply. */
Test(list, the_client_is_freed_in_a_callback)
{
    struct quorum s;
    redlock_options options = quorum_options();
    quorum_open(&s, 3);
    fill(&s);
    fill_readers(&s);
    for (unsigned at = 1; at <= 20; at++) {
        struct seen seen = {.frees_at = at};
        cr_assert_eq(redlock_list(s.client, "", 0, 0, note, &seen), REDLOCK_OK);
        LOOP_UNTIL(s.base, seen.ends > 0);
        cr_assert_eq(seen.keys, at);
        cr_assert_eq(seen.code, REDLOCK_CANCELLED);
        s.client = quorum_client(&s, &options);
    }
    quorum_close(&s);
}
