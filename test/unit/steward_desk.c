#include "steward_desk.h"

#include <stdlib.h>
#include <string.h>

static uint64_t fresh(struct stores *stores)
{
    return ++stores->random * UINT64_C(0x9e3779b97f4a7c15);
}

/* --- stores --- */

static void start_process(struct stores *stores, unsigned i)
{
    struct rl_process *process = &stores->store[i].process;
    memset(process, 0, sizeof(*process));
    for (unsigned j = 0; j < RL_RUN_ID; j += RL_NONCE) {
        char digits[RL_NONCE];
        rl_marker_nonce(fresh(stores), digits);
        memcpy(process->run_id + j, digits, j + RL_NONCE > RL_RUN_ID ? 8 : RL_NONCE);
    }
    memcpy(process->replid, process->run_id, RL_RUN_ID);
}

void stores_init(struct stores *stores, unsigned n)
{
    memset(stores, 0, sizeof(*stores));
    stores->n = n;
    stores->now = RL_SECOND;
    for (unsigned i = 0; i < n; i++)
        start_process(stores, i);
}

void stores_put(struct stores *stores, unsigned i, const struct rl_marker *marker)
{
    struct store *store = &stores->store[i];
    store->len = rl_marker_write(marker, store->text);
}

void stores_found(struct stores *stores, uint64_t deployment)
{
    struct rl_marker marker = {
        .sound = true,
        .roster = {.deployment = deployment,
                   .max_ttl_ms = DESK_TTL,
                   .n = (uint8_t)stores->n},
    };
    for (unsigned i = 0; i < stores->n; i++)
        marker.roster.seat[i] = (struct rl_incarnation){1, fresh(stores)};
    for (unsigned i = 0; i < stores->n; i++) {
        marker.nonce = fresh(stores);
        marker.seat = (uint8_t)i;
        marker.process = stores->store[i].process;
        stores_put(stores, i, &marker);
    }
}

void stores_init_founded(struct stores *stores, unsigned n)
{
    stores_init(stores, n);
    stores_found(stores, 7);
}

static bool read_marker(const struct store *store, struct rl_marker *marker)
{
    return rl_marker_read((struct rl_word){store->text, store->len}, marker);
}

struct rl_marker stores_marker(const struct stores *stores, unsigned i)
{
    struct rl_marker marker;
    cr_assert(read_marker(&stores->store[i], &marker), "store %u has no marker", i);
    return marker;
}

bool stores_is_sound(const struct stores *stores, unsigned i)
{
    struct rl_marker marker;
    return read_marker(&stores->store[i], &marker) && marker.sound;
}

rl_nodes stores_sound(const struct stores *stores)
{
    rl_nodes sound = 0;
    for (unsigned i = 0; i < stores->n; i++)
        if (stores_is_sound(stores, i))
            sound |= rl_bit(i);
    return sound;
}

void stores_forget(struct stores *stores, unsigned i)
{
    stores->store[i].len = 0;
    stores->store[i].forgot_at = stores->now;
}

void stores_restart(struct stores *stores, unsigned i, bool keeps_its_data)
{
    start_process(stores, i);
    if (!keeps_its_data)
        stores_forget(stores, i);
    stores->store[i].forgot_at = stores->now; /* as far as anybody can know */
}

/* --- clerks --- */

void clerk_init(struct clerk *clerk, struct stores *stores)
{
    struct rl_steward_terms terms = {.n = (uint8_t)stores->n, .drift_ppm = 10000};
    memset(clerk, 0, sizeof(*clerk));
    clerk->stores = stores;
    rl_steward_init(&clerk->steward, &terms);
    clerk->steward.active = true;
    for (unsigned i = 0; i < stores->n; i++)
        clerk->at[i] = i;
}

static struct store *store_of(struct clerk *clerk, unsigned node)
{
    return &clerk->stores->store[clerk->at[node]];
}

void clerk_greet(struct clerk *clerk, unsigned node)
{
    struct store *store = store_of(clerk, node);
    rl_steward_greeted(&clerk->steward, node, &store->process,
                       (struct rl_word){store->text, store->len}, clerk->stores->now);
}

