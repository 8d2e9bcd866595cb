/* Nodes of fenced locks that forget: they have no vote at once, for anybody. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "stage.h"

static redlock_lease_options quiet_options(void)
{
    redlock_lease_options options = stage_fenced_options();
    options.watchdog = false;
    return options;
}

/* A fresh client has the others' votes alone. */
static void expect_no_vote_for_a_fresh_client(struct stage *s, unsigned forgot)
{
    redlock_lease_options options = quiet_options();
    redlock_client *old = s->client;
    options.wait_ms = LOOP_PATIENCE_MS; /* none of the others can be done without */
    s->client = stage_client(s, NULL);
    redlock_lease *lease = stage_hold(s, "fresh", &options);
    stage_drain(s);
    cr_assert_eq(stage_verdicts(lease, "granted"), s->servers.n - 1);
    cr_assert_str_eq(stage_node(lease, forgot)->verdict, "absent");
    cr_assert(servers_text(&s->servers, forgot, NULL, "GET fresh"));
    cr_assert_str_neq(stage_standing(s->client, forgot)->verdict, "sound");
    redlock_lease_free(lease);
    stage_drain(s);
    redlock_client_free(s->client);
    s->client = old;
}

/* Node 0 forgets in some way under a holder, who is told that it has no vote, and goes on.
 */
