#include "holds.h"

#include <string.h>

#define MARGIN_SHARE 50   /* of the TTL: time for the holder to stop */
#define PORTION      4096 /* bytes of new deadlines: what is urgent waits for no more */
#define NO_REQUEST   (-1)

struct hold {
    struct holds *holds;
    size_t place;
    int64_t number; /* 0: it is waited for */
    struct request wanted;
    redlock_lease *lease;
    int64_t ttl_ms, ends_us; /* `ends_us`: by max_hold_ms, on CLOCK_BOOTTIME; 0: never */
    uint64_t put;            /* before the line that told it */
    bool watched;            /* the library extends it */
    bool leaves;             /* its release has begun */
    bool renewed;            /* its new deadline was not told yet */
    bool silent;             /* its last beat is too long ago */
    struct cli_timer beat;
    int64_t extend_id, unlock_id; /* of a request without a reply */
};

/* --- replies --- */

static json_t *reply_to(int64_t id, const struct hold *hold)
{
    return hold && hold->number != 0 ? json_pack("{s:I, s:I}", "id", (json_int_t)id, "hold",
                                                 (json_int_t)hold->number)
                                     : json_pack("{s:I}", "id", (json_int_t)id);
}

static void put_error(struct holds *holds, json_t *object, const redlock_lease *lease,
                      redlock_code code, redlock_reason reason, const char *text)
{
    redlock_node nodes[REDLOCK_NODES_MAX];
    size_t count = redlock_explain(lease, nodes, REDLOCK_NODES_MAX);
    const redlock_node *holder = cli_holder(nodes, count);
    json_t *error =
        json_pack("{s:s, s:s, s:o, s:o, s:o}", "error", redlock_code_name(code), "reason",
                  redlock_reason_name(reason), "text", cli_json_text(text), "holder",
                  holder ? cli_json_text(holder->holder) : json_null(), "nodes",
                  cli_nodes_json(nodes, count));
    json_object_update(object, error);
    json_decref(error);
    outbox_put(&holds->outbox, object);
}

static void put_result(struct hold *hold, json_t *object, const redlock_result *result)
{
    if (result->code == REDLOCK_OK)
        outbox_put(&hold->holds->outbox, object);
    else
        put_error(hold->holds, object, hold->lease, result->code, result->reason,
                  result->reason ? redlock_reason_text(result->reason)
                                 : redlock_code_text(result->code));
}

static void refuse(struct holds *holds, int64_t id, redlock_code code, const char *text)
{
    put_error(holds, reply_to(id, NULL), NULL, code, REDLOCK_REASON_NONE, text);
}

/* A call has failed, and has started nothing. */
static void refuse_by_call(struct holds *holds, int64_t id)
{
    const redlock_error *error = redlock_last_error();
    put_error(holds, reply_to(id, NULL), NULL, error->code, error->reason, error->text);
}

/* A TTL that is too long is left to the library to refuse. */
static int64_t margin_of(const struct hold *hold)
{
    bool is_possible = hold->ttl_ms <= REDLOCK_TTL_MAX_MS;
    return (is_possible ? hold->ttl_ms : REDLOCK_TTL_MAX_MS) / MARGIN_SHARE;
}

/* The clock is read before the validity, so that the time is early rather than late. */
static json_t *with_until(const struct hold *hold, json_t *object)
{
    int64_t now_us = cli_clock_us(CLOCK_BOOTTIME);
    int64_t left_ms = redlock_valid_ms(hold->lease) - margin_of(hold);
    json_object_set_new(object, "until_us", json_integer(now_us + left_ms * 1000));
    return object;
}

static json_t *notice_of(const struct hold *hold, const char *name)
{
    return json_pack("{s:s, s:I}", "notice", name, "hold", (json_int_t)hold->number);
}

/* --- one lock --- */

static void set_renewed(struct hold *hold, bool renewed)
{
    hold->holds->renewed += (size_t)renewed - (size_t)hold->renewed;
    hold->renewed = renewed;
}

/* Frees the lease, too, which releases what it has. */
static void hold_free(struct hold *hold)
{
    struct holds *holds = hold->holds;
    set_renewed(hold, false);
    holds->place[hold->place] = NULL;
    holds->waiting -= hold->number == 0;
    cli_timer_end(&hold->beat);
    redlock_lease_free(hold->lease);
    json_decref(hold->wanted.object);
    free(hold);
    if (--holds->count == 0)
        holds->over(holds->arg);
}

static void end_extension(struct hold *hold)
{
    if (hold->extend_id != NO_REQUEST)
        refuse(hold->holds, hold->extend_id, REDLOCK_CANCELLED, "it is not extended now");
    hold->extend_id = NO_REQUEST;
}

/* It is not released, because the application may still work: it ends by its deadline. */
static void on_lost(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct hold *hold = arg;
    if (hold->leaves)
        return;
    end_extension(hold);
    put_result(hold, notice_of(hold, "lost"), result);
    redlock_disown(lease);
    hold_free(hold);
}

