/*
 * Servers that must not vote, or refuse commands: what is reported of them, and which nodes
 * decide.
 */
#include <criterion/criterion.h>
#include <sys/stat.h>
#include <unistd.h>

#include "quorum.h"

static bool is_refused(struct quorum *s, unsigned i, const char *fault)
{
    return strcmp(redlock_fault_name(quorum_link(s->client, i)->fault), fault) == 0;
}

/* A new client, so that nothing is known of the servers but their replies. */
static void meet_anew(struct quorum *s, const redlock_options *options)
{
    redlock_client_free(s->client);
    s->client = quorum_client(s, options);
}

/*
 * The lock can be acquired without the node, whose fault is reported; and its keys are
 * unchanged.
 */
static void hold_without(struct quorum *s, unsigned i, const char *fault)
{
    for (unsigned j = 0; j < s->servers.n;
         j++) /* a node that greets late gets no acquire */
        LOOP_UNTIL(s->base, j == i ? !is_refused(s, j, "connecting")
                                   : quorum_is(s->client, j, "ready"));
    redlock_lease *lease = quorum_hold(s, "job", NULL);
    LOOP_UNTIL(s->base, quorum_count_votes(lease, "waiting") == 0);
    cr_assert_str_eq(redlock_fault_name(quorum_node(lease, i)->fault), fault);
    cr_assert_neq(quorum_node(lease, i)->verdict, REDLOCK_VERDICT_GRANTED);
    cr_assert_eq(quorum_count_votes(lease, "granted"), s->servers.n - 1);
    quorum_free_lease(s, lease);
}

static void expect_no_lock(struct quorum *s, redlock_code code, const char *fault)
{
    struct reported reported;
    redlock_lease *lease = quorum_acquire(s, "job", NULL, &reported);
    cr_assert_eq(reported.result.code, code, "%s", redlock_code_name(reported.result.code));
    unsigned faulty = 0;
    for (unsigned i = 0; i < s->servers.n; i++)
        faulty += strcmp(redlock_fault_name(quorum_node(lease, i)->fault), fault) == 0;
    cr_assert_geq(faulty, s->servers.n / 2 + 1 - (s->servers.n + 1) % 2);
    quorum_free_lease(s, lease);
}

static void expect_all_vote(struct quorum *s)
{
    quorum_await_ready(s);
    redlock_lease *lease = quorum_hold(s, "all", NULL);
    LOOP_UNTIL(s->base, quorum_count_votes(lease, "granted") == s->servers.n);
    quorum_free_lease(s, lease);
}

/* --- identity --- */

Test(refusals, a_replica)
{
    struct quorum s;
    quorum_open(&s, 3);
    servers_do(&s.servers, 1, "REPLICAOF 127.0.0.1 1");
    meet_anew(&s, NULL);
    hold_without(&s, 1, "replica");
    servers_do(&s.servers, 0, "REPLICAOF 127.0.0.1 1");
    meet_anew(&s, NULL);
    expect_no_lock(&s, REDLOCK_NO_QUORUM, "replica");
    servers_do(&s.servers, 0, "REPLICAOF NO ONE");
    servers_do(&s.servers, 1, "REPLICAOF NO ONE");
    expect_all_vote(&s);
    quorum_close(&s);
}

Test(refusals, a_master_that_becomes_a_replica)
{
    struct quorum s;
    quorum_open(&s, 3);
    servers_do(&s.servers, 2, "REPLICAOF 127.0.0.1 1");
    hold_without(&s, 2, "readonly");
    LOOP_UNTIL(s.base, is_refused(&s, 2, "replica"));
    hold_without(&s, 2, "replica");
    cr_assert_eq(servers_keys(&s.servers), 0);
    quorum_close(&s);
}

