#include "holds.h"

#include <assert.h>
#include <string.h>

#define MARGIN_SHARE 50 /* of the TTL: time for the holder to stop */
#define NO_REQUEST   (-1)
#define SLOT_KEY     (REDLOCK_KEY_MAX + 8) /* "KEY!128" */

enum hold_state { WAITS, HELD, LEAVES };

struct hold {
    struct holds *holds;
    enum hold_state state;
    size_t place;
    int64_t number; /* 0: it has none yet */
    struct request wanted;
    redlock_lease *lease;
    int64_t ends_us; /* by max_hold_ms, on CLOCK_BOOTTIME */
    uint64_t put;    /* before the line that told it */
    bool watched;    /* the library extends it */
    bool renewed;    /* it is in that queue */
    bool silent;     /* its last beat is too long ago */
    struct cli_timer beat;
    int64_t extend_id, unlock_id; /* of a request without a reply */
    TAILQ_ENTRY(hold) link;
};

/* --- replies --- */

static void put(struct holds *holds, json_t *object)
{
    outbox_put(holds->outbox, cli_need_memory(object));
}

static void add_error(json_t *object, redlock_code code, redlock_reason reason,
                      const char *text, const redlock_node *nodes, size_t count)
{
    const redlock_node *holder = cli_holder(nodes, count);
    json_t *error = cli_need_memory(
        json_pack("{s:s, s:s, s:s, s:o, s:o}", "error", redlock_code_name(code), "reason",
                  redlock_reason_name(reason), "text", text, "holder",
                  holder ? cli_json_text(holder->holder) : json_null(), "nodes",
                  cli_nodes_json(nodes, count)));
    json_object_update_missing(object, error);
    json_decref(error);
}

void holds_refuse(struct holds *holds, int64_t id, redlock_code code, redlock_reason reason,
                  const char *text)
{
    json_t *object = cli_need_memory(json_pack("{s:I}", "id", (json_int_t)id));
    add_error(object, code, reason, text, NULL, 0);
    put(holds, object);
}

/* The call of a moment ago has started nothing. */
static void refuse_by_call(struct holds *holds, int64_t id)
{
    const redlock_error *error = redlock_last_error();
    holds_refuse(holds, id, error->code, error->reason, error->text);
}

static json_t *reply_of(const struct hold *hold, int64_t id)
{
    return cli_need_memory(
        json_pack("{s:I, s:I}", "id", (json_int_t)id, "hold", (json_int_t)hold->number));
}

static void add_result(json_t *object, const struct hold *hold,
                       const redlock_result *result)
{
    redlock_node nodes[REDLOCK_NODES_MAX];
    size_t count = redlock_explain(hold->lease, nodes, REDLOCK_NODES_MAX);
    const char *text = result->reason == REDLOCK_REASON_NONE
                           ? redlock_code_text(result->code)
                           : redlock_reason_text(result->reason);
    if (result->code != REDLOCK_OK)
        add_error(object, result->code, result->reason, text, nodes, count);
}

/* The clock is read before the validity, so that the time is early rather than late. */
static json_t *until_of(const struct hold *hold)
{
    int64_t now_us = cli_clock_us(CLOCK_BOOTTIME);
    int64_t left_ms = redlock_valid_ms(hold->lease) - hold->wanted.ttl_ms / MARGIN_SHARE;
    return json_integer(now_us + left_ms * 1000);
}

/* --- one lock --- */

static struct hold *hold_new(struct holds *holds, const struct request *request)
{
    size_t place = 0;
    while (place < holds->used && holds->place[place])
        place++;
    assert(place < HOLDS_MAX + WAITERS_MAX);
    struct hold *hold = cli_need_memory(calloc(1, sizeof(*hold)));
    *hold = (struct hold){
        .holds = holds,
        .place = place,
        .wanted = *request,
        .extend_id = NO_REQUEST,
        .unlock_id = NO_REQUEST,
    };
    holds->place[place] = hold;
    holds->used += place == holds->used;
    holds->waiting++;
    return hold;
}

static size_t *count_of(struct holds *holds, enum hold_state state)
{
    return state == WAITS  ? &holds->waiting
           : state == HELD ? &holds->held
                           : &holds->leaving;
}

