/*
 * The simulator's server compared with a real one: the same random operations on both;
 * every reply is compared, and the stored state afterwards.
 *
 * The model needs the time at which the server ran an operation. A reply of a fenced lock
 * contains it. For the others the test sends TIME before and after: if both return the same
 * millisecond, that was it. Every version reads the clock again for each command of a
 * connection; within MULTI the clock would stand still, but not for all commands. If the
 * millisecond ended meanwhile, any millisecond in between may have been it. The decisions
 * that depend on microseconds, LATE and AHEAD, held at one of the two TIMEs at least. The
 * time since which a client waits is only known to be in between, too: the model takes what
 * the server shows. The notified waiters are read on another connection, up to a mark after
 * each operation. Redis 7.0 reads the clock several times within a command, so half of it
 * may have run before: these few cases are accepted. In a key's last millisecond the
 * commands of every version find it, but the active expire cycle of Redis 8.0 may delete it
 * between any two commands.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "agreement.h"
#include "counts.h"
#include "servers.h"

#define SEED        20240917
#define OPERATIONS  240000
#define PATIENCE    10  /* times as many, until all required events have happened */
#define BATCH       500 /* operations that are sent at once */
#define FEW         4   /* and then these: with few operations their time is known better */
#define FEW_BATCHES 30
#define DOUBTS_MAX  (1.0 / 200) /* of the operations */
#define PAUSE       1100        /* us, the server's time for one */

/* --- following --- */

static void describe(char *buffer, size_t size, const struct rl_reply *reply)
{
    size_t len = (size_t)snprintf(buffer, size, "type %d, %lld, \"%.*s\"", (int)reply->type,
                                  (long long)reply->integer, (int)reply->len,
                                  reply->text ? reply->text : "");
    for (size_t i = 0; i < reply->items && len + 2 < size; i++, len = strlen(buffer)) {
        memcpy(buffer + len, "; ", 2);
        describe(buffer + len + 2, size - len - 2, &reply->item[i]);
    }
}

static void fail(struct store *store, const struct operation *operation,
                 const struct outcome *outcome, unsigned number, rl_time now)
{
    char reported[2 * LENGTH_MAX] = "", expected[2 * LENGTH_MAX] = "";
    const struct rl_command_args *args = &operation->args;
    const struct store_entry *entry = store_find(store, args->key, INT64_MIN);
    const struct store_entry *fence = store_find(store, args->fence_key, INT64_MIN);
    const struct store_entry *marker = store_find(store, args->marker_key, INT64_MIN);
    struct store_reply real, model;
    if (operation->act == ACT_COMMAND) {
        agreement_decode(outcome->reply, &real);
        describe(reported, sizeof(reported), &real.reply);
        agreement_run(store, operation, now, &model);
        describe(expected, sizeof(expected), &model.reply);
    }
    cr_assert_fail(
        "seed %d, operation %u, at %lld: act %d, %s %s, key \"%s\" (%s, until %lld), token "
        "\"%s\", ttl %lld%s; fence %lld over %lld, said %lld; told %s, expected %s; "
        "PEXPIRETIME %lld, fence key \"%s\", %s; marker until %lld, known until %lld",
        SEED, number, (long long)now, (int)operation->act, counts_name(operation->text),
        operation->whole ? "whole" : "by hash", args->key.text, entry ? "known" : "free",
        entry ? (long long)entry->expires : 0, args->token.text, (long long)args->ttl_ms,
        args->recreate ? ", planting" : "", (long long)args->fence,
        fence ? (long long)fence->fence : 0, (long long)args->sent_at, reported, expected,
        (long long)outcome->key.expires->integer, args->fence_key.text,
        operation->is_fenced && outcome->fence.value->str ? outcome->fence.value->str : "",
        operation->is_fenced ? (long long)outcome->marker.expires->integer : 0,
        marker ? (long long)marker->expires : 0);
}

static void read_answer(const struct operation *operation, const struct outcome *outcome,
                        struct rl_answer *ret_answer)
{
    const struct rl_kind *kind = rl_kind_of(operation->args.token);
    struct store_reply real;
    agreement_decode(outcome->reply, &real);
    cr_assert(rl_kind_read(kind, operation->text, &real.reply, ret_answer));
    cr_assert(ret_answer->time == 0 ||
              (outcome->before <= ret_answer->time && ret_answer->time <= outcome->after));
}

/* A set of the operation's keys: bit 0 the key, 1 its fence, 2 the marker. */
typedef unsigned key_set;

static struct rl_word key_of(const struct operation *operation, unsigned i)
{
    const struct rl_command_args *args = &operation->args;
    return i == 0 ? args->key : i == 1 ? args->fence_key : args->marker_key;
}

/* Those that are in their last millisecond. The active expire cycle may delete any of them.
 */
static key_set last_keys(const struct store *store, const struct operation *operation,
                         int64_t now)
{
    key_set set = 0;
    for (unsigned i = 0; i < (operation->is_fenced ? 3 : 1); i++)
        if (store_find(store, key_of(operation, i), now) &&
            !store_find(store, key_of(operation, i), now + 1))
            set |= 1u << i;
    return set;
}

