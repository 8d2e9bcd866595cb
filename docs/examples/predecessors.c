/*
 * The locks that came before Redlock, and the moment at which each of them fails. Every
 * story is told step by step on a real Redis, so it ends the same way each time.
 * docs/why.md goes through them. Exits 0 if the story ended as it is known to.
 */
#include "stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lock {
    bool (*take)(struct worker *me);
    void (*give_back)(struct worker *me);
};

/* What each worker runs. The lock is to keep the others out from the first line to the
 * last. */
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

/* --- the stories; each returns whether it ended as told --- */

static struct worker ann, bob, cid;

static bool both_read_then_both_write(void)
{
    let(&ann, 1);
    let(&bob, 1);
    let(&ann, 1);
    let(&bob, 1);
    return stage_close() == 2;
}

/* After one step: SETNX is done, and what would follow it is not. */
static bool dies_with_the_lock(void)
{
    let(&ann, 1);
    die(&ann);
    let(&bob, 1);
    bool for_ever = look("-1", "PTTL lock");
    return stage_close() == 0 && for_ever;
}

static bool dies_and_is_forgotten(void)
{
    let(&ann, 1);
    die(&ann);
    let(&bob, 1);
    run_out(&ann);
    let(&cid, 3);
    return stage_close() == 1;
}

/*
 * Ann sells one item and is slow to give the lock back; meanwhile bob gets it. Ann's last
 * command then frees bob's lock - or does not, and cid has to go away.
 */
static bool comes_late(int steps_before)
{
    let(&ann, steps_before);
    run_out(&ann);
    let(&bob, 2);
    let(&ann, 1);
    bool bobs_is_left = look("1", "EXISTS lock");
    let(&cid, bobs_is_left ? 1 : 2);
    let(&bob, 1);
    if (!bobs_is_left)
        let(&cid, 1);
    return bobs_is_left;
}

static bool deletes_anothers_lock(void)
{
    comes_late(3);
    return stage_close() == 3;
}

static bool deletes_after_comparing(void)
{
    comes_late(4);
    return stage_close() == 3;
}

static bool deletes_nothing(void)
{
    return comes_late(3) && stage_close() == 2;
}

static bool redis_forgets(void)
{
    let(&ann, 2);
    crash_redis();
    let(&bob, 2);
    let(&ann, 1);
    let(&bob, 1);
    return stage_close() == 2;
}

static const struct story {
    const char *name;
    const struct lock *lock;
    int stock;
    bool (*tell)(void);
} stories[] = {
    {"no-lock", &no_lock, 1, both_read_then_both_write},
    {"setnx", &setnx, 1, dies_with_the_lock},
    {"setnx-expire", &setnx_expire, 1, dies_with_the_lock},
    {"set-nx-px", &shared_value, 1, dies_and_is_forgotten},
    {"shared-value", &shared_value, 2, deletes_anothers_lock},
    {"compare-delete", &compare_delete, 2, deletes_after_comparing},
    {"script", &script, 2, deletes_nothing},
    {"one-master", &script, 1, redis_forgets},
};

int main(int argc, char **argv)
{
    size_t count = sizeof(stories) / sizeof(stories[0]);
    for (size_t i = 0; argc == 3 && i < count; i++) {
        const struct story *story = &stories[i];
        if (strcmp(argv[2], story->name) != 0)
            continue;
        stage_open(argv[1], story->stock);
        stage_enter(&ann, "ann", sell_one, story->lock);
        stage_enter(&bob, "bob", sell_one, story->lock);
        stage_enter(&cid, "cid", sell_one, story->lock);
        return story->tell() ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    fprintf(stderr, "usage: predecessors SOCKET STORY\nstories:");
    for (size_t i = 0; i < count; i++)
        fprintf(stderr, " %s", stories[i].name);
    fprintf(stderr, "\n");
    return 64;
}