static void set_state(struct hold *hold, enum hold_state state)
{
    --*count_of(hold->holds, hold->state);
    ++*count_of(hold->holds, state);
    hold->state = state;
}

static void set_renewed(struct hold *hold, bool renewed)
{
    struct hold_queue *queue = &hold->holds->renewed;
    if (renewed == hold->renewed)
        return;
    hold->renewed = renewed;
    if (renewed)
        TAILQ_INSERT_TAIL(queue, hold, link);
    else
        TAILQ_REMOVE(queue, hold, link);
}

/* Frees the lease, which releases what it has. */
static void hold_free(struct hold *hold)
{
    struct holds *holds = hold->holds;
    set_renewed(hold, false);
    --*count_of(holds, hold->state);
    holds->place[hold->place] = NULL;
    cli_timer_end(&hold->beat);
    redlock_lease_free(hold->lease);
    request_free(&hold->wanted);
    free(hold);
    holds->over(holds->arg);
}

static struct hold *find(struct holds *holds, int64_t number)
{
    struct hold *hold = holds->place[number % (HOLDS_MAX + WAITERS_MAX)];
    return hold && hold->number == number && hold->state == HELD ? hold : NULL;
}

/* A running extension of the lease that is given up gets no result. */
static void end_extension(struct hold *hold)
{
    if (hold->extend_id != NO_REQUEST)
        holds_refuse(hold->holds, hold->extend_id, REDLOCK_CANCELLED, REDLOCK_REASON_LOST,
                     redlock_code_text(REDLOCK_CANCELLED));
    hold->extend_id = NO_REQUEST;
}

/* Its end comes by its deadline: the application may still work. */
static void on_lost(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct hold *hold = arg;
    if (hold->state == LEAVES) /* it was lost before its unlock, which gets the result */
        return;
    json_t *notice = cli_need_memory(
        json_pack("{s:s, s:I}", "notice", "lost", "hold", (json_int_t)hold->number));
    add_result(notice, hold, result);
    end_extension(hold);
    put(hold->holds, notice);
    redlock_disown(lease);
    hold_free(hold);
}

static void on_renewed(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct hold *hold = arg;
    (void)lease;
    (void)result;
    set_renewed(hold, hold->state == HELD);
    outbox_wake(hold->holds->outbox);
}

bool holds_put_until(void *arg)
{
    struct holds *holds = arg;
    struct hold *hold = TAILQ_FIRST(&holds->renewed);
    if (!hold)
        return false;
    set_renewed(hold, false);
    put(holds, json_pack("{s:s, s:I, s:o}", "notice", "until", "hold",
                         (json_int_t)hold->number, "until_us", until_of(hold)));
    return true;
}

static redlock_lease_options options_of(struct hold *hold)
{
    const struct request *wanted = &hold->wanted;
    redlock_lease_options options = hold->holds->cli->lease;
    options.kind = wanted->kind;
    options.slots = (unsigned)wanted->slots;
    options.fenced = wanted->fence || wanted->kind == REDLOCK_KIND_ELECTION;
    options.ttl_ms = wanted->ttl_ms;
    options.wait_ms = wanted->wait_ms < 0 ? options.wait_ms : wanted->wait_ms;
    options.max_hold_ms = wanted->max_hold_ms < 0 ? REDLOCK_UNLIMITED : wanted->max_hold_ms;
    options.margin_ms = wanted->ttl_ms / MARGIN_SHARE;
    options.min_validity_ms = options.margin_ms + 1;
    options.on_lost = on_lost;
    options.on_extended = on_renewed;
    options.lost_arg = options.extended_arg = hold;
    options.watchdog = hold->watched;
    return options;
}

/* --- extended, or not --- */

