/* Servers that must not vote, or refuse to: what is told of them, and who decides. */
#include <criterion/criterion.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage.h"

static bool is_refused(struct stage *s, unsigned i, const char *fault)
{
    return strcmp(stage_link(s->client, i)->fault, fault) == 0;
}

/* A fresh client, so that nothing is known of the servers but what they say. */
static void meet_anew(struct stage *s, const redlock_options *options)
{
    redlock_client_free(s->client);
    s->client = stage_client(s, options);
}

/* The lock can be had without the node, which is told to be at fault; and is not touched.
 */
static void hold_without(struct stage *s, unsigned i, const char *fault)
{
    for (unsigned j = 0; j < s->servers.n; j++) /* who greets late is not asked */
        LOOP_UNTIL(s->base, j == i ? !is_refused(s, j, "CONNECTING")
                                   : stage_is(s->client, j, "ready"));
    redlock_lease *lease = stage_hold(s, "job", NULL);
    LOOP_UNTIL(s->base, stage_verdicts(lease, "waiting") == 0);
    cr_assert_str_eq(stage_node(lease, i)->fault, fault);
    cr_assert_str_neq(stage_node(lease, i)->verdict, "granted");
    cr_assert_eq(stage_verdicts(lease, "granted"), s->servers.n - 1);
    redlock_lease_free(lease);
    stage_drain(s);
}

static void expect_no_lock(struct stage *s, redlock_code code, const char *fault)
{
    struct told told;
    redlock_lease *lease = stage_acquire(s, "job", NULL, &told);
    cr_assert_eq(told.result.code, code, "%s", redlock_code_name(told.result.code));
    unsigned faulty = 0;
    for (unsigned i = 0; i < s->servers.n; i++)
        faulty += strcmp(stage_node(lease, i)->fault, fault) == 0;
    cr_assert_geq(faulty, s->servers.n / 2 + 1 - (s->servers.n + 1) % 2);
    redlock_lease_free(lease);
    stage_drain(s);
}

static void expect_all_vote(struct stage *s)
{
    stage_settle(s);
    redlock_lease *lease = stage_hold(s, "all", NULL);
    LOOP_UNTIL(s->base, stage_verdicts(lease, "granted") == s->servers.n);
    redlock_lease_free(lease);
    stage_drain(s);
}

/* --- who it is --- */

Test(refusals, a_replica)
{
    struct stage s;
    stage_open(&s, 3);
    servers_do(&s.servers, 1, "REPLICAOF 127.0.0.1 1");
    meet_anew(&s, NULL);
    hold_without(&s, 1, "REPLICA");
    servers_do(&s.servers, 0, "REPLICAOF 127.0.0.1 1");
    meet_anew(&s, NULL);
    expect_no_lock(&s, REDLOCK_NO_QUORUM, "REPLICA");
    servers_do(&s.servers, 0, "REPLICAOF NO ONE");
    servers_do(&s.servers, 1, "REPLICAOF NO ONE");
    expect_all_vote(&s);
    stage_close(&s);
}

Test(refusals, a_master_that_becomes_a_replica)
{
    struct stage s;
    stage_open(&s, 3);
    servers_do(&s.servers, 2, "REPLICAOF 127.0.0.1 1");
    hold_without(&s, 2, "READONLY");
    LOOP_UNTIL(s.base, is_refused(&s, 2, "REPLICA"));
    hold_without(&s, 2, "REPLICA");
    cr_assert_eq(servers_keys(&s.servers), 0);
    stage_close(&s);
}

Test(refusals, one_server_behind_two_addresses)
{
    struct stage s;
    char path[120], uri[140];
    stage_open(&s, 3);
    snprintf(path, sizeof(path), "%s/link.sock", s.servers.folder);
    snprintf(uri, sizeof(uri), "unix://%s", path);
    cr_assert_eq(symlink(s.servers.server[0].socket, path), 0);
    s.servers.uri[1] = uri;
    meet_anew(&s, NULL);
    LOOP_UNTIL(s.base, is_refused(&s, 0, "DUPLICATE") || is_refused(&s, 1, "DUPLICATE"));
    unsigned duplicate = is_refused(&s, 1, "DUPLICATE");
    hold_without(&s, duplicate, "DUPLICATE");
    servers_kill(&s.servers, 2);
    LOOP_UNTIL(s.base, !stage_is(s.client, 2, "ready"));
    struct told told;
    redlock_lease *lease = stage_acquire(&s, "job", NULL, &told);
    cr_assert_eq(told.result.code, REDLOCK_NO_QUORUM, "one server voted twice");
    redlock_lease_free(lease);
    stage_drain(&s);
    stage_close(&s);
}

