/* Arguments and options of a lease that are just within the limits. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "quorum.h"

/* The lock is acquired, extended and released all the same. */
Test(lease_input, no_callback_of_a_lease)
{
    struct quorum s;
    redlock_lease *lease;
    redlock_lease_options options = quorum_lease_options();
    quorum_open(&s, 3);
    cr_assert_eq(redlock_acquire(s.client, "job", 3, &options, NULL, NULL, &lease),
                 REDLOCK_OK);
    LOOP_UNTIL(s.base, redlock_valid_ms(lease) > 0);
    int64_t longer_ms = 2 * options.ttl_ms;
    cr_assert_eq(redlock_extend(lease, longer_ms, NULL, NULL), REDLOCK_OK);
    cr_assert_eq(redlock_extend(lease, longer_ms, NULL, NULL), REDLOCK_BUSY);
    LOOP_UNTIL(s.base, redlock_valid_ms(lease) > options.ttl_ms);
    cr_assert_eq(redlock_release(lease, NULL, NULL), REDLOCK_OK);
    cr_assert_eq(redlock_release(lease, NULL, NULL), REDLOCK_NOT_HELD);
    LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
    redlock_lease_free(lease);
    quorum_close(&s);
}

Test(lease_input, codes_have_names_and_texts)
{
    cr_assert_str_eq(redlock_code_name(REDLOCK_OK), "OK");
    cr_assert_str_eq(redlock_code_name(REDLOCK_SYSTEM), "SYSTEM");
    for (int code = -1; code < 100; code++) {
        cr_assert_not_null(redlock_code_name((redlock_code)code));
        cr_assert_gt(strlen(redlock_code_text((redlock_code)code)), 5);
    }
}

static void hold_key(struct quorum *s, const void *key, size_t len)
{
    struct reported reported = {0};
    redlock_lease_options options = quorum_lease_options();
    redlock_lease *lease;
    cr_assert_eq(
        redlock_acquire(s->client, key, len, &options, reported_note, &reported, &lease),
        REDLOCK_OK);
    EXPECT_REPORTED(s, &reported, REDLOCK_OK);
    cr_assert_eq(quorum_extend(s, lease, 0), REDLOCK_OK);
    quorum_drain(s);
    for (unsigned i = 0; i < s->servers.n; i++)
        cr_assert(servers_text(&s->servers, i, redlock_token(lease), "GET %b", key, len));
    cr_assert_eq(quorum_release(s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    quorum_expect_empty(s);
}

Test(lease_input, any_bytes_are_a_key)
{
    struct quorum s;
    char key[REDLOCK_KEY_MAX];
    quorum_open(&s, 3);
    hold_key(&s, "a\0b", 3);
    hold_key(&s, "\0", 1);
    hold_key(&s, "\r\n*1\r\n$8\r\nFLUSHALL\r\n", 20);
    hold_key(&s, "%s{}[]\xff\xfe", 8);
    for (size_t i = 0; i < sizeof(key); i++)
        key[i] = (char)i;
    hold_key(&s, key, sizeof(key));
    quorum_close(&s);
}

/* The caller may change its memory as soon as the call has returned. */
Test(lease_input, arguments_are_copied)
{
    struct quorum s;
    char uri[120], prefix[] = "ours:", label[] = "label", key[] = "job", token[] = "ptoken";
    const char *uris[] = {uri};
    struct reported reported = {0};
    redlock_lease *lease, *adopted;
    redlock_lease_options lease_options = quorum_lease_options();
    redlock_options options = quorum_options();
    options.prefix = prefix;
    options.label = label;
    quorum_open(&s, 1);
    redlock_client_free(s.client);
    strcpy(uri, s.servers.uri[0]);
    cr_assert_eq(redlock_client_new(s.base, uris, 1, &options, &s.client), REDLOCK_OK);
    cr_assert_eq(
        redlock_acquire(s.client, key, 3, &lease_options, reported_note, &reported, &lease),
        REDLOCK_OK);
    cr_assert_eq(redlock_adopt(s.client, key, 3, token, 0, &lease_options, &adopted),
                 REDLOCK_OK);
    memset(uri, 'x', strlen(uri));
    memset(prefix, 'x', strlen(prefix));
    memset(label, 'x', strlen(label));
    memset(key, 'x', strlen(key));
    memset(token, 'x', strlen(token));
    memset(&options, 0xff, sizeof(options));
    memset(&lease_options, 0xff, sizeof(lease_options));
    EXPECT_REPORTED(&s, &reported, REDLOCK_OK);
    cr_assert_eq(servers_with(&s.servers, "ours:job", redlock_token(lease)), 1);
    redlock_lease *later = quorum_hold(&s, "later", NULL);
    cr_assert_eq(servers_with(&s.servers, "ours:later", redlock_token(later)), 1);
    cr_assert_str_eq(strchr(redlock_token(later), '@'), "@label");
    redlock_lease_free(later);
    cr_assert_str_eq(redlock_token(adopted), "ptoken");
    cr_assert_eq(quorum_extend(&s, adopted, 0), REDLOCK_TAKEN);
    redlock_lease_free(adopted);
    redlock_lease_free(lease);
    quorum_drain(&s);
    quorum_close(&s);
}

Test(lease_input, least_and_greatest_ttl)
{
    struct quorum s;
    struct reported reported;
    redlock_lease_options options = quorum_lease_options();
    quorum_open(&s, 3);
    options.ttl_ms = REDLOCK_TTL_MAX_MS;
    redlock_lease *lease = quorum_acquire(&s, "job", &options, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_OK);
    cr_assert_gt(redlock_valid_ms(lease), REDLOCK_TTL_MAX_MS / 2);
    quorum_free_lease(&s, lease);
    options.ttl_ms = 3; /* less than 1 ms of validity: in no case is it held for long */
    lease = quorum_acquire(&s, "job", &options, &reported);
    cr_assert_leq(redlock_valid_ms(lease), 1);
    quorum_free_lease(&s, lease);
    LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
    quorum_close(&s);
}

/* The round was won, but less than min_validity_ms is left. */
Test(lease_input, too_little_left_of_min_validity)
{
    redlock_options client_options = quorum_options();
    client_options.node_timeout_ms = 2000;
    redlock_lease_options options = quorum_lease_options();
    options.ttl_ms = 1500;
    options.min_validity_ms = 1200;
    struct quorum s;
    struct reported reported = {0};
    quorum_open_with(&s, 3, &client_options);
    servers_stop_first(&s.servers, 3);
    redlock_lease *lease = quorum_start(&s, "job", &options, &reported);
    loop_run_for(s.base, 500);
    servers_cont_first(&s.servers, 3);
    EXPECT_REPORTED(&s, &reported, REDLOCK_EXPIRED);
    cr_assert_eq(redlock_valid_ms(lease), 0);
    quorum_expect_empty(&s);
    redlock_lease_free(lease);
    quorum_close(&s);
}
