/* Locks in the layout of Redisson's RLock, on real servers. */
#include <criterion/criterion.h>

#include "quorum.h"

#define JAVA "b98df5fa-0c1e-4f1c-9d52-6a0c3f3f6a11:37" /* as RLock names its owner */
#define KEY  "job"

static redlock_lease_options options_of_redisson(void)
{
    redlock_lease_options options = quorum_quiet_options();
    options.kind = REDLOCK_KIND_REDISSON;
    return options;
}

/* Locks like RLock.lock(): HINCRBY and PEXPIRE. */
static void lock_by_java(struct quorum *s, unsigned nodes)
{
    servers_do_first(&s->servers, nodes, "HINCRBY " KEY " " JAVA " 1");
    servers_do_first(&s->servers, nodes, "PEXPIRE " KEY " 600000");
}

static unsigned count_depths(struct quorum *s, const char *owner)
{
    unsigned count = 0;
    for (unsigned i = 0; i < s->servers.n; i++)
        count += servers_text(&s->servers, i, "1", "HGET " KEY " %s", owner);
    return count;
}

Test(redisson, stored_as_an_rlock_extended_and_released)
{
    struct quorum s;
    redlock_lease_options options = options_of_redisson();
    quorum_open(&s, 5);
    redlock_lease *lease = quorum_hold(&s, KEY, &options);
    quorum_drain(&s);
    cr_assert_eq(strncmp(redlock_token(lease), "r:", 2), 0);
    cr_assert_eq(count_depths(&s, redlock_token(lease)), 5);
    cr_assert_gt(servers_number(&s.servers, 0, "PTTL " KEY), 0);
    cr_assert_eq(quorum_extend(&s, lease, 600000), REDLOCK_OK);
    quorum_drain(&s);
    cr_assert_gt(servers_number(&s.servers, 4, "PTTL " KEY), 500000);
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    quorum_close_empty(&s);
}

Test(redisson, excluded_by_java_and_names_its_owner)
{
    struct quorum s;
    struct reported reported;
    redlock_lease_options options = options_of_redisson();
    quorum_open(&s, 3);
    lock_by_java(&s, 2);
    redlock_lease *lease = quorum_acquire(&s, KEY, &options, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_TAKEN);
    cr_assert_gt(reported.result.remaining_ms, 0);
    quorum_free_lease(&s, lease);
    cr_assert_eq(count_depths(&s, JAVA), 2, "its hash stays");
    cr_assert(servers_int(&s.servers, 2, 0, "EXISTS " KEY), "ours is released");
    quorum_close(&s);
}

/* A plain lock and one in Redisson's layout wait for each other, and are notified. */
Test(redisson, excludes_plain_locks_and_waits_for_them)
{
    struct quorum s;
    struct reported waits, refused;
    redlock_lease_options hash = options_of_redisson(), plain = quorum_quiet_options();
    quorum_open(&s, 3);
    redlock_lease *lease = quorum_hold(&s, KEY, &hash);
    redlock_lease *other = quorum_acquire(&s, KEY, &plain, &refused);
    cr_assert_eq(refused.result.code, REDLOCK_TAKEN);
    quorum_free_lease(&s, other);
    plain.wait_ms = REDLOCK_FOREVER;
    redlock_lease *waiter = quorum_start(&s, KEY, &plain, &waits);
    LOOP_UNTIL(s.base, servers_number(&s.servers, 0, "ZCARD " KEY "!queue") == 1 &&
                           servers_number(&s.servers, 1, "ZCARD " KEY "!queue") == 1);
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
    EXPECT_REPORTED(&s, &waits, REDLOCK_OK);
    redlock_lease_free(lease);
    quorum_free_lease(&s, waiter);
    quorum_close_empty(&s);
}

/* A node that restarted without its data gets the hash again, and does not count. */
Test(redisson, recreated_where_it_is_missing_and_lost_where_java_took_it)
{
    struct quorum s;
    redlock_lease_options options = options_of_redisson();
    quorum_open(&s, 3);
    redlock_lease *lease = quorum_hold(&s, KEY, &options);
    quorum_drain(&s);
    servers_do_first(&s.servers, 1, "DEL " KEY);
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_OK);
    quorum_drain(&s);
    cr_assert_eq(count_depths(&s, redlock_token(lease)), 3);
    servers_do_first(&s.servers, 2, "DEL " KEY);
    lock_by_java(&s, 2);
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_TAKEN);
    quorum_free_lease(&s, lease);
    cr_assert_eq(count_depths(&s, JAVA), 2);
    quorum_close(&s);
}

Test(redisson, adopted_by_its_token)
{
    struct quorum s;
    redlock_lease *adopted;
    redlock_lease_options options = options_of_redisson();
    quorum_open(&s, 3);
    redlock_lease *lease = quorum_hold(&s, KEY, &options);
    quorum_drain(&s);
    cr_assert_eq(redlock_adopt(s.client, KEY, strlen(KEY), redlock_token(lease),
                               REDLOCK_UNKNOWN, NULL, &adopted),
                 REDLOCK_OK);
    redlock_disown(lease);
    redlock_lease_free(lease);
    cr_assert_eq(quorum_extend(&s, adopted, 0), REDLOCK_OK);
    cr_assert_eq(quorum_release(&s, adopted), REDLOCK_OK);
    redlock_lease_free(adopted);
    quorum_close_empty(&s);
}

/* A key without an expiry would lock for ever. */
Test(redisson, stores_nothing_where_it_may_not_set_the_expiry)
{
    struct quorum s;
    struct reported reported;
    redlock_lease_options options = options_of_redisson();
    quorum_open(&s, 3);
    servers_do_first(&s.servers, 2, "ACL SETUSER default -pexpire");
    redlock_lease *lease = quorum_acquire(&s, KEY, &options, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_DENIED);
    cr_assert_neq(quorum_node(lease, 0)->verdict, REDLOCK_VERDICT_GRANTED);
    quorum_free_lease(&s, lease);
    quorum_close_empty(&s);
}

/* RLock's waiters subscribe to it. */
Test(redisson, a_release_wakes_javas_waiters)
{
    struct quorum s;
    redlock_lease_options options = options_of_redisson();
    static const char *const channels[][2] = {
        {KEY, "redisson_lock__channel:{" KEY "}"},
        {"{a}job", "redisson_lock__channel:{a}job"},
    };
    quorum_open(&s, 1);
    for (unsigned i = 0; i < 2; i++) {
        redisContext *java = redisConnectUnix(s.servers.server[0].socket);
        redisReply *reply = redisCommand(java, "SUBSCRIBE %s", channels[i][1]);
        freeReplyObject(reply);
        redlock_lease *lease = quorum_hold(&s, channels[i][0], &options);
        cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
        redlock_lease_free(lease);
        cr_assert_eq(redisGetReply(java, (void **)&reply), REDIS_OK);
        cr_assert_str_eq(reply->element[2]->str, "0");
        freeReplyObject(reply);
        redisFree(java);
    }
    quorum_close_empty(&s);
}
