/*
 * Waiters that leave the queues, whatever becomes of their lock, and the notifications of
 * those that wait no more: they are passed on. Only a notification may wake a waiter here.
 */
#include <criterion/criterion.h>

#include "wait_queue.h"

#define NODES 3

/* --- the entries of those who have the lock --- */

struct kind {
    const char *name;
    redlock_lease_options (*options)(void);
    size_t keys;
};

static redlock_lease_options shared(void)
{
    redlock_lease_options options = quorum_quiet_options();
    options.kind = REDLOCK_KIND_SHARED;
    return options;
}

static redlock_lease_options redisson(void)
{
    redlock_lease_options options = quorum_quiet_options();
    options.kind = REDLOCK_KIND_REDISSON;
    return options;
}

static redlock_lease_options slot(void)
{
    redlock_lease_options options = quorum_quiet_options();
    options.kind = REDLOCK_KIND_SLOT;
    options.slots = 1;
    return options;
}

static redlock_lease_options fenced_slot(void)
{
    redlock_lease_options options = quorum_quiet_fenced_options();
    options.kind = REDLOCK_KIND_SLOT;
    options.slots = 1;
    return options;
}

static redlock_lease_options fenced_shared(void)
{
    redlock_lease_options options = quorum_quiet_fenced_options();
    options.kind = REDLOCK_KIND_SHARED;
    return options;
}

static redlock_lease_options elected(void)
{
    redlock_lease_options options = quorum_quiet_fenced_options();
    options.kind = REDLOCK_KIND_ELECTION;
    return options;
}

