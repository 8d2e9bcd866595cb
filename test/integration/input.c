/* Bad input for a client: each case has its code, and nothing is started or changed. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "quorum.h"

#define SOCKET "unix:///tmp/redlock-test-nothing.sock"

/* Creates a client that must be refused; the outputs stay unchanged. */
static const redlock_error *refuse(const char *const *uris, size_t count,
                                   const redlock_options *options, redlock_code expected)
{
    redlock_client *mark = (redlock_client *)&mark, *client = mark;
    struct event_base *base = event_base_new();
    redlock_code code = redlock_client_new(base, uris, count, options, &client);
    cr_assert_eq(code, expected, "%s for %s", redlock_code_name(code),
                 count ? uris[count - 1] : "no URI");
    cr_assert_eq(client, mark);
    cr_assert_eq(redlock_last_error()->code, expected);
    cr_assert_gt(strlen(redlock_last_error()->text), 5);
    event_base_free(base);
    return redlock_last_error();
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
    cr_assert_eq(redlock_client_new(base, uri, 32, NULL, &client), REDLOCK_OK);
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
        "redis://[fe80::1%eth0]", /* RFC 6874: %25 */
        "redis://[fe80::1%25]",
        "redis://[fe80::1%25eth0",
        "redis://[fe80::1%25et%20h0]",
        "redis://[fe80::1%25et%00h0]",
        "redis://[fe80::1%25eth0%25eth1]",
        "redis://host%25eth0",
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
        const char *error = refuse(uri, 2, NULL, REDLOCK_BAD_URI)->text;
        cr_assert_not_null(strstr(error, "node 2"), "%s", error);
        cr_assert_null(strstr(error, "secret"), "the error contains a password: %s", error);
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
        const char *error = refuse(uri, 2, NULL, REDLOCK_BAD_URI)->text;
        cr_assert(strstr(error, rows[i][1]), "%s", error);
    }
    const char *uri[] = {"secret@host:6379"};
    const char *error = refuse(uri, 1, NULL, REDLOCK_BAD_URI)->text;
    cr_assert(!strstr(error, "secret") && strstr(error, "redis://"), "%s", error);
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
        {"redis://[fe80::1%25eth0]", "redis://[fe80::1%25eth0]:6379"},
        {"redis://a:b@[FE80::1%25br%2D0.5]:7/1", "redis://[FE80::1%25br-0.5]:7/1"},
        {"redis://my-host_1.example.", "redis://my-host_1.example.:6379"},
        {"unix:///tmp/a%20b.sock", "unix:///tmp/a b.sock"},
        {"unix:///tmp/x.sock?db=3", "unix:///tmp/x.sock?db=3"},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        redlock_client *client = NULL;
        redlock_node node;
        struct event_base *base = event_base_new();
        cr_assert_eq(redlock_client_new(base, &good[i].uri, 1, NULL, &client), REDLOCK_OK,
                     "%s: %s", good[i].uri, redlock_last_error()->text);
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
        {"redis://[fe80::A%25eth0]:1", "redis://[FE80::a%25eth%30]:1"},
        {"unix:///tmp/a.sock", "unix:///tmp/a.sock?db=1"},
        {"unix:///tmp/a.sock", "unix:///tmp/%61.sock"},
    };
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
        refuse(same[i], 2, NULL, REDLOCK_DUPLICATE_NODE);
}

/* One address may exist on each interface, whose names are case-sensitive. */
Test(input, hosts_that_are_not_the_same)
{
    static const char *const uris[] = {
        "redis://[fe80::1%25eth0]", "redis://[fe80::1%25ETH0]", "redis://[fe80::1%25eth]",
        "redis://[fe80::1]",        "redis://[fe80::11]",       "redis://10.0.0.10",
        "redis://10.0.0.1",         "redis://10.0.0.101"};
    struct event_base *base = event_base_new();
    redlock_client *client = NULL;
    cr_assert_eq(redlock_client_new(base, uris, 8, NULL, &client), REDLOCK_OK);
    redlock_client_free(client);
    event_base_free(base);
}

