/* Leaving a lock: cancelled, freed, disowned, drained; and taking one over by its token. */
#include <criterion/criterion.h>

#include "stage.h"

static redlock_lease_options quiet_options(void)
{
    redlock_lease_options options = stage_lease_options();
    options.watchdog = false;
    return options;
}

static redlock_lease *adopt(struct stage *s, const char *token, int64_t valid_ms,
                            const redlock_lease_options *options)
{
    redlock_lease_options mine = quiet_options();
    redlock_lease *lease = NULL;
    cr_assert_eq(redlock_adopt(s->client, "job", 3, token, valid_ms,
                               options ? options : &mine, &lease),
                 REDLOCK_OK);
    cr_assert_str_eq(redlock_token(lease), token);
    return lease;
}

/* The stage's client holds a lock and leaves it; the token, and a fresh client. */
static void leave_behind(struct stage *s, char token[REDLOCK_TOKEN_MAX + 1])
{
    redlock_lease *lease = stage_hold(s, "job", NULL);
    LOOP_UNTIL(s->base, servers_with(&s->servers, "job", redlock_token(lease)) == 5);
    strcpy(token, redlock_token(lease));
    redlock_disown(lease);
    cr_assert_eq(redlock_valid_ms(lease), 0);
    cr_assert_eq(redlock_release(lease, told_note, NULL), REDLOCK_NOT_HELD);
    cr_assert_eq(redlock_extend(lease, 0, told_note, NULL), REDLOCK_NOT_HELD);
    redlock_lease_free(lease);
    redlock_client_free(s->client);
    cr_assert_eq(servers_with(&s->servers, "job", token), 5);
    s->client = stage_client(s, NULL);
}

/* A node that a fresh client greets late is told late. */
static void close_empty(struct stage *s)
{
    stage_settle(s);
    stage_drain(s);
    cr_assert_eq(servers_keys(&s->servers), 0);
    stage_close(s);
}

/* --- leaving --- */

Test(leave, cancel_releases)
{
    struct stage s;
    struct told told = {0};
    redlock_lease_options options = stage_lease_options();
    redlock_lease *lease;
    stage_open(&s, 5);
    servers_stop(&s.servers, 0); /* these three: the acquire cannot be decided */
    servers_stop(&s.servers, 1);
    servers_stop(&s.servers, 2);
    cr_assert_eq(redlock_acquire(s.client, "job", 3, &options, told_note, &told, &lease),
                 REDLOCK_OK);
    LOOP_UNTIL(s.base, servers_keys(&s.servers) == 2);
    redlock_cancel(lease);
    cr_assert_eq(told.times, 0, "never from inside the call");
    EXPECT_TOLD(&s, &told, REDLOCK_CANCELLED);
    LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
    for (unsigned i = 0; i < 3; i++)
        servers_cont(&s.servers, i);
    stage_drain(&s);
    cr_assert_eq(servers_keys(&s.servers), 0);
    cr_assert_eq(told.times, 1);
    redlock_cancel(lease);
    redlock_lease_free(lease);
    stage_close(&s);
}

Test(leave, free_releases)
{
    struct stage s;
    stage_open(&s, 5);
    redlock_lease *lease = stage_hold(&s, "job", NULL);
    redlock_lease_free(lease);
    close_empty(&s);
}

/* A lease that waits for the nodes of a fresh client has set nothing. */
Test(leave, free_before_anything_was_sent)
{
    struct stage s;
    struct told told = {0};
    redlock_lease_options options = stage_lease_options();
    redlock_lease *lease;
    stage_open_fresh(&s, 3);
    cr_assert_eq(redlock_acquire(s.client, "job", 3, &options, told_note, &told, &lease),
                 REDLOCK_OK);
    cr_assert_str_empty(redlock_token(lease));
    cr_assert_eq(redlock_explain(lease, NULL, 0), 0);
    redlock_lease_free(lease);
    stage_settle(&s);
    stage_drain(&s);
    cr_assert_eq(told.times, 0);
    cr_assert_eq(atoll(servers_info(&s.servers, 0, "stats", "expired_keys")), 0);
    close_empty(&s);
}