Test(refusals, one_server_behind_two_addresses)
{
    struct quorum s;
    char path[120], uri[140];
    quorum_open(&s, 3);
    snprintf(path, sizeof(path), "%s/link.sock", s.servers.folder);
    snprintf(uri, sizeof(uri), "unix://%s", path);
    cr_assert_eq(symlink(s.servers.server[0].socket, path), 0);
    s.servers.uri[1] = uri;
    meet_anew(&s, NULL);
    LOOP_UNTIL(s.base, is_refused(&s, 0, "duplicate") || is_refused(&s, 1, "duplicate"));
    unsigned duplicate = is_refused(&s, 1, "duplicate");
    hold_without(&s, duplicate, "duplicate");
    servers_kill(&s.servers, 2);
    LOOP_UNTIL(s.base, !quorum_is(s.client, 2, "ready"));
    struct reported reported;
    redlock_lease *lease = quorum_acquire(&s, "job", NULL, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_NO_QUORUM, "one server voted twice");
    quorum_free_lease(&s, lease);
    quorum_close(&s);
}

Test(refusals, a_cluster_node)
{
    struct quorum s;
    char port[16];
    snprintf(port, sizeof(port), "%d", servers_free_port());
    quorum_open(&s, 3);
    servers_kill(&s.servers, 0);
    s.servers.server[0].word[0] = "--cluster-enabled";
    s.servers.server[0].word[1] = "yes";
    /* otherwise 10000, as for every other client */
    s.servers.server[0].word[2] = "--cluster-port";
    s.servers.server[0].word[3] = port;
    servers_launch(&s.servers, 0);
    meet_anew(&s, NULL);
    hold_without(&s, 0, "cluster");
    quorum_close(&s);
}

/* --- credentials and rights --- */

Test(refusals, a_missing_password)
{
    struct quorum s;
    quorum_open(&s, 5);
    servers_do_first(&s.servers, 2, "CONFIG SET requirepass secret");
    meet_anew(&s, NULL);
    for (unsigned i = 0; i < 5; i++)
        LOOP_UNTIL(s.base, !is_refused(&s, i, "connecting"));
    redlock_lease *lease = quorum_hold(&s, "job", NULL);
    cr_assert_eq(quorum_node(lease, 0)->fault, REDLOCK_FAULT_NOAUTH);
    cr_assert(quorum_node(lease, 0)->denied);
    quorum_free_lease(&s, lease);
    servers_do(&s.servers, 2, "CONFIG SET requirepass secret");
    meet_anew(&s, NULL);
    expect_no_lock(&s, REDLOCK_DENIED, "noauth");
    redlock_options options = quorum_options();
    options.password = "wrong";
    meet_anew(&s, &options);
    expect_no_lock(&s, REDLOCK_DENIED, "wrongpass");
    quorum_close(&s);
}

/* It is taken away from an open connection: noticed at the next command. */
Test(refusals, a_user_that_is_deleted)
{
    struct quorum s;
    redlock_options options = quorum_options();
    options.username = "app";
    options.password = "secret";
    quorum_open(&s, 3);
    servers_do_first(&s.servers, 3, "ACL SETUSER app on >secret ~* &* +@all");
    meet_anew(&s, &options);
    expect_all_vote(&s);
    servers_do_first(&s.servers, 3, "ACL DELUSER app");
    struct reported reported;
    redlock_lease *lease = quorum_acquire(&s, "job", NULL, &reported);
    cr_assert_neq(reported.result.code, REDLOCK_OK);
    redlock_lease_free(lease);
    for (unsigned i = 0; i < 3; i++)
        LOOP_UNTIL(s.base, is_refused(&s, i, "wrongpass"));
    expect_no_lock(&s, REDLOCK_DENIED, "wrongpass");
    servers_do_first(&s.servers, 3, "ACL SETUSER app on >secret ~* &* +@all");
    expect_all_vote(&s);
    quorum_close(&s);
}

static void open_as(struct quorum *s, const char *rights)
{
    redlock_options options = quorum_options();
    options.username = "app";
    options.password = "secret";
    quorum_open(s, 5);
    for (unsigned i = 0; i < 5; i++) {
        servers_do(&s->servers, i, "ACL SETUSER app on >secret ~* &* -@all +info");
        redisReply *reply = servers_run(&s->servers, i, rights);
        cr_assert_str_eq(reply->str, "OK");
        freeReplyObject(reply);
    }
    meet_anew(s, &options);
}

