/* Elections on real servers: candidates, terms, and observers. */
#include <criterion/criterion.h>

#include "quorum.h"

#define KEY "job"

/* On a busy machine replies may be late: then an observer is told that, too. */
#define UNTIL_SEEN(s, seen, number)                                                        \
    LOOP_UNTIL((s)->base,                                                                  \
               (seen).times > 0 && (seen).code == REDLOCK_OK && (seen).term == (number))

struct seen {
    unsigned times;
    redlock_code code;
    int64_t term, largest;
    char id[REDLOCK_LABEL_MAX + 1], token[REDLOCK_TOKEN_MAX + 1];
};

static void note(redlock_observer *observer, const redlock_leader *leader, void *arg)
{
    struct seen *seen = arg;
    (void)observer;
    seen->times++;
    seen->code = leader->code;
    seen->term = leader->term;
    if (leader->term > seen->largest)
        seen->largest = leader->term;
    snprintf(seen->id, sizeof(seen->id), "%s", leader->id);
    snprintf(seen->token, sizeof(seen->token), "%s", leader->token);
}

static redlock_lease_options options_of_candidate(void)
{
    redlock_lease_options options = quorum_quiet_fenced_options();
    options.kind = REDLOCK_KIND_ELECTION;
    return options;
}

static redlock_observer *observe(redlock_client *client, struct seen *seen)
{
    redlock_observer *observer = NULL;
    memset(seen, 0, sizeof(*seen));
    cr_assert_eq(redlock_observe(client, KEY, strlen(KEY), note, seen, &observer),
                 REDLOCK_OK);
    return observer;
}

Test(elect, an_observer_sees_each_term_and_each_resignation)
{
    struct quorum s;
    struct seen seen;
    redlock_lease_options options = options_of_candidate();
    quorum_open_fenced(&s, 5, NULL);
    redlock_client *other = quorum_client(&s, NULL);
    redlock_observer *observer = observe(other, &seen);
    UNTIL_SEEN(&s, seen, REDLOCK_NO_FENCE);
    cr_assert_str_empty(seen.id);
    int64_t last = 0;
    for (unsigned i = 0; i < 3; i++) {
        redlock_lease *lease = quorum_hold(&s, KEY, &options);
        UNTIL_SEEN(&s, seen, redlock_fence(lease));
        cr_assert_str_eq(seen.token, redlock_token(lease));
        cr_assert_gt(redlock_fence(lease), last);
        last = redlock_fence(lease);
        cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_OK);
        cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
        UNTIL_SEEN(&s, seen, REDLOCK_NO_FENCE);
        redlock_lease_free(lease);
    }
    redlock_observer_free(observer);
    redlock_client_free(other);
    quorum_close(&s);
}

/* The fence was raised by an attempt that failed, and is no term. */
Test(elect, a_lock_without_a_term_has_no_leader)
{
    struct quorum s;
    struct seen seen;
    redlock_lease_options fenced = quorum_quiet_fenced_options();
    quorum_open_fenced(&s, 3, NULL);
    redlock_lease *lease = quorum_hold(&s, KEY, &fenced);
    redlock_observer *observer = observe(s.client, &seen);
    UNTIL_SEEN(&s, seen, REDLOCK_NO_FENCE);
    redlock_observer_free(observer);
    quorum_free_lease(&s, lease);
    quorum_close(&s);
}

#define OTHER "f:abcdefghijklmnopqrstuvwxyz234567"

