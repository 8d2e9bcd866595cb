/*
 * Who waits is called by the nodes. Where nothing but a call may let it go on, the test has
 * a policy of its own: who has a place does not look again within an hour.
 */
#include <criterion/criterion.h>

#include "stage.h"

#define HOUR_MS 3600000
#define WAITERS 3

/* A holder, and others who wait, each a client of its own. */
struct queue {
    struct stage s;
    redlock_lease *holder;
    long long wanted; /* so many places, and listeners, make whoever asks wait for a call */
    bool rests;       /* and so the last one who asked does */
    unsigned waiters;
    struct waiter {
        redlock_client *client;
        redlock_lease *lease;
        struct told told;
    } waiter[WAITERS];
};

static redlock_lease_options patient(void)
{
    redlock_lease_options options = stage_lease_options();
    options.wait_ms = -1;
    options.retry = REDLOCK_RETRY_FIXED;
    options.retry_base_ms = HOUR_MS;
    return options;
}

static void open_queue(struct queue *queue, unsigned n)
{
    memset(queue, 0, sizeof(*queue));
    stage_open(&queue->s, n);
    queue->holder = stage_hold(&queue->s, "job", NULL);
    stage_drain(&queue->s);
}

static bool runs(const struct queue *queue, unsigned i)
{
    return queue->s.servers.server[i].pid && !queue->s.servers.server[i].stopped;
}

/* How many places there are in the queues of all nodes that run. */
static long long places(struct queue *queue)
{
    long long count = 0;
    for (unsigned i = 0; i < queue->s.servers.n; i++)
        if (runs(queue, i))
            count += servers_number(&queue->s.servers, i, "ZCARD job!queue");
    return count;
}

/* And how many clients listen there. */
static long long listeners(struct queue *queue)
{
    long long count = 0;
    for (unsigned i = 0; i < queue->s.servers.n; i++) {
        if (!runs(queue, i))
            continue;
        redisReply *reply = servers_run(&queue->s.servers, i, "PUBSUB CHANNELS !wake:*");
        count += (long long)reply->elements;
        freeReplyObject(reply);
    }
    return count;
}

static struct waiter *ask(struct queue *queue, const redlock_options *who,
                          const redlock_lease_options *options)
{
    struct waiter *waiter = &queue->waiter[queue->waiters++];
    waiter->client = stage_client(&queue->s, who);
    cr_assert_eq(redlock_acquire(waiter->client, "job", 3, options, told_note,
                                 &waiter->told, &waiter->lease),
                 REDLOCK_OK);
    return waiter;
}

static int64_t until_placed(unsigned attempt, uint64_t random, void *arg)
{
    struct queue *queue = arg;
    (void)attempt;
    (void)random;
    bool placed = places(queue) >= queue->wanted && listeners(queue) >= queue->wanted;
    bool held = servers_with(&queue->s.servers, "job", NULL) == 0; /* no vote was split */
    queue->rests = placed && held;
    return queue->rests ? HOUR_MS : 5;
}

/* It never looks once it has its places, though a caller's policy is always followed. */
static redlock_lease_options trusting(struct queue *queue)
{
    redlock_lease_options options = patient();
    options.retry = REDLOCK_RETRY_CUSTOM;
    options.retry_fn = until_placed;
    options.retry_arg = queue;
    return options;
}

static struct waiter *take_place(struct queue *queue, const redlock_lease_options *options)
{
    queue->wanted = places(queue) + queue->s.servers.n;
    queue->rests = options->retry != REDLOCK_RETRY_CUSTOM;
    struct waiter *waiter = ask(queue, NULL, options);
    LOOP_UNTIL(queue->s.base, places(queue) == queue->wanted &&
                                  listeners(queue) >= queue->wanted && queue->rests);
    return waiter;
}

static void close_queue(struct queue *queue)
{
    redlock_lease_free(queue->holder);
    for (unsigned i = 0; i < queue->waiters; i++)
        redlock_lease_free(queue->waiter[i].lease);
    LOOP_UNTIL(queue->s.base,
               servers_with(&queue->s.servers, "job", NULL) == queue->s.servers.n);
    for (unsigned i = 0; i < queue->waiters; i++)
        redlock_client_free(queue->waiter[i].client);
    stage_close(&queue->s);
}

static redlock_code give_up(struct queue *queue)
{
    redlock_code code = stage_release(&queue->s, queue->holder);
    redlock_lease_free(queue->holder);
    queue->holder = NULL;
    return code;
}