static const struct kind kinds[] = {
    {"plain", quorum_quiet_options, 1},
    {"fenced", quorum_quiet_fenced_options, 1},
    {"set", quorum_quiet_options, 2},
    {"fenced set", quorum_quiet_fenced_options, 2},
    {"shared", shared, 1},
    {"fenced shared", fenced_shared, 1},
    {"slot", slot, 1},
    {"fenced slot", fenced_slot, 1},
    {"redisson", redisson, 1},
    {"elected", elected, 1},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static const redlock_key keys[] = {{"job", 3}, {"part", 4}};

static long long number_of(struct servers *servers, unsigned i, const char *pattern)
{
    redisReply *reply = servers_run(servers, i, "KEYS %s", pattern);
    long long count = (long long)reply->elements;
    freeReplyObject(reply);
    return count;
}

static long long all_of(struct quorum *s, const char *pattern)
{
    long long count = 0;
    for (unsigned i = 0; i < NODES; i++)
        count += number_of(&s->servers, i, pattern);
    return count;
}

/* A lock of this kind that the client had to wait for. */
static redlock_lease *wait_and_hold(struct quorum *s, const struct kind *kind,
                                    redlock_client *client)
{
    struct reported first = {0}, reported = {0};
    redlock_lease *holder, *lease;
    redlock_lease_options options = kind->options();
    redlock_kind wanted = options.kind;
    if (wanted == REDLOCK_KIND_SHARED) /* a reader waits for a writer */
        options.kind = REDLOCK_KIND_EXCLUSIVE;
    cr_assert_eq(redlock_acquire_many(s->client, keys, kind->keys, &options, reported_note,
                                      &first, &holder),
                 REDLOCK_OK);
    EXPECT_REPORTED(s, &first, REDLOCK_OK);
    quorum_drain(s);
    options.kind = wanted;
    options.wait_ms = REDLOCK_FOREVER;
    cr_assert_eq(redlock_acquire_many(client, keys, kind->keys, &options, reported_note,
                                      &reported, &lease),
                 REDLOCK_OK);
    LOOP_UNTIL(s->base, all_of(s, "*!queue") == NODES);
    quorum_free_lease(s, holder);
    EXPECT_REPORTED(s, &reported, REDLOCK_OK);
    return lease;
}

/* `leaves`: gives the lock up, and leaves it on the nodes. */
static void expect_no_entries(bool drains,
                              void (*leaves)(redlock_client *client, redlock_lease *lease))
{
    for (size_t i = 0; i < KINDS; i++) {
        struct quorum s;
        quorum_open_fenced(&s, NODES, NULL);
        redlock_client *client = quorum_client(&s, NULL);
        redlock_lease *lease = wait_and_hold(&s, &kinds[i], client);
        long long held = all_of(&s, "job") + all_of(&s, "job![0-9]*");
        leaves(client, lease);
        LOOP_UNTIL(s.base, all_of(&s, "*!queue") + all_of(&s, "*!intent") == 0);
        cr_assert_geq(all_of(&s, "job") + all_of(&s, "job![0-9]*"), held, "%s",
                      kinds[i].name);
        redlock_lease_free(lease);
        if (drains)
            redlock_client_free(client);
        quorum_close(&s);
    }
}

static void disown(redlock_client *client, redlock_lease *lease)
{
    (void)client;
    redlock_disown(lease);
}

static void free_client(redlock_client *client, redlock_lease *lease)
{
    (void)lease;
    redlock_client_free(client);
}

Test(waiting_leave, a_lock_that_is_disowned)
{
    expect_no_entries(true, disown);
}

Test(waiting_leave, a_lock_that_is_left_by_the_end_of_its_client)
{
    expect_no_entries(false, free_client);
}

/* Its entry would keep readers out, and others would pass over it. */
Test(waiting_leave, a_waiter_whose_client_is_freed)
{
    struct queue queue;
    redlock_lease_options options = queue_patient_options();
    queue_open(&queue, NODES);
    struct waiter *waiter = queue_join(&queue, &options);
    redlock_client_free(waiter->client);
    EXPECT_REPORTED(&queue.s, &waiter->reported, REDLOCK_CANCELLED);
    LOOP_UNTIL(queue.s.base,
               all_of(&queue.s, "*!queue") + all_of(&queue.s, "*!intent") == 0);
    redlock_lease_free(waiter->lease);
    queue.waiters = 0;
    queue_close(&queue);
}

/* --- the notifications of those who wait no more --- */

/* The entry of the waiter that waits longest, as node 0 has it. */
static void read_first_entry(struct quorum *s, char *ret_entry, size_t room)
{
    redisReply *reply = servers_run(&s->servers, 0, "ZRANGE job!queue 0 0");
    cr_assert_eq(reply->elements, 1);
    snprintf(ret_entry, room, "%s", reply->element[0]->str);
    freeReplyObject(reply);
}

/* Two waiters for a lock of this kind, which another client has. */
struct pair {
    struct quorum s;
    redlock_client *client[2];
    redlock_lease *lease[2];
    struct reported reported[2];
    long long wanted; /* entries and subscribers: then a waiter sleeps */
};

static int64_t until_queued(unsigned attempt, uint64_t random, void *arg)
{
    struct pair *pair = arg;
    long long entries = 0, subscribers = 0;
    (void)attempt;
    (void)random;
    for (unsigned i = 0; i < NODES; i++) {
        redisReply *reply = servers_run(&pair->s.servers, i, "PUBSUB CHANNELS !wake:*");
        subscribers += (long long)reply->elements;
        freeReplyObject(reply);
        entries += servers_number(&pair->s.servers, i, "ZCARD job!queue");
    }
    return entries >= pair->wanted && subscribers >= pair->wanted ? 3600000 : 5;
}

static void join(struct pair *pair, unsigned i, redlock_lease_options options, size_t count)
{
    options.wait_ms = REDLOCK_FOREVER;
    options.retry = REDLOCK_RETRY_CUSTOM;
    options.retry_fn = until_queued;
    options.retry_arg = pair;
    pair->wanted += NODES;
    pair->client[i] = quorum_client(&pair->s, NULL);
    cr_assert_eq(redlock_acquire_many(pair->client[i], keys, count, &options, reported_note,
                                      &pair->reported[i], &pair->lease[i]),
                 REDLOCK_OK);
    LOOP_UNTIL(pair->s.base, until_queued(0, 0, pair) > 5);
}

/* All nodes have notified the first one, which is not told yet, and gives up. */
static void expect_passed_on(const struct kind *kind)
{
    struct pair pair = {.wanted = 0};
    char entry[128];
    redlock_lease_options writer = kind->options();
    if (writer.kind == REDLOCK_KIND_SHARED) /* readers wait for a writer */
        writer.kind = REDLOCK_KIND_EXCLUSIVE;
    quorum_open_fenced(&pair.s, NODES, NULL);
    struct reported reported = {0};
    redlock_lease *holder;
    cr_assert_eq(redlock_acquire_many(pair.s.client, keys, kind->keys, &writer,
                                      reported_note, &reported, &holder),
                 REDLOCK_OK);
    EXPECT_REPORTED(&pair.s, &reported, REDLOCK_OK);
    quorum_drain(&pair.s);
    join(&pair, 0, kind->options(), kind->keys);
    read_first_entry(&pair.s, entry, sizeof(entry));
    join(&pair, 1, kind->options(), kind->keys);
    redlock_disown(holder);
    servers_do_first(&pair.s.servers, NODES, "ZREM job!queue %s", entry);
    servers_do_first(&pair.s.servers, NODES, "DEL job part job!1");
    redlock_cancel(pair.lease[0]);
    EXPECT_REPORTED(&pair.s, &pair.reported[1], REDLOCK_OK);
    redlock_lease_free(holder);
    for (unsigned i = 0; i < 2; i++) {
        redlock_lease_free(pair.lease[i]);
        redlock_client_free(pair.client[i]);
    }
    quorum_close(&pair.s);
}

Test(waiting_leave, a_waiter_that_was_notified_and_gives_up)
{
    for (size_t i = 0; i < KINDS; i++)
        expect_passed_on(&kinds[i]);
}

/*
 * Their client is subscribed. Under the first number a wait has ended; it knows nothing of
 * the others.
 */
Test(waiting_leave, entries_that_a_living_client_has_left)
{
    struct queue queue;
    char entry[128], other[160];
    redlock_lease_options options = queue_relying_options(&queue);
    queue_open(&queue, NODES);
    queue_join(&queue, &options);
    queue_join(&queue, &options);
    read_first_entry(&queue.s, entry, sizeof(entry));
    redlock_cancel(queue.waiter[0].lease);
    EXPECT_REPORTED(&queue.s, &queue.waiter[0].reported, REDLOCK_CANCELLED);
    LOOP_UNTIL(queue.s.base, queue_entries(&queue) == NODES);
    servers_do_first(&queue.s.servers, NODES, "ZADD job!queue 1 %s", entry);
    *strrchr(entry, ' ') = '\0';
    for (unsigned i = 2; i <= 4; i++) {
        snprintf(other, sizeof(other), "%s %u", entry, 1000 + i);
        servers_do_first(&queue.s.servers, NODES, "ZADD job!queue %u %s", i, other);
    }
    cr_assert_eq(queue_release(&queue), REDLOCK_OK);
    EXPECT_REPORTED(&queue.s, &queue.waiter[1].reported, REDLOCK_OK);
    queue_close(&queue);
}