/* The same lock by another handle: it begins or ends to be extended by the library. */
static void adopt_again(struct hold *hold)
{
    redlock_lease *old = hold->lease;
    redlock_lease_options options = options_of(hold);
    redlock_key *key = hold->wanted.key, slot_key;
    char text[SLOT_KEY];
    options.fence = redlock_fence(old);
    if (hold->ends_us > 0)
        options.max_hold_ms = (hold->ends_us - cli_clock_us(CLOCK_BOOTTIME)) / 1000 + 1;
    if (hold->wanted.kind == REDLOCK_KIND_SLOT) {
        int len = snprintf(text, sizeof(text), "%.*s!%u", (int)key->len,
                           (const char *)key->bytes, redlock_slot(old));
        slot_key = (redlock_key){text, (size_t)len};
        key = &slot_key;
    }
    int64_t valid_ms = redlock_valid_ms(old);
    redlock_disown(old);
    redlock_code code =
        redlock_adopt_many(hold->holds->cli->client, key, hold->wanted.keys,
                           redlock_token(old), valid_ms, &options, &hold->lease);
    if (code != REDLOCK_OK)
        cli_fail(CLI_FAILED, "%s", redlock_last_error()->text);
    redlock_lease_free(old);
}

static void watch(struct hold *hold)
{
    bool watched = hold->holds->extends && !hold->silent;
    if (hold->state != HELD || watched == hold->watched ||
        redlock_valid_ms(hold->lease) <= 0)
        return;
    hold->watched = watched;
    set_renewed(hold, false);
    end_extension(hold);
    adopt_again(hold);
}

void holds_extend_all(struct holds *holds, bool extends)
{
    holds->extends = extends;
    for (size_t i = 0; i < holds->used; i++)
        if (holds->place[i])
            watch(holds->place[i]);
}

static void on_silent(void *arg)
{
    struct hold *hold = arg;
    hold->silent = true;
    watch(hold);
}

static void note_beat(struct hold *hold)
{
    if (hold->wanted.beat_ms > 0)
        cli_timer_set(&hold->beat, hold->wanted.beat_ms);
    hold->silent = false;
    watch(hold);
}

/* --- requests --- */

static void begin_hold(struct hold *hold)
{
    struct holds *holds = hold->holds;
    set_state(hold, HELD);
    hold->number = ++holds->serial * (HOLDS_MAX + WAITERS_MAX) + (int64_t)hold->place;
    if (hold->wanted.max_hold_ms > 0)
        hold->ends_us = cli_clock_us(CLOCK_BOOTTIME) + hold->wanted.max_hold_ms * 1000;
    if (hold->wanted.beat_ms > 0) {
        cli_timer_begin(&hold->beat, holds->cli->base, 0, on_silent, hold);
        cli_timer_set(&hold->beat, hold->wanted.beat_ms);
    }
    int64_t fence = redlock_fence(hold->lease);
    unsigned slot = redlock_slot(hold->lease);
    json_t *reply = reply_of(hold, hold->wanted.id);
    json_object_set_new(reply, "until_us", until_of(hold));
    json_object_set_new(reply, "fence",
                        fence == REDLOCK_NO_FENCE ? json_null() : json_integer(fence));
    json_object_set_new(reply, "slot", slot == 0 ? json_null() : json_integer(slot));
    hold->put = holds->outbox->put;
    put(holds, reply);
    watch(hold);
}

static void on_acquired(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct hold *hold = arg;
    (void)lease;
    if (result->code == REDLOCK_OK && hold->holds->held < HOLDS_MAX) {
        begin_hold(hold);
        return;
    }
    json_t *reply = cli_need_memory(json_pack("{s:I}", "id", (json_int_t)hold->wanted.id));
    if (result->code == REDLOCK_OK)
        add_error(reply, REDLOCK_BUSY, REDLOCK_REASON_NONE, "too many holds", NULL, 0);
    add_result(reply, hold, result);
    put(hold->holds, reply);
    hold_free(hold);
}

static void lock(struct holds *holds, struct request *request)
{
    if (holds->held + holds->leaving >= HOLDS_MAX || holds->waiting >= WAITERS_MAX) {
        holds_refuse(holds, request->id, REDLOCK_BUSY, REDLOCK_REASON_NONE,
                     holds->waiting >= WAITERS_MAX ? "too many locks are waited for"
                                                   : "too many holds");
        request_free(request);
        return;
    }
    if (request->ttl_ms < 0)
        request->ttl_ms = holds->cli->lease.ttl_ms;
    struct hold *hold = hold_new(holds, request);
    hold->watched = true;
    redlock_lease_options options = options_of(hold);
    if (redlock_acquire_many(holds->cli->client, hold->wanted.key, hold->wanted.keys,
                             &options, on_acquired, hold, &hold->lease) == REDLOCK_OK)
        return;
    refuse_by_call(holds, hold->wanted.id);
    hold_free(hold);
}