/* In the order since when they wait, though each is called by another. */
Test(turns, in_order)
{
    struct queue queue;
    redlock_lease_options options = trusting(&queue);
    open_queue(&queue, 5);
    for (unsigned i = 0; i < WAITERS; i++)
        take_place(&queue, &options);
    for (unsigned i = 0; i < WAITERS; i++) {
        struct waiter *waiter = &queue.waiter[i];
        queue.wanted -= queue.s.servers.n; /* also for the second, who is called in vain */
        cr_assert_eq(give_up(&queue), REDLOCK_OK);
        EXPECT_TOLD(&queue.s, &waiter->told, REDLOCK_OK);
        for (unsigned j = i + 1; j < WAITERS; j++)
            cr_assert_eq(queue.waiter[j].told.times, 0);
        queue.holder = waiter->lease;
        waiter->lease = NULL;
    }
    cr_assert_eq(places(&queue), 0);
    close_queue(&queue);
}

/* A release tells whether somebody was called. */
Test(turns, awaited)
{
    struct queue queue;
    struct told told = {0};
    redlock_lease_options options = trusting(&queue);
    open_queue(&queue, 5);
    take_place(&queue, &options);
    cr_assert_eq(redlock_release(queue.holder, told_note, &told), REDLOCK_OK);
    EXPECT_TOLD(&queue.s, &told, REDLOCK_OK);
    cr_assert(told.result.awaited);
    redlock_lease_free(queue.holder);
    EXPECT_TOLD(&queue.s, &queue.waiter[0].told, REDLOCK_OK);
    told.times = 0;
    cr_assert_eq(redlock_release(queue.waiter[0].lease, told_note, &told), REDLOCK_OK);
    EXPECT_TOLD(&queue.s, &told, REDLOCK_OK);
    cr_assert_not(told.result.awaited);
    queue.holder = NULL;
    close_queue(&queue);
}

/* Who was served just now lets the others have their turn, though it could be faster. */
Test(turns, behind_the_others)
{
    struct queue queue;
    struct told told = {0};
    redlock_lease *again;
    redlock_lease_options options = patient();
    open_queue(&queue, 5);
    take_place(&queue, &options);
    /* The stage's own client hears calls once it has had to wait. */
    cr_assert_eq(
        redlock_acquire(queue.s.client, "job", 3, &options, told_note, &told, &again),
        REDLOCK_OK);
    LOOP_UNTIL(queue.s.base, places(&queue) == 10);
    redlock_lease_free(again);
    LOOP_UNTIL(queue.s.base, places(&queue) == 5);
    options.behind = true;
    cr_assert_eq(give_up(&queue), REDLOCK_OK);
    cr_assert_eq(
        redlock_acquire(queue.s.client, "job", 3, &options, told_note, &told, &again),
        REDLOCK_OK);
    EXPECT_TOLD(&queue.s, &queue.waiter[0].told, REDLOCK_OK);
    cr_assert_eq(told.times, 0);
    LOOP_UNTIL(queue.s.base, places(&queue) == 5);
    redlock_lease_free(queue.waiter[0].lease);
    queue.waiter[0].lease = NULL;
    EXPECT_TOLD(&queue.s, &told, REDLOCK_OK);
    queue.holder = again;
    close_queue(&queue);
}

/* And if nobody is there after all, it has it. */
Test(turns, behind_nobody)
{
    struct queue queue;
    struct told told;
    redlock_lease_options options = patient();
    open_queue(&queue, 5);
    struct waiter *waiter = take_place(&queue, &options);
    cr_assert_eq(give_up(&queue), REDLOCK_OK);
    EXPECT_TOLD(&queue.s, &waiter->told, REDLOCK_OK);
    redlock_lease_free(waiter->lease);
    LOOP_UNTIL(queue.s.base, servers_keys(&queue.s.servers) == 0);
    options.behind = true;
    struct stage own = queue.s;
    own.client = waiter->client;
    waiter->lease = stage_acquire(&own, "job", &options, &told);
    cr_assert_eq(told.result.code, REDLOCK_OK);
    cr_assert_eq(told.result.attempts, 1, "to stand behind is no attempt");
    close_queue(&queue);
}

/* Somebody in all queues, since ever, whose channel this is. */
static void plant_place(struct queue *queue, const char *channel)
{
    for (unsigned i = 0; i < queue->s.servers.n; i++)
        servers_do(&queue->s.servers, i, "ZADD job!queue 1 %b", channel, strlen(channel));
}