Test(refusals, a_cluster_node)
{
    struct stage s;
    char port[16];
    snprintf(port, sizeof(port), "%d", servers_free_port());
    stage_open(&s, 3);
    servers_kill(&s.servers, 0);
    s.servers.server[0].word[0] = "--cluster-enabled";
    s.servers.server[0].word[1] = "yes";
    s.servers.server[0].word[2] = "--cluster-port"; /* else 10000, as anybody else's */
    s.servers.server[0].word[3] = port;
    servers_launch(&s.servers, 0);
    meet_anew(&s, NULL);
    hold_without(&s, 0, "CLUSTER");
    stage_close(&s);
}

/* --- credentials and rights --- */

static void on_all(struct stage *s, unsigned count, const char *command)
{
    for (unsigned i = 0; i < count; i++)
        servers_do(&s->servers, i, command);
}

Test(refusals, a_password_that_is_not_given)
{
    struct stage s;
    stage_open(&s, 5);
    on_all(&s, 2, "CONFIG SET requirepass secret");
    meet_anew(&s, NULL);
    for (unsigned i = 0; i < 5; i++)
        LOOP_UNTIL(s.base, !is_refused(&s, i, "CONNECTING"));
    redlock_lease *lease = stage_hold(&s, "job", NULL);
    cr_assert_str_eq(stage_node(lease, 0)->fault, "NOAUTH");
    cr_assert(stage_node(lease, 0)->denied);
    redlock_lease_free(lease);
    stage_drain(&s);
    servers_do(&s.servers, 2, "CONFIG SET requirepass secret");
    meet_anew(&s, NULL);
    expect_no_lock(&s, REDLOCK_DENIED, "NOAUTH");
    redlock_options options = stage_options();
    options.password = "wrong";
    meet_anew(&s, &options);
    expect_no_lock(&s, REDLOCK_DENIED, "WRONGPASS");
    stage_close(&s);
}

/* It is taken away from a live connection: seen at the next command. */
Test(refusals, a_user_that_is_deleted)
{
    struct stage s;
    redlock_options options = stage_options();
    options.username = "app";
    options.password = "secret";
    stage_open(&s, 3);
    on_all(&s, 3, "ACL SETUSER app on >secret ~* &* +@all");
    meet_anew(&s, &options);
    expect_all_vote(&s);
    on_all(&s, 3, "ACL DELUSER app");
    struct told told;
    redlock_lease *lease = stage_acquire(&s, "job", NULL, &told);
    cr_assert_neq(told.result.code, REDLOCK_OK);
    redlock_lease_free(lease);
    for (unsigned i = 0; i < 3; i++)
        LOOP_UNTIL(s.base, is_refused(&s, i, "WRONGPASS"));
    expect_no_lock(&s, REDLOCK_DENIED, "WRONGPASS");
    on_all(&s, 3, "ACL SETUSER app on >secret ~* &* +@all");
    expect_all_vote(&s);
    stage_close(&s);
}

static void open_as(struct stage *s, const char *rights)
{
    redlock_options options = stage_options();
    options.username = "app";
    options.password = "secret";
    stage_open(s, 5);
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
    struct stage s;
    open_as(&s, "ACL SETUSER app +eval +evalsha +get +del +pttl +pexpire");
    expect_no_lock(&s, REDLOCK_DENIED, "NOPERM");
    on_all(&s, 4, "ACL SETUSER app +set");
    hold_without(&s, 4, "NOPERM");
    cr_assert_eq(servers_keys(&s.servers), 0);
    stage_close(&s);
}

