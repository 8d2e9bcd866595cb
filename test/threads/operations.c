#include "operations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actor.h"
#include "oracle.h"

#define BUSY_TTL_MS 5000
#define CHILD_S     30
#define HURRIED     10
#define BLOCK_US    20000              /* a callback keeps the client's thread busy */
#define HELPERS     (ORACLE_SLOTS / 2) /* oracle slots of threads that an operation starts */

const struct key operations_keys[KEYS] = {
    [CALM] = {"calm", 30000, false},
    [BUSY] = {"busy", BUSY_TTL_MS, false},
    [CROWDED] = {"crowded", BUSY_TTL_MS, true},
    [ROBBED] = {"robbed", 400, false},
    [LEFT] = {"left", 300, false},
    [FLIGHT] = {"flight", BUSY_TTL_MS, false},
};

unsigned long calm_count;
atomic_uint operations_lost, flights_begun, flights_flown;
static atomic_uint flying, flights_done;

/* --- counters --- */

/* Relaxed, as all of these: only the lock may order anything. */
static unsigned add(atomic_uint *to, unsigned more)
{
    return atomic_fetch_add_explicit(to, more, memory_order_relaxed);
}

static unsigned read_of(atomic_uint *what)
{
    return atomic_load_explicit(what, memory_order_relaxed);
}

/* --- operations --- */

/*
 * The guarded counter is ordinary memory: no increment is lost, and no tool finds a race.
 */
static bool count_calmly(struct actor *actor)
{
    redlock_hold *hold;
    redlock_lock_options options = actor_options(actor, CALM);
    actor_expect(actor, "lock", actor_lock(actor, CALM, &options, &hold), BIT(OK));
    oracle_enter(CALM, actor->slot, hold);
    if (actor->counts) {
        unsigned long seen = calm_count;
        actor_use(actor, hold);
        calm_count = seen + 1;
        actor->counted++;
    }
    actor_give_back(actor, CALM, hold);
    return true;
}

static bool hold_for_a_while(struct actor *actor, unsigned key, redlock_code code,
                             redlock_hold *hold)
{
    if (code != REDLOCK_OK)
        return false;
    oracle_enter(key, actor->slot, hold);
    actor_expect_true(actor, (redlock_hold_fence(hold) > 0) == operations_keys[key].fenced,
                      "a fence, where it is fenced");
    actor_use(actor, hold);
    actor_give_back(actor, key, hold);
    return true;
}

static bool wait_for_it(struct actor *actor)
{
    redlock_hold *hold = NULL;
    unsigned key = BUSY + actor_draw(actor, 2);
    redlock_lock_options options = actor_options(actor, key);
    if (actor_draw(actor, 4) == 0)
        options.max_hold_ms = BUSY_TTL_MS;
    redlock_code code =
        actor_expect(actor, "lock", actor_lock(actor, key, &options, &hold), BIT(OK));
    return hold_for_a_while(actor, key, code, hold);
}

static bool try_it(struct actor *actor)
{
    redlock_hold *hold = NULL;
    unsigned key = actor_draw(actor, ROBBED);
    redlock_lock_options options = actor_options(actor, key);
    redlock_code code =
        actor_expect(actor, "try_lock",
                     redlock_try_lock(actor->sync, operations_keys[key].name,
                                      strlen(operations_keys[key].name), &options, &hold),
                     TRIED);
    return hold_for_a_while(actor, key, code, hold);
}

static bool wait_impatiently(struct actor *actor)
{
    static const int64_t waits[] = {0, 1, 2, 5, 30, 500, 20000};
    redlock_hold *hold = NULL;
    unsigned key = BUSY + actor_draw(actor, 2);
    int64_t wait_ms = waits[actor_draw(actor, sizeof(waits) / sizeof(*waits))];
    redlock_lock_options options = actor_options(actor, key);
    redlock_code code = actor_expect(
        actor, "lock_for", actor_lock_for(actor, key, wait_ms, &options, &hold), WAITED);
    return hold_for_a_while(actor, key, code, hold);
}

