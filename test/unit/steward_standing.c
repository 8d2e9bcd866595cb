/* How a node stands: by its marker, its process and what else is known of its seat. */
#include <string.h>

#include "steward_desk.h"

#define DEPLOYMENT 7
#define OTHER      8

Test(steward_standing, of_all_is_sound_where_all_is_well)
{
    for (unsigned n = 1; n <= STORES_MAX; n++) {
        struct stores stores;
        struct clerk clerk;
        stores_init_founded(&stores, n);
        clerk_init_greeted(&clerk, &stores);
        cr_assert_eq(clerk_sound(&clerk), rl_all(n));
        clerk_run(&clerk, RL_SECOND); /* the first to be greeted are looked at once more */
        cr_assert_lt(clerk.orders, n);
        cr_assert_eq(clerk.writes, 0, "there is nothing to be done");
        cr_assert_gt(rl_steward_next(&clerk.steward), stores.now);
    }
}

Test(steward_standing, before_a_greeting_and_after_the_end_is_unseen)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 3);
    clerk_init(&clerk, &stores);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(clerk_standing(&clerk, i), RL_STANDING_UNSEEN);
    cr_assert_eq(rl_steward_next(&clerk.steward), RL_NEVER);
    clerk_greet_all(&clerk);
    clerk_gone(&clerk, 1);
    cr_assert_eq(clerk_standing(&clerk, 1), RL_STANDING_UNSEEN);
    cr_assert_eq(clerk_sound(&clerk), 5);
    clerk_greet(&clerk, 1);
    cr_assert_eq(clerk_sound(&clerk), 7);
}

/* --- every standing, and which counts where several would fit --- */

/* What may be wrong with node 0, a bit for each. */
enum wrong {
    UNGREETED = 1,
    GARBLED = 2,
    TOO_MANY_SEATS = 4,
    UNMARKED = 8,
    ALONE = 16, /* the others are not seen: nothing is known of a deployment */
    ELSEWHERE = 32,
    REPLACED = 64,
    FOREIGN = 128,
    BARRED = 256,
    SET_CLOCK = 512,
    DISPUTED = 1024,
    WRONGS = 2048,
};

static void put_garbage(struct stores *stores, unsigned i)
{
    stores->store[i].text[0] = 'x';
    stores->store[i].len = 1;
}

static void make_marker(struct stores *stores, unsigned wrong)
{
    struct rl_marker marker = stores_marker(stores, 0);
    if (wrong & TOO_MANY_SEATS) {
        marker.roster.seat[marker.roster.n] = (struct rl_incarnation){1, 1};
        marker.roster.n++;
    }
    if (wrong & ELSEWHERE)
        marker.roster.deployment = OTHER;
    if (wrong & FOREIGN)
        stores_restart(stores, 0, true);
    marker.sound = !(wrong & BARRED);
    stores_put(stores, 0, &marker);
    if (wrong & UNMARKED)
        stores_forget(stores, 0);
    if (wrong & GARBLED)
        put_garbage(stores, 0);
    for (unsigned i = 1; wrong & REPLACED && i < stores->n; i++) {
        marker = stores_marker(stores, i);
        marker.roster.seat[0].generation = 2;
        stores_put(stores, i, &marker);
    }
}

static enum rl_standing expected_of(unsigned wrong)
{
    if (wrong & UNGREETED)
        return RL_STANDING_UNSEEN;
    if (wrong & GARBLED)
        return RL_STANDING_ELSEWHERE;
    if (wrong & UNMARKED)
        return RL_STANDING_UNMARKED;
    if (wrong & TOO_MANY_SEATS)
        return RL_STANDING_ELSEWHERE;
    if (wrong & ALONE)
        return RL_STANDING_ALONE;
    if (wrong & ELSEWHERE)
        return RL_STANDING_ELSEWHERE;
    if (wrong & REPLACED)
        return RL_STANDING_REPLACED;
    if (wrong & FOREIGN)
        return RL_STANDING_FOREIGN;
    if (wrong & BARRED)
        return RL_STANDING_BARRED;
    if (wrong & SET_CLOCK)
        return RL_STANDING_CLOCK;
    return wrong & DISPUTED ? RL_STANDING_UNCONFIRMED : RL_STANDING_SOUND;
}