Test(refusals, a_user_without_set)
{
    struct quorum s;
    open_as(&s, "ACL SETUSER app +eval +evalsha +getrange +del +pttl +pexpire");
    expect_no_lock(&s, REDLOCK_DENIED, "noperm");
    servers_do_first(&s.servers, 4, "ACL SETUSER app +set");
    hold_without(&s, 4, "noperm");
    cr_assert_eq(servers_keys(&s.servers), 0);
    quorum_close(&s);
}

/* Nothing is acquired that could not be released; and a holder that loses the right. */
Test(refusals, a_user_without_scripts)
{
    struct quorum s;
    open_as(&s, "ACL SETUSER app +set +getrange +del +pttl +pexpire");
    expect_no_lock(&s, REDLOCK_DENIED, "noperm");
    servers_do_first(&s.servers, 4, "ACL SETUSER app +eval +evalsha");
    hold_without(&s, 4, "noperm");
    cr_assert_eq(servers_keys(&s.servers), 0);
    servers_do(&s.servers, 4, "ACL SETUSER app +eval +evalsha");
    quorum_await_ready(&s);
    redlock_lease *lease = quorum_hold(&s, "job", NULL);
    quorum_drain(&s);
    servers_do_first(&s.servers, 5, "ACL SETUSER app -eval -evalsha");
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_DENIED);
    cr_assert_gt(redlock_valid_ms(lease), 0, "it is held to its old deadline");
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_UNCONFIRMED);
    cr_assert_eq(quorum_node(lease, 0)->fault, REDLOCK_FAULT_NOPERM);
    cr_assert(quorum_node(lease, 0)->denied);
    servers_do_first(&s.servers, 5, "ACL SETUSER app +eval +evalsha");
    quorum_drain(&s); /* what was left is released as soon as that is allowed */
    cr_assert_eq(servers_keys(&s.servers), 0);
    redlock_lease_free(lease);
    quorum_close(&s);
}

/* The script is refused in its middle, with a plain ERR: its effects are unknown. */
Test(refusals, a_user_without_what_scripts_call)
{
    struct quorum s;
    open_as(&s, "ACL SETUSER app +set +getrange +eval +evalsha");
    quorum_await_ready(&s);
    redlock_lease *lease = quorum_hold(&s, "job", NULL);
    quorum_drain(&s);
    cr_assert_neq(quorum_extend(&s, lease, 0), REDLOCK_OK);
    cr_assert_gt(redlock_valid_ms(lease), 0);
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_UNCONFIRMED);
    cr_assert_eq(quorum_node(lease, 0)->verdict, REDLOCK_VERDICT_UNKNOWN);
    cr_assert_eq(servers_with(&s.servers, "job", redlock_token(lease)), 5);
    servers_do_first(&s.servers, 5, "ACL SETUSER app +del");
    quorum_expect_empty(&s);
    redlock_lease_free(lease);
    quorum_close(&s);
}

Test(refusals, a_user_without_info)
{
    struct quorum s;
    open_as(&s, "ACL SETUSER app -info +@all -info");
    expect_no_lock(&s, REDLOCK_DENIED, "noperm");
    quorum_close(&s);
}

Test(refusals, keys_that_a_user_may_not_touch)
{
    struct quorum s;
    open_as(&s, "ACL SETUSER app resetkeys ~lock:* +@all");
    expect_no_lock(&s, REDLOCK_DENIED, "noperm");
    redlock_lease_free(quorum_hold(&s, "lock:job", NULL));
    quorum_close_empty(&s);
}

/* --- writes that are refused --- */

Test(refusals, no_memory_on_the_server)
{
    struct quorum s;
    quorum_open(&s, 5);
    redlock_lease *held = quorum_hold(&s, "held", NULL);
    quorum_drain(&s);
    servers_do(&s.servers, 0, "CONFIG SET maxmemory 1");
    hold_without(&s, 0, "oom");
    servers_do_first(&s.servers, 5, "CONFIG SET maxmemory 1");
    expect_no_lock(&s, REDLOCK_NO_QUORUM, "oom");
    cr_assert_eq(servers_with(&s.servers, "held", redlock_token(held)), 5);
    cr_assert_eq(quorum_extend(&s, held, 0), REDLOCK_OK);
    cr_assert_eq(quorum_release(&s, held), REDLOCK_OK);
    redlock_lease_free(held);
    quorum_expect_empty(&s);
    servers_do_first(&s.servers, 5, "CONFIG SET maxmemory 0");
    expect_all_vote(&s);
    quorum_close(&s);
}