/* The lock went in another way than by resigning: what is left of the term names nobody. */
Test(elect, a_term_of_a_token_that_holds_no_more_has_no_leader)
{
    struct quorum s;
    struct seen seen;
    redlock_lease_options options = options_of_candidate();
    quorum_open_fenced(&s, 3, NULL);
    redlock_lease *lease = quorum_hold(&s, KEY, &options);
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_OK); /* the term is on all nodes */
    quorum_drain(&s);
    redlock_observer *observer = observe(s.client, &seen);
    UNTIL_SEEN(&s, seen, redlock_fence(lease));
    servers_do_first(&s.servers, 3, "DEL " KEY);
    UNTIL_SEEN(&s, seen, REDLOCK_NO_FENCE);
    redlock_observer_free(observer);
    servers_do_first(&s.servers, 3, "SET " KEY " " OTHER " PX 60000");
    observer = observe(s.client, &seen);
    UNTIL_SEEN(&s, seen, REDLOCK_NO_FENCE);
    cr_assert_eq(seen.largest, REDLOCK_NO_FENCE);
    cr_assert_eq(servers_with(&s.servers, KEY "!term", NULL), 0, "it is still there");
    redlock_observer_free(observer);
    redlock_lease_free(lease);
    quorum_close(&s);
}

static void store_term(struct quorum *s, unsigned i, const char *token, int64_t term)
{
    char text[REDLOCK_TOKEN_MAX + 32];
    snprintf(text, sizeof(text), "%lld %s", (long long)term, token);
    servers_do(&s->servers, i, "SET " KEY " %s PX 60000", token);
    servers_do(&s->servers, i, "SET " KEY "!term %s PX 60000", text);
}

/* Each node names a leader, and no two the same: nobody knows who leads. */
Test(elect, nodes_that_name_different_leaders)
{
    static const char *const tokens[] = {"f:one", "f:two", "f:three"};
    struct quorum s;
    struct seen seen;
    quorum_open_fenced(&s, 3, NULL);
    for (unsigned i = 0; i < 3; i++)
        store_term(&s, i, tokens[i], 7);
    redlock_observer *observer = observe(s.client, &seen);
    LOOP_UNTIL(s.base, seen.code == REDLOCK_NO_QUORUM);
    cr_assert_eq(seen.largest, REDLOCK_NO_FENCE);
    store_term(&s, 1, tokens[0], 7);
    UNTIL_SEEN(&s, seen, 7);
    cr_assert_str_eq(seen.token, tokens[0]);
    redlock_observer_free(observer);
    quorum_close(&s);
}

/* At no moment is there no leader. */
Test(elect, a_leader_follows_another_at_once)
{
    struct quorum s;
    struct seen seen;
    quorum_open_fenced(&s, 3, NULL);
    for (unsigned i = 0; i < 3; i++)
        store_term(&s, i, "f:one", 7);
    redlock_observer *observer = observe(s.client, &seen);
    UNTIL_SEEN(&s, seen, 7);
    for (unsigned i = 0; i < 3; i++)
        store_term(&s, i, "f:two", 8);
    UNTIL_SEEN(&s, seen, 8);
    cr_assert_str_eq(seen.token, "f:two");
    redlock_observer_free(observer);
    quorum_close(&s);
}

/* A delayed command of an earlier leader stored its token and its term again. */
Test(elect, a_smaller_term_than_before_has_no_leader)
{
    struct quorum s;
    struct seen seen;
    redlock_lease_options options = options_of_candidate();
    quorum_open_fenced(&s, 3, NULL);
    redlock_lease *lease = quorum_hold(&s, KEY, &options);
    int64_t term = redlock_fence(lease);
    redlock_observer *observer = observe(s.client, &seen);
    UNTIL_SEEN(&s, seen, term);
    for (unsigned i = 0; i < 3; i++)
        store_term(&s, i, OTHER, term - 1);
    UNTIL_SEEN(&s, seen, REDLOCK_NO_FENCE);
    redlock_observer_free(observer);
    observer = observe(s.client, &seen); /* another one has not seen the larger term */
    UNTIL_SEEN(&s, seen, term - 1);
    redlock_observer_free(observer);
    redlock_lease_free(lease);
    quorum_close(&s);
}

Test(elect, too_few_nodes_and_the_leader_after_them)
{
    struct quorum s;
    struct seen seen;
    redlock_lease_options options = options_of_candidate();
    quorum_open_fenced(&s, 3, NULL);
    redlock_lease *lease = quorum_hold(&s, KEY, &options);
    redlock_observer *observer = observe(s.client, &seen);
    UNTIL_SEEN(&s, seen, redlock_fence(lease));
    servers_stop_first(&s.servers, 2);
    LOOP_UNTIL(s.base, seen.code == REDLOCK_NO_QUORUM);
    servers_cont_first(&s.servers, 2);
    UNTIL_SEEN(&s, seen, redlock_fence(lease));
    redlock_observer_free(observer);
    quorum_free_lease(&s, lease);
    quorum_close(&s);
}

