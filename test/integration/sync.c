/* Locks for threads: who gets one, when, and what unlocking says. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "crew.h"

/* --- one thread --- */

Test(sync, locked_and_unlocked)
{
    struct crew c;
    redlock_hold *hold = NULL;
    redlock_lock_options options = crew_lock_options();
    crew_open(&c, 5);
    cr_assert_eq(redlock_sync_nodes(c.sync), 5);
    cr_assert_eq(redlock_sync_quorum(c.sync), 3);
    cr_assert_eq(redlock_lock(c.sync, "job", 3, &options, &hold), REDLOCK_OK);
    cr_assert_not(redlock_hold_lost(hold));
    cr_assert_gt(redlock_hold_valid_ms(hold), 50000);
    cr_assert_leq(redlock_hold_valid_ms(hold), 60000);
    cr_assert_eq(redlock_hold_fence(hold), 0);
    cr_assert_geq(servers_with(&c.servers, "job", redlock_hold_token(hold)), 3);
    cr_assert_eq(redlock_unlock(hold, REDLOCK_CONFIRM), REDLOCK_OK);
    cr_assert_leq(servers_with(&c.servers, "job", redlock_hold_token(hold)), 2);
    cr_assert(redlock_hold_lost(hold));
    cr_assert_eq(redlock_hold_valid_ms(hold), 0);
    cr_assert_eq(redlock_unlock(hold, 0), REDLOCK_NOT_HELD);
    cr_assert_eq(redlock_unlock(hold, REDLOCK_CONFIRM), REDLOCK_NOT_HELD);
    redlock_hold_free(hold);
    CREW_UNTIL(crew_keys(c.sync) == 0);
    CREW_UNTIL(servers_keys(&c.servers) == 0);
    crew_close(&c);
}

Test(sync, default_options_and_freeing_unlocks)
{
    struct crew c;
    redlock_hold *hold = NULL;
    crew_open(&c, 3);
    for (unsigned i = 0; i < 20; i++) {
        cr_assert_eq(redlock_lock(c.sync, "job", 3, NULL, &hold), REDLOCK_OK);
        cr_assert_gt(redlock_hold_valid_ms(hold), 25000);
        redlock_hold_free(hold);
    }
    redlock_hold_free(NULL);
    CREW_UNTIL(servers_keys(&c.servers) == 0);
    crew_close(&c);
}

/* What was unlocked is released before the client ends. */
Test(sync, client_is_freed_right_after_unlocking)
{
    struct crew c;
    redlock_hold *hold = NULL;
    crew_open(&c, 5);
    for (unsigned i = 0; i < 10; i++) {
        cr_assert_eq(redlock_lock(c.sync, "job", 3, NULL, &hold), REDLOCK_OK);
        cr_assert_eq(redlock_unlock(hold, 0), REDLOCK_OK);
        redlock_sync_free(c.sync);
        cr_assert_eq(servers_keys(&c.servers), 0);
        cr_assert_eq(redlock_unlock(hold, 0), REDLOCK_NOT_HELD);
        redlock_hold_free(hold);
        c.sync = crew_sync(&c);
    }
    crew_close(&c);
}

Test(sync, try_lock)
{
    struct crew c;
    redlock_hold *hold = NULL, *none = NULL;
    crew_open(&c, 3);
    redlock_sync *other = crew_sync(&c);
    cr_assert_eq(redlock_try_lock(c.sync, "job", 3, NULL, &hold), REDLOCK_OK);
    cr_assert_eq(redlock_try_lock(c.sync, "job", 3, NULL, &none), REDLOCK_TAKEN);
    cr_assert_eq(redlock_try_lock(other, "job", 3, NULL, &none), REDLOCK_TAKEN);
    cr_assert_null(none);
    cr_assert_eq(redlock_unlock(hold, REDLOCK_CONFIRM), REDLOCK_OK);
    redlock_hold_free(hold);
    CREW_UNTIL(servers_keys(&c.servers) == 0);
    cr_assert_eq(redlock_try_lock(other, "job", 3, NULL, &hold), REDLOCK_OK);
    redlock_hold_free(hold);
    redlock_sync_free(other);
    crew_close(&c);
}

