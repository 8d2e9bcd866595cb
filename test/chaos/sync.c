/* A client for threads, of which two lock: chaos-sync, with the environment of client.h. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

#define LANES 2

struct lane {
    redlock_sync *sync;
    unsigned seed;
    pthread_t thread;
};

static pthread_mutex_t at_work = PTHREAD_MUTEX_INITIALIZER;
static unsigned busy;

static void count(int more)
{
    pthread_mutex_lock(&at_work);
    busy += (unsigned)more;
    pthread_mutex_unlock(&at_work);
}

static int64_t valid_ms(void *hold)
{
    return redlock_hold_valid_ms(hold);
}

static void on_lost(redlock_hold *hold, redlock_code why, redlock_reason reason,
                    int64_t valid, void *arg)
{
    struct chaos_plan *plan = arg;
    (void)hold;
    (void)reason;
    (void)valid;
    int64_t now = chaos_now_us();
    chaos_note(plan, "loss", now, now, redlock_code_name(why), 0);
}

static void extend(struct chaos_plan *plan, redlock_hold *hold)
{
    int64_t begin = chaos_now_us();
    redlock_code code = redlock_hold_extend(hold, REDLOCK_AUTO);
    int64_t end = chaos_now_us();
    chaos_note(plan, "extend", begin, end, redlock_code_name(code),
               code == REDLOCK_OK ? chaos_deadline(valid_ms, hold) : 0);
}

static void downgrade(struct chaos_plan *plan, redlock_hold *hold)
{
    plan->kind = REDLOCK_KIND_SHARED;
    int64_t begin = chaos_now_us();
    redlock_code code = redlock_hold_downgrade(hold);
    int64_t end = chaos_now_us();
    chaos_note(plan, "downgrade", begin, end, redlock_code_name(code),
               code == REDLOCK_OK ? chaos_deadline(valid_ms, hold) : 0);
}

/* Extended by the watchdog. */
static void hold_long(const struct chaos_plan *plan, redlock_hold *hold)
{
    int64_t end = chaos_now_us() + plan->hold_us;
    while (chaos_now_us() < end && !chaos_ends() && !redlock_hold_lost(hold)) {
        usleep((useconds_t)(plan->ttl_ms * 50));
        int64_t now = chaos_now_us();
        int64_t until = chaos_deadline(valid_ms, hold);
        if (until > 0)
            chaos_note(plan, "renew", now, now, "OK", until);
    }
}

static void use(struct chaos_plan *plan, redlock_hold *hold)
{
    chaos_use(plan, valid_ms, hold);
    if (plan->way == CHAOS_LONG)
        hold_long(plan, hold);
    else
        usleep((useconds_t)plan->hold_us);
    if (plan->way == CHAOS_EXTEND)
        extend(plan, hold);
    if (plan->way == CHAOS_READ)
        downgrade(plan, hold);
    chaos_use(plan, valid_ms, hold);
}

static void release(struct chaos_plan *plan, redlock_hold *hold)
{
    int64_t begin = chaos_now_us();
    redlock_code code = redlock_unlock(hold, begin % 2 ? REDLOCK_CONFIRM : 0);
    chaos_note(plan, "release", begin, chaos_now_us(), redlock_code_name(code), 0);
    redlock_hold_free(hold);
}

static redlock_code lock(redlock_sync *sync, struct chaos_plan *plan,
                         redlock_hold **ret_hold)
{
    redlock_lock_options options;
    redlock_lock_options_init(&options);
    options.kind = plan->kind;
    options.slots = plan->slots;
    options.fenced = plan->fenced;
    options.ttl_ms = plan->ttl_ms;
    options.watchdog = plan->way == CHAOS_LONG;
    options.on_lost = on_lost;
    options.lost_arg = plan;
    plan->begin = chaos_now_us();
    return redlock_lock_many(sync, plan->key, plan->keys, plan->wait_ms, &options,
                             ret_hold);
}

static void turn(redlock_sync *sync, struct chaos_plan *plan, const char *what)
{
    redlock_hold *hold = NULL;
    redlock_code code = lock(sync, plan, &hold);
    int64_t end = chaos_now_us();
    if (code != REDLOCK_OK) {
        chaos_note(plan, what, plan->begin, end, redlock_code_name(code), 0);
        return;
    }
    plan->fence = redlock_hold_fence(hold);
    plan->slot = redlock_hold_slot(hold);
    strcpy(plan->token, redlock_hold_token(hold));
    chaos_note(plan, what, plan->begin, end, "OK", chaos_deadline(valid_ms, hold));
    use(plan, hold);
    release(plan, hold);
}

static void *run(void *arg)
{
    struct lane *lane = arg;
    struct chaos_plan plan;
    while (!chaos_ends()) {
        if (!chaos_pauses()) {
            count(+1);
            chaos_choose(&plan, &lane->seed);
            turn(lane->sync, &plan, "acquire");
            count(-1);
        }
        usleep((useconds_t)chaos_pause_us(&lane->seed));
    }
    return NULL;
}

static bool is_idle(void)
{
    pthread_mutex_lock(&at_work);
    bool is = busy == 0;
    pthread_mutex_unlock(&at_work);
    return is;
}

static void probe(redlock_sync *sync, bool fenced)
{
    struct chaos_plan plan;
    chaos_probe(&plan, fenced);
    turn(sync, &plan, "probe");
}

/* All was healed: plain locks work at once, fenced ones when the pause ends. */
static void rest(redlock_sync *sync)
{
    redlock_node node[32];
    bool told = false;
    while (!is_idle() && !chaos_ends())
        usleep(10000);
    probe(sync, false);
    while (chaos_pauses() && !chaos_ends()) {
        chaos_note_idle(node, redlock_sync_explain(sync, node, 32), &told);
        usleep(20000);
    }
    probe(sync, true);
}

int main(void)
{
    redlock_options options;
    struct lane lane[LANES];
    redlock_sync *sync;
    const char *const *uris;
    chaos_begin(&options);
    size_t nodes = chaos_nodes(&uris);
    if (redlock_sync_new(uris, nodes, &options, &sync) != REDLOCK_OK)
        chaos_fail("redlock_sync_new");
    for (unsigned i = 0; i < LANES; i++) {
        lane[i] = (struct lane){.sync = sync, .seed = chaos_seed(i)};
        if (pthread_create(&lane[i].thread, NULL, run, &lane[i]) != 0)
            chaos_fail("pthread_create");
    }
    while (!chaos_ends()) {
        if (chaos_pauses())
            rest(sync);
        usleep(20000);
    }
    for (unsigned i = 0; i < LANES; i++)
        pthread_join(lane[i].thread, NULL);
    chaos_keep_sync_record(sync, "end");
    redlock_sync_free(sync);
    return 0;
}