/* Acquires a fenced lock of each kind, under a key of its own. */
static unsigned hold_each_fenced_kind(struct quorum *s, redlock_lease *ret_held[])
{
    static const char *const names[] = {"single", "set", "reader", "semaphore", "leader"};
    static const redlock_kind kinds[] = {
        REDLOCK_KIND_EXCLUSIVE, REDLOCK_KIND_EXCLUSIVE, REDLOCK_KIND_SHARED,
        REDLOCK_KIND_SLOT,      REDLOCK_KIND_ELECTION,
    };
    for (unsigned i = 0; i < 5; i++) {
        struct reported reported = {0};
        redlock_lease_options options = quorum_quiet_fenced_options();
        redlock_key keys[] = {{names[i], strlen(names[i])}, {"other", 5}};
        options.kind = kinds[i];
        options.slots = i == 3 ? 2 : 0;
        cr_assert_eq(redlock_acquire_many(s->client, keys, i == 1 ? 2 : 1, &options,
                                          reported_note, &reported, &ret_held[i]),
                     REDLOCK_OK);
        LOOP_UNTIL(s->base, reported.times > 0);
        cr_assert_eq(reported.result.code, REDLOCK_OK);
    }
    return 5;
}

/* Also where a node's fence has to be raised, which takes memory. */
Test(refusals, no_memory_for_fenced_locks)
{
    struct quorum s;
    redlock_lease *held[5];
    quorum_open_fenced(&s, 3, NULL);
    unsigned count = hold_each_fenced_kind(&s, held);
    quorum_drain(&s);
    servers_do_first(&s.servers, 3, "EVAL %s 0",
                     "for _, key in ipairs(redis.call('KEYS', '*!fence')) do "
                     "redis.call('SET', key, 1, 'PX', 60000) end");
    servers_do_first(&s.servers, 3, "CONFIG SET maxmemory 1");
    for (unsigned i = 0; i < count; i++) {
        redlock_code code = quorum_release(&s, held[i]);
        cr_assert_eq(code, REDLOCK_OK, "%u: %s", i, redlock_code_name(code));
        redlock_lease_free(held[i]);
    }
    quorum_expect_fences(&s, 6);
    quorum_close(&s);
}

Test(refusals, too_few_replicas)
{
    struct quorum s;
    quorum_open(&s, 3);
    servers_do(&s.servers, 1, "CONFIG SET min-replicas-to-write 1");
    hold_without(&s, 1, "noreplicas");
    servers_do_first(&s.servers, 3, "CONFIG SET min-replicas-to-write 1");
    expect_no_lock(&s, REDLOCK_NO_QUORUM, "noreplicas");
    servers_do_first(&s.servers, 3, "CONFIG SET min-replicas-to-write 0");
    expect_all_vote(&s);
    quorum_close(&s);
}

Test(refusals, a_server_that_cannot_save)
{
    struct quorum s;
    char path[80];
    quorum_open(&s, 3);
    snprintf(path, sizeof(path), "%s/0.rdb", s.servers.folder);
    cr_assert_eq(mkdir(path, 0700), 0); /* where the dump would be */
    redisReply *reply = servers_run(&s.servers, 0, "CONFIG SET save %s", "900 1");
    cr_assert_str_eq(reply->str, "OK");
    freeReplyObject(reply);
    servers_do(&s.servers, 0, "BGSAVE");
    LOOP_UNTIL(s.base,
               strcmp(servers_info(&s.servers, 0, "persistence", "rdb_last_bgsave_status"),
                      "err") == 0);
    hold_without(&s, 0, "misconf");
    servers_do(&s.servers, 0, "CONFIG SET stop-writes-on-bgsave-error no");
    expect_all_vote(&s);
    quorum_close(&s);
}