/* Unlocked and tried at once: what is still being released is waited for. */
Test(sync, try_lock_after_unlocking)
{
    struct crew c;
    redlock_hold *hold = NULL;
    crew_open(&c, 5);
    for (unsigned i = 0; i < 50; i++) {
        cr_assert_eq(redlock_try_lock(c.sync, "job", 3, NULL, &hold), REDLOCK_OK);
        redlock_hold_free(hold);
    }
    crew_close(&c);
}

Test(sync, lock_for_ends)
{
    struct crew c;
    redlock_hold *hold = NULL, *none = NULL;
    crew_open(&c, 3);
    redlock_sync *other = crew_sync(&c);
    cr_assert_eq(redlock_lock_for(c.sync, "job", 3, 0, NULL, &hold), REDLOCK_OK);
    cr_assert_eq(redlock_lock_for(c.sync, "job", 3, 0, NULL, &none), REDLOCK_TIMEOUT);
    cr_assert_eq(redlock_lock_for(c.sync, "job", 3, 30, NULL, &none), REDLOCK_TIMEOUT);
    cr_assert_eq(redlock_lock_for(other, "job", 3, 0, NULL, &none), REDLOCK_TIMEOUT);
    cr_assert_eq(redlock_lock_for(other, "job", 3, 30, NULL, &none), REDLOCK_TIMEOUT);
    cr_assert_eq(redlock_lock_for(c.sync, "job", 3, -1, NULL, &none), REDLOCK_BAD_OPTION);
    cr_assert_null(none);
    redlock_hold_free(hold);
    cr_assert_eq(redlock_lock_for(c.sync, "job", 3, INT64_MAX, NULL, &hold), REDLOCK_OK);
    redlock_hold_free(hold);
    redlock_sync_free(other);
    CREW_UNTIL(servers_keys(&c.servers) == 0);
    crew_close(&c);
}

Test(sync, extended)
{
    struct crew c;
    redlock_hold *hold = NULL;
    redlock_lock_options options = crew_lock_options();
    options.watchdog = false;
    crew_open(&c, 3);
    cr_assert_eq(redlock_lock(c.sync, "job", 3, &options, &hold), REDLOCK_OK);
    cr_assert_eq(redlock_hold_extend(hold, 300000), REDLOCK_OK);
    cr_assert_gt(redlock_hold_valid_ms(hold), 200000);
    cr_assert_gt(servers_number(&c.servers, 0, "PTTL job"), 200000);
    cr_assert_eq(redlock_hold_extend(hold, 20000), REDLOCK_OK);
    cr_assert_leq(redlock_hold_valid_ms(hold), 20000);
    cr_assert_eq(redlock_hold_extend(hold, 0), REDLOCK_OK);
    cr_assert_leq(redlock_hold_valid_ms(hold), 20000, "that is its TTL, now");
    cr_assert_eq(redlock_hold_extend(hold, -1), REDLOCK_BAD_TTL);
    cr_assert_eq(redlock_hold_extend(hold, REDLOCK_TTL_MAX_MS + 1), REDLOCK_BAD_TTL);
    cr_assert_eq(redlock_hold_extend(hold, 1), REDLOCK_BAD_TTL);
    cr_assert_not(redlock_hold_lost(hold));
    cr_assert_eq(redlock_unlock(hold, 0), REDLOCK_OK);
    cr_assert_eq(redlock_hold_extend(hold, 0), REDLOCK_NOT_HELD);
    redlock_hold_free(hold);
    crew_close(&c);
}

