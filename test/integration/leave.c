/* Ways to end the use of a lock: cancel, free, disown, drain; and adoption by its token. */
#include <criterion/criterion.h>

#include "quorum.h"

static redlock_lease *adopt(struct quorum *s, const char *token, int64_t valid_ms,
                            const redlock_lease_options *options)
{
    redlock_lease_options mine = quorum_quiet_options();
    redlock_lease *lease = NULL;
    cr_assert_eq(redlock_adopt(s->client, "job", 3, token, valid_ms,
                               options ? options : &mine, &lease),
                 REDLOCK_OK);
    cr_assert_str_eq(redlock_token(lease), token);
    return lease;
}

/* A client holds a lock on five nodes and leaves it; returns the token; a new client. */
static const char *open_left_behind(struct quorum *s)
{
    static char token[REDLOCK_TOKEN_MAX + 1];
    quorum_open(s, 5);
    redlock_lease *lease = quorum_hold(s, "job", NULL);
    LOOP_UNTIL(s->base, servers_with(&s->servers, "job", redlock_token(lease)) == 5);
    strcpy(token, redlock_token(lease));
    redlock_disown(lease);
    cr_assert_eq(redlock_valid_ms(lease), 0);
    cr_assert_eq(redlock_release(lease, reported_note, NULL), REDLOCK_NOT_HELD);
    cr_assert_eq(redlock_extend(lease, 0, reported_note, NULL), REDLOCK_NOT_HELD);
    redlock_lease_free(lease);
    redlock_client_free(s->client);
    cr_assert_eq(servers_with(&s->servers, "job", token), 5);
    s->client = quorum_client(s, NULL);
    return token;
}

/* Frees the lease; a node that a new client greets late is reported late. */
static void close_empty(struct quorum *s, redlock_lease *lease)
{
    redlock_lease_free(lease);
    quorum_await_ready(s);
    quorum_close_empty(s);
}

/* --- leaving --- */

Test(leave, cancel_releases)
{
    struct quorum s;
    struct reported reported = {0};
    quorum_open(&s, 5);
    servers_stop(&s.servers, 0); /* these three: the acquire cannot be decided */
    servers_stop(&s.servers, 1);
    servers_stop(&s.servers, 2);
    redlock_lease *lease = quorum_start(&s, "job", NULL, &reported);
    LOOP_UNTIL(s.base, servers_keys(&s.servers) == 2);
    redlock_cancel(lease);
    cr_assert_eq(reported.times, 0, "never from inside the call");
    EXPECT_REPORTED(&s, &reported, REDLOCK_CANCELLED);
    LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
    servers_cont_first(&s.servers, 3);
    quorum_expect_empty(&s);
    cr_assert_eq(reported.times, 1);
    redlock_cancel(lease);
    redlock_lease_free(lease);
    quorum_close(&s);
}

Test(leave, free_releases)
{
    struct quorum s;
    quorum_open(&s, 5);
    redlock_lease *lease = quorum_hold(&s, "job", NULL);
    close_empty(&s, lease);
}

/* A lease that waits for the nodes of a new client has set nothing. */
Test(leave, free_before_anything_was_sent)
{
    struct quorum s;
    struct reported reported = {0};
    quorum_open_fresh(&s, 3);
    redlock_lease *lease = quorum_start(&s, "job", NULL, &reported);
    cr_assert_str_empty(redlock_token(lease));
    cr_assert_eq(redlock_explain(lease, NULL, 0), 0);
    redlock_lease_free(lease);
    quorum_await_ready(&s);
    quorum_drain(&s);
    cr_assert_eq(reported.times, 0);
    cr_assert_eq(atoll(servers_info(&s.servers, 0, "stats", "expired_keys")), 0);
    close_empty(&s, NULL);
}

Test(leave, free_null_is_allowed)
{
    redlock_lease_free(NULL);
    redlock_client_free(NULL);
    redlock_cancel(NULL);
    redlock_disown(NULL);
    cr_assert_eq(redlock_valid_ms(NULL), 0);
    cr_assert_str_empty(redlock_token(NULL));
    cr_assert_eq(redlock_explain(NULL, NULL, 0), 0);
    cr_assert_eq(redlock_extend(NULL, 0, reported_note, NULL), REDLOCK_CLOSED);
    cr_assert_eq(redlock_release(NULL, reported_note, NULL), REDLOCK_CLOSED);
}

static void note_drain(redlock_client *client, bool clean, void *arg)
{
    int *drained = arg;
    cr_assert_not_null(client);
    cr_assert_eq(*drained, 0, "once");
    *drained = clean ? 1 : -1;
}

Test(leave, a_drain_waits_for_releases)
{
    struct quorum s;
    int drained = 0;
    quorum_open(&s, 5);
    for (int i = 0; i < 50; i++) {
        char key[16];
        snprintf(key, sizeof(key), "key:%d", i);
        redlock_lease_free(quorum_hold(&s, key, NULL));
    }
    cr_assert_eq(redlock_client_drain(s.client, LOOP_PATIENCE_MS, note_drain, &drained),
                 REDLOCK_OK);
    cr_assert_eq(drained, 0, "never from inside the call");
    LOOP_UNTIL(s.base, drained);
    cr_assert_eq(drained, 1);
    cr_assert_eq(servers_keys(&s.servers), 0);
    quorum_close(&s);
}