/*
 * A wait inside a wait: if no other thread waits meanwhile, this one runs the loop for
 * them.
 */
static bool hurry(struct actor *actor)
{
    unsigned key = BUSY + actor_draw(actor, 2), done = 0;
    for (unsigned i = 0; i < HURRIED; i++) {
        redlock_hold *hold = NULL;
        redlock_lock_options options = actor_options(actor, key);
        if (actor_expect(actor, "lock_for",
                         actor_lock_for(actor, key, 500, &options, &hold),
                         WAITED) != REDLOCK_OK)
            continue;
        oracle_enter(key, actor->slot, hold);
        actor_expect(actor, "extend", redlock_hold_extend(hold, 0), EXTENDED);
        oracle_leave(key, actor->slot);
        actor_expect(actor, "unlock", redlock_unlock(hold, REDLOCK_CONFIRM),
                     UNLOCKED | BIT(UNCONFIRMED));
        redlock_hold_free(hold);
        done++;
    }
    return done > 0;
}

/* It locks what it has once more, unless it is lost meanwhile. */
static bool lock_again(struct actor *actor)
{
    redlock_hold *hold = NULL, *inner = NULL;
    unsigned key = BUSY + actor_draw(actor, 2);
    redlock_lock_options options = actor_options(actor, key);
    options.recursive = true;
    if (actor_expect(actor, "lock_for", actor_lock_for(actor, key, 500, &options, &hold),
                     WAITED) != REDLOCK_OK)
        return false;
    oracle_enter(key, actor->slot, hold);
    bool again = actor_expect(actor, "lock_for again",
                              actor_lock_for(actor, key, 500, &options, &inner),
                              WAITED | EXTENDED) == REDLOCK_OK;
    if (again && inner == hold)
        actor_expect(actor, "unlock once", redlock_unlock(inner, 0), UNLOCKED);
    redlock_hold_free(inner);
    actor_give_back(actor, key, hold);
    return again;
}

static void show_stop(struct actor *actor, redlock_stop *stop)
{
    pthread_mutex_lock(&actor->mutex);
    actor->stop = stop;
    pthread_mutex_unlock(&actor->mutex);
}

/* True if it was stopped. */
static bool wait_until_stopped(struct actor *actor)
{
    redlock_hold *hold = NULL;
    redlock_stop *stop;
    unsigned key = BUSY + actor_draw(actor, 2);
    redlock_lock_options options = actor_options(actor, key);
    actor_expect(actor, "stop_new", redlock_stop_new(actor->sync, &stop), BIT(OK));
    options.stop = stop;
    bool early = actor_draw(actor, 8) == 0;
    if (early)
        redlock_stop_all(stop);
    show_stop(actor, stop);
    redlock_code code = actor_expect(actor, "lock", actor_lock(actor, key, &options, &hold),
                                     BIT(OK) | BIT(CANCELLED));
    show_stop(actor, NULL);
    hold_for_a_while(actor, key, code, hold);
    redlock_stop_free(stop);
    actor_expect_true(actor, !early || code == REDLOCK_CANCELLED,
                      "a stop ends later waits, too");
    return code == REDLOCK_CANCELLED;
}

static bool stop_another(struct actor *actor)
{
    struct actor *other = &actor->others[actor_draw(actor, actor->actors)];
    pthread_mutex_lock(&other->mutex);
    bool waits = other->stop != NULL;
    if (waits)
        redlock_stop_all(other->stop);
    pthread_mutex_unlock(&other->mutex);
    return waits;
}

struct errand {
    struct actor *actor;
    unsigned key;
    redlock_hold *hold;
};

static void run_errand(void *(*does)(void *), struct errand *errand)
{
    pthread_t thread;
    actor_expect_true(errand->actor, pthread_create(&thread, NULL, does, errand) == 0,
                      "a thread begins");
    pthread_join(thread, NULL);
}