static void expect_the_lock_to_go_on(struct stage *s, redlock_lease *lease,
                                     struct told *lost)
{
    cr_assert_eq(stage_extend(s, lease, 0), REDLOCK_OK);
    stage_drain(s);
    cr_assert_eq(stage_verdicts(lease, "granted"), 2);
    cr_assert(servers_text(&s->servers, 0, NULL, "GET job"), "nothing is planted there");
    cr_assert_eq(lost->times, 0);
    expect_no_vote_for_a_fresh_client(s, 0);
    LOOP_UNTIL(s->base, stage_stands(s->client, 0, "BARRED"));
    LOOP_UNTIL(s->base, stage_standing(s->client, 0)->remaining_ms >= 0);
    int64_t left = stage_standing(s->client, 0)->remaining_ms;
    cr_assert(left > 60000 && left < 66700, "%jd: of 60 s, and a tenth", (intmax_t)left);
    cr_assert_str_eq(stage_standing(s->client, 0)->verdict, "absent");
    cr_assert_str_eq(stage_standing(s->client, 1)->verdict, "sound");
    cr_assert_eq(stage_standing(s->client, 1)->remaining_ms, -1);
    expect_no_vote_for_a_fresh_client(s, 0);
    cr_assert_eq(stage_extend(s, lease, 0), REDLOCK_OK);
    cr_assert_eq(stage_release(s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    stage_drain(s);
    cr_assert_eq(servers_with(&s->servers, "job", NULL), 3);
    stage_close(s);
}

static redlock_lease *open_held(struct stage *s, struct told *lost)
{
    redlock_lease_options options = quiet_options();
    *lost = (struct told){0};
    options.on_lost = told_note;
    options.lost_arg = lost;
    stage_open_fenced(s, 3, NULL);
    redlock_lease *lease = stage_hold(s, "job", &options);
    stage_drain(s);
    cr_assert_eq(stage_verdicts(lease, "granted"), 3);
    return lease;
}

Test(forgetful, flushed)
{
    struct stage s;
    struct told lost, told = {0};
    redlock_lease *lease = open_held(&s, &lost);
    servers_do(&s.servers, 0, "FLUSHALL");
    cr_assert_eq(redlock_extend(lease, 0, told_note, &told), REDLOCK_OK);
    EXPECT_TOLD(&s, &told, REDLOCK_OK);
    LOOP_UNTIL(s.base, stage_verdicts(lease, "waiting") == 0);
    cr_assert_str_eq(stage_node(lease, 0)->fault, "MARKER");
    expect_the_lock_to_go_on(&s, lease, &lost);
}

/* Nobody has tried it yet: a fresh client must not get its vote before anybody sees that.
 */
Test(forgetful, flushed_unseen)
{
    struct stage s;
    struct told lost;
    redlock_lease *lease = open_held(&s, &lost);
    servers_do(&s.servers, 0, "FLUSHALL");
    expect_no_vote_for_a_fresh_client(&s, 0);
    expect_the_lock_to_go_on(&s, lease, &lost);
}

Test(forgetful, restarted_empty)
{
    struct stage s;
    struct told lost;
    redlock_lease *lease = open_held(&s, &lost);
    servers_restart(&s.servers, 0);
    expect_the_lock_to_go_on(&s, lease, &lost);
}

/*
 * A failover behind a connection that stands: the process is the same, the history of its
 * data is not. The client asks for that every 10 s.
 */
Test(forgetful, became_a_master_anew_on_a_standing_connection)
{
    struct stage s;
    stage_open_fenced(&s, 3, NULL);
    servers_do(&s.servers, 0, "REPLICAOF 127.0.0.1 1");
    servers_do(&s.servers, 0, "REPLICAOF NO ONE");
    LOOP_UNTIL(s.base, strcmp(stage_standing(s.client, 0)->verdict, "sound") != 0);
    LOOP_UNTIL(s.base, stage_stands(s.client, 0, "BARRED"));
    cr_assert_str_eq(stage_standing(s.client, 1)->verdict, "sound");
    cr_assert_str_eq(stage_standing(s.client, 2)->verdict, "sound");
    stage_close(&s);
}

/* Its data are those of some time ago: so it has the marker, of another process. */
Test(forgetful, restarted_with_a_snapshot)
{
    struct stage s;
    stage_open_fenced(&s, 3, NULL);
    servers_do(&s.servers, 0, "SAVE");
    redlock_client_free(s.client);
    servers_restart(&s.servers, 0);
    cr_assert_eq(servers_with(&s.servers, "!marker", NULL), 0);
    s.client = stage_client(&s, NULL);
    stage_settle(&s);
    LOOP_UNTIL(s.base, stage_stands(s.client, 0, "FOREIGN"));
    redlock_lease_options options = quiet_options();
    redlock_lease *lease = stage_hold(&s, "job", &options);
    stage_drain(&s);
    cr_assert_eq(stage_verdicts(lease, "granted"), 2);
    loop_run_for(s.base, 600);
    cr_assert(stage_stands(s.client, 0, "FOREIGN"), "it may be any server");
    redlock_lease_free(lease);
    stage_close(&s);
}

/* What is in the marker's place is none. */
Test(forgetful, with_a_list_for_a_marker)
{
    struct stage s;
    struct told lost;
    redlock_lease *lease = open_held(&s, &lost);
    servers_do(&s.servers, 0, "DEL !marker");
    servers_do(&s.servers, 0, "RPUSH !marker x");
    expect_no_vote_for_a_fresh_client(&s, 0);
    cr_assert_eq(stage_extend(&s, lease, 0), REDLOCK_OK);
    stage_drain(&s);
    cr_assert_eq(stage_verdicts(lease, "granted"), 2);
    cr_assert_eq(lost.times, 0);
    cr_assert_eq(stage_release(&s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    servers_do(&s.servers, 1, "DEL !marker");
    servers_do(&s.servers, 1, "RPUSH !marker x");
    struct told told;
    redlock_lease_options options = quiet_options();
    lease = stage_acquire(&s, "other", &options, &told);
    cr_assert_neq(told.result.code, REDLOCK_OK);
    redlock_lease_free(lease);
    stage_close(&s);
}

/* Somebody changes the marker by hand: to whomever it was, votes by the old one end. */
Test(forgetful, with_another_text_for_a_marker)
{
    struct stage s;
    struct told lost;
    redlock_lease *lease = open_held(&s, &lost);
    servers_do(&s.servers, 0, "SET !marker nonsense");
    cr_assert_eq(stage_extend(&s, lease, 0), REDLOCK_OK);
    stage_drain(&s);
    LOOP_UNTIL(s.base, stage_stands(s.client, 0, "ELSEWHERE"));
    expect_no_vote_for_a_fresh_client(&s, 0);
    redlock_lease_free(lease);
    stage_drain(&s);
    cr_assert(servers_text(&s.servers, 0, "nonsense", "GET !marker"), "it is left alone");
    stage_close(&s);
}

/* A majority forgets: nobody has the lock any more, and nobody gets it. */
Test(forgetful, majority)
{
    struct stage s;
    struct told lost, told = {0};
    redlock_lease *lease = open_held(&s, &lost);
    servers_do(&s.servers, 0, "FLUSHALL");
    servers_do(&s.servers, 1, "FLUSHALL");
    cr_assert_eq(redlock_extend(lease, 0, told_note, &told), REDLOCK_OK);
    LOOP_UNTIL(s.base, told.times > 0);
    cr_assert_eq(told.result.code, REDLOCK_NO_QUORUM, "%s",
                 redlock_code_name(told.result.code));
    cr_assert_gt(redlock_valid_ms(lease), 0, "to its old deadline nobody else has it");
    redlock_lease_options options = quiet_options();
    redlock_lease *other = stage_acquire(&s, "other", &options, &told);
    cr_assert_eq(told.result.code, REDLOCK_NO_QUORUM);
    redlock_lease_free(other);
    redlock_lease_free(lease);
    stage_close(&s);
}

/*
 * All forget, also the fences. The operator has them recover: what was held has ended by
 * then, and fences go on rising. The one test that waits for a quarantine.
 */
Test(forgetful, all_are_recovered_by_an_operator)
{
    struct stage s;
    struct told told;
    redlock_options client_options = stage_options();
    redlock_lease_options options = quiet_options();
    client_options.max_ttl_ms = options.ttl_ms = 1000;
    stage_open_fenced(&s, 3, &client_options);
    redlock_lease *lease = stage_hold(&s, "job", &options);
    int64_t fence = redlock_fence(lease);
    redlock_disown(lease);
    redlock_lease_free(lease);
    stage_drain(&s);
    int64_t before = loop_clock_ms();
    for (unsigned i = 0; i < 3; i++)
        servers_do(&s.servers, i, "FLUSHALL");
    lease = stage_acquire(&s, "job", &options, &told);
    cr_assert_eq(told.result.code, REDLOCK_NO_QUORUM);
    redlock_lease_free(lease);
    stage_settle(&s);
    redlock_code code = stage_admit(&s, REDLOCK_ADMIT_WAIT, 0, NULL);
    cr_assert_eq(code, REDLOCK_OK, "%s", redlock_code_name(code));
    cr_assert_geq(loop_clock_ms() - before, 12100);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_str_eq(stage_standing(s.client, i)->verdict, "sound");
    lease = stage_hold(&s, "job", &options);
    stage_drain(&s);
    cr_assert_gt(redlock_fence(lease), fence);
    cr_assert_eq(stage_verdicts(lease, "granted"), 3);
    redlock_lease_free(lease);
    stage_close(&s);
}

/* --- what the registration of an incarnation costs the other clients --- */

static long connections(struct stage *s)
{
    long sum = 0;
    for (unsigned i = 0; i < s->servers.n; i++)
        sum += atol(servers_info(&s->servers, i, "stats", "total_connections_received"));
    return sum;
}

static unsigned sound(const redlock_client *client)
{
    unsigned count = 0;
    for (unsigned i = 0; i < redlock_client_nodes(client); i++)
        count += strcmp(stage_standing(client, i)->verdict, "sound") == 0;
    return count;
}

/*
 * Node 4 forgets, and only the first client notices. It seats the node, and registers that
 * at the others. The second client's next round is refused. It reads the markers anew over
 * the connections that it has.
 */
Test(forgetful, registered_by_one_costs_the_other_no_connection)
{
    struct stage s;
    redlock_lease_options options = quiet_options();
    stage_open_fenced(&s, 5, NULL);
    redlock_client *first = s.client;
    redlock_lease *noticed = stage_hold(&s, "noticed", &options);
    s.client = stage_client(&s, NULL);
    redlock_lease *lease = stage_hold(&s, "job", &options);
    stage_drain(&s);
    long before = connections(&s);
    servers_do(&s.servers, 4, "FLUSHALL");
    redlock_client *second = s.client;
    s.client = first;
    cr_assert_eq(stage_extend(&s, noticed, 0), REDLOCK_OK);
    LOOP_UNTIL(s.base, stage_stands(first, 4, "BARRED"));
    LOOP_UNTIL(s.base, stage_standing(first, 4)->remaining_ms >= 0); /* registered */
    s.client = second;
    unsigned refused = 0;
    while (stage_extend(&s, lease, 0) != REDLOCK_OK) {
        refused++;
        LOOP_UNTIL(s.base, sound(second) == 4);
    }
    LOOP_UNTIL(s.base, sound(second) == 4); /* one may have lost the round that was won */
    long dropped = connections(&s) - before;
    cr_assert_eq(dropped, 0, "%ld connections were made anew", dropped);
    cr_assert_leq(refused, 1, "%u rounds were lost", refused);
    redlock_lease_free(lease);
    redlock_lease_free(noticed);
    redlock_client_free(first);
    stage_close(&s);
}

/*
 * Node 0 gets older data with an older marker, and another history, as by a failover and
 * back. The connection stands. Its marker names the process that was greeted, so only the
 * history tells.
 */
Test(forgetful, with_an_older_marker_on_a_connection_that_stands)
{
    struct stage s;
    struct told lost;
    redlock_lease *lease = open_held(&s, &lost);
    redisReply *older = servers_run(&s.servers, 0, "GET !marker");
    servers_do(&s.servers, 2, "FLUSHALL");
    cr_assert_eq(stage_extend(&s, lease, 0), REDLOCK_OK);
    LOOP_UNTIL(s.base, stage_standing(s.client, 2)->remaining_ms >= 0); /* registered */
    cr_assert_not(servers_text(&s.servers, 0, older->str, "GET !marker"));
    cr_assert_str_eq(stage_standing(s.client, 0)->verdict, "sound");
    servers_do(&s.servers, 0, "DEBUG CHANGE-REPL-ID");
    servers_do(&s.servers, 0, "SET !marker %s", older->str);
    servers_do(&s.servers, 0, "DEL job");
    cr_assert_neq(stage_extend(&s, lease, 0), REDLOCK_OK);
    while (!stage_stands(s.client, 0, "BARRED")) {
        cr_assert_str_neq(stage_standing(s.client, 0)->verdict, "sound");
        loop_pass(s.base);
    }
    cr_assert(servers_text(&s.servers, 0, NULL, "GET job"), "nothing is planted there");
    freeReplyObject(older);
    redlock_lease_free(lease);
    stage_close(&s);
}