Test(refusals, a_user_without_scripts)
{
    struct stage s;
    open_as(&s, "ACL SETUSER app +set +get +del +pttl +pexpire");
    stage_settle(&s);
    redlock_lease *lease = stage_hold(&s, "job", NULL);
    cr_assert_eq(stage_extend(&s, lease, 0), REDLOCK_DENIED);
    cr_assert_gt(redlock_valid_ms(lease), 0, "it is held to its old deadline");
    cr_assert_eq(stage_release(&s, lease), REDLOCK_UNCONFIRMED);
    cr_assert_str_eq(stage_node(lease, 0)->fault, "NOPERM");
    cr_assert(stage_node(lease, 0)->denied);
    on_all(&s, 5, "ACL SETUSER app +eval +evalsha");
    stage_drain(&s); /* what was left is released as soon as that is allowed */
    cr_assert_eq(servers_keys(&s.servers), 0);
    redlock_lease_free(lease);
    stage_close(&s);
}

/* The script is refused in its middle, with a plain ERR: what it did is not known. */
Test(refusals, a_user_without_what_scripts_call)
{
    struct stage s;
    open_as(&s, "ACL SETUSER app +set +get +eval +evalsha");
    stage_settle(&s);
    redlock_lease *lease = stage_hold(&s, "job", NULL);
    stage_drain(&s);
    cr_assert_neq(stage_extend(&s, lease, 0), REDLOCK_OK);
    cr_assert_gt(redlock_valid_ms(lease), 0);
    cr_assert_eq(stage_release(&s, lease), REDLOCK_UNCONFIRMED);
    cr_assert_str_eq(stage_node(lease, 0)->verdict, "unknown");
    cr_assert_eq(servers_with(&s.servers, "job", redlock_token(lease)), 5);
    on_all(&s, 5, "ACL SETUSER app +del");
    stage_drain(&s);
    cr_assert_eq(servers_keys(&s.servers), 0);
    redlock_lease_free(lease);
    stage_close(&s);
}

Test(refusals, a_user_without_info)
{
    struct stage s;
    open_as(&s, "ACL SETUSER app -info +@all -info");
    expect_no_lock(&s, REDLOCK_DENIED, "NOPERM");
    stage_close(&s);
}

Test(refusals, keys_that_a_user_may_not_touch)
{
    struct stage s;
    open_as(&s, "ACL SETUSER app resetkeys ~lock:* +@all");
    expect_no_lock(&s, REDLOCK_DENIED, "NOPERM");
    redlock_lease_free(stage_hold(&s, "lock:job", NULL));
    stage_drain(&s);
    cr_assert_eq(servers_keys(&s.servers), 0);
    stage_close(&s);
}

/* --- writes that are refused --- */

Test(refusals, no_memory_on_the_server)
{
    struct stage s;
    stage_open(&s, 5);
    redlock_lease *held = stage_hold(&s, "held", NULL);
    stage_drain(&s);
    servers_do(&s.servers, 0, "CONFIG SET maxmemory 1");
    hold_without(&s, 0, "OOM");
    on_all(&s, 5, "CONFIG SET maxmemory 1");
    expect_no_lock(&s, REDLOCK_NO_QUORUM, "OOM");
    cr_assert_eq(servers_with(&s.servers, "held", redlock_token(held)), 5);
    cr_assert_eq(stage_extend(&s, held, 0), REDLOCK_OK);
    cr_assert_eq(stage_release(&s, held), REDLOCK_OK);
    redlock_lease_free(held);
    stage_drain(&s);
    cr_assert_eq(servers_keys(&s.servers), 0);
    on_all(&s, 5, "CONFIG SET maxmemory 0");
    expect_all_vote(&s);
    stage_close(&s);
}

Test(refusals, too_few_replicas)
{
    struct stage s;
    stage_open(&s, 3);
    servers_do(&s.servers, 1, "CONFIG SET min-replicas-to-write 1");
    hold_without(&s, 1, "NOREPLICAS");
    on_all(&s, 3, "CONFIG SET min-replicas-to-write 1");
    expect_no_lock(&s, REDLOCK_NO_QUORUM, "NOREPLICAS");
    on_all(&s, 3, "CONFIG SET min-replicas-to-write 0");
    expect_all_vote(&s);
    stage_close(&s);
}