/* The key exists with another type: a collision, and a lock of no client. */
Test(refusals, a_key_that_is_a_list)
{
    struct quorum s;
    struct reported reported;
    quorum_open(&s, 3);
    servers_do_first(&s.servers, 1, "LPUSH job element");
    redlock_lease *lease = quorum_hold(&s, "job", NULL);
    quorum_free_lease(&s, lease);
    servers_do_first(&s.servers, 2, "LPUSH job element");
    lease = quorum_acquire(&s, "job", NULL, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_TAKEN);
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_eq(quorum_node(lease, i)->verdict, REDLOCK_VERDICT_HELD);
        cr_assert_str_eq(quorum_node(lease, i)->holder, "a list");
    }
    quorum_free_lease(&s, lease);
    cr_assert_eq(servers_number(&s.servers, 0, "LLEN job"), 2);
    cr_assert_eq(servers_number(&s.servers, 1, "LLEN job"), 1);
    cr_assert(servers_int(&s.servers, 2, 0, "EXISTS job"));
    quorum_close(&s);
}

/* --- temporary refusals --- */

/* A script that never ends, on its own connection. */
static redisContext *keep_busy(struct quorum *s, unsigned i)
{
    int done = 0;
    redisContext *context = redisConnectUnix(s->servers.server[i].socket);
    cr_assert(context && !context->err);
    servers_do(&s->servers, i, "CONFIG SET busy-reply-threshold 10");
    redisAppendCommand(context, "EVAL %s 0", "while true do end");
    while (!done)
        cr_assert_eq(redisBufferWrite(context, &done), REDIS_OK);
    return context;
}

static bool is_busy(struct quorum *s, unsigned i)
{
    redisReply *reply = servers_run(&s->servers, i, "GET x");
    bool busy = reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "BUSY ", 5) == 0;
    freeReplyObject(reply);
    return busy;
}

Test(refusals, a_busy_server)
{
    struct quorum s;
    quorum_open(&s, 3);
    redisContext *busy = keep_busy(&s, 0);
    LOOP_UNTIL(s.base, is_busy(&s, 0));
    for (int i = 0; i < 20; i++)
        hold_without(&s, 0, "busy");
    servers_do(&s.servers, 0, "SCRIPT KILL");
    LOOP_UNTIL(s.base, !is_busy(&s, 0));
    redisFree(busy);
    quorum_drain(&s);
    expect_all_vote(&s);
    cr_assert_eq(servers_keys(&s.servers), 0);
    quorum_close(&s);
}

/* While it loads it replies, but does not have its keys yet. */
Test(refusals, a_loading_server)
{
    struct quorum s;
    quorum_open(&s, 3);
    servers_do(&s.servers, 2, "DEBUG POPULATE 10000");
    servers_do(&s.servers, 2, "SAVE");
    servers_kill(&s.servers, 2);
    s.servers.server[2].word[0] = "--key-load-delay";
    s.servers.server[2].word[1] = "200"; /* us: 2 s and more */
    s.servers.server[2].word[2] = "--loading-process-events-interval-bytes";
    s.servers.server[2].word[3] = "1024";
    servers_launch(&s.servers, 2);
    cr_assert_str_eq(servers_info(&s.servers, 2, "persistence", "loading"), "1");
    meet_anew(&s, NULL);
    LOOP_UNTIL(s.base, is_refused(&s, 2, "loading"));
    redlock_lease *lease = quorum_hold(&s, "job", NULL);
    cr_assert_eq(quorum_node(lease, 2)->verdict, REDLOCK_VERDICT_ABSENT);
    quorum_free_lease(&s, lease);
    expect_all_vote(&s);
    quorum_close(&s);
}

Test(refusals, no_more_clients)
{
    struct quorum s;
    quorum_open(&s, 3);
    servers_do(&s.servers, 1, "CONFIG SET maxclients 1");
    meet_anew(&s, NULL);
    LOOP_UNTIL(s.base, quorum_is(s.client, 0, "ready") && quorum_is(s.client, 2, "ready") &&
                           !is_refused(&s, 1, "connecting"));
    redlock_lease *lease = quorum_hold(&s, "job", NULL);
    cr_assert_eq(quorum_node(lease, 1)->verdict, REDLOCK_VERDICT_ABSENT);
    cr_assert_eq(quorum_node(lease, 1)->fault, REDLOCK_FAULT_MAXCLIENTS);
    redlock_lease_free(lease);
    servers_do(&s.servers, 1, "CONFIG SET maxclients 100");
    expect_all_vote(&s);
    quorum_close(&s);
}
