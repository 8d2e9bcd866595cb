/*
 * The locks that came before Redlock, and how each of them fails. Each story runs step by
 * step on a real Redis, so it always ends in the same way. docs/why.md explains the
 * stories. Exits with 0 if the story ended as docs/why.md says.
 */
#include "steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lock {
    bool (*take)(struct worker *me);
    void (*give_back)(struct worker *me);
};

/*
 * What each worker runs. The lock must keep the other workers out from the first line to
 * the last.
 */
static void sell_one(struct worker *me, const void *arg)
{
    const struct lock *lock = arg;
    if (!lock->take(me))
        return;
    int stock = read_stock(me);
    if (stock > 0)
        write_stock(me, stock - 1);
    lock->give_back(me);
}

/* --- the locks --- */

static bool no_lock_take(struct worker *me)
{
    (void)me;
    return true;
}

static void no_lock_give_back(struct worker *me)
{
    (void)me;
}

static bool setnx_take(struct worker *me)
{
    return ask(me, "1", "SETNX lock %s", me->name);
}

static void setnx_give_back(struct worker *me)
{
    ask(me, "1", "DEL lock");
}

static bool setnx_expire_take(struct worker *me)
{
    if (!ask(me, "1", "SETNX lock %s", me->name))
        return false;
    return ask(me, "1", "EXPIRE lock 30");
}

static bool shared_value_take(struct worker *me)
{
    return ask(me, "OK", "SET lock 1 NX PX 30000");
}

static bool own_value_take(struct worker *me)
{
    return ask(me, "OK", "SET lock %s NX PX 30000", me->name);
}

static void compare_delete_give_back(struct worker *me)
{
    if (ask(me, me->name, "GET lock"))
        ask(me, "1", "DEL lock");
}

static void script_give_back(struct worker *me)
{
    static const char script[] =
        "if redis.call('GET', KEYS[1]) == ARGV[1] then "
        "return redis.call('DEL', KEYS[1]) end return 0";
    ask(me, "1", "EVAL %s 1 lock %s", script, me->name);
}

static const struct lock no_lock = {no_lock_take, no_lock_give_back};
static const struct lock setnx = {setnx_take, setnx_give_back};
static const struct lock setnx_expire = {setnx_expire_take, setnx_give_back};
static const struct lock shared_value = {shared_value_take, setnx_give_back};
static const struct lock compare_delete = {own_value_take, compare_delete_give_back};
static const struct lock script = {own_value_take, script_give_back};

/* --- the stories; each returns whether it ended as docs/why.md says --- */

static struct worker ann, bob, cid;

static bool both_read_then_both_write(void)
{
    run_steps(&ann, 1);
    run_steps(&bob, 1);
    run_steps(&ann, 1);
    run_steps(&bob, 1);
    return shop_close() == 2;
}

/* After one step SETNX is done and the next command is not. */
static bool dies_with_the_lock(void)
{
    run_steps(&ann, 1);
    kill_worker(&ann);
    run_steps(&bob, 1);
    bool for_ever = check_reply("-1", "PTTL lock");
    return shop_close() == 0 && for_ever;
}

static bool dies_and_expires(void)
{
    run_steps(&ann, 1);
    kill_worker(&ann);
    run_steps(&bob, 1);
    expire_lock(&ann);
    run_steps(&cid, 3);
    return shop_close() == 1;
}

/*
 * Ann sells one item and gives the lock back late; bob acquires it before that. Ann's last
 * command then deletes bob's lock, or leaves it and cid is refused.
 */
static bool releases_late(int steps_before)
{
    run_steps(&ann, steps_before);
    expire_lock(&ann);
    run_steps(&bob, 2);
    run_steps(&ann, 1);
    bool bobs_is_left = check_reply("1", "EXISTS lock");
    run_steps(&cid, bobs_is_left ? 1 : 2);
    run_steps(&bob, 1);
    if (!bobs_is_left)
        run_steps(&cid, 1);
    return bobs_is_left;
}

static bool deletes_anothers_lock(void)
{
    releases_late(3);
    return shop_close() == 3;
}

static bool deletes_after_comparing(void)
{
    releases_late(4);
    return shop_close() == 3;
}

static bool deletes_nothing(void)
{
    return releases_late(3) && shop_close() == 2;
}

static bool redis_loses_its_memory(void)
{
    run_steps(&ann, 2);
    crash_redis();
    run_steps(&bob, 2);
    run_steps(&ann, 1);
    run_steps(&bob, 1);
    return shop_close() == 2;
}

static const struct story {
    const char *name;
    const struct lock *lock;
    int stock;
    bool (*run)(void);
} stories[] = {
    {"no-lock", &no_lock, 1, both_read_then_both_write},
    {"setnx", &setnx, 1, dies_with_the_lock},
    {"setnx-expire", &setnx_expire, 1, dies_with_the_lock},
    {"set-nx-px", &shared_value, 1, dies_and_expires},
    {"shared-value", &shared_value, 2, deletes_anothers_lock},
    {"compare-delete", &compare_delete, 2, deletes_after_comparing},
    {"script", &script, 2, deletes_nothing},
    {"one-master", &script, 1, redis_loses_its_memory},
};

int main(int argc, char **argv)
{
    size_t count = sizeof(stories) / sizeof(stories[0]);
    for (size_t i = 0; argc == 3 && i < count; i++) {
        const struct story *story = &stories[i];
        if (strcmp(argv[2], story->name) != 0)
            continue;
        shop_open(argv[1], story->stock);
        worker_start(&ann, "ann", sell_one, story->lock);
        worker_start(&bob, "bob", sell_one, story->lock);
        worker_start(&cid, "cid", sell_one, story->lock);
        return story->run() ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    fprintf(stderr, "usage: predecessors SOCKET STORY\nstories:");
    for (size_t i = 0; i < count; i++)
        fprintf(stderr, " %s", stories[i].name);
    fprintf(stderr, "\n");
    return 64;
}