Test(refusals, a_server_that_cannot_save)
{
    struct stage s;
    char path[80];
    stage_open(&s, 3);
    snprintf(path, sizeof(path), "%s/0.rdb", s.servers.folder);
    cr_assert_eq(mkdir(path, 0700), 0); /* where the dump would be */
    redisReply *reply = servers_run(&s.servers, 0, "CONFIG SET save %s", "900 1");
    cr_assert_str_eq(reply->str, "OK");
    freeReplyObject(reply);
    servers_do(&s.servers, 0, "BGSAVE");
    LOOP_UNTIL(s.base,
               strcmp(servers_info(&s.servers, 0, "persistence", "rdb_last_bgsave_status"),
                      "err") == 0);
    hold_without(&s, 0, "MISCONF");
    servers_do(&s.servers, 0, "CONFIG SET stop-writes-on-bgsave-error no");
    expect_all_vote(&s);
    stage_close(&s);
}

/* The key is something else: that is a collision, and nobody's lock. */
Test(refusals, a_key_that_is_a_list)
{
    struct stage s;
    struct told told;
    stage_open(&s, 3);
    on_all(&s, 1, "LPUSH job element");
    redlock_lease *lease = stage_hold(&s, "job", NULL);
    redlock_lease_free(lease);
    stage_drain(&s);
    on_all(&s, 2, "LPUSH job element");
    lease = stage_acquire(&s, "job", NULL, &told);
    cr_assert_eq(told.result.code, REDLOCK_TAKEN);
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_str_eq(stage_node(lease, i)->verdict, "held");
        cr_assert_str_eq(stage_node(lease, i)->fault, "WRONGTYPE");
    }
    redlock_lease_free(lease);
    stage_drain(&s);
    cr_assert_eq(servers_number(&s.servers, 0, "LLEN job"), 2);
    cr_assert_eq(servers_number(&s.servers, 1, "LLEN job"), 1);
    cr_assert(servers_int(&s.servers, 2, 0, "EXISTS job"));
    stage_close(&s);
}

/* --- not now --- */

/* A script that never ends, on a connection of its own. */
static redisContext *keep_busy(struct stage *s, unsigned i)
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

static bool is_busy(struct stage *s, unsigned i)
{
    redisReply *reply = servers_run(&s->servers, i, "GET x");
    bool busy = reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "BUSY ", 5) == 0;
    freeReplyObject(reply);
    return busy;
}

Test(refusals, a_busy_server)
{
    struct stage s;
    stage_open(&s, 3);
    redisContext *busy = keep_busy(&s, 0);
    LOOP_UNTIL(s.base, is_busy(&s, 0));
    for (int i = 0; i < 20; i++)
        hold_without(&s, 0, "BUSY");
    servers_do(&s.servers, 0, "SCRIPT KILL");
    LOOP_UNTIL(s.base, !is_busy(&s, 0));
    redisFree(busy);
    stage_drain(&s);
    expect_all_vote(&s);
    cr_assert_eq(servers_keys(&s.servers), 0);
    stage_close(&s);
}

/* While it loads it is alive, but has not its keys yet. */
Test(refusals, a_loading_server)
{
    struct stage s;
    stage_open(&s, 3);
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
    LOOP_UNTIL(s.base, is_refused(&s, 2, "LOADING"));
    redlock_lease *lease = stage_hold(&s, "job", NULL);
    cr_assert_str_eq(stage_node(lease, 2)->verdict, "absent");
    redlock_lease_free(lease);
    stage_drain(&s);
    expect_all_vote(&s);
    stage_close(&s);
}

Test(refusals, no_more_clients)
{
    struct stage s;
    stage_open(&s, 3);
    servers_do(&s.servers, 1, "CONFIG SET maxclients 1");
    meet_anew(&s, NULL);
    LOOP_UNTIL(s.base, stage_is(s.client, 0, "ready") && stage_is(s.client, 2, "ready") &&
                           !is_refused(&s, 1, "CONNECTING"));
    redlock_lease *lease = stage_hold(&s, "job", NULL);
    cr_assert_str_eq(stage_node(lease, 1)->verdict, "absent");
    cr_assert_str_eq(stage_node(lease, 1)->fault, "MAXCLIENTS");
    redlock_lease_free(lease);
    servers_do(&s.servers, 1, "CONFIG SET maxclients 100");
    expect_all_vote(&s);
    stage_close(&s);
}