Test(leave, a_drain_that_times_out_is_not_clean)
{
    struct quorum s;
    int drained = 0;
    quorum_open(&s, 5);
    redlock_lease *lease = quorum_hold(&s, "job", NULL);
    quorum_drain(&s);
    servers_stop(&s.servers, 4);
    redlock_lease_free(lease);
    cr_assert_eq(redlock_client_drain(s.client, 300, note_drain, &drained), REDLOCK_OK);
    LOOP_UNTIL(s.base, drained);
    cr_assert_eq(drained, -1);
    cr_assert_eq(servers_keys(&s.servers), 0);
    drained = 0;
    cr_assert_eq(redlock_client_drain(s.client, LOOP_PATIENCE_MS, note_drain, &drained),
                 REDLOCK_OK);
    servers_cont(&s.servers, 4);
    LOOP_UNTIL(s.base, drained);
    cr_assert_eq(drained, 1);
    cr_assert_eq(servers_keys(&s.servers), 0);
    quorum_close(&s);
}

static void drain_again(redlock_client *client, bool clean, void *arg)
{
    bool *done = arg;
    *done = clean;
    if (!clean)
        cr_assert_eq(redlock_client_drain(client, 0, drain_again, done), REDLOCK_OK);
}

/* The loop reads replies between two calls, and so it becomes clean. */
Test(leave, a_drain_by_polling)
{
    struct quorum s;
    bool done = false;
    quorum_open(&s, 5);
    redlock_lease_free(quorum_hold(&s, "job", NULL));
    drain_again(s.client, false, &done);
    LOOP_UNTIL(s.base, done);
    cr_assert_eq(servers_keys(&s.servers), 0);
    quorum_close(&s);
}

/* --- adopting --- */

Test(leave, adopt_with_a_deadline)
{
    struct quorum s;
    const char *token = open_left_behind(&s);
    redlock_lease *lease = adopt(&s, token, 50000, NULL);
    cr_assert(redlock_valid_ms(lease) > 0 && redlock_valid_ms(lease) <= 50000);
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_OK);
    cr_assert_gt(redlock_valid_ms(lease), 50000);
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
    close_empty(&s, lease);
}

Test(leave, adopt_and_let_the_watchdog_extend)
{
    struct quorum s;
    struct reported extended = {0};
    redlock_lease_options options = quorum_lease_options();
    options.on_extended = reported_note;
    options.extended_arg = &extended;
    const char *token = open_left_behind(&s);
    redlock_lease *lease = adopt(&s, token, 5000, &options);
    LOOP_UNTIL(s.base, extended.times > 0);
    cr_assert_gt(redlock_valid_ms(lease), 5000);
    close_empty(&s, lease);
}

Test(leave, adopt_a_bare_token)
{
    struct quorum s;
    const char *token = open_left_behind(&s);
    redlock_lease *lease = adopt(&s, token, 0, NULL);
    cr_assert_eq(redlock_valid_ms(lease), 0, "nothing is known before an extension");
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_OK);
    cr_assert_gt(redlock_valid_ms(lease), 0);
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
    cr_assert_eq(redlock_valid_ms(lease), 0);
    close_empty(&s, lease);
}

Test(leave, release_by_a_bare_token)
{
    struct quorum s;
    const char *token = open_left_behind(&s);
    redlock_lease *lease = adopt(&s, token, 0, NULL);
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    lease = adopt(&s, token, 0, NULL);
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_GONE);
    close_empty(&s, lease);
}

/* A node that has replied names the holder. */
static void expect_holder(const redlock_lease *lease, const char *holder, const char *value)
{
    cr_assert_geq(quorum_count_votes(lease, "held"), 3);
    for (unsigned i = 0; i < 5; i++) {
        if (quorum_node(lease, i)->verdict != REDLOCK_VERDICT_HELD)
            continue;
        cr_assert_str_eq(quorum_node(lease, i)->holder, holder);
        cr_assert_str_eq(quorum_node(lease, i)->value, value);
    }
}

Test(leave, a_wrong_token_does_nothing)
{
    struct quorum s;
    const char *token = open_left_behind(&s);
    redlock_lease *lease = adopt(&s, "pwrong", 0, NULL);
    quorum_await_ready(&s);
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_TAKEN);
    expect_holder(lease, "quorum", token);
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_TAKEN);
    quorum_free_lease(&s, lease);
    cr_assert_eq(servers_with(&s.servers, "job", token), 5);
    quorum_close(&s);
}

Test(leave, an_expired_token)
{
    struct quorum s;
    const char *token = open_left_behind(&s);
    servers_do_first(&s.servers, 5, "PEXPIRE job 1");
    LOOP_UNTIL(s.base, servers_with(&s.servers, "job", NULL) == 5);
    redlock_lease *lease = adopt(&s, token, 0, NULL);
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_GONE);
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_GONE);
    close_empty(&s, lease);
}

/* No operation is started: the lease is freed, so its token is released. */
Test(leave, adopt_and_free_releases)
{
    struct quorum s;
    const char *token = open_left_behind(&s);
    quorum_await_ready(&s);
    close_empty(&s, adopt(&s, token, 0, NULL));
}

Test(leave, adopt_and_disown_leaves_it)
{
    struct quorum s;
    const char *token = open_left_behind(&s);
    redlock_lease *lease = adopt(&s, token, 50000, NULL);
    redlock_disown(lease);
    quorum_free_lease(&s, lease);
    cr_assert_eq(servers_with(&s.servers, "job", token), 5);
    quorum_close(&s);
}