static void *unlock_for_another(void *arg)
{
    struct errand *errand = arg;
    oracle_leave(errand->key, errand->actor->slot);
    actor_expect(errand->actor, "another's unlock", redlock_unlock(errand->hold, 0),
                 UNLOCKED);
    return NULL;
}

static bool let_another_unlock(struct actor *actor)
{
    struct errand errand = {.actor = actor, .key = CROWDED};
    redlock_lock_options options = actor_options(actor, CROWDED);
    options.any_thread = true;
    if (actor_expect(actor, "lock_for",
                     actor_lock_for(actor, CROWDED, 1000, &options, &errand.hold),
                     WAITED) != REDLOCK_OK)
        return false;
    oracle_enter(CROWDED, actor->slot, errand.hold);
    run_errand(unlock_for_another, &errand);
    redlock_hold_free(errand.hold);
    return true;
}

static void *lock_and_end(void *arg)
{
    struct errand *errand = arg;
    redlock_lock_options options;
    redlock_lock_options_init(&options);
    options.ttl_ms = operations_keys[LEFT].ttl_ms;
    if (actor_expect(errand->actor, "lock_for",
                     actor_lock_for(errand->actor, LEFT, 1000, &options, &errand->hold),
                     WAITED) == REDLOCK_OK)
        oracle_enter(LEFT, errand->actor->slot + HELPERS, errand->hold);
    return NULL;
}

/*
 * A lock that a thread left when it ended ends by its TTL, and has a successor only then.
 */
static bool leave_it_locked(struct actor *actor)
{
    struct errand errand = {.actor = actor};
    redlock_hold *hold = NULL;
    redlock_lock_options options = actor_options(actor, LEFT);
    run_errand(lock_and_end, &errand);
    if (!errand.hold)
        return false;
    if (actor_draw(actor, 2) == 0) {
        redlock_code code = actor_expect(
            actor, "lock_for", actor_lock_for(actor, LEFT, 2000, &options, &hold), WAITED);
        hold_for_a_while(actor, LEFT, code, hold);
    }
    oracle_leave(LEFT, actor->slot + HELPERS);
    redlock_hold_free(errand.hold);
    return true;
}

static void on_lost(redlock_hold *hold, redlock_code why, redlock_reason reason,
                    int64_t valid_ms, void *arg)
{
    (void)reason;
    struct actor *actor = arg;
    redlock_hold *none;
    actor_expect(actor, "on_lost", why, ROBBERY | BIT(EXPIRED));
    actor_expect_true(actor, valid_ms >= 0, "the remaining time is not negative");
    actor_expect(actor, "lock in a callback", actor_lock(actor, CALM, NULL, &none),
                 BIT(WOULD_DEADLOCK));
    if (add(&operations_lost, 1) % 4 == 0)
        actor_pause_us(BLOCK_US);
    if (valid_ms % 2)
        redlock_unlock(hold, 0);
}

/* Another thread deletes the keys of this one repeatedly. True if the loss was noticed. */
static bool be_robbed(struct actor *actor)
{
    redlock_hold *hold = NULL;
    redlock_lock_options options = actor_options(actor, ROBBED);
    options.on_lost = on_lost;
    options.lost_arg = actor;
    if (actor_expect(actor, "lock_for",
                     actor_lock_for(actor, ROBBED, 1000, &options, &hold),
                     WAITED) != REDLOCK_OK)
        return false;
    bool lost = false;
    for (unsigned i = 0; i < 50 && !lost; i++) {
        actor_pause_us(10000);
        lost = redlock_hold_lost(hold);
    }
    if (actor_draw(actor, 2) == 0)
        actor_expect(actor, "extend", redlock_hold_extend(hold, 0),
                     EXTENDED | ROBBERY | BIT(NOT_HELD) | BIT(BUSY));
    if (actor_draw(actor, 2) == 0)
        actor_expect(actor, "unlock", redlock_unlock(hold, actor_draw(actor, 2)),
                     UNLOCKED | ROBBERY | BIT(NOT_HELD) | BIT(UNCONFIRMED));
    redlock_hold_free(hold);
    return lost;
}

