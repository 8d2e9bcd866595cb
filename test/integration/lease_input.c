/* Bad input for a lease: each case has its code, and nothing is started or changed. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "quorum.h"

#define SOCKET "unix:///tmp/redlock-test-nothing.sock"

static struct {
    struct event_base *base;
    redlock_client *client;
} alone;

static void open_alone(const redlock_options *options)
{
    static const char *const uri[] = {SOCKET};
    alone.base = event_base_new();
    cr_assert_eq(redlock_client_new(alone.base, uri, 1, options, &alone.client),
                 REDLOCK_OK);
}

static void close_alone(void)
{
    redlock_client_free(alone.client);
    event_base_free(alone.base);
}

static void must_not_be_called(redlock_lease *lease, const redlock_result *result,
                               void *arg)
{
    (void)lease;
    (void)result;
    (void)arg;
    cr_assert_fail("it was not started");
}

/* These only report. */
Test(lease_input, no_callback)
{
    open_alone(NULL);
    cr_assert_eq(redlock_inspect(alone.client, "job", 3, NULL, NULL), REDLOCK_BAD_OPTION);
    cr_assert_eq(redlock_check(alone.client, 0, NULL, NULL), REDLOCK_BAD_OPTION);
    cr_assert_eq(redlock_client_drain(alone.client, 0, NULL, NULL), REDLOCK_BAD_OPTION);
    close_alone();
}

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

static void refuse_lease(const void *key, size_t len, const redlock_lease_options *options,
                         redlock_code expected)
{
    redlock_lease *mark = (redlock_lease *)&mark, *lease = mark;
    redlock_code code =
        redlock_acquire(alone.client, key, len, options, must_not_be_called, NULL, &lease);
    cr_assert_eq(code, expected, "%s, not %s", redlock_code_name(code),
                 redlock_code_name(expected));
    cr_assert_eq(lease, mark);
    cr_assert_eq(redlock_adopt(alone.client, key, len, "token", 0, options, &lease),
                 expected);
    cr_assert_eq(lease, mark);
    cr_assert_eq(redlock_last_error()->code, expected);
}

Test(lease_input, keys)
{
    static char key[REDLOCK_KEY_MAX + 1];
    redlock_options options;
    open_alone(NULL);
    refuse_lease(key, 0, NULL, REDLOCK_BAD_KEY);
    refuse_lease(key, REDLOCK_KEY_MAX + 1, NULL, REDLOCK_BAD_KEY);
    refuse_lease(key, SIZE_MAX, NULL, REDLOCK_BAD_KEY);
    close_alone();
    redlock_options_init(&options);
    options.prefix = "prefix:";
    open_alone(&options);
    refuse_lease(key, 0, NULL, REDLOCK_BAD_KEY);
    refuse_lease(key, REDLOCK_KEY_MAX - 6, NULL, REDLOCK_BAD_KEY);
    close_alone();
}

/* What the library stores beside a lock, now or in a later release: no client may lock it.
 */
Test(lease_input, reserved_keys)
{
    static const char *const reserved[] = {"!marker", "!fence",   "job!marker", "job!fence",
                                           "job!z",   "a!b!hold", "job!1!a",    "!later"};
    redlock_options options;
    open_alone(NULL);
    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
        refuse_lease(reserved[i], strlen(reserved[i]), NULL, REDLOCK_BAD_KEY);
    close_alone();
    redlock_options_init(&options);
    options.prefix = "job!";
    open_alone(&options);
    refuse_lease("fence", 5, NULL, REDLOCK_BAD_KEY);
    refuse_lease("later", 5, NULL, REDLOCK_BAD_KEY);
    close_alone();
}

Test(lease_input, keys_that_are_almost_reserved)
{
    static const char *const fine[] = {"fence",   "marker",  "!",         "job!",
                                       "!MARKER", "!fence2", "job!fencE", "job!1",
                                       "a!b c",   "a!\xe4",  "a!b!",      "!fence:x"};
    open_alone(NULL);
    for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++) {
        redlock_lease *lease = NULL;
        cr_assert_eq(
            redlock_adopt(alone.client, fine[i], strlen(fine[i]), "token", 0, NULL, &lease),
            REDLOCK_OK, "%s", fine[i]);
        redlock_lease_free(lease);
    }
    close_alone();
}