Test(turns, the_dead_are_passed_over)
{
    struct queue queue;
    redlock_lease_options options = trusting(&queue);
    open_queue(&queue, 5);
    struct waiter *waiter = take_place(&queue, &options);
    plant_place(&queue, "!wake:dead 1");
    plant_place(&queue, "!wake:dead 2");
    plant_place(&queue, "no place at all");
    cr_assert_eq(places(&queue), 20);
    cr_assert_eq(give_up(&queue), REDLOCK_OK);
    EXPECT_TOLD(&queue.s, &waiter->told, REDLOCK_OK);
    cr_assert_eq(places(&queue), 0);
    close_queue(&queue);
}

/* It listens and does not come: then it is the second one's turn. */
Test(turns, the_second_comes_if_the_first_does_not)
{
    struct queue queue;
    redisContext *deaf[5];
    redlock_lease_options options = trusting(&queue);
    open_queue(&queue, 5);
    struct waiter *waiter = take_place(&queue, &options);
    for (unsigned i = 0; i < 5; i++) {
        deaf[i] = redisConnectUnix(queue.s.servers.server[i].socket);
        freeReplyObject(redisCommand(deaf[i], "SUBSCRIBE !wake:deaf"));
    }
    plant_place(&queue, "!wake:deaf 1");
    cr_assert_eq(give_up(&queue), REDLOCK_OK);
    EXPECT_TOLD(&queue.s, &waiter->told, REDLOCK_OK);
    for (unsigned i = 0; i < 5; i++)
        redisFree(deaf[i]);
    close_queue(&queue);
}

/* Each node has another queue, and calls another: somebody comes, and long before it looks.
 */
Test(turns, no_two_nodes_call_the_same_one)
{
    struct queue queue;
    redlock_lease_options options = trusting(&queue);
    open_queue(&queue, WAITERS);
    for (unsigned i = 0; i < WAITERS; i++)
        take_place(&queue, &options);
    for (unsigned i = 0; i < WAITERS; i++) {
        servers_do(&queue.s.servers, i, "ZREMRANGEBYRANK job!queue %u -1", i + 1);
        if (i > 0)
            servers_do(&queue.s.servers, i, "ZREMRANGEBYRANK job!queue 0 %u", i - 1);
    }
    cr_assert_eq(places(&queue), WAITERS);
    cr_assert_eq(give_up(&queue), REDLOCK_OK);
    LOOP_UNTIL(queue.s.base, queue.waiter[0].told.times + queue.waiter[1].told.times +
                                     queue.waiter[2].told.times >
                                 0);
    close_queue(&queue);
}

/* Two of five are not there: three are enough to be called by. */
Test(turns, by_a_bare_quorum)
{
    struct queue queue;
    redlock_lease_options options = trusting(&queue);
    open_queue(&queue, 5);
    servers_kill(&queue.s.servers, 0);
    servers_stop(&queue.s.servers, 1);
    queue.wanted = 3;
    struct waiter *waiter = ask(&queue, NULL, &options);
    LOOP_UNTIL(queue.s.base, places(&queue) == 3);
    cr_assert_eq(give_up(&queue), REDLOCK_OK);
    EXPECT_TOLD(&queue.s, &waiter->told, REDLOCK_OK);
    servers_cont(&queue.s.servers, 1);
    redlock_lease_free(waiter->lease);
    waiter->lease = NULL;
    LOOP_UNTIL(queue.s.base, servers_with(&queue.s.servers, "job", NULL) == 4);
    redlock_client_free(waiter->client);
    queue.waiters = 0;
    stage_close(&queue.s);
}

/* Who broke the lock calls, too. */
static void note_survey(redlock_client *client, const redlock_survey *survey, void *arg)
{
    (void)client;
    cr_assert_eq(survey->code, REDLOCK_OK);
    *(bool *)arg = true;
}

Test(turns, a_broken_lock)
{
    struct queue queue;
    bool broken = false;
    redlock_lease_options options = trusting(&queue);
    open_queue(&queue, 5);
    struct waiter *waiter = take_place(&queue, &options);
    cr_assert_eq(redlock_break(queue.s.client, "job", 3, note_survey, &broken), REDLOCK_OK);
    EXPECT_TOLD(&queue.s, &waiter->told, REDLOCK_OK);
    LOOP_UNTIL(queue.s.base, broken);
    close_queue(&queue);
}

/* --- what is not heard --- */