/* The watchdog's extensions are seen. */
Test(sync, watchdog)
{
    struct crew c;
    redlock_hold *hold = NULL;
    redlock_lock_options options = crew_lock_options();
    options.ttl_ms = 1500;
    crew_open(&c, 3);
    cr_assert_eq(redlock_lock(c.sync, "job", 3, &options, &hold), REDLOCK_OK);
    int64_t begun = crew_clock_ms();
    CREW_UNTIL(crew_clock_ms() > begun + 2 * options.ttl_ms);
    cr_assert_not(redlock_hold_lost(hold));
    cr_assert_gt(redlock_hold_valid_ms(hold), 0);
    cr_assert_eq(redlock_unlock(hold, REDLOCK_CONFIRM), REDLOCK_OK);
    redlock_hold_free(hold);
    crew_close(&c);
}

Test(sync, bad_input)
{
    struct crew c;
    redlock_hold *none = NULL;
    redlock_sync *nobody = NULL;
    redlock_error error = {0};
    redlock_lock_options options = crew_lock_options(), bad;
    char long_key[REDLOCK_KEY_MAX + 1] = "";
    crew_open(&c, 3);
    cr_assert_eq(redlock_lock(c.sync, "", 0, NULL, &none), REDLOCK_BAD_KEY);
    cr_assert_eq(redlock_lock(c.sync, long_key, sizeof(long_key), NULL, &none),
                 REDLOCK_BAD_KEY);
    cr_assert_eq(redlock_lock(c.sync, "a!fence", 7, NULL, &none), REDLOCK_BAD_KEY);
#define BAD(field, value, refusal)                                                         \
    bad = options;                                                                         \
    bad.field = value;                                                                     \
    cr_assert_eq(redlock_lock(c.sync, "job", 3, &bad, &none), refusal, #field);            \
    cr_assert_eq(redlock_lock_explain(c.sync, "job", 3, &bad, &error), refusal, #field);   \
    cr_assert_eq(error.code, refusal);                                                     \
    cr_assert(refusal == REDLOCK_BAD_TTL || strstr(error.text, #field), "%s", error.text)
    BAD(ttl_ms, 0, REDLOCK_BAD_TTL);
    BAD(ttl_ms, REDLOCK_TTL_MAX_MS + 1, REDLOCK_BAD_TTL);
    BAD(ttl_ms, 1, REDLOCK_BAD_TTL);
    BAD(margin_ms, 60000, REDLOCK_BAD_TTL);
    BAD(margin_ms, -1, REDLOCK_BAD_OPTION);
    BAD(min_validity_ms, -1, REDLOCK_BAD_OPTION);
    BAD(max_hold_ms, -1, REDLOCK_BAD_OPTION);
    BAD(handoffs, REDLOCK_HANDOFFS_MAX + 1, REDLOCK_BAD_OPTION);
    BAD(size, 0, REDLOCK_BAD_OPTION);
    redlock_sync *other = crew_sync(&c);
    redlock_stop *stop = NULL;
    cr_assert_eq(redlock_stop_new(other, &stop), REDLOCK_OK);
    BAD(stop, stop, REDLOCK_BAD_OPTION);
    redlock_sync_free(other);
    redlock_stop_all(stop);
    redlock_stop_free(stop);
    cr_assert_null(none);
    cr_assert_eq(redlock_sync_new(c.servers.uri, 0, NULL, &nobody, &error),
                 REDLOCK_BAD_NODES);
    cr_assert_eq(error.code, REDLOCK_BAD_NODES);
    const char *uri[] = {"http://nowhere"};
    cr_assert_eq(redlock_sync_new(uri, 1, NULL, &nobody, NULL), REDLOCK_BAD_URI);
    cr_assert_null(nobody);
    redlock_sync_free(NULL);
    redlock_stop_all(NULL);
    redlock_stop_free(NULL);
    CREW_UNTIL(crew_keys(c.sync) == 0);
    crew_close(&c);
}

/* However many are left: libevent would end the process where it gets none. */
Test(sync, too_few_descriptors_are_an_error)
{
    enum { LIMIT = 60 };
    const char *const uris[] = {"unix:///nowhere/1"};
    struct rlimit limit = {LIMIT, LIMIT};
    int fd[LIMIT], count = 0, made = 0;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while ((fd[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        count++;
    for (int left = 0; left < 16; left++) {
        redlock_sync *sync = NULL;
        redlock_error error = {.code = REDLOCK_OK};
        redlock_code code = redlock_sync_new(uris, 1, NULL, &sync, &error);
        if (code == REDLOCK_OK)
            made++;
        else
            cr_assert_eq(code, REDLOCK_SYSTEM, "%d left: %s", left, error.text);
        cr_assert_eq(error.code, code);
        redlock_sync_free(sync);
        close(fd[--count]);
    }
    cr_assert(made > 0 && made < 16, "%d of 16", made);
    while (count > 0)
        close(fd[--count]);
}

Test(sync, nodes_are_explained)
{
    struct crew c;
    redlock_node node[3];
    crew_open(&c, 3);
    CREW_UNTIL(redlock_sync_explain(c.sync, node, 3) == 3 &&
               strcmp(node[2].verdict, "ready") == 0);
    cr_assert_str_eq(node[0].uri, c.servers.uri[0]);
    cr_assert_eq(redlock_sync_explain(c.sync, NULL, 0), 3);
    crew_close(&c);
}

/* Who wants to have it confirmed waits for the nodes, and who does not, does not. */
Test(sync, release_is_confirmed)
{
    struct crew c;
    struct hand hand[2];
    crew_open(&c, 3);
    hand_start(&hand[0], c.sync, "job", NULL);
    hand_start(&hand[1], c.sync, "other", NULL);
    for (unsigned i = 0; i < 2; i++)
        cr_assert_eq(hand_done(&hand[i], job_lock), REDLOCK_OK);
    servers_stop(&c.servers, 0);
    servers_stop(&c.servers, 1);
    cr_assert_eq(hand_done(&hand[1], job_unlock), REDLOCK_OK);
    hand_do(&hand[0], job_confirm);
    crew_run_for(50);
    cr_assert(hand_is_busy(&hand[0]));
    servers_cont(&c.servers, 0);
    servers_cont(&c.servers, 1);
    cr_assert_eq(hand_await(&hand[0]), REDLOCK_OK);
    hand_end(&hand[0]);
    hand_end(&hand[1]);
    crew_close(&c);
}

/* --- many threads --- */

#define HANDS 6

/* Hands that queue up, one after the other, behind the one that has it. */
static void queue_up(struct crew *c, struct hand *hand, unsigned n,
                     const redlock_lock_options *options)
{
    for (unsigned i = 0; i < n; i++) {
        hand_start(&hand[i], c->sync, "job", options);
        hand_do(&hand[i], job_lock);
        if (i == 0)
            cr_assert_eq(hand_await(&hand[0]), REDLOCK_OK);
        else
            CREW_UNTIL(crew_waiting(c->sync, "job") == i);
    }
}

Test(sync, first_come_first_served_without_asking_the_nodes)
{
    struct crew c;
    struct hand hand[HANDS];
    char token[REDLOCK_TOKEN_MAX + 1];
    crew_open(&c, 3);
    queue_up(&c, hand, HANDS, NULL);
    strcpy(token, redlock_hold_token(hand[0].hold));
    for (unsigned i = 0; i < HANDS; i++) {
        cr_assert_eq(hand_await(&hand[i]), REDLOCK_OK);
        cr_assert_eq(hand[i].turn, hand[0].turn + i);
        cr_assert_str_eq(redlock_hold_token(hand[i].hold), token);
        cr_assert_gt(redlock_hold_valid_ms(hand[i].hold), 0);
        for (unsigned j = i + 1; j < HANDS; j++)
            cr_assert(hand_is_busy(&hand[j]));
        cr_assert_eq(hand_done(&hand[i], i % 2 ? job_unlock : job_confirm), REDLOCK_OK);
        cr_assert(redlock_hold_lost(hand[i].hold));
        cr_assert_eq(redlock_hold_valid_ms(hand[i].hold), 0);
    }
    for (unsigned i = 0; i < HANDS; i++)
        hand_end(&hand[i]);
    CREW_UNTIL(servers_keys(&c.servers) == 0);
    crew_close(&c);
}

/* A handle that was unlocked is nothing to the next owner's lock. */
Test(sync, stale_handles)
{
    struct crew c;
    struct hand hand[2];
    crew_open(&c, 3);
    queue_up(&c, hand, 2, NULL);
    redlock_hold *stale = hand[0].hold;
    cr_assert_eq(hand_done(&hand[0], job_unlock), REDLOCK_OK);
    cr_assert_eq(hand_await(&hand[1]), REDLOCK_OK);
    cr_assert_eq(redlock_unlock(stale, 0), REDLOCK_NOT_HELD);
    cr_assert_eq(redlock_hold_extend(stale, 0), REDLOCK_NOT_HELD);
    cr_assert(redlock_hold_lost(stale));
    cr_assert_eq(redlock_hold_valid_ms(stale), 0);
    hand_end(&hand[0]);
    cr_assert_not(redlock_hold_lost(hand[1].hold));
    cr_assert_gt(redlock_hold_valid_ms(hand[1].hold), 0);
    cr_assert_eq(hand_done(&hand[1], job_confirm), REDLOCK_OK);
    hand_end(&hand[1]);
    crew_close(&c);
}

Test(sync, handed_over_only_so_often)
{
    struct crew c;
    struct hand hand[HANDS];
    redlock_lock_options options = crew_lock_options();
    unsigned tokens = 0;
    options.handoffs = 2;
    crew_open(&c, 3);
    queue_up(&c, hand, HANDS, &options);
    for (unsigned i = 0; i < HANDS; i++) {
        cr_assert_eq(hand_await(&hand[i]), REDLOCK_OK);
        bool same = i > 0 && strcmp(redlock_hold_token(hand[i].hold),
                                    redlock_hold_token(hand[i - 1].hold)) == 0;
        tokens += !same;
        cr_assert_eq(same, i % 3 != 0);
        cr_assert_eq(hand_done(&hand[i], job_unlock), REDLOCK_OK);
    }
    cr_assert_eq(tokens, 2);
    for (unsigned i = 0; i < HANDS; i++)
        hand_end(&hand[i]);
    crew_close(&c);
}

/* Whoever wants something else gets a lock of its own. */
Test(sync, handed_over_to_the_like_only)
{
    struct crew c;
    struct hand hand[2];
    redlock_lock_options odd[5];
    crew_open(&c, 3);
    for (unsigned i = 0; i < 5; i++)
        odd[i] = crew_lock_options();
    odd[0].ttl_ms = 50000;
    odd[1].margin_ms = 10;
    odd[2].watchdog = false;
    odd[3].max_hold_ms = 600000;
    odd[4].min_validity_ms = 100; /* this one does not matter */
    for (unsigned i = 0; i < 10; i++) {
        queue_up(&c, hand, 1, i < 5 ? NULL : &odd[i - 5]);
        hand_start(&hand[1], c.sync, "job", i < 5 ? &odd[i] : NULL);
        hand_do(&hand[1], job_lock);
        CREW_UNTIL(crew_waiting(c.sync, "job") == 1);
        cr_assert_eq(hand_done(&hand[0], job_confirm), REDLOCK_OK);
        cr_assert_eq(hand_await(&hand[1]), REDLOCK_OK);
        bool same =
            strcmp(redlock_hold_token(hand[0].hold), redlock_hold_token(hand[1].hold)) == 0;
        cr_assert_eq(same, i % 5 == 4, "%u", i);
        cr_assert_eq(hand_done(&hand[1], job_unlock), REDLOCK_OK);
        hand_end(&hand[0]);
        hand_end(&hand[1]);
    }
    crew_close(&c);
}

static bool has_run_a_script(struct crew *c)
{
    return servers_info(&c->servers, 0, "commandstats", "cmdstat_eval") ||
           servers_info(&c->servers, 0, "commandstats", "cmdstat_evalsha");
}

/* What is left is too short for the next one: it is extended first. */
Test(sync, extended_before_it_is_handed_over)
{
    struct crew c;
    struct hand hand[2];
    redlock_lock_options options = crew_lock_options();
    crew_open(&c, 3);
    options.watchdog = false;
    hand_start(&hand[0], c.sync, "job", &options);
    cr_assert_eq(hand_done(&hand[0], job_lock), REDLOCK_OK);
    options.min_validity_ms = 59300; /* of 59398 */
    hand_start(&hand[1], c.sync, "job", &options);
    CREW_UNTIL(redlock_hold_valid_ms(hand[0].hold) < options.min_validity_ms);
    hand_do(&hand[1], job_lock);
    CREW_UNTIL(crew_waiting(c.sync, "job") == 1);
    cr_assert_not(has_run_a_script(&c));
    cr_assert_eq(hand_done(&hand[0], job_confirm), REDLOCK_OK);
    cr_assert_eq(hand_await(&hand[1]), REDLOCK_OK);
    cr_assert_str_eq(redlock_hold_token(hand[1].hold), redlock_hold_token(hand[0].hold));
    CREW_UNTIL(has_run_a_script(&c));
    hand_end(&hand[0]);
    hand_end(&hand[1]);
    crew_close(&c);
}

Test(sync, waiting_threads_time_out)
{
    struct crew c;
    struct hand hand[4];
    crew_open(&c, 3);
    queue_up(&c, hand, 4, NULL);
    redlock_hold *none = NULL;
    cr_assert_eq(redlock_try_lock(c.sync, "job", 3, NULL, &none), REDLOCK_TAKEN);
    cr_assert_eq(redlock_lock_for(c.sync, "job", 3, 20, NULL, &none), REDLOCK_TIMEOUT);
    cr_assert_eq(redlock_lock_for(c.sync, "job", 3, 0, NULL, &none), REDLOCK_TIMEOUT);
    cr_assert_eq(crew_waiting(c.sync, "job"), 3);
    for (unsigned i = 0; i < 4; i++) {
        cr_assert_eq(hand_await(&hand[i]), REDLOCK_OK);
        hand_done(&hand[i], job_unlock);
    }
    for (unsigned i = 0; i < 4; i++)
        hand_end(&hand[i]);
    crew_close(&c);
}

/* The first of those who wait asks the nodes; it gives up, and the next one asks. */
Test(sync, first_of_those_who_wait_for_another_process_times_out)
{
    struct crew c;
    struct hand first, second;
    redlock_hold *hold = NULL;
    crew_open(&c, 3);
    redlock_sync *other = crew_sync(&c);
    cr_assert_eq(redlock_lock(other, "job", 3, NULL, &hold), REDLOCK_OK);
    hand_start(&first, c.sync, "job", NULL);
    hand_start(&second, c.sync, "job", NULL);
    first.wait_ms = 50;
    hand_do(&first, job_lock_for);
    CREW_UNTIL(crew_waiting(c.sync, "job") == 1);
    hand_do(&second, job_lock);
    cr_assert_eq(hand_await(&first), REDLOCK_TIMEOUT);
    CREW_UNTIL(crew_waiting(c.sync, "job") == 1);
    cr_assert(hand_is_busy(&second));
    redlock_hold_free(hold);
    cr_assert_eq(hand_await(&second), REDLOCK_OK);
    hand_end(&first);
    hand_end(&second);
    redlock_sync_free(other);
    crew_close(&c);
}