static enum rl_standing standing_with(unsigned wrong)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 3);
    clerk_init(&clerk, &stores);
    if (wrong & SET_CLOCK) { /* it is found out first, and then all the rest is seen */
        clerk_greet_all(&clerk);
        rl_steward_time(&clerk.steward, 0, stores.now, stores.now, stores.now, RL_SECOND);
        rl_steward_time(&clerk.steward, 0, stores.now, stores.now, stores.now,
                        2 * RL_SECOND);
        cr_assert_eq(clerk_standing(&clerk, 0), RL_STANDING_CLOCK);
        for (unsigned i = 0; i < 3; i++)
            clerk_gone(&clerk, i);
    }
    make_marker(&stores, wrong);
    for (unsigned i = 0; i < 3; i++)
        if (!(wrong & (i == 0 ? UNGREETED : ALONE)))
            clerk_greet(&clerk, i);
    if (wrong & DISPUTED)
        rl_steward_disputed(&clerk.steward, 0, stores.now, stores.now);
    return clerk_standing(&clerk, 0);
}

/* A clock that was found out means nothing on a node that has lost its marker since. */
Test(steward_standing, is_the_first_that_fits)
{
    unsigned seen[RL_STANDING_SOUND + 1] = {0};
    for (unsigned wrong = 0; wrong < WRONGS; wrong++) {
        if (wrong & ALONE && wrong & SET_CLOCK)
            continue; /* then the deployment is known */
        enum rl_standing expected = expected_of(wrong), standing = standing_with(wrong);
        seen[expected]++;
        CHECK(standing == expected, "%x: %d, not %d", wrong, (int)standing, (int)expected);
    }
    for (unsigned i = 0; i <= RL_STANDING_SOUND; i++)
        cr_assert_gt(seen[i], 0, "standing %u was never tried", i);
}

Test(steward_standing, of_a_set_clock_is_forgiven_with_a_new_life)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 3);
    clerk_init_greeted(&clerk, &stores);
    struct rl_marker barred = stores_marker(&stores, 0), sound = barred;
    barred.sound = false;
    rl_steward_time(&clerk.steward, 0, stores.now, stores.now, stores.now, RL_SECOND);
    rl_steward_time(&clerk.steward, 0, stores.now, stores.now, stores.now, 2 * RL_SECOND);
    stores_put(&stores, 0, &barred);
    clerk_greet_again(&clerk, 0);
    cr_assert_eq(clerk_standing(&clerk, 0), RL_STANDING_BARRED);
    stores_put(&stores, 0, &sound);
    clerk_greet_again(&clerk, 0);
    cr_assert_eq(clerk_standing(&clerk, 0), RL_STANDING_SOUND);
}

/* A later life of its seat that only a third node tells of. */
Test(steward_standing, follows_from_what_any_node_knows)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 5);
    struct rl_marker marker = stores_marker(&stores, 4);
    marker.roster.seat[2].id++;
    stores_put(&stores, 4, &marker);
    clerk_init(&clerk, &stores);
    for (unsigned i = 0; i < 4; i++)
        clerk_greet(&clerk, i);
    cr_assert_eq(clerk_sound(&clerk), 15);
    clerk_greet(&clerk, 4);
    cr_assert_eq(clerk_standing(&clerk, 2), RL_STANDING_REPLACED);
    cr_assert_eq(clerk_sound(&clerk), 27);
    clerk_gone(&clerk, 4);
    cr_assert_eq(clerk_sound(&clerk), 11, "what was learned is kept");
}

/* Whoever has the earlier life of a seat does not vote: so no two ever do for one. */
Test(steward_standing, of_two_in_one_seat_only_the_later_is_sound)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 3);
    struct rl_marker marker = stores_marker(&stores, 1);
    marker.seat = 0;
    marker.roster.seat[0].generation++;
    stores_put(&stores, 1, &marker);
    clerk_init_greeted(&clerk, &stores);
    cr_assert_eq(clerk_standing(&clerk, 0), RL_STANDING_REPLACED);
    cr_assert_eq(clerk_standing(&clerk, 1), RL_STANDING_SOUND);
}

/* --- which deployment is ours --- */