static redlock_lease_options restless(void)
{
    redlock_lease_options options = patient();
    options.retry_base_ms = 10;
    return options;
}

/* So often that it cannot have trusted in being called. */
static void see_it_try(struct queue *queue, struct waiter *waiter)
{
    char token[REDLOCK_TOKEN_MAX + 1] = "";
    for (int i = 0; i < 20; i++) {
        LOOP_UNTIL(queue->s.base, strcmp(redlock_token(waiter->lease), token) != 0);
        strcpy(token, redlock_token(waiter->lease));
    }
}

/* Without its subscriptions it looks by itself, however they end. */
Test(turns, cut_off)
{
    struct queue queue;
    redlock_lease_options options = restless();
    open_queue(&queue, 5);
    struct waiter *waiter = take_place(&queue, &options);
    for (unsigned i = 0; i < 5; i++) {
        servers_do(&queue.s.servers, i, "ACL SETUSER default resetchannels");
        servers_do(&queue.s.servers, i, "CLIENT KILL TYPE pubsub");
    }
    cr_assert_eq(give_up(&queue), REDLOCK_OK);
    EXPECT_TOLD(&queue.s, &waiter->told, REDLOCK_OK);
    close_queue(&queue);
}

static void wait_as(const char *rule, bool can_take_a_place)
{
    struct queue queue;
    redlock_options who = stage_options();
    redlock_lease_options options = restless();
    who.username = "poor";
    who.password = "secret";
    open_queue(&queue, 3);
    for (unsigned i = 0; i < 3; i++)
        servers_do(&queue.s.servers, i, "ACL SETUSER poor on >secret ~* &* +@all %s", rule);
    struct waiter *first = ask(&queue, &who, &options);
    if (can_take_a_place)
        LOOP_UNTIL(queue.s.base, places(&queue) == 3);
    else
        see_it_try(&queue, first);
    cr_assert_eq(give_up(&queue), REDLOCK_OK);
    EXPECT_TOLD(&queue.s, &first->told, REDLOCK_OK);
    struct waiter *second = ask(&queue, &who, &options);
    LOOP_UNTIL(queue.s.base, redlock_token(second->lease)[0]);
    cr_assert_eq(stage_release(&queue.s, first->lease), REDLOCK_OK);
    EXPECT_TOLD(&queue.s, &second->told, REDLOCK_OK);
    close_queue(&queue);
}

/* Whoever has no place, or cannot hear of it, goes by its policy. */
Test(turns, without_the_rights_to_be_called)
{
    wait_as("resetchannels", false);
    wait_as("-subscribe", false);
    wait_as("-zadd", false);
}

/* Nor does a release suffer where nobody may publish: who trusted in it looks by itself. */
Test(turns, without_the_right_to_call)
{
    wait_as("-publish", true);
}

/* Another library's client, and a person who deletes the key, call nobody. */
Test(turns, not_a_lock_of_ours)
{
    struct queue queue;
    redlock_lease_options options = restless();
    open_queue(&queue, 3);
    cr_assert_eq(give_up(&queue), REDLOCK_OK);
    for (unsigned i = 0; i < 3; i++)
        servers_do(&queue.s.servers, i, "SET job another PX 3600000");
    struct waiter *waiter = take_place(&queue, &options);
    for (unsigned i = 0; i < 3; i++)
        servers_do(&queue.s.servers, i, "DEL job");
    EXPECT_TOLD(&queue.s, &waiter->told, REDLOCK_OK);
    close_queue(&queue);
}

/* What stands in the queue's place is left as it is; the policy is followed then. */
Test(turns, something_else_is_there)
{
    struct queue queue;
    redlock_lease_options options = restless();
    open_queue(&queue, 3);
    for (unsigned i = 0; i < 3; i++)
        servers_do(&queue.s.servers, i, "SET job!queue mine");
    struct waiter *waiter = ask(&queue, NULL, &options);
    see_it_try(&queue, waiter);
    cr_assert_eq(give_up(&queue), REDLOCK_OK);
    EXPECT_TOLD(&queue.s, &waiter->told, REDLOCK_OK);
    cr_assert_eq(servers_with(&queue.s.servers, "job!queue", "mine"), 3);
    close_queue(&queue);
}

/* --- who does not wait any more --- */

Test(turns, cancelled)
{
    struct queue queue;
    redlock_lease_options options = patient();
    open_queue(&queue, 5);
    struct waiter *waiter = take_place(&queue, &options);
    redlock_cancel(waiter->lease);
    EXPECT_TOLD(&queue.s, &waiter->told, REDLOCK_CANCELLED);
    LOOP_UNTIL(queue.s.base, places(&queue) == 0);
    close_queue(&queue);
}