Test(leave, free_null_is_fine)
{
    redlock_lease_free(NULL);
    redlock_client_free(NULL);
    redlock_cancel(NULL);
    redlock_disown(NULL);
    cr_assert_eq(redlock_valid_ms(NULL), 0);
    cr_assert_str_empty(redlock_token(NULL));
    cr_assert_eq(redlock_explain(NULL, NULL, 0), 0);
    cr_assert_eq(redlock_extend(NULL, 0, told_note, NULL), REDLOCK_CLOSED);
    cr_assert_eq(redlock_release(NULL, told_note, NULL), REDLOCK_CLOSED);
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
    struct stage s;
    int drained = 0;
    stage_open(&s, 5);
    for (int i = 0; i < 50; i++) {
        char key[16];
        snprintf(key, sizeof(key), "key:%d", i);
        redlock_lease_free(stage_hold(&s, key, NULL));
    }
    cr_assert_eq(redlock_client_drain(s.client, LOOP_PATIENCE_MS, note_drain, &drained),
                 REDLOCK_OK);
    cr_assert_eq(drained, 0, "never from inside the call");
    LOOP_UNTIL(s.base, drained);
    cr_assert_eq(drained, 1);
    cr_assert_eq(servers_keys(&s.servers), 0);
    stage_close(&s);
}

Test(leave, a_drain_that_runs_out_is_not_clean)
{
    struct stage s;
    int drained = 0;
    stage_open(&s, 5);
    redlock_lease *lease = stage_hold(&s, "job", NULL);
    stage_drain(&s);
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
    stage_close(&s);
}

/* --- taking over --- */

