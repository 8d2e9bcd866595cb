/* Bad input: each has its code, and nothing is started or changed. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "stage.h"

#define SOCKET "unix:///tmp/redlock-test-nothing.sock"

/* --- clients --- */

/* Makes a client that must be refused; the outputs stay as they were. */
static redlock_error refuse(const char *const *uris, size_t count,
                            const redlock_options *options, redlock_code expected)
{
    redlock_client *mark = (redlock_client *)&mark, *client = mark;
    redlock_error error = {.code = REDLOCK_OK};
    struct event_base *base = event_base_new();
    redlock_code code = redlock_client_new(base, uris, count, options, &client, &error);
    cr_assert_eq(code, expected, "%s for %s", redlock_code_name(code),
                 count ? uris[count - 1] : "no URI");
    cr_assert_eq(client, mark);
    cr_assert_eq(error.code, expected);
    cr_assert_gt(strlen(error.text), 5);
    cr_assert_eq(redlock_client_new(base, uris, count, options, &client, NULL), expected);
    cr_assert_eq(client, mark);
    event_base_free(base);
    return error;
}

Test(input, number_of_nodes)
{
    const char *uri[33];
    char text[33][32];
    for (int i = 0; i < 33; i++) {
        snprintf(text[i], sizeof(text[i]), "redis://127.0.0.1:%d", 20000 + i);
        uri[i] = text[i];
    }
    refuse(uri, 0, NULL, REDLOCK_BAD_NODES);
    refuse(NULL, 0, NULL, REDLOCK_BAD_NODES);
    refuse(uri, 33, NULL, REDLOCK_BAD_NODES);
    redlock_client *client = NULL;
    struct event_base *base = event_base_new();
    cr_assert_eq(redlock_client_new(base, uri, 32, NULL, &client, NULL), REDLOCK_OK);
    cr_assert_eq(redlock_client_nodes(client), 32);
    cr_assert_eq(redlock_client_quorum(client), 17);
    redlock_client_free(client);
    event_base_free(base);
}

Test(input, malformed_uris)
{
    static const char *const bad[] = {
        "",
        "localhost",
        "localhost:6379",
        "redis://",
        "redis://:6379",
        "redis://h1,h2",
        "redis://h1:6379,h2:6379",
        "redis://host:0",
        "redis://host:65536",
        "redis://host:-1",
        "redis://host:port",
        "redis://host:6379/x",
        "redis://host:6379/-1",
        "redis://host:6379/1/2",
        "redis://host:6379/99999999999999999999",
        "redis://host:6379?db=1",
        "redis://host:6379#fragment",
        "redis://user:secret%ss@host",
        "redis://user:secret%zz@host",
        "redis://user:secret%00@host",
        "redis://a@b@host",
        "redis://ho st",
        "redis://ho%20st",
        "redis://[::1",
        "redis://[::1]x",
        "redis://::1",
        "redis://host:6379\r\nX",
        "http://host",
        "unix://",
        "unix:///",
        "unix://relative/path",
        "unix:///tmp/x?db=x",
        "unix:///tmp/x?db=-1",
        "unix:///tmp/x?db=",
        "unix:///tmp/x?database=1",
        "unix:///tmp/x?db=1&y=2",
        "unix:///tmp/%00x",
        "unix:///tmp/%zz",
        "unix:///tmp/"
        "01234567890123456789012345678901234567890123456789012345678901234567890"
        "123456789012345678901234567890123456789",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *uri[] = {SOCKET, bad[i]};
        redlock_error error = refuse(uri, 2, NULL, REDLOCK_BAD_URI);
        cr_assert_not_null(strstr(error.text, "node 2"), "%s", error.text);
        cr_assert_null(strstr(error.text, "secret"), "a password is told: %s", error.text);
    }
}