static void delete (struct store *store, const struct operation *operation, key_set which)
{
    for (unsigned i = 0; i < 3; i++)
        if (which & 1u << i)
            store_drop(store, key_of(operation, i));
}

/*
 * Lets the model do the same at `first`, at `last` and at the beginning of each millisecond
 * in between; returns the moment when both agreed, or RL_NEVER. `ret_old` is the store
 * before it.
 */
static rl_time replay(struct store *store, const struct operation *operation,
                      const struct outcome *outcome, rl_time first, rl_time last,
                      struct store *ret_old)
{
    struct store old = *store;
    for (rl_time now = first;;) {
        key_set last_ones = last_keys(&old, operation, now / RL_MS), deleted = 0;
        do { /* each subset of them, the empty one first */
            *store = old;
            delete (store, operation, deleted);
            *ret_old = *store;
            if (agreement_holds(store, operation, outcome, now))
                return now;
            deleted = (deleted - last_ones) & last_ones;
        } while (deleted);
        if (now == last)
            return RL_NEVER;
        now = (now / RL_MS + 1) * RL_MS;
        now = now < last ? now : last;
    }
}

static void follow(struct store *store, const struct operation *operation,
                   const struct outcome *outcome, unsigned number, struct counts *counts)
{
    struct store first_old = *store, old;
    struct rl_answer answer = {.time = 0};
    bool is_certain = outcome->before / RL_MS == outcome->after / RL_MS;
    if (operation->act == ACT_COMMAND)
        read_answer(operation, outcome, &answer);
    rl_time first = answer.time ? answer.time : outcome->before;
    rl_time last = answer.time ? answer.time : outcome->after;
    rl_time now = replay(store, operation, outcome, first, last, &old);
    if (now == RL_NEVER) {
        if (is_certain)
            fail(&first_old, operation, outcome, number, first);
        agreement_believe(store, operation, outcome);
        counts->doubts++;
        now = last;
    }
    if (operation->act == ACT_COMMAND)
        counts_note(counts, &(struct event){.operation = operation,
                                            .answer = &answer,
                                            .now = now,
                                            .is_certain = is_certain,
                                            .calls = outcome->calls,
                                            .before = &old,
                                            .after = store});
}

/* --- the test --- */

/* When the server will run an operation, estimated from the time of the last batch. */
struct pace {
    rl_time start; /* from its creation to its first operation */
    rl_time each;
};

static rl_time duration_of(const struct operation *operation, rl_time each)
{
    return operation->act == ACT_PAUSE ? PAUSE : each;
}

static void measure(struct pace *pace, rl_time made, unsigned n,
                    const struct operation *operation, const struct outcome *outcome)
{
    rl_time took = outcome[n - 1].after - outcome[0].before;
    for (unsigned i = 0; i < n; i++)
        took -= duration_of(&operation[i], 0);
    pace->start = outcome[0].before - made;
    pace->each = took > 0 ? took / n : 0;
}

struct play {
    redisContext *context, *ear;
    struct prng prng;
    rl_time era;
    struct store store;
    struct counts counts;
    unsigned operations;
    struct operation operation[BATCH];
    struct outcome outcome[BATCH];
};

static void play_batch(struct play *play, unsigned n, struct pace *pace)
{
    struct operation *operation = play->operation;
    struct outcome *outcome = play->outcome;
    rl_time made = outcome_time(play->context), now = made + pace->start;
    for (unsigned i = 0; i < n; i++) {
        operation_make(&operation[i], &play->prng, now, play->era);
        now += duration_of(&operation[i], pace->each);
    }
    outcome_run(play->context, play->ear, n, operation, outcome);
    measure(pace, made, n, operation, outcome);
    for (unsigned i = 0; i < n; i++) {
        follow(&play->store, &operation[i], &outcome[i], play->operations++, &play->counts);
        outcome_free(&outcome[i]);
    }
}

Test(model, replies_as_a_real_server)
{
    static struct play play = {.prng = {SEED}};
    struct pace fast = {0}, exact = {0};
    struct servers servers;
    operations_prepare();
    servers_start(&servers, 1, NULL);
    play.context = servers.server[0].admin;
    play.ear = redisConnectUnix(servers.server[0].socket);
    freeReplyObject(redisCommand(play.ear, "SUBSCRIBE " CHANNEL));
    play.era = outcome_time(play.context);
    while (play.operations < OPERATIONS ||
           (play.operations < PATIENCE * OPERATIONS && !counts_has_all(&play.counts))) {
        play_batch(&play, BATCH, &fast);
        for (unsigned i = 0; i < FEW_BATCHES; i++)
            play_batch(&play, FEW, &exact);
    }
    cr_log_info("%u in doubt", play.counts.doubts);
    cr_expect_leq(play.counts.doubts, DOUBTS_MAX * play.operations);
    counts_expect_all(&play.counts);
    redisFree(play.ear);
    servers_end(&servers);
}