static void on_renewed(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct hold *hold = arg;
    (void)lease;
    (void)result;
    set_renewed(hold, !hold->leaves);
    if (outbox_waiting(&hold->holds->outbox) == 0)
        holds_put_renewed(hold->holds);
}

void holds_put_renewed(struct holds *holds)
{
    while (holds->renewed > 0 && outbox_waiting(&holds->outbox) < PORTION) {
        holds->next_renewed = (holds->next_renewed + 1) % holds->used;
        struct hold *hold = holds->place[holds->next_renewed];
        if (!hold || !hold->renewed)
            continue;
        set_renewed(hold, false);
        outbox_put(&holds->outbox, with_until(hold, notice_of(hold, "until")));
    }
}

static redlock_lease_options options_of(struct hold *hold)
{
    const struct request *wanted = &hold->wanted;
    redlock_lease_options options = hold->holds->cli->lease;
    options.kind = wanted->kind;
    options.slots = (unsigned)request_number(wanted, "slots", 0);
    options.fenced = wanted->kind == REDLOCK_KIND_ELECTION ||
                     json_is_true(json_object_get(wanted->object, "fence"));
    options.ttl_ms = hold->ttl_ms;
    options.wait_ms = request_number(wanted, "wait_ms", options.wait_ms);
    options.max_hold_ms = request_number(wanted, "max_hold_ms", REDLOCK_UNLIMITED);
    options.margin_ms = margin_of(hold);
    options.min_validity_ms = options.margin_ms + 1;
    options.watchdog = hold->watched;
    options.on_lost = on_lost;
    options.on_extended = on_renewed;
    options.lost_arg = options.extended_arg = hold;
    return options;
}

/* The same lock by another handle, which the library extends, or does not. */
static void adopt_again(struct hold *hold)
{
    redlock_lease *old = hold->lease;
    redlock_lease_options options = options_of(hold);
    const redlock_key *key = hold->wanted.key;
    int64_t valid_ms = redlock_valid_ms(old);
    char *text =
        cli_format("%.*s!%u", (int)key->len, (const char *)key->bytes, redlock_slot(old));
    const redlock_key of_slot = {text, strlen(text)};
    if (hold->wanted.kind == REDLOCK_KIND_SLOT)
        key = &of_slot;
    if (hold->ends_us > 0)
        options.max_hold_ms = (hold->ends_us - cli_clock_us(CLOCK_BOOTTIME)) / 1000 + 1;
    options.fence = redlock_fence(old);
    redlock_disown(old);
    if (redlock_adopt_many(hold->holds->cli->client, key, hold->wanted.keys,
                           redlock_token(old), valid_ms, &options,
                           &hold->lease) != REDLOCK_OK)
        cli_fail(CLI_FAILED, "%s", redlock_last_error()->text);
    redlock_lease_free(old);
    free(text);
}

/* Without validity left, the loss is on its way. */
static void watch(struct hold *hold)
{
    bool watched = hold->holds->extends && !hold->silent;
    if (hold->number == 0 || hold->leaves || watched == hold->watched ||
        redlock_valid_ms(hold->lease) == 0)
        return;
    hold->watched = watched;
    set_renewed(hold, false);
    end_extension(hold);
    adopt_again(hold);
}

static void on_silent(void *arg)
{
    struct hold *hold = arg;
    hold->silent = true;
    watch(hold);
}

static void note_beat(struct hold *hold)
{
    int64_t beat_ms = request_number(&hold->wanted, "beat_ms", 0);
    if (beat_ms > 0 && !hold->beat.event)
        cli_timer_begin(&hold->beat, hold->holds->cli->base, 0, on_silent, hold);
    if (beat_ms > 0)
        cli_timer_set(&hold->beat, beat_ms);
    hold->silent = false;
    watch(hold);
}

static void on_released(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct hold *hold = arg;
    (void)lease;
    if (hold->unlock_id != NO_REQUEST)
        put_result(hold, reply_to(hold->unlock_id, hold), result);
    hold_free(hold);
}

static void release(struct hold *hold, int64_t id)
{
    hold->unlock_id = id;
    hold->leaves = true;
    set_renewed(hold, false);
    end_extension(hold);
    if (redlock_release(hold->lease, on_released, hold) == REDLOCK_OK)
        return;
    if (id != NO_REQUEST)
        refuse_by_call(hold->holds, id);
    hold_free(hold);
}

/* --- requests --- */

static void tell(struct hold *hold)
{
    struct holds *holds = hold->holds;
    int64_t fence = redlock_fence(hold->lease), slot = redlock_slot(hold->lease);
    json_t *reply = with_until(hold, reply_to(hold->wanted.id, hold));
    json_object_set_new(reply, "fence", fence ? json_integer(fence) : json_null());
    json_object_set_new(reply, "slot", slot ? json_integer(slot) : json_null());
    hold->put = holds->outbox.put;
    outbox_put(&holds->outbox, reply);
}