Test(input, a_name_that_begins_with_another_one)
{
    static const char *const uris[] = {"redis://node1", "redis://node10", "redis://node"};
    struct event_base *base = event_base_new();
    redlock_client *client = NULL;
    cr_assert_eq(redlock_client_new(base, uris, 3, NULL, &client), REDLOCK_OK, "%s",
                 redlock_last_error()->text);
    redlock_client_free(client);
    event_base_free(base);
}

/* Also in a build without TLS. */
Test(input, tls_with_a_file_that_is_not_there)
{
    static const char *const uri[] = {SOCKET, "rediss://host"};
    redlock_options options;
    redlock_options_init(&options);
    struct event_base *base = event_base_new();
    redlock_client *client = NULL;
    redlock_code without_file = redlock_client_new(base, uri, 2, &options, &client);
    redlock_client_free(client);
    event_base_free(base);
    options.tls_ca_file = "/tmp/redlock-test-nothing.crt";
    bool has_tls = without_file == REDLOCK_OK;
    refuse(uri, 2, &options, has_tls ? REDLOCK_BAD_OPTION : REDLOCK_UNSUPPORTED);
    if (has_tls)
        cr_assert_str_eq(redlock_last_error()->field, "tls_ca_file");
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
    cr_assert_eq(redlock_client_new(base, uri, 3, &long_options.options, &client),
                 REDLOCK_OK);
    cr_assert_eq(redlock_client_quorum(client), 3);
    redlock_client_free(client);
    redlock_options short_options;
    redlock_options_init(&short_options);
    short_options.size = offsetof(redlock_options, quorum);
    short_options.quorum = 77; /* the caller's struct does not have it */
    cr_assert_eq(redlock_client_new(base, uri, 3, &short_options, &client), REDLOCK_OK);
    cr_assert_eq(redlock_client_quorum(client), 2);
    redlock_client_free(client);
    event_base_free(base);
}

static bool is_byte(const void *memory, size_t from, size_t to, unsigned char byte)
{
    const unsigned char *bytes = memory;
    while (from < to && bytes[from] == byte)
        from++;
    return from == to;
}

/* The library writes no more than the size that the program was built with. */
Test(input, structs_of_other_sizes)
{
    enum { LATER = 64 };
    static const char *const uri[] = {SOCKET, "redis://b", "redis://c"};
    const size_t earlier = offsetof(redlock_node, holder),
                 later = sizeof(redlock_node) + LATER;
    unsigned char memory[3 * (sizeof(redlock_node) + LATER)];
    struct event_base *base = event_base_new();
    redlock_client *client = NULL;
    redlock_node node;
    memset(memory, 0xee, sizeof(memory));
    redlock_options_init_sized((redlock_options *)memory,
                               offsetof(redlock_options, quorum));
    cr_assert(is_byte(memory, offsetof(redlock_options, quorum), sizeof(memory), 0xee));
    redlock_lease_options_init_sized((redlock_lease_options *)memory,
                                     offsetof(redlock_lease_options, on_lost));
    cr_assert(
        is_byte(memory, offsetof(redlock_lease_options, on_lost), sizeof(memory), 0xee));
    cr_assert_eq(redlock_client_new(base, uri, 3, NULL, &client), REDLOCK_OK);
    memset(memory, 0xee, sizeof(memory));
    redlock_client_explain_sized(client, (redlock_node *)memory, 2, earlier);
    memcpy(&node, memory + earlier, earlier);
    cr_assert_str_eq(node.uri, "redis://b:6379");
    cr_assert(is_byte(memory, 2 * earlier, sizeof(memory), 0xee));
    redlock_client_explain_sized(client, (redlock_node *)memory, 3, later);
    memcpy(&node, memory + 2 * later, sizeof(node));
    cr_assert_str_eq(node.uri, "redis://c:6379");
    cr_assert(is_byte(memory, 3 * later - LATER, 3 * later, 0), "unknown members are 0");
    redlock_client_free(client);
    event_base_free(base);
}