static void cancel(struct holds *holds, const struct request *request)
{
    for (size_t i = 0; i < holds->used; i++) {
        struct hold *hold = holds->place[i];
        if (hold && hold->state == WAITS && hold->wanted.id == request->lock)
            redlock_cancel(hold->lease);
    }
    put(holds, json_pack("{s:I}", "id", (json_int_t)request->id));
}

static void on_released(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct hold *hold = arg;
    (void)lease;
    if (hold->unlock_id != NO_REQUEST) {
        json_t *reply = reply_of(hold, hold->unlock_id);
        add_result(reply, hold, result);
        put(hold->holds, reply);
    }
    hold_free(hold);
}

static void release(struct hold *hold, int64_t id)
{
    hold->unlock_id = id;
    set_renewed(hold, false);
    set_state(hold, LEAVES);
    if (redlock_release(hold->lease, on_released, hold) == REDLOCK_OK)
        return;
    if (id != NO_REQUEST)
        refuse_by_call(hold->holds, id);
    hold_free(hold);
}

static void on_extended(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct hold *hold = arg;
    json_t *reply = reply_of(hold, hold->extend_id);
    (void)lease;
    hold->extend_id = NO_REQUEST;
    add_result(reply, hold, result);
    if (result->code == REDLOCK_OK)
        json_object_set_new(reply, "until_us", until_of(hold));
    put(hold->holds, reply);
}

static void extend(struct hold *hold, const struct request *request)
{
    note_beat(hold);
    if (!hold->holds->extends) {
        holds_refuse(hold->holds, request->id, REDLOCK_BUSY, REDLOCK_REASON_NONE,
                     "nothing is extended: stdout is not read");
        return;
    }
    int64_t ttl_ms = request->ttl_ms < 0 ? REDLOCK_AUTO : request->ttl_ms;
    int64_t before = hold->extend_id;
    hold->extend_id = request->id;
    if (redlock_extend(hold->lease, ttl_ms, on_extended, hold) == REDLOCK_OK)
        return;
    hold->extend_id = before;
    refuse_by_call(hold->holds, request->id);
}

static void do_on_hold(struct holds *holds, struct request *request)
{
    struct hold *hold = find(holds, request->hold);
    if (!hold) {
        json_t *reply = json_pack("{s:I, s:I}", "id", (json_int_t)request->id, "hold",
                                  (json_int_t)request->hold);
        add_error(cli_need_memory(reply), REDLOCK_GONE, REDLOCK_REASON_NONE,
                  redlock_code_text(REDLOCK_GONE), NULL, 0);
        put(holds, reply);
    } else if (request->op == REQUEST_UNLOCK) {
        release(hold, request->id);
    } else if (request->op == REQUEST_EXTEND) {
        extend(hold, request);
    } else {
        note_beat(hold);
        put(holds, reply_of(hold, request->id));
    }
}

void holds_do(struct holds *holds, struct request *request)
{
    if (request->op == REQUEST_LOCK) {
        lock(holds, request); /* which keeps it */
        return;
    }
    if (request->op == REQUEST_CANCEL)
        cancel(holds, request);
    else
        do_on_hold(holds, request);
    request_free(request);
}

/* --- all of them --- */

void holds_begin(struct holds *holds, struct cli *cli, struct outbox *outbox)
{
    holds->cli = cli;
    holds->outbox = outbox;
    holds->extends = true;
    TAILQ_INIT(&holds->renewed);
}

static void leave(struct hold *hold)
{
    if (hold->state == WAITS)
        hold_free(hold);
    else if (hold->state == HELD)
        release(hold, NO_REQUEST);
}

void holds_leave_untold(struct holds *holds)
{
    for (size_t i = 0; i < holds->used; i++) {
        struct hold *hold = holds->place[i];
        if (hold && (hold->state == WAITS || !outbox_has_written(holds->outbox, hold->put)))
            leave(hold);
    }
}

void holds_leave_all(struct holds *holds)
{
    for (size_t i = 0; i < holds->used; i++)
        if (holds->place[i])
            leave(holds->place[i]);
}

bool holds_are_over(const struct holds *holds)
{
    return holds->waiting + holds->held + holds->leaving == 0;
}