/* --- single flights --- */

static int fly(redlock_hold *hold, void *arg)
{
    struct actor *actor = arg;
    actor_expect_true(actor, add(&flying, 1) == 0, "one call at a time");
    unsigned number = add(&flights_begun, 1) + 1;
    oracle_enter(FLIGHT, actor->slot, hold);
    actor_pause_us(actor_draw(actor, 2000));
    oracle_leave(FLIGHT, actor->slot);
    atomic_exchange_explicit(&flights_done, number,
                             memory_order_relaxed); /* for helgrind */
    add(&flying, -1U);
    return (int)number;
}

/* True if it was a follower. */
static bool fly_together(struct actor *actor)
{
    redlock_lock_options options = actor_options(actor, FLIGHT);
    unsigned before = read_of(&flights_done);
    int number = -1;
    bool flew = false;
    int64_t wait_ms = actor_draw(actor, 4) > 0 ? -1 : (int64_t)actor_draw(actor, 100);
    redlock_code code =
        actor_expect(actor, "single_flight",
                     redlock_single_flight(actor->sync, operations_keys[FLIGHT].name,
                                           strlen(operations_keys[FLIGHT].name), wait_ms,
                                           &options, fly, actor, &number, &flew),
                     WAITED);
    add(&flights_flown, flew);
    if (code == REDLOCK_OK)
        actor_expect_true(actor, number >= (int)before,
                          "the result is not older than the request");
    return code == REDLOCK_OK && !flew;
}

/* --- observers --- */

/* On the stack of the thread that observes: what comes after the end would be seen. */
struct sight {
    struct actor *actor;
    atomic_uint times;
    bool is_over;
};

static void on_leader(redlock_sync_observer *observer, const redlock_leader *leader,
                      void *arg)
{
    struct sight *sight = arg;
    (void)observer;
    actor_expect_true(sight->actor, !sight->is_over, "nothing is told after the end");
    actor_expect_true(sight->actor, leader->term >= 0 && leader->id, "a term");
    add(&sight->times, 1);
    if (leader->term % 2)
        actor_pause_us(1000);
}

static bool observe(struct actor *actor)
{
    const struct key *key = &operations_keys[CROWDED];
    struct sight sight = {.actor = actor};
    redlock_sync_observer *observer = NULL;
    if (actor_expect(actor, "observe",
                     redlock_sync_observe(actor->sync, key->name, strlen(key->name),
                                          on_leader, &sight, &observer),
                     BIT(OK)) != REDLOCK_OK)
        return false;
    actor_pause_us(actor_draw(actor, 30000));
    redlock_sync_observer_free(observer);
    sight.is_over = true;
    return read_of(&sight.times) > 0;
}

/* --- others --- */

/*
 * The child has one thread, and no lock of the parent's: a number names the failed check.
 */
static void be_inert(struct actor *actor, redlock_hold *hold)
{
    redlock_hold *none = NULL;
    redlock_stop *stop = NULL;
    redlock_sync_observer *observer = NULL;
    redlock_node node[5];
    const char *key = operations_keys[CALM].name;
    bool right[] = {
        redlock_lock(actor->sync, key, 4, NULL, &none) == REDLOCK_FORKED,
        redlock_try_lock(actor->sync, key, 4, NULL, &none) == REDLOCK_FORKED,
        redlock_lock_for(actor->sync, key, 4, 10, NULL, &none) == REDLOCK_FORKED,
        redlock_unlock(hold, REDLOCK_CONFIRM) == REDLOCK_FORKED,
        redlock_hold_extend(hold, 0) == REDLOCK_FORKED,
        redlock_hold_lost(hold),
        redlock_hold_valid_ms(hold) == 0,
        redlock_stop_new(actor->sync, &stop) == REDLOCK_FORKED,
        redlock_sync_explain(actor->sync, node, 5) == 0,
        redlock_single_flight(actor->sync, key, 4, 0, NULL, fly, actor, NULL, NULL) ==
            REDLOCK_FORKED,
        redlock_sync_observe(actor->sync, key, 4, on_leader, actor, &observer) ==
            REDLOCK_FORKED,
    };
    redlock_hold_free(hold);
    redlock_sync_free(actor->sync);
    for (unsigned i = 0; i < sizeof(right); i++)
        if (!right[i])
            _exit((int)i + 1);
    _exit(0);
}

