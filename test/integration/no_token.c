/*
 * The kernel has no random bits for a token: the wait ends, and the queue entry is removed.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "quorum.h"

static bool nothing_is_random;

/* Also for the library. */
ssize_t getrandom(void *bytes, size_t len, unsigned flags)
{
    if (nothing_is_random) {
        errno = ENOSYS;
        return -1;
    }
    return syscall(SYS_getrandom, bytes, len, flags);
}

static void expect_that_nothing_began(const struct reported *reported)
{
    cr_assert_eq(reported->result.took_ms, 0);
    cr_assert_eq(reported->result.granted, 0);
    cr_assert_eq(reported->result.valid_ms, 0);
    cr_assert_eq(reported->result.remaining_ms, REDLOCK_UNKNOWN);
    cr_assert_str_empty(redlock_token(reported->lease));
}

Test(no_token, nothing_is_sent)
{
    struct quorum s;
    struct reported reported = {0};
    quorum_open(&s, 3);
    nothing_is_random = true;
    redlock_lease *lease = quorum_start(&s, "job", NULL, &reported);
    EXPECT_REPORTED(&s, &reported, REDLOCK_SYSTEM);
    expect_that_nothing_began(&reported);
    cr_assert_eq(servers_keys(&s.servers), 0);
    redlock_lease_free(lease);
    nothing_is_random = false;
    lease = quorum_hold(&s, "job", NULL);
    redlock_lease_free(lease);
    quorum_close(&s);
}

/* The tokens of the releases that node 0 got. */
static bool all_are_tokens_or_empty(struct quorum *s)
{
    redisReply *log = servers_run(&s->servers, 0, "SLOWLOG GET 1000");
    bool all = true;
    unsigned seen = 0;
    for (size_t i = 0; i < log->elements; i++) {
        const redisReply *said = log->element[i]->element[3];
        if (said->elements < 5 || strncmp(said->element[0]->str, "EVAL", 4) != 0 ||
            strcmp(said->element[3]->str, "job") != 0)
            continue;
        const redisReply *token = said->element[4];
        seen++;
        for (size_t at = 1; at < token->len; at++)
            all = all && (token->str[0] == 'p' || token->str[at] == token->str[0]);
    }
    freeReplyObject(log);
    cr_assert_gt(seen, 1);
    return all;
}

/* Its queue entry is removed, and the command contains no other memory. */
Test(no_token, a_waiter_leaves_the_queue)
{
    struct quorum s;
    struct reported reported = {0};
    redlock_lease_options options = quorum_lease_options();
    redlock_lease *lease;
    quorum_open(&s, 3);
    servers_do(&s.servers, 0, "CONFIG SET slowlog-log-slower-than 0");
    servers_do(&s.servers, 0, "CONFIG SET slowlog-max-len 1000");
    redlock_lease *holder = quorum_hold(&s, "job", NULL);
    options.wait_ms = LOOP_PATIENCE_MS;
    options.retry = REDLOCK_RETRY_FIXED;
    options.retry_base_ms = 20;
    redlock_client *other = quorum_client(&s, NULL);
    cr_assert_eq(
        redlock_acquire(other, "job", 3, &options, reported_note, &reported, &lease),
        REDLOCK_OK);
    for (unsigned i = 0; i < 3; i++)
        LOOP_UNTIL(s.base, servers_int(&s.servers, i, 1, "ZCARD job!queue"));
    cr_assert_eq(reported.times, 0);
    nothing_is_random = true;
    cr_assert_eq(quorum_release(&s, holder), REDLOCK_OK);
    EXPECT_REPORTED(&s, &reported, REDLOCK_SYSTEM);
    expect_that_nothing_began(&reported);
    nothing_is_random = false;
    LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
    cr_assert(all_are_tokens_or_empty(&s));
    redlock_lease_free(lease);
    redlock_lease_free(holder);
    redlock_client_free(other);
    quorum_close(&s);
}