Test(input, a_missing_scheme_is_proposed)
{
    static const char *const rows[][2] = {
        {"127.0.0.1:6379", "did you mean redis://127.0.0.1:6379?"},
        {"localhost:6379", "did you mean redis://localhost:6379?"},
        {"cache-1.example", "did you mean redis://cache-1.example?"},
        {"[::1]:6379", "did you mean redis://[::1]:6379?"},
        {"/run/redis.sock", "did you mean unix:///run/redis.sock?"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *uri[] = {SOCKET, rows[i][0]};
        redlock_error error = refuse(uri, 2, NULL, REDLOCK_BAD_URI);
        cr_assert(strstr(error.text, rows[i][1]), "%s", error.text);
    }
    const char *uri[] = {"secret@host:6379"};
    redlock_error error = refuse(uri, 1, NULL, REDLOCK_BAD_URI);
    cr_assert(!strstr(error.text, "secret") && strstr(error.text, "redis://"), "%s",
              error.text);
}

Test(input, good_uris)
{
    static const struct {
        const char *uri, *shown;
    } good[] = {
        {"redis://host", "redis://host:6379"},
        {"redis://host/", "redis://host:6379"},
        {"redis://user:secret@host:1234/5", "redis://host:1234/5"},
        {"redis://:secret@host", "redis://host:6379"},
        {"redis://user@127.0.0.1:1", "redis://127.0.0.1:1"},
        {"redis://us%40er:se%3Acret%2f@host:65535", "redis://host:65535"},
        {"REDIS://Host", "redis://Host:6379"},
        {"redis://[::1]:7000/15", "redis://[::1]:7000/15"},
        {"redis://my-host_1.example.", "redis://my-host_1.example.:6379"},
        {"unix:///tmp/a%20b.sock", "unix:///tmp/a b.sock"},
        {"unix:///tmp/x.sock?db=3", "unix:///tmp/x.sock?db=3"},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        redlock_client *client = NULL;
        redlock_error error = {0};
        redlock_node node;
        struct event_base *base = event_base_new();
        cr_assert_eq(redlock_client_new(base, &good[i].uri, 1, NULL, &client, &error),
                     REDLOCK_OK, "%s: %s", good[i].uri, error.text);
        cr_assert_eq(redlock_client_explain(client, &node, 1), 1);
        cr_assert_str_eq(node.uri, good[i].shown);
        redlock_client_free(client);
        event_base_free(base);
    }
}

Test(input, duplicate_nodes)
{
    static const char *const same[][2] = {
        {"redis://host:6379", "redis://host"},
        {"redis://host", "redis://user:secret@HOST:6379/3"},
        {"redis://[::1]:1", "redis://[::1]:1"},
        {"unix:///tmp/a.sock", "unix:///tmp/a.sock?db=1"},
        {"unix:///tmp/a.sock", "unix:///tmp/%61.sock"},
    };
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
        refuse(same[i], 2, NULL, REDLOCK_DUPLICATE_NODE);
}

Test(input, tls_is_not_built_in)
{
    static const char *const uri[] = {SOCKET, "rediss://host"};
    refuse(uri, 2, NULL, REDLOCK_NOT_BUILT);
}

static void refuse_option(const redlock_options *options)
{
    static const char *const uri[] = {SOCKET, "redis://b", "redis://c"};
    refuse(uri, 3, options, REDLOCK_BAD_OPTION);
}

#define REFUSE_OPTION(assignment)                                                          \
    do {                                                                                   \
        redlock_options options;                                                           \
        redlock_options_init(&options);                                                    \
        options.assignment;                                                                \
        refuse_option(&options);                                                           \
    } while (0)

Test(input, options_out_of_range)
{
    static char long_text[REDLOCK_KEY_MAX + 1];
    memset(long_text, 'x', REDLOCK_KEY_MAX);
    REFUSE_OPTION(quorum = 1);
    REFUSE_OPTION(quorum = 4);
    REFUSE_OPTION(quorum = UINT32_MAX);
    REFUSE_OPTION(node_timeout_ms = -1);
    REFUSE_OPTION(node_timeout_ms = INT64_MAX);
    REFUSE_OPTION(connect_timeout_ms = 0);
    REFUSE_OPTION(connect_timeout_ms = -5);
    REFUSE_OPTION(connect_timeout_ms = INT64_MAX);
    REFUSE_OPTION(drift_ppm = 1000000);
    REFUSE_OPTION(max_ttl_ms = -1);
    REFUSE_OPTION(max_ttl_ms = REDLOCK_TTL_MAX_MS + 1);
    REFUSE_OPTION(label = "two words");
    REFUSE_OPTION(label = "\n");
    REFUSE_OPTION(label = long_text);
    REFUSE_OPTION(prefix = long_text);
    REFUSE_OPTION(size = 0); /* as if they were never initialized */
}

/* A caller that was built against a later or an earlier header. */
Test(input, options_of_other_sizes)
{
    struct {
        redlock_options options;
        char later[64];
    } long_options = {0};
    static const char *const uri[] = {SOCKET, "redis://b", "redis://c"};
    struct event_base *base = event_base_new();
    redlock_client *client = NULL;
    redlock_options_init(&long_options.options);
    long_options.options.size = sizeof(long_options);
    long_options.options.quorum = 3;
    memset(long_options.later, 0xff, sizeof(long_options.later));
    cr_assert_eq(redlock_client_new(base, uri, 3, &long_options.options, &client, NULL),
                 REDLOCK_OK);
    cr_assert_eq(redlock_client_quorum(client), 3);
    redlock_client_free(client);
    redlock_options short_options;
    redlock_options_init(&short_options);
    short_options.size = offsetof(redlock_options, quorum);
    short_options.quorum = 77; /* not there, as far as the caller knows */
    cr_assert_eq(redlock_client_new(base, uri, 3, &short_options, &client, NULL),
                 REDLOCK_OK);
    cr_assert_eq(redlock_client_quorum(client), 2);
    redlock_client_free(client);
    event_base_free(base);
}

/* --- leases --- */

static struct {
    struct event_base *base;
    redlock_client *client;
} alone;

static void open_alone(const redlock_options *options)
{
    static const char *const uri[] = {SOCKET};
    alone.base = event_base_new();
    cr_assert_eq(redlock_client_new(alone.base, uri, 1, options, &alone.client, NULL),
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
    redlock_error error = {0};
    cr_assert_eq(redlock_acquire_explain(alone.client, key, len, options, &error),
                 expected);
    cr_assert_eq(error.code, expected);
    cr_assert_neq(error.text[0], '\0');
    cr_assert_eq(redlock_acquire_explain(alone.client, key, len, options, NULL), expected);
}

Test(input, keys)
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

/* Fences and markers stand beside the locks: nobody may lock one. */
Test(input, keys_of_our_own)
{
    redlock_options options;
    open_alone(NULL);
    refuse_lease("!marker", 7, NULL, REDLOCK_BAD_KEY);
    refuse_lease("!fence", 6, NULL, REDLOCK_BAD_KEY);
    refuse_lease("job!marker", 10, NULL, REDLOCK_BAD_KEY);
    refuse_lease("job!fence", 9, NULL, REDLOCK_BAD_KEY);
    close_alone();
    redlock_options_init(&options);
    options.prefix = "job!";
    open_alone(&options);
    refuse_lease("fence", 5, NULL, REDLOCK_BAD_KEY);
    refuse_lease("marker", 6, NULL, REDLOCK_BAD_KEY);
    close_alone();
}

Test(input, keys_that_are_almost_ours)
{
    static const char *const fine[] = {"fence", "marker", "!fenc", "!fence2", "!MARKER"};
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

Test(input, times_to_live)
{
    open_alone(NULL);
    REFUSE_LEASE(BAD_TTL, options.ttl_ms = 0);
    REFUSE_LEASE(BAD_TTL, options.ttl_ms = -1);
    REFUSE_LEASE(BAD_TTL, options.ttl_ms = INT64_MIN);
    REFUSE_LEASE(BAD_TTL, options.ttl_ms = 2); /* the drift takes it all */
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

Test(input, lease_options_out_of_range)
{
    open_alone(NULL);
    REFUSE_LEASE(BAD_OPTION, options.size = 0);
    REFUSE_LEASE(BAD_OPTION, options.margin_ms = -1);
    REFUSE_LEASE(BAD_OPTION, options.min_validity_ms = -1);
    REFUSE_LEASE(BAD_OPTION, options.max_hold_ms = -1);
    REFUSE_LEASE(BAD_OPTION, options.wait_ms = INT64_MAX);
    REFUSE_LEASE(BAD_OPTION, options.retry_base_ms = -1);
    REFUSE_LEASE(BAD_OPTION, options.retry_cap_ms = -1);
    REFUSE_LEASE(BAD_OPTION, options.retry_cap_ms = INT64_MAX);
    REFUSE_LEASE(BAD_OPTION, options.retry = REDLOCK_RETRY_CUSTOM);
    REFUSE_LEASE(BAD_OPTION, options.retry = (redlock_retry)99);
    REFUSE_LEASE(BAD_OPTION, options.retry = (redlock_retry)-1);
    close_alone();
}

/* What is said of an option names it, its value and its limits. */
static void expect_reason(redlock_lease_options options, size_t key_len, redlock_code code,
                          const char *text)
{
    static const char key[600] = "key";
    redlock_error error = {0};
    cr_assert_eq(redlock_acquire_explain(alone.client, key, key_len, &options, &error),
                 code);
    cr_assert_eq(error.code, code);
    cr_assert_str_eq(error.text, text);
}

#define EXPECT_REASON(code, text, ...)                                                     \
    do {                                                                                   \
        redlock_lease_options options;                                                     \
        redlock_lease_options_init(&options);                                              \
        __VA_ARGS__;                                                                       \
        expect_reason(options, 3, REDLOCK_##code, text);                                   \
    } while (0)

Test(input, refusals_are_explained)
{
    redlock_options client_options;
    redlock_options_init(&client_options);
    client_options.max_ttl_ms = 60000;
    client_options.prefix = "ours:";
    open_alone(&client_options);
    EXPECT_REASON(OK, "", options.ttl_ms = 60000);
    EXPECT_REASON(BAD_TTL,
                  "the TTL is 90000000 ms, and must be from 1 to 86400000 ms (24 h)",
                  options.ttl_ms = 90000000);
    EXPECT_REASON(BAD_TTL, "the TTL is 60001 ms, and max_ttl_ms is 60000",
                  options.ttl_ms = 60001);
    EXPECT_REASON(BAD_TTL,
                  "the TTL is 1000 ms, of which 988 ms are left after the drift: margin_ms "
                  "and min_validity_ms want more than 988 ms",
                  options.ttl_ms = 1000;
                  options.margin_ms = 988);
    EXPECT_REASON(BAD_OPTION, "margin_ms is -1, and must be from 0 to 31622400000",
                  options.margin_ms = -1);
    EXPECT_REASON(BAD_OPTION, "fences is 65, and must be from 0 to 64",
                  options.fences = 65);
    EXPECT_REASON(BAD_OPTION, "retry is REDLOCK_RETRY_CUSTOM, and retry_fn is NULL",
                  options.retry = REDLOCK_RETRY_CUSTOM);
    EXPECT_REASON(
        BAD_OPTION,
        "max_hold_ms is 5, and must be above margin_ms (7) and min_validity_ms (0)",
        options.max_hold_ms = 5;
        options.margin_ms = 7);
    redlock_lease_options options;
    redlock_lease_options_init(&options);
    expect_reason(options, 0, REDLOCK_BAD_KEY, "the key is empty");
    expect_reason(
        options, 600, REDLOCK_BAD_KEY,
        "the key has 600 bytes and the prefix 5: together at most 512 are possible");
    cr_assert_eq(redlock_acquire_explain(NULL, "key", 3, NULL, NULL), REDLOCK_CLOSED);
    close_alone();
}

Test(input, tokens)
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

Test(input, codes_have_names_and_texts)
{
    cr_assert_str_eq(redlock_code_name(REDLOCK_OK), "OK");
    cr_assert_str_eq(redlock_code_name(REDLOCK_SYSTEM), "SYSTEM");
    for (int code = -1; code < 100; code++) {
        cr_assert_not_null(redlock_code_name((redlock_code)code));
        cr_assert_gt(strlen(redlock_code_text((redlock_code)code)), 5);
    }
}

/* --- what is just within the bounds --- */

static void hold_key(struct stage *s, const void *key, size_t len)
{
    struct told told = {0};
    redlock_lease_options options = stage_lease_options();
    redlock_lease *lease;
    cr_assert_eq(redlock_acquire(s->client, key, len, &options, told_note, &told, &lease),
                 REDLOCK_OK);
    EXPECT_TOLD(s, &told, REDLOCK_OK);
    cr_assert_eq(stage_extend(s, lease, 0), REDLOCK_OK);
    stage_drain(s);
    for (unsigned i = 0; i < s->servers.n; i++)
        cr_assert(servers_text(&s->servers, i, redlock_token(lease), "GET %b", key, len));
    cr_assert_eq(stage_release(s, lease), REDLOCK_OK);
    redlock_lease_free(lease);
    stage_drain(s);
    cr_assert_eq(servers_keys(&s->servers), 0);
}

Test(input, any_bytes_are_a_key)
{
    struct stage s;
    char key[REDLOCK_KEY_MAX];
    stage_open(&s, 3);
    hold_key(&s, "a\0b", 3);
    hold_key(&s, "\0", 1);
    hold_key(&s, "\r\n*1\r\n$8\r\nFLUSHALL\r\n", 20);
    hold_key(&s, "%s{}[]\xff\xfe", 8);
    for (size_t i = 0; i < sizeof(key); i++)
        key[i] = (char)i;
    hold_key(&s, key, sizeof(key));
    stage_close(&s);
}

Test(input, least_and_greatest_ttl)
{
    struct stage s;
    struct told told;
    redlock_lease_options options = stage_lease_options();
    stage_open(&s, 3);
    options.ttl_ms = REDLOCK_TTL_MAX_MS;
    redlock_lease *lease = stage_acquire(&s, "job", &options, &told);
    cr_assert_eq(told.result.code, REDLOCK_OK);
    cr_assert_gt(redlock_valid_ms(lease), REDLOCK_TTL_MAX_MS / 2);
    redlock_lease_free(lease);
    stage_drain(&s);
    options.ttl_ms =
        3; /* less than 1 ms of validity: whatever comes, it is not held long */
    lease = stage_acquire(&s, "job", &options, &told);
    cr_assert_leq(redlock_valid_ms(lease), 1);
    redlock_lease_free(lease);
    stage_drain(&s);
    LOOP_UNTIL(s.base, servers_keys(&s.servers) == 0);
    stage_close(&s);
}

/* The round was won, but too late for what the caller wants to have left. */
Test(input, min_validity_that_is_not_left)
{
    redlock_options client_options = stage_options();
    client_options.node_timeout_ms = 2000;
    redlock_lease_options options = stage_lease_options();
    options.ttl_ms = 1500;
    options.min_validity_ms = 1200;
    struct stage s;
    struct told told = {0};
    redlock_lease *lease;
    stage_open_with(&s, 3, &client_options);
    for (unsigned i = 0; i < 3; i++)
        servers_stop(&s.servers, i);
    cr_assert_eq(redlock_acquire(s.client, "job", 3, &options, told_note, &told, &lease),
                 REDLOCK_OK);
    loop_run_for(s.base, 500);
    for (unsigned i = 0; i < 3; i++)
        servers_cont(&s.servers, i);
    EXPECT_TOLD(&s, &told, REDLOCK_EXPIRED);
    cr_assert_eq(redlock_valid_ms(lease), 0);
    stage_drain(&s);
    cr_assert_eq(servers_keys(&s.servers), 0);
    redlock_lease_free(lease);
    stage_close(&s);
}