void clerk_greet_all(struct clerk *clerk)
{
    for (unsigned i = 0; i < clerk->stores->n; i++)
        clerk_greet(clerk, i);
}

void clerk_init_greeted(struct clerk *clerk, struct stores *stores)
{
    clerk_init(clerk, stores);
    clerk_greet_all(clerk);
}

void clerk_gone(struct clerk *clerk, unsigned node)
{
    clerk->errand[node].out = false;
    rl_steward_gone(&clerk->steward, node, clerk->stores->now);
}

void clerk_greet_again(struct clerk *clerk, unsigned node)
{
    clerk_gone(clerk, node);
    clerk_greet(clerk, node);
}

/* Nobody unlearns, and nobody lifts what he has not watched. */
static void check_order(const struct clerk *clerk, const struct rl_steward_order *order)
{
    const struct rl_steward *steward = &clerk->steward;
    const struct rl_ward *ward = &steward->ward[order->node];
    const struct rl_marker *wanted = &order->wanted;
    CHECK(order->node < steward->terms.n, "there is no such node");
    CHECK(steward->active && ward->greeted && !clerk->errand[order->node].out,
          "an order that nobody can carry");
    CHECK(!order->erase || order->write, "nothing is erased by looking");
    if (!order->write)
        return;
    CHECK(!ward->marked || ward->marker.roster.deployment == steward->roster.deployment,
          "in place of another deployment's");
    if (order->erase)
        return;
    CHECK(rl_same_process(&wanted->process, &ward->process), "for another process");
    CHECK(wanted->roster.deployment == steward->roster.deployment, "of no deployment");
    if (!ward->marked) {
        CHECK(!wanted->sound, "before all are founded");
        return;
    }
    CHECK(wanted->nonce != ward->marker.nonce, "the nonce is an old one");
    for (unsigned i = 0; i < steward->terms.n; i++)
        CHECK(!rl_later_incarnation(ward->marker.roster.seat[i], wanted->roster.seat[i]),
              "node %u is to unlearn seat %u", order->node, i);
    bool founded = clerk->stores->at_once &&
                   rl_marker_self(&ward->marker).generation == 1 && !steward->founding;
    CHECK(!wanted->sound || ward->marker.sound || founded ||
              clerk->stores->now >=
                  rl_later(ward->watch.since, rl_steward_quarantine(steward)),
          "lifted too early");
}

static void keep_errand(struct clerk *clerk, const struct rl_steward_order *order)
{
    const struct rl_ward *ward = &clerk->steward.ward[order->node];
    struct errand *errand = &clerk->errand[order->node];
    *errand = (struct errand){.out = true, .order = *order, .sent = clerk->stores->now};
    if (ward->marked)
        errand->expected_len = rl_marker_write(&ward->marker, errand->expected);
    clerk->orders++;
    clerk->writes += order->write;
}

rl_nodes clerk_ask(struct clerk *clerk)
{
    struct rl_steward_order order;
    rl_nodes nodes = 0;
    for (;;) {
        uint64_t random[2] = {fresh(clerk->stores), fresh(clerk->stores)};
        if (!rl_steward_order(&clerk->steward, clerk->stores->now, random, &order))
            break;
        check_order(clerk, &order);
        keep_errand(clerk, &order);
        nodes |= rl_bit(order.node);
    }
    CHECK(rl_steward_next(&clerk->steward) > clerk->stores->now,
          "it wants to be asked again at once");
    return nodes;
}

/* Nobody gets his vote back who forgot less than a quarantine ago. */
static void check_store(struct stores *stores, const struct store *store, bool was_sound,
                        rl_time enough)
{
    struct rl_marker marker;
    if (store->len == 0 || stores->at_once || store->forgot_at == 0 || was_sound)
        return;
    CHECK(read_marker(store, &marker), "garbage was written");
    CHECK(!marker.sound || stores->now >= store->forgot_at + enough,
          "it votes %jd us after it forgot", (intmax_t)(stores->now - store->forgot_at));
}

