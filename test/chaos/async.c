/* A client on an event loop, with several leases at once: chaos-async, see client.h. */
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

#define LANES  4
#define RECORD 65536

struct program {
    struct event_base *base;
    redlock_client *client;
    struct event *look;
    unsigned busy; /* lanes, and probes */
    bool is_resting, told;
};

/* One lease after the other. */
struct lane {
    struct program *program;
    struct event *again;
    struct chaos_plan plan;
    redlock_lease *lease;
    const char *what;
    unsigned seed;
    int64_t asked, end;
    bool is_probe;
};

static void after(struct lane *lane, int64_t us)
{
    struct timeval wait = {.tv_sec = us / 1000000, .tv_usec = us % 1000000};
    event_add(lane->again, &wait);
}

static int64_t valid_ms(void *lease)
{
    return redlock_valid_ms(lease);
}

static void keep_record(redlock_client *client, const char *why)
{
    char *text = malloc(RECORD);
    if (text && redlock_client_record(client, text, RECORD) > 0)
        chaos_keep_record(why, text);
    free(text);
}

/* --- a turn --- */

static void finish(struct lane *lane)
{
    redlock_lease_free(lane->lease);
    lane->lease = NULL;
    lane->program->busy--;
    if (!lane->is_probe)
        after(lane, chaos_pause_us(&lane->seed));
}

static void on_released(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct lane *lane = arg;
    (void)lease;
    chaos_note(&lane->plan, "release", lane->asked, chaos_now_us(),
               redlock_code_name(result->code), 0);
    finish(lane);
}

static void release(struct lane *lane)
{
    chaos_use(&lane->plan, valid_ms, lane->lease);
    lane->asked = chaos_now_us();
    redlock_code code = redlock_release(lane->lease, on_released, lane);
    if (code != REDLOCK_OK) {
        chaos_note(&lane->plan, "release", lane->asked, chaos_now_us(),
                   redlock_code_name(code), 0);
        finish(lane);
    }
}

static void on_lost(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct lane *lane = arg;
    int64_t now = chaos_now_us();
    (void)lease;
    chaos_note(&lane->plan, "loss", now, now, redlock_code_name(result->code), 0);
    if (result->code != REDLOCK_EXPIRED)
        keep_record(lane->program->client, "loss");
}

static void on_renewed(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct lane *lane = arg;
    int64_t now = chaos_now_us(), until = chaos_deadline(valid_ms, lease);
    (void)result;
    if (until > 0)
        chaos_note(&lane->plan, "renew", now, now, "OK", until);
}

static void on_changed(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct lane *lane = arg;
    chaos_note(&lane->plan, lane->what, lane->asked, chaos_now_us(),
               redlock_code_name(result->code),
               result->code == REDLOCK_OK ? chaos_deadline(valid_ms, lease) : 0);
    release(lane);
}

static redlock_code change(struct lane *lane)
{
    lane->asked = chaos_now_us();
    if (lane->plan.way == CHAOS_EXTEND) {
        lane->what = "extend";
        return redlock_extend(lane->lease, REDLOCK_AUTO, on_changed, lane);
    }
    lane->what = "downgrade";
    lane->plan.kind = REDLOCK_KIND_SHARED;
    return redlock_downgrade(lane->lease, on_changed, lane);
}

/* The hold ends: it is extended, turned into a reader's, or released. */
static void on_held(struct lane *lane)
{
    bool changes = lane->plan.way == CHAOS_EXTEND || lane->plan.way == CHAOS_READ;
    if (!changes)
        release(lane);
    else if (change(lane) != REDLOCK_OK)
        release(lane);
}

static void on_acquired(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct lane *lane = arg;
    struct chaos_plan *plan = &lane->plan;
    int64_t end = chaos_now_us();
    if (result->code != REDLOCK_OK) {
        chaos_note(plan, lane->what, plan->begin, end, redlock_code_name(result->code), 0);
        if (lane->is_probe)
            keep_record(lane->program->client, "a probe that failed");
        finish(lane);
        return;
    }
    plan->fence = redlock_fence(lease);
    plan->slot = redlock_slot(lease);
    strcpy(plan->token, redlock_token(lease));
    chaos_note(plan, lane->what, plan->begin, end, "OK", chaos_deadline(valid_ms, lease));
    chaos_use(plan, valid_ms, lease);
    after(lane, plan->hold_us);
}

static void acquire(struct lane *lane, const char *what)
{
    redlock_lease_options options;
    redlock_lease_options_init(&options);
    struct chaos_plan *plan = &lane->plan;
    options.kind = plan->kind;
    options.slots = plan->slots;
    options.fenced = plan->fenced;
    options.ttl_ms = plan->ttl_ms;
    options.wait_ms = plan->wait_ms;
    options.watchdog = plan->way == CHAOS_LONG;
    options.on_lost = on_lost;
    options.lost_arg = lane;
    options.on_extended = on_renewed;
    options.extended_arg = lane;
    lane->what = what;
    lane->program->busy++;
    plan->begin = chaos_now_us();
    if (redlock_acquire_many(lane->program->client, plan->key, plan->keys, &options,
                             on_acquired, lane, &lane->lease) != REDLOCK_OK)
        chaos_fail("redlock_acquire_many");
}

static void on_again(evutil_socket_t fd, short what, void *arg)
{
    struct lane *lane = arg;
    (void)fd;
    (void)what;
    if (lane->lease)
        on_held(lane);
    else if (lane->program->is_resting || chaos_ends())
        after(lane, 20000);
    else {
        chaos_choose(&lane->plan, &lane->seed);
        acquire(lane, "acquire");
    }
}

static void start(struct program *program, struct lane *lane)
{
    lane->program = program;
    lane->again = event_new(program->base, -1, 0, on_again, lane);
}

/* --- rests, and the end --- */

static void probe(struct program *program, bool fenced)
{
    static struct lane lane[2];
    struct lane *one = &lane[fenced];
    if (one->lease)
        return;
    if (!one->program)
        start(program, one);
    one->is_probe = true;
    chaos_probe(&one->plan, fenced);
    acquire(one, "probe");
}

static void tell_idle(struct program *program)
{
    redlock_node node[32];
    if (program->busy == 0)
        chaos_note_idle(node, redlock_client_explain(program->client, node, 32),
                        &program->told);
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
    struct program *program = arg;
    (void)fd;
    (void)what;
    bool pauses = chaos_pauses();
    if (pauses != program->is_resting) {
        probe(program, !pauses);
        program->is_resting = pauses;
        program->told = false;
    } else if (pauses)
        tell_idle(program);
    if (chaos_ends() && program->busy == 0)
        event_base_loopbreak(program->base);
}

int main(void)
{
    static struct lane lane[LANES];
    struct timeval look = {.tv_usec = 20000};
    redlock_options options;
    const char *const *uris;
    chaos_begin(&options);
    size_t nodes = chaos_nodes(&uris);
    struct program program = {.base = event_base_new()};
    if (redlock_client_new(program.base, uris, nodes, &options, &program.client) !=
        REDLOCK_OK)
        chaos_fail("redlock_client_new");
    program.look = event_new(program.base, -1, EV_PERSIST, on_look, &program);
    event_add(program.look, &look);
    for (unsigned i = 0; i < LANES; i++) {
        lane[i].seed = chaos_seed(i);
        start(&program, &lane[i]);
        after(&lane[i], chaos_pause_us(&lane[i].seed));
    }
    event_base_dispatch(program.base);
    keep_record(program.client, "end");
    redlock_client_free(program.client);
    return 0;
}