static void on_acquired(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct hold *hold = arg;
    struct holds *holds = hold->holds;
    int64_t max_hold_ms = request_number(&hold->wanted, "max_hold_ms", 0);
    (void)lease;
    if (result->code != REDLOCK_OK) {
        put_result(hold, reply_to(hold->wanted.id, hold), result);
        hold_free(hold);
        return;
    }
    holds->waiting--;
    hold->number = ++holds->serial * PLACES + (int64_t)hold->place;
    if (max_hold_ms > 0)
        hold->ends_us = cli_clock_us(CLOCK_BOOTTIME) + max_hold_ms * 1000;
    tell(hold);
    note_beat(hold);
}

static struct hold *hold_new(struct holds *holds, const struct request *request)
{
    struct hold *hold = cli_need_memory(calloc(1, sizeof(*hold)));
    *hold = (struct hold){
        .holds = holds,
        .wanted = *request,
        .ttl_ms = request_number(request, "ttl_ms", holds->cli->lease.ttl_ms),
        .watched = true,
        .extend_id = NO_REQUEST,
    };
    while (holds->place[hold->place])
        hold->place++;
    holds->place[hold->place] = hold;
    holds->used += hold->place == holds->used;
    holds->count++;
    holds->waiting++;
    return hold;
}

static void lock(struct holds *holds, struct request *request)
{
    if (holds->count >= HOLDS_MAX || holds->waiting >= WAITERS_MAX) {
        refuse(holds, request->id, REDLOCK_BUSY,
               "too many holds, or too many that wait for one");
        return;
    }
    struct hold *hold = hold_new(holds, request);
    json_incref(request->object);
    redlock_lease_options options = options_of(hold);
    if (redlock_acquire_many(holds->cli->client, request->key, request->keys, &options,
                             on_acquired, hold, &hold->lease) == REDLOCK_OK)
        return;
    refuse_by_call(holds, request->id);
    hold_free(hold);
}

static void cancel(struct holds *holds, const struct request *request)
{
    int64_t lock_id = request_number(request, "lock", 0);
    for (size_t i = 0; i < holds->used; i++) {
        struct hold *hold = holds->place[i];
        if (hold && hold->number == 0 && hold->wanted.id == lock_id)
            redlock_cancel(hold->lease);
    }
    outbox_put(&holds->outbox, reply_to(request->id, NULL));
}

static void on_extended(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct hold *hold = arg;
    (void)lease;
    if (hold->extend_id == NO_REQUEST) /* end_extension() has replied */
        return;
    put_result(hold, with_until(hold, reply_to(hold->extend_id, hold)), result);
    hold->extend_id = NO_REQUEST;
}

static void extend(struct hold *hold, const struct request *request)
{
    int64_t ttl_ms = request_number(request, "ttl_ms", REDLOCK_AUTO);
    if (!hold->holds->extends || hold->extend_id != NO_REQUEST) {
        refuse(hold->holds, request->id, REDLOCK_BUSY,
               "it is being extended, or stdout is not read");
    } else if (redlock_extend(hold->lease, ttl_ms, on_extended, hold) != REDLOCK_OK) {
        refuse_by_call(hold->holds, request->id);
    } else {
        hold->extend_id = request->id;
    }
}

static void do_on_hold(struct holds *holds, const struct request *request)
{
    int64_t number = request_number(request, "hold", 0);
    struct hold *hold = holds->place[number % PLACES];
    if (number == 0 || !hold || hold->number != number || hold->leaves) {
        refuse(holds, request->id, REDLOCK_GONE, redlock_code_text(REDLOCK_GONE));
    } else if (request->op == OP_UNLOCK) {
        release(hold, request->id);
    } else {
        note_beat(hold);
        if (request->op == OP_EXTEND)
            extend(hold, request);
        else
            outbox_put(&holds->outbox, reply_to(request->id, hold));
    }
}

void holds_do(struct holds *holds, struct request *request)
{
    if (request->code != REDLOCK_OK)
        refuse(holds, request->id, request->code, request->text);
    else if (request->op == OP_LOCK)
        lock(holds, request);
    else if (request->op == OP_CANCEL)
        cancel(holds, request);
    else
        do_on_hold(holds, request);
    json_decref(request->object);
}

/* --- all of them --- */

void holds_extend(struct holds *holds, bool extends)
{
    if (extends == holds->extends)
        return;
    holds->extends = extends;
    for (size_t i = 0; i < holds->used; i++)
        if (holds->place[i])
            watch(holds->place[i]);
}

void holds_leave(struct holds *holds, bool all)
{
    for (size_t i = 0; i < holds->used; i++) {
        struct hold *hold = holds->place[i];
        if (hold && hold->number == 0)
            hold_free(hold);
        else if (hold && !hold->leaves &&
                 (all || !outbox_has_written(&holds->outbox, hold->put)))
            release(hold, NO_REQUEST);
    }
}