/* Node 2's term does not count: it does not reply. */
Test(elect, nodes_that_go_on_to_differ)
{
    struct quorum s;
    struct seen seen;
    redlock_lease_options options = options_of_candidate();
    quorum_open_fenced(&s, 3, NULL);
    redlock_lease *lease = quorum_hold(&s, KEY, &options);
    redlock_observer *observer = observe(s.client, &seen);
    UNTIL_SEEN(&s, seen, redlock_fence(lease));
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_OK); /* the term is on all nodes */
    quorum_drain(&s);
    servers_stop(&s.servers, 2);
    servers_do(&s.servers, 1, "DEL " KEY " " KEY "!term");
    LOOP_UNTIL(s.base, seen.code == REDLOCK_NO_QUORUM);
    servers_cont(&s.servers, 2);
    UNTIL_SEEN(&s, seen, redlock_fence(lease));
    redlock_observer_free(observer);
    quorum_free_lease(&s, lease);
    quorum_close(&s);
}

/* A quorum has the term; one node may have it only after an extension that knows it. */
static unsigned terms_that_last(struct quorum *s, int64_t ms)
{
    unsigned count = 0;
    for (unsigned i = 0; i < s->servers.n; i++)
        count += servers_number(&s->servers, i, "PTTL " KEY "!term") > ms;
    return count;
}

/* Who adopts a lead by its token leads, though neither option nor fence says so. */
Test(elect, a_lead_is_adopted_by_its_token)
{
    struct quorum s;
    struct seen seen;
    redlock_lease *adopted;
    redlock_lease_options options = options_of_candidate();
    options.ttl_ms /= 4;
    quorum_open_fenced(&s, 3, NULL);
    redlock_client *other = quorum_client(&s, NULL);
    redlock_lease *lease = quorum_hold(&s, KEY, &options);
    redlock_observer *observer = observe(other, &seen);
    UNTIL_SEEN(&s, seen, redlock_fence(lease));
    quorum_drain(&s);
    options = quorum_quiet_options();
    cr_assert_eq(redlock_adopt(other, KEY, strlen(KEY), redlock_token(lease),
                               REDLOCK_UNKNOWN, &options, &adopted),
                 REDLOCK_OK);
    redlock_disown(lease);
    redlock_lease_free(lease);
    cr_assert_eq(quorum_extend(&s, adopted, 0), REDLOCK_OK);
    LOOP_UNTIL(s.base, terms_that_last(&s, options.ttl_ms / 2) >= 2);
    cr_assert_eq(quorum_release(&s, adopted), REDLOCK_OK);
    UNTIL_SEEN(&s, seen, REDLOCK_NO_FENCE);
    redlock_lease_free(adopted);
    redlock_observer_free(observer);
    redlock_client_free(other);
    quorum_close(&s);
}

static void free_it(redlock_observer *observer, const redlock_leader *leader, void *arg)
{
    (void)leader;
    redlock_observer_free(observer);
    ++*(unsigned *)arg;
}

Test(elect, an_observer_is_freed_in_its_callback_or_after_its_client)
{
    struct quorum s;
    struct seen seen;
    unsigned calls = 0;
    redlock_observer *observer;
    quorum_open_fenced(&s, 3, NULL);
    redlock_client *other = quorum_client(&s, NULL);
    redlock_observer *last = observe(other, &seen);
    cr_assert_eq(redlock_observe(s.client, KEY, strlen(KEY), free_it, &calls, &observer),
                 REDLOCK_OK);
    LOOP_UNTIL(s.base, calls == 1);
    redlock_client_free(other);
    redlock_observer_free(last);
    redlock_observer_free(NULL);
    quorum_close(&s);
}