#define REFUSE_LEASE(code, ...)                                                            \
    do {                                                                                   \
        redlock_lease_options options;                                                     \
        redlock_lease_options_init(&options);                                              \
        __VA_ARGS__;                                                                       \
        refuse_lease("key", 3, &options, REDLOCK_##code);                                  \
    } while (0)

Test(lease_input, times_to_live)
{
    open_alone(NULL);
    REFUSE_LEASE(BAD_TTL, options.ttl_ms = 0);
    REFUSE_LEASE(BAD_TTL, options.ttl_ms = -1);
    REFUSE_LEASE(BAD_TTL, options.ttl_ms = INT64_MIN);
    REFUSE_LEASE(BAD_TTL, options.ttl_ms = 2); /* the drift uses all of it */
    REFUSE_LEASE(BAD_TTL, options.ttl_ms = REDLOCK_TTL_MAX_MS + 1);
    REFUSE_LEASE(BAD_TTL, options.ttl_ms = INT64_MAX);
    REFUSE_LEASE(BAD_TTL, options.ttl_ms = 1000; options.margin_ms = 1000);
    REFUSE_LEASE(BAD_TTL, options.ttl_ms = 1000; options.margin_ms = 988);
    REFUSE_LEASE(BAD_TTL, options.ttl_ms = 1000; options.min_validity_ms = 990);
    close_alone();
    redlock_options client_options;
    redlock_options_init(&client_options);
    client_options.max_ttl_ms = 1000;
    open_alone(&client_options);
    REFUSE_LEASE(BAD_TTL, options.ttl_ms = 1001);
    close_alone();
}

Test(lease_input, lease_options_out_of_range)
{
    open_alone(NULL);
    REFUSE_LEASE(BAD_OPTION, options.size = 0);
    REFUSE_LEASE(BAD_OPTION, options.margin_ms = -1);
    REFUSE_LEASE(BAD_OPTION, options.min_validity_ms = -1);
    REFUSE_LEASE(BAD_OPTION, options.max_hold_ms = -1);
    REFUSE_LEASE(BAD_OPTION, options.wait_ms = INT64_MAX);
    REFUSE_LEASE(BAD_OPTION, options.wait_ms = REDLOCK_FOREVER - 1);
    REFUSE_LEASE(BAD_OPTION, options.retry_base_ms = -1);
    REFUSE_LEASE(BAD_OPTION, options.retry_cap_ms = -1);
    REFUSE_LEASE(BAD_OPTION, options.retry_cap_ms = INT64_MAX);
    REFUSE_LEASE(BAD_OPTION, options.retry = REDLOCK_RETRY_CUSTOM);
    REFUSE_LEASE(BAD_OPTION, options.retry = (redlock_retry)99);
    REFUSE_LEASE(BAD_OPTION, options.retry = (redlock_retry)-1);
    close_alone();
}

/* The error of an option names the option, its value and its limits. */
static void expect_reason(redlock_lease_options options, size_t key_len, redlock_code code,
                          const char *text)
{
    static const char key[600] = "key";
    redlock_lease *none;
    cr_assert_eq(redlock_acquire(alone.client, key, key_len, &options, must_not_be_called,
                                 NULL, &none),
                 code);
    cr_assert_eq(redlock_last_error()->code, code);
    cr_assert_str_eq(redlock_last_error()->text, text);
}

#define EXPECT_REASON(code, text, ...)                                                     \
    do {                                                                                   \
        redlock_lease_options options;                                                     \
        redlock_lease_options_init(&options);                                              \
        __VA_ARGS__;                                                                       \
        expect_reason(options, 3, REDLOCK_##code, text);                                   \
    } while (0)

Test(lease_input, refusals_are_explained)
{
    redlock_options client_options;
    redlock_options_init(&client_options);
    client_options.max_ttl_ms = 60000;
    client_options.prefix = "ours:";
    open_alone(&client_options);
    EXPECT_REASON(BAD_TTL, "ttl_ms is 90000000, and must be at most 86400000",
                  options.ttl_ms = 90000000);
    EXPECT_REASON(BAD_TTL,
                  "ttl_ms is 60001, and must be at most 60000: the TTL is longer than the "
                  "client\'s longest TTL",
                  options.ttl_ms = 60001);
    EXPECT_REASON(BAD_TTL,
                  "ttl_ms is 1000, and must be at least 1001: the margin takes all of the "
                  "TTL",
                  options.ttl_ms = 1000;
                  options.margin_ms = 988);
    EXPECT_REASON(BAD_OPTION, "margin_ms is -1, and must be at least 0",
                  options.margin_ms = -1);
    EXPECT_REASON(BAD_OPTION, "retry_fn is NULL, and a custom retry policy needs it",
                  options.retry = REDLOCK_RETRY_CUSTOM);
    EXPECT_REASON(
        BAD_OPTION,
        "max_hold_ms is 5, and must be at least 8: longer than the margin and the least "
        "validity",
        options.max_hold_ms = 5;
        options.margin_ms = 7);
    redlock_lease_options options;
    redlock_lease_options_init(&options);
    expect_reason(options, 0, REDLOCK_BAD_KEY, "key is empty");
    expect_reason(options, 600, REDLOCK_BAD_KEY,
                  "key has 600 bytes, and must have at most 507");
    close_alone();
}

Test(lease_input, tokens)
{
    char token[REDLOCK_TOKEN_MAX + 2];
    redlock_lease *mark = (redlock_lease *)&mark, *lease = mark;
    memset(token, 't', sizeof(token));
    token[REDLOCK_TOKEN_MAX + 1] = '\0';
    open_alone(NULL);
    cr_assert_eq(redlock_adopt(alone.client, "key", 3, "", 0, NULL, &lease),
                 REDLOCK_BAD_TOKEN);
    cr_assert_eq(redlock_adopt(alone.client, "key", 3, token, 0, NULL, &lease),
                 REDLOCK_BAD_TOKEN);
    cr_assert_eq(lease, mark);
    token[REDLOCK_TOKEN_MAX] = '\0';
    cr_assert_eq(redlock_adopt(alone.client, "key", 3, token, 0, NULL, &lease), REDLOCK_OK);
    cr_assert_str_eq(redlock_token(lease), token);
    redlock_lease_free(lease);
    close_alone();
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

/* --- just within the limits --- */

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