Test(turns, freed)
{
    struct queue queue;
    redlock_lease_options options = patient();
    open_queue(&queue, 5);
    struct waiter *waiter = take_place(&queue, &options);
    redlock_lease_free(waiter->lease);
    waiter->lease = NULL;
    LOOP_UNTIL(queue.s.base, places(&queue) == 0);
    close_queue(&queue);
}

Test(turns, the_wait_runs_out)
{
    struct queue queue;
    redlock_lease_options options = patient();
    options.wait_ms = 500;
    open_queue(&queue, 5);
    struct waiter *waiter = take_place(&queue, &options);
    EXPECT_TOLD(&queue.s, &waiter->told, REDLOCK_TIMEOUT);
    LOOP_UNTIL(queue.s.base, places(&queue) == 0);
    close_queue(&queue);
}

/* It runs out while a slow node is waited for, to which it had said that it would go on. */
Test(turns, the_wait_runs_out_in_an_attempt)
{
    struct queue queue;
    struct told told = {0};
    redlock_lease *late;
    redlock_options who = stage_options();
    redlock_lease_options options = patient();
    who.node_timeout_ms = 1000;
    open_queue(&queue, 3);
    struct waiter *waiter = ask(&queue, &who, &options);
    LOOP_UNTIL(queue.s.base, places(&queue) == 3);
    servers_stop(&queue.s.servers, 2);
    options.wait_ms = 500;
    cr_assert_eq(
        redlock_acquire(waiter->client, "job", 3, &options, told_note, &told, &late),
        REDLOCK_OK);
    LOOP_UNTIL(queue.s.base, places(&queue) == 4);
    EXPECT_TOLD(&queue.s, &told, REDLOCK_TIMEOUT);
    LOOP_UNTIL(queue.s.base, places(&queue) == 2);
    redlock_lease_free(late);
    servers_cont(&queue.s.servers, 2);
    close_queue(&queue);
}

static int64_t until_it_has_a_place(unsigned attempt, uint64_t random, void *arg)
{
    (void)attempt;
    (void)random;
    return places(arg) == 0 ? 10 : -1;
}

Test(turns, the_policy_gives_up)
{
    struct queue queue;
    redlock_lease_options options = patient();
    open_queue(&queue, 3);
    options.retry = REDLOCK_RETRY_CUSTOM;
    options.retry_fn = until_it_has_a_place;
    options.retry_arg = &queue;
    struct waiter *waiter = ask(&queue, NULL, &options);
    EXPECT_TOLD(&queue.s, &waiter->told, REDLOCK_TAKEN);
    LOOP_UNTIL(queue.s.base, places(&queue) == 0);
    close_queue(&queue);
}

/* Its lock ended by itself: nobody calls, and the place is given up with the next release.
 */
Test(turns, the_lock_expires)
{
    struct queue queue;
    redlock_lease_options options = patient();
    open_queue(&queue, 5);
    struct waiter *waiter = take_place(&queue, &options);
    for (unsigned i = 0; i < 5; i++) /* before the waiter, who does not know, looks again */
        servers_do(&queue.s.servers, i, "PEXPIRE job 1000");
    redlock_disown(queue.holder);
    struct waiter *late = take_place(&queue, &options);
    EXPECT_TOLD(&queue.s, &late->told, REDLOCK_OK);
    redlock_lease_free(late->lease);
    late->lease = NULL;
    EXPECT_TOLD(&queue.s, &waiter->told, REDLOCK_OK);
    redlock_lease_free(waiter->lease);
    waiter->lease = NULL;
    LOOP_UNTIL(queue.s.base, servers_keys(&queue.s.servers) == 0);
    close_queue(&queue);
}

/* The queue of those who all died goes away by itself, a while after the lock. */
Test(turns, an_abandoned_queue_expires)
{
    struct queue queue;
    redlock_lease_options options = patient();
    open_queue(&queue, 3);
    take_place(&queue, &options);
    for (unsigned i = 0; i < 3; i++) {
        long long lock = servers_number(&queue.s.servers, i, "PTTL job");
        long long left = servers_number(&queue.s.servers, i, "PTTL job!queue");
        cr_assert_gt(left, lock);
        cr_assert_leq(left, lock + 61000);
    }
    close_queue(&queue);
}