void clerk_do(struct clerk *clerk, unsigned node)
{
    struct errand *errand = &clerk->errand[node];
    struct store *store = store_of(clerk, node);
    cr_assert(errand->out && !errand->done, "node %u has nothing to do", node);
    errand->done = true;
    if (errand->order.write && store->len == errand->expected_len &&
        memcmp(store->text, errand->expected, store->len) == 0) {
        bool was_sound = stores_is_sound(clerk->stores, clerk->at[node]);
        store->len =
            errand->order.erase ? 0 : rl_marker_write(&errand->order.wanted, store->text);
        store->writes++;
        check_store(clerk->stores, store, was_sound,
                    rl_steward_quarantine(&clerk->steward));
    }
    errand->len = store->len;
    memcpy(errand->text, store->text, store->len);
    errand->told = clerk->stores->now + store->off;
    errand->process = store->process;
}

void clerk_hear_marker(struct clerk *clerk, unsigned node)
{
    struct errand *errand = &clerk->errand[node];
    rl_time now = clerk->stores->now;
    cr_assert(errand->out && errand->done, "node %u has nothing to say", node);
    errand->out = false;
    rl_steward_time(&clerk->steward, node, errand->sent, now, now, errand->told);
    rl_steward_answered(&clerk->steward, node, (struct rl_word){errand->text, errand->len},
                        errand->sent, now);
}

bool clerk_hear_history(struct clerk *clerk, unsigned node)
{
    const struct errand *errand = &clerk->errand[node];
    cr_assert(errand->order.history, "node %u was not asked for its history", node);
    return rl_steward_history(&clerk->steward, node,
                              (struct rl_word){errand->process.replid, RL_RUN_ID},
                              clerk->stores->now);
}

void clerk_hear(struct clerk *clerk, unsigned node)
{
    clerk_hear_marker(clerk, node);
    if (clerk->errand[node].order.history)
        clerk_hear_history(clerk, node);
}

bool clerk_may_have_a_grant(const struct clerk *clerk, unsigned node)
{
    char nonce[RL_NONCE];
    rl_steward_nonce(&clerk->steward, node, nonce);
    const struct store *store = &clerk->stores->store[clerk->at[node]];
    return store->len >= RL_NONCE && memcmp(store->text, nonce, RL_NONCE) == 0;
}

void clerk_refuse(struct clerk *clerk, unsigned node)
{
    cr_assert(clerk->errand[node].out);
    clerk->errand[node].out = false;
    rl_steward_refused(&clerk->steward, node, false, clerk->stores->now);
}

static bool work_once(struct clerk *clerk)
{
    clerk_ask(clerk);
    rl_nodes out = 0;
    for (unsigned i = 0; i < clerk->stores->n; i++)
        if (clerk->errand[i].out)
            out |= rl_bit(i);
    for (rl_nodes rest = out; rest; rest &= rest - 1)
        if (!clerk->errand[rl_first(rest)].done)
            clerk_do(clerk, rl_first(rest));
    for (rl_nodes rest = out; rest; rest &= rest - 1)
        clerk_hear(clerk, rl_first(rest));
    return out != 0;
}

void clerk_work(struct clerk *clerk)
{
    unsigned turns = 0;
    while (work_once(clerk))
        cr_assert_lt(++turns, 100, "orders without end");
}

void clerks_run(struct clerk *const *clerk, unsigned count, rl_time span)
{
    struct stores *stores = clerk[0]->stores;
    rl_time end = stores->now + span;
    for (;;) {
        rl_time next = end;
        for (unsigned i = 0; i < count; i++)
            clerk_work(clerk[i]);
        if (stores->now >= end)
            return;
        for (unsigned i = 0; i < count; i++)
            next = rl_min(next, rl_steward_next(&clerk[i]->steward));
        stores->now = next;
    }
}

void clerk_run(struct clerk *clerk, rl_time span)
{
    clerks_run(&clerk, 1, span);
}

enum rl_standing clerk_standing(const struct clerk *clerk, unsigned node)
{
    return clerk->steward.ward[node].standing;
}

rl_nodes clerk_sound(const struct clerk *clerk)
{
    return rl_steward_sound(&clerk->steward);
}
