/* When orders are given, when they rest, and that all ends well however they are carried.
 */
#include <string.h>

#include "chance.h"
#include "steward_desk.h"

/* --- when --- */

Test(steward_orders, are_given_by_an_active_steward_only)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 3);
    clerk_init(&clerk, &stores);
    clerk.steward.active = false;
    clerk_greet_all(&clerk);
    stores_forget(&stores, 1);
    clerk_greet_again(&clerk, 1);
    clerk_run(&clerk, 60 * RL_SECOND);
    cr_assert_eq(clerk.orders, 0);
    cr_assert_eq(rl_steward_next(&clerk.steward), RL_NEVER);
    clerk.steward.active = true;
    cr_assert_leq(rl_steward_next(&clerk.steward), stores.now);
    clerk_run(&clerk, 60 * RL_SECOND);
    cr_assert_eq(stores_sound(&stores), 7);
}

Test(steward_orders, are_given_one_at_a_time)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 3);
    clerk_init_greeted(&clerk, &stores);
    stores_forget(&stores, 1);
    clerk_greet_again(&clerk, 1);
    cr_assert_eq(clerk_ask(&clerk), 2);
    stores.now += 60 * RL_SECOND;
    cr_assert_not(clerk_ask(&clerk) & 2, "the first is still under way");
    clerk_do(&clerk, 1);
    clerk_hear(&clerk, 1);
}

/* What ends with a connection is not waited for. */
Test(steward_orders, that_are_cut_off_are_given_again)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 3);
    clerk_init_greeted(&clerk, &stores);
    stores_forget(&stores, 1);
    clerk_greet_again(&clerk, 1);
    cr_assert_eq(clerk_ask(&clerk), 2);
    clerk_gone(&clerk, 1);
    cr_assert_eq(clerk_ask(&clerk), 0);
    clerk_greet(&clerk, 1);
    cr_assert_eq(clerk_ask(&clerk), 2);
    clerk_do(&clerk, 1);
    clerk_gone(&clerk, 1); /* done, but not heard of */
    clerk_greet(&clerk, 1);
    cr_assert_eq(clerk_standing(&clerk, 1), RL_STANDING_BARRED);
}

Test(steward_orders, that_were_refused_rest)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 3);
    clerk_init_greeted(&clerk, &stores);
    clerk_run(&clerk, RL_SECOND);
    stores_forget(&stores, 1);
    clerk_greet_again(&clerk, 1);
    for (unsigned i = 0; i < 5; i++) {
        cr_assert_eq(clerk_ask(&clerk), 2);
        clerk_refuse(&clerk, 1);
        cr_assert_eq(clerk_ask(&clerk), 0);
        cr_assert_eq(rl_steward_next(&clerk.steward), stores.now + RL_STEWARD_REST);
        stores.now += RL_STEWARD_REST - 1;
        cr_assert_eq(clerk_ask(&clerk), 0);
        stores.now++;
    }
    cr_assert_eq(clerk_ask(&clerk), 2);
    clerk_refuse(&clerk, 1);
    clerk_greet_again(&clerk, 1);
    cr_assert_eq(clerk_ask(&clerk), 2, "a new connection is another chance");
}

/* The seat that was refused to one may be another's. */
Test(steward_orders, that_were_refused_claim_no_seat)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 3);
    clerk_init_greeted(&clerk, &stores);
    stores_forget(&stores, 1);
    clerk_greet_again(&clerk, 1);
    clerk_ask(&clerk);
    cr_assert(clerk.steward.ward[1].claims);
    clerk_refuse(&clerk, 1);
    cr_assert_not(clerk.steward.ward[1].claims);
    stores.now += RL_STEWARD_REST;
    clerk_ask(&clerk);
    clerk_gone(&clerk, 1);
    cr_assert_not(clerk.steward.ward[1].claims);
}

/* A node that does not vote is looked at, for somebody else may have seated it. */
Test(steward_orders, are_to_look_at_who_does_not_vote)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 3);
    struct rl_marker sound = stores_marker(&stores, 1);
    stores_forget(&stores, 1);
    clerk_init_greeted(&clerk, &stores);
    clerk_run(&clerk, 10 * RL_SECOND);
    unsigned orders = clerk.orders;
    clerk_run(&clerk, 100 * RL_STEWARD_REST);
    unsigned probes = 2 * (unsigned)(100 * RL_STEWARD_REST / RL_STEWARD_PROBE);
    cr_assert_eq(clerk.orders, orders + 100 + probes);
    cr_assert_eq(clerk.writes, 0);
    stores_put(&stores, 1, &sound);
    clerk_run(&clerk, 2 * RL_STEWARD_REST);
    cr_assert_eq(clerk_sound(&clerk), 7);
    orders = clerk.orders;
    clerk_run(&clerk, 6 * RL_STEWARD_PROBE);
    cr_assert_leq(clerk.orders, orders + 3 * 6, "who votes is left alone, mostly");
}