Test(leave, adopt_with_a_deadline)
{
    struct stage s;
    char token[REDLOCK_TOKEN_MAX + 1];
    stage_open(&s, 5);
    leave_behind(&s, token);
    redlock_lease *lease = adopt(&s, token, 50000, NULL);
    cr_assert(redlock_valid_ms(lease) > 0 && redlock_valid_ms(lease) <= 50000);
    cr_assert_eq(stage_extend(&s, lease, 0), REDLOCK_OK);
    cr_assert_gt(redlock_valid_ms(lease), 50000);
    cr_assert_eq(stage_release(&s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    close_empty(&s);
}

/* It was held without a gap, so that a minority may be repaired. */
Test(leave, adopt_with_a_deadline_repairs)
{
    struct stage s;
    char token[REDLOCK_TOKEN_MAX + 1];
    stage_open(&s, 5);
    leave_behind(&s, token);
    servers_do(&s.servers, 0, "DEL job");
    servers_do(&s.servers, 1, "DEL job");
    redlock_lease *lease = adopt(&s, token, 50000, NULL);
    stage_settle(&s);
    cr_assert_eq(stage_extend(&s, lease, 0), REDLOCK_OK);
    LOOP_UNTIL(s.base, servers_with(&s.servers, "job", token) == 5);
    redlock_lease_free(lease);
    close_empty(&s);
}

Test(leave, adopt_and_let_the_watchdog_extend)
{
    struct stage s;
    struct told extended = {0};
    char token[REDLOCK_TOKEN_MAX + 1];
    redlock_lease_options options = stage_lease_options();
    options.on_extended = told_note;
    options.extended_arg = &extended;
    stage_open(&s, 5);
    leave_behind(&s, token);
    redlock_lease *lease = adopt(&s, token, 5000, &options);
    LOOP_UNTIL(s.base, extended.times > 0);
    cr_assert_gt(redlock_valid_ms(lease), 5000);
    redlock_lease_free(lease);
    close_empty(&s);
}

/* What is told of a deadline is believed: it runs out, and is told as lost. */
Test(leave, adopt_after_the_deadline)
{
    struct stage s;
    struct told lost = {0};
    redlock_lease_options options = quiet_options();
    options.on_lost = told_note;
    options.lost_arg = &lost;
    stage_open(&s, 3);
    redlock_lease *lease = adopt(&s, "token", 50, &options);
    LOOP_UNTIL(s.base, lost.times > 0);
    cr_assert_eq(lost.result.code, REDLOCK_EXPIRED);
    cr_assert_eq(redlock_valid_ms(lease), 0);
    cr_assert_eq(stage_extend(&s, lease, 0), REDLOCK_NOT_HELD);
    redlock_lease_free(lease);
    close_empty(&s);
}

Test(leave, adopt_a_bare_token)
{
    struct stage s;
    char token[REDLOCK_TOKEN_MAX + 1];
    stage_open(&s, 5);
    leave_behind(&s, token);
    redlock_lease *lease = adopt(&s, token, 0, NULL);
    cr_assert_eq(redlock_valid_ms(lease), 0, "nothing is known before an extension");
    cr_assert_eq(stage_extend(&s, lease, 0), REDLOCK_OK);
    cr_assert_gt(redlock_valid_ms(lease), 0);
    cr_assert_eq(stage_release(&s, lease), REDLOCK_OK);
    cr_assert_eq(redlock_valid_ms(lease), 0);
    redlock_lease_free(lease);
    close_empty(&s);
}

/* A bare token never plants, and needs q nodes that have it still. */
Test(leave, adopt_a_bare_token_on_a_bare_majority)
{
    struct stage s;
    char token[REDLOCK_TOKEN_MAX + 1];
    stage_open(&s, 5);
    leave_behind(&s, token);
    servers_do(&s.servers, 0, "DEL job");
    servers_do(&s.servers, 1, "DEL job");
    redlock_lease *lease = adopt(&s, token, 0, NULL);
    stage_settle(&s);
    cr_assert_eq(stage_extend(&s, lease, 0), REDLOCK_OK);
    stage_drain(&s);
    cr_assert_eq(servers_with(&s.servers, "job", token), 3);
    redlock_lease_free(lease);
    close_empty(&s);
}

Test(leave, adopt_a_bare_token_on_a_minority)
{
    struct stage s;
    char token[REDLOCK_TOKEN_MAX + 1];
    stage_open(&s, 5);
    leave_behind(&s, token);
    for (unsigned i = 0; i < 3; i++)
        servers_do(&s.servers, i, "DEL job");
    redlock_lease *lease = adopt(&s, token, 0, NULL);
    stage_settle(&s);
    cr_assert_eq(stage_extend(&s, lease, 0), REDLOCK_GONE);
    cr_assert_eq(redlock_valid_ms(lease), 0);
    stage_drain(&s);
    cr_assert_eq(servers_keys(&s.servers), 2, "nothing was planted");
    cr_assert_eq(stage_release(&s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    close_empty(&s);
}

Test(leave, release_by_a_bare_token)
{
    struct stage s;
    char token[REDLOCK_TOKEN_MAX + 1];
    stage_open(&s, 5);
    leave_behind(&s, token);
    redlock_lease *lease = adopt(&s, token, 0, NULL);
    cr_assert_eq(stage_release(&s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    lease = adopt(&s, token, 0, NULL);
    cr_assert_eq(stage_release(&s, lease), REDLOCK_GONE);
    redlock_lease_free(lease);
    close_empty(&s);
}

/* Whoever has answered says who it is. */
static void expect_holder(const redlock_lease *lease, const char *holder, const char *value)
{
    cr_assert_geq(stage_verdicts(lease, "held"), 3);
    for (unsigned i = 0; i < 5; i++) {
        if (strcmp(stage_node(lease, i)->verdict, "held") != 0)
            continue;
        cr_assert_str_eq(stage_node(lease, i)->holder, holder);
        cr_assert_str_eq(stage_node(lease, i)->value, value);
    }
}

Test(leave, a_wrong_token_does_nothing)
{
    struct stage s;
    char token[REDLOCK_TOKEN_MAX + 1];
    stage_open(&s, 5);
    leave_behind(&s, token);
    redlock_lease *lease = adopt(&s, "pwrong", 0, NULL);
    stage_settle(&s);
    cr_assert_eq(stage_extend(&s, lease, 0), REDLOCK_TAKEN);
    expect_holder(lease, "stage", token);
    cr_assert_eq(stage_release(&s, lease), REDLOCK_TAKEN);
    redlock_lease_free(lease);
    stage_drain(&s);
    cr_assert_eq(servers_with(&s.servers, "job", token), 5);
    stage_close(&s);
}

Test(leave, an_expired_token)
{
    struct stage s;
    char token[REDLOCK_TOKEN_MAX + 1];
    stage_open(&s, 5);
    leave_behind(&s, token);
    for (unsigned i = 0; i < 5; i++)
        servers_do(&s.servers, i, "PEXPIRE job 1");
    LOOP_UNTIL(s.base, servers_with(&s.servers, "job", NULL) == 5);
    redlock_lease *lease = adopt(&s, token, 0, NULL);
    cr_assert_eq(stage_extend(&s, lease, 0), REDLOCK_GONE);
    cr_assert_eq(stage_release(&s, lease), REDLOCK_GONE);
    redlock_lease_free(lease);
    close_empty(&s);
}

/* Nothing is asked for: the lease is freed, so what the token stands for is released. */
Test(leave, adopt_and_free_releases)
{
    struct stage s;
    char token[REDLOCK_TOKEN_MAX + 1];
    stage_open(&s, 5);
    leave_behind(&s, token);
    stage_settle(&s);
    redlock_lease_free(adopt(&s, token, 0, NULL));
    close_empty(&s);
}

Test(leave, adopt_and_disown_leaves_it)
{
    struct stage s;
    char token[REDLOCK_TOKEN_MAX + 1];
    stage_open(&s, 5);
    leave_behind(&s, token);
    redlock_lease *lease = adopt(&s, token, 50000, NULL);
    redlock_disown(lease);
    redlock_lease_free(lease);
    stage_drain(&s);
    cr_assert_eq(servers_with(&s.servers, "job", token), 5);
    stage_close(&s);
}