/* Greets nodes of these deployments, 0: of none, and returns the one that is bound to. */
static uint64_t bound(unsigned n, const uint64_t *deployment, unsigned greeted)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, n);
    clerk_init(&clerk, &stores);
    for (unsigned i = 0; i < n; i++) {
        struct rl_marker marker = stores_marker(&stores, i);
        marker.roster.deployment = deployment[i];
        if (deployment[i])
            stores_put(&stores, i, &marker);
        else
            stores_forget(&stores, i);
    }
    for (unsigned i = 0; i < n; i++)
        if (greeted & rl_bit(i))
            clerk_greet(&clerk, i);
    return clerk.steward.roster.deployment;
}

/* Each way in which five nodes can be of two deployments, or of none, or unseen. */
Test(steward_standing, binds_to_what_a_majority_names)
{
    for (unsigned n = 1; n <= 5; n++) {
        unsigned ways = 1;
        for (unsigned i = 0; i < n; i++)
            ways *= 4;
        for (unsigned way = 0; way < ways; way++) {
            uint64_t deployment[5];
            unsigned greeted = 0, votes[2] = {0, 0};
            for (unsigned i = 0, rest = way; i < n; i++, rest /= 4) {
                unsigned kind = rest % 4;
                deployment[i] = kind == 0 ? 0 : kind == 1 ? OTHER : DEPLOYMENT;
                if (kind == 3)
                    continue;
                greeted |= rl_bit(i);
                votes[0] += kind == 2;
                votes[1] += kind == 1;
            }
            uint64_t expected = votes[0] > n / 2   ? DEPLOYMENT
                                : votes[1] > n / 2 ? OTHER
                                                   : 0;
            CHECK(bound(n, deployment, greeted) == expected, "n %u, way %u", n, way);
        }
    }
}

/* As long as a majority is of it: what is founded anew after a loss of all takes its place.
 */
Test(steward_standing, is_bound_until_a_majority_is_of_another)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 3);
    clerk_init_greeted(&clerk, &stores);
    stores_found(&stores, OTHER);
    clerk_greet_again(&clerk, 0);
    cr_assert_eq(clerk_standing(&clerk, 0), RL_STANDING_ELSEWHERE);
    cr_assert_eq(clerk.steward.roster.deployment, DEPLOYMENT);
    clerk_run(&clerk, RL_STEWARD_PROBE / 2);
    cr_assert_eq(clerk.writes, 0, "of others' nodes nothing is written");
    clerk_greet_again(&clerk, 1);
    cr_assert_eq(clerk.steward.roster.deployment, OTHER);
    cr_assert_eq(clerk_standing(&clerk, 0), RL_STANDING_SOUND);
    cr_assert_eq(clerk_standing(&clerk, 2), RL_STANDING_ELSEWHERE,
                 "as it was greeted last");
}

/* A deployment of five is none for a client of three, even if it sees three of them. */
Test(steward_standing, does_not_bind_to_one_of_more_nodes)
{
    struct stores stores, few;
    struct clerk clerk;
    stores_init_founded(&stores, 5);
    stores_init(&few, 3);
    memcpy(few.store, stores.store, sizeof(few.store));
    clerk_init_greeted(&clerk, &few);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(clerk_standing(&clerk, i), RL_STANDING_ELSEWHERE);
    cr_assert_eq(clerk.steward.roster.deployment, 0);
    clerk_run(&clerk, 60 * RL_SECOND);
    cr_assert_eq(clerk.writes, 0);
}

Test(steward_standing, learns_all_rosters_of_its_deployment_only)
{
    struct stores stores;
    struct clerk clerk;
    stores_init_founded(&stores, 3);
    struct rl_marker marker = stores_marker(&stores, 2);
    marker.roster.deployment = OTHER;
    marker.roster.seat[0].generation = 99;
    stores_put(&stores, 2, &marker);
    marker = stores_marker(&stores, 1);
    marker.roster.seat[2].generation = 5;
    stores_put(&stores, 1, &marker);
    clerk_init_greeted(&clerk, &stores);
    cr_assert_eq(clerk.steward.roster.seat[0].generation, 1);
    cr_assert_eq(clerk.steward.roster.seat[2].generation, 5);
}
