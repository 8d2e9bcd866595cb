/* A record: it is acquired as a lock, and kept for longer than any. */
#include <criterion/criterion.h>

#include "quorum.h"

#define DAY_MS  INT64_C(86400000)
#define LONGEST REDLOCK_RECORD_MAX_MS
#define MAX_TTL 10000

static redlock_lease_options record_options(void)
{
    redlock_lease_options options = quorum_lease_options();
    options.ttl_ms = MAX_TTL;
    options.kind = REDLOCK_KIND_RECORD;
    return options;
}

Test(record, is_kept_for_longer_than_any_lock)
{
    struct quorum s;
    redlock_options client;
    redlock_lease_options options = record_options();
    redlock_options_init(&client);
    client.max_ttl_ms = MAX_TTL;
    quorum_open_with(&s, 3, &client);
    redlock_lease *lease = quorum_hold(&s, "job", &options);
    cr_assert_eq(redlock_extend(lease, LONGEST + 1, reported_note, NULL), REDLOCK_BAD_TTL);
    cr_assert_eq(quorum_extend(&s, lease, LONGEST), REDLOCK_OK);
    cr_assert_gt(redlock_valid_ms(lease), 60 * DAY_MS);
    redlock_disown(lease);
    redlock_lease_free(lease);
    for (unsigned i = 0; i < 3; i++)
        LOOP_UNTIL(s.base, servers_number(&s.servers, i, "PTTL job") > LONGEST - DAY_MS);
    struct reported other = {0};
    options.wait_ms = 0;
    redlock_lease *taken = quorum_acquire(&s, "job", &options, &other);
    cr_assert_eq(other.result.code, REDLOCK_TAKEN);
    cr_assert_gt(other.result.remaining_ms, 24 * DAY_MS); /* it is told up to that */
    redlock_lease_free(taken);
    quorum_close(&s);
}

/* The clocks are those of one machine. */
Test(record, the_nodes_tell_the_time)
{
    struct quorum s;
    quorum_open_fresh(&s, 3);
    cr_assert_eq(redlock_client_nodes_time(s.client), REDLOCK_UNKNOWN);
    int64_t before = quorum_time_us(&s, 0);
    quorum_await_ready(&s);
    int64_t told = redlock_client_nodes_time(s.client);
    cr_assert_gt(told, before - QUORUM_SLACK_US);
    cr_assert_lt(told, quorum_time_us(&s, 0) + QUORUM_SLACK_US);
    quorum_close(&s);
}