/* Everybody is told of all who wait at once: a node is not rewritten for each. */
Test(steward_orders, to_learn_are_no_more_than_have_to_be)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 7);
    clerk_init_greeted(&clerk, &stores);
    clerk_run(&clerk, RL_SECOND);
    for (unsigned i = 4; i < 7; i++) {
        stores_forget(&stores, i);
        clerk_greet_again(&clerk, i);
    }
    clerk_run(&clerk, rl_steward_quarantine(&clerk.steward) + RL_SECOND);
    cr_assert_eq(stores_sound(&stores), 127);
    for (unsigned i = 0; i < 4; i++)
        cr_assert_eq(stores.store[i].writes, 1);
    for (unsigned i = 4; i < 7; i++)
        cr_assert_eq(stores.store[i].writes, 2, "seated and lifted");
}

/* --- however they are carried --- */

#define CLERKS 2

struct walk {
    struct chance chance;
    struct stores stores;
    struct clerk clerk[CLERKS];
    unsigned forgot; /* how often anything was lost */
};

static void lose_something(struct walk *walk)
{
    struct stores *stores = &walk->stores;
    unsigned i = chance_below(&walk->chance, stores->n);
    switch (chance_below(&walk->chance, 4)) {
    case 0: stores_forget(stores, i); break;
    case 1:
    case 2:
        stores_restart(stores, i, chance_below(&walk->chance, 2));
        for (unsigned j = 0; j < CLERKS; j++)
            clerk_gone(&walk->clerk[j], i);
        break;
    case 3:
        stores->store[i].off += 100 * RL_SECOND;
        if (stores_is_sound(stores, i)) /* else there is nothing that could end early */
            stores->store[i].forgot_at = stores->now;
        break;
    }
    walk->forgot++;
}

/* Something small, of anybody, that a network and a loop can do. */
static void do_something(struct walk *walk, struct clerk *clerk)
{
    unsigned i = chance_below(&walk->chance, walk->stores.n);
    struct errand *errand = &clerk->errand[i];
    switch (chance_below(&walk->chance, 8)) {
    case 0: clerk_ask(clerk); break;
    case 1:
    case 2:
        if (errand->out && !errand->done)
            clerk_do(clerk, i);
        break;
    case 3:
    case 4:
        if (errand->out && errand->done)
            clerk_hear(clerk, i);
        break;
    case 5: walk->stores.now += 1 + chance_below(&walk->chance, 20000); break;
    case 6:
        if (!clerk->steward.ward[i].greeted)
            clerk_greet(clerk, i);
        else if (chance_below(&walk->chance, 20) == 0)
            clerk_gone(clerk, i);
        break;
    case 7:
        if (errand->out && !errand->done && chance_below(&walk->chance, 20) == 0)
            clerk_refuse(clerk, i);
        break;
    }
}

static void open_walk(struct walk *walk, unsigned seed)
{
    memset(walk, 0, sizeof(*walk));
    walk->chance.state = seed;
    stores_init_founded(&walk->stores, 3 + chance_below(&walk->chance, 5));
    for (unsigned i = 0; i < CLERKS; i++) {
        clerk_init_greeted(&walk->clerk[i], &walk->stores);
        clerk_run(&walk->clerk[i], RL_SECOND);
    }
}

/* Both carry on in peace, until a vote would have told them whatever there is. */
static void end_walk(struct walk *walk)
{
    struct clerk *both[CLERKS] = {&walk->clerk[0], &walk->clerk[1]};
    for (unsigned turn = 0; turn < 4; turn++) {
        for (unsigned i = 0; i < CLERKS; i++)
            for (unsigned j = 0; j < walk->stores.n; j++)
                if (!walk->clerk[i].errand[j].out && turn < 2)
                    clerk_greet_again(&walk->clerk[i], j);
        clerks_run(both, CLERKS, rl_steward_quarantine(&both[0]->steward) + 2 * RL_SECOND);
    }
}

/* A minority forgets, again and again: in the end all vote, and none has voted too early.
 */
Test(steward_orders, end_well_in_any_order)
{
    unsigned forgot = 0;
    for (unsigned seed = 1; seed <= 1000; seed++) {
        struct walk walk;
        open_walk(&walk, seed);
        rl_nodes all = rl_all(walk.stores.n);
        for (unsigned step = 0; step < 1500; step++) {
            if (step % 500 == 100 && walk.forgot < (walk.stores.n - 1) / 2)
                lose_something(&walk);
            do_something(&walk, &walk.clerk[chance_below(&walk.chance, CLERKS)]);
        }
        end_walk(&walk);
        CHECK(stores_sound(&walk.stores) == all, "seed %u: %x", seed,
              stores_sound(&walk.stores));
        for (unsigned i = 0; i < CLERKS; i++)
            CHECK(clerk_sound(&walk.clerk[i]) == all, "seed %u", seed);
        forgot += walk.forgot;
    }
    cr_assert_gt(forgot, 1000);
}

/* Without any measure: all may be lost, but nobody votes too early, or learns less. */
Test(steward_orders, do_no_harm_whatever_is_lost)
{
    for (unsigned seed = 1; seed <= 1000; seed++) {
        struct walk walk;
        open_walk(&walk, seed);
        for (unsigned step = 0; step < 3000; step++) {
            if (chance_below(&walk.chance, 200) == 0)
                lose_something(&walk);
            if (chance_below(&walk.chance, 500) == 0)
                walk.stores.now += chance_below(&walk.chance, 20) * RL_SECOND;
            do_something(&walk, &walk.clerk[chance_below(&walk.chance, CLERKS)]);
        }
    }
}