static bool fork_while_it_holds(struct actor *actor)
{
    redlock_hold *hold;
    redlock_lock_options options = actor_options(actor, BUSY);
    int status;
    actor_expect(actor, "lock", actor_lock(actor, BUSY, &options, &hold), BIT(OK));
    oracle_enter(BUSY, actor->slot, hold);
    pid_t child = fork();
    actor_expect_true(actor, child >= 0, "a child begins");
    if (child == 0) {
        alarm(CHILD_S);
        be_inert(actor, hold);
    }
    actor_expect_true(actor, waitpid(child, &status, 0) == child, "the child ends");
    if (status != 0)
        fprintf(stderr, "stress: the child's status is %x\n", (unsigned)status);
    actor_expect_true(actor, status == 0, "all is inert in the child");
    actor_give_back(actor, BUSY, hold);
    return true;
}

static bool look_around(struct actor *actor)
{
    redlock_node node[5];
    redlock_hold *none = NULL;
    size_t count = redlock_sync_explain(actor->sync, node, actor_draw(actor, 6));
    actor_expect_true(actor, count == 5 && redlock_sync_nodes(actor->sync) == 5, "nodes");
    actor_expect_true(actor, redlock_sync_quorum(actor->sync) == 3, "their quorum");
    actor_expect(actor, "lock of no key", redlock_lock(actor->sync, "", 0, NULL, &none),
                 BIT(BAD_KEY));
    actor_expect(actor, "lock_for in the past",
                 actor_lock_for(actor, CALM, -2, NULL, &none), BIT(BAD_OPTION));
    return true;
}

/* --- all of them --- */

const struct operation operations[] = {
    {"count_calmly", 300, count_calmly},
    {"wait_for_it", 200, wait_for_it},
    {"try_it", 200, try_it},
    {"wait_impatiently", 200, wait_impatiently},
    {"hurry", 50, hurry},
    {"lock_again", 50, lock_again},
    {"wait_until_stopped", 300, wait_until_stopped},
    {"stop_another", 600, stop_another},
    {"let_another_unlock", 50, let_another_unlock},
    {"leave_it_locked", 10, leave_it_locked},
    {"be_robbed", 20, be_robbed},
    {"fly_together", 200, fly_together},
    {"fork_while_it_holds", 10, fork_while_it_holds},
    {"look_around", 50, look_around},
    {"observe", 50, observe},
    {0},
};

static atomic_uint was_done[sizeof(operations) / sizeof(*operations)]; /* by any thread */

unsigned operations_count(void)
{
    return sizeof(operations) / sizeof(*operations) - 1;
}

void operations_next(struct actor *actor)
{
    unsigned total = 0, i = 0;
    for (const struct operation *operation = operations; operation->name; operation++)
        total += operation->weight;
    for (unsigned left = actor_draw(actor, total); left >= operations[i].weight; i++)
        left -= operations[i].weight;
    actor->operation = &operations[i];
    actor->tried[i]++;
    if (!actor->operation->does(actor))
        return;
    actor->done[i]++;
    if (!read_of(&was_done[i]))
        atomic_exchange_explicit(&was_done[i], 1, memory_order_relaxed); /* for helgrind */
}

bool operations_were_all_done(void)
{
    for (unsigned i = 0; i < operations_count(); i++)
        if (!read_of(&was_done[i]))
            return false;
    return true;
}
