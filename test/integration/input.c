/* Bad input for a client: nothing is started, and no output is changed. And good input. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "quorum.h"
#include "redlock/sync.h"
#include "refusal.h"

#define SOCKET      "unix:///tmp/redlock-test-nothing.sock"
#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

/* Rows override the defaults of options. */
#pragma GCC diagnostic ignored "-Woverride-init"

static void refuse_client(size_t row, const char *const *uris, size_t count,
                          const redlock_options *options, const struct refusal *want)
{
    redlock_client *mark = (redlock_client *)&mark, *client = mark;
    redlock_sync *sync_mark = (redlock_sync *)&mark, *sync = sync_mark;
    struct event_base *base = event_base_new();
    refusal_expect("client_new", row,
                   redlock_client_new(base, uris, count, options, &client), want);
    refusal_expect("sync_new", row, redlock_sync_new(uris, count, options, &sync), want);
    cr_assert(client == mark && sync == sync_mark);
    event_base_free(base);
}

Test(input, number_of_nodes)
{
    static const struct refusal none =
        WHY(BAD_NODES, EMPTY, "nodes", 0, 1, "are 0, and must be from 1 to 32");
    static const struct refusal more =
        WHY(BAD_NODES, OUT_OF_RANGE, "nodes", 33, 32, "are 33, and must be from 1 to 32");
    const char *uris[REDLOCK_NODES_MAX + 1] = {NULL};
    char text[REDLOCK_NODES_MAX][32];
    refuse_client(0, NULL, 0, NULL, &none);
    refuse_client(1, uris, 0, NULL, &none);
    refuse_client(2, uris, REDLOCK_NODES_MAX + 1, NULL, &more);
    redlock_client *client = NULL;
    struct event_base *base = event_base_new();
    for (int i = 0; i < REDLOCK_NODES_MAX; i++) {
        snprintf(text[i], sizeof(text[i]), "redis://127.0.0.1:%d", 20000 + i);
        uris[i] = text[i];
    }
    cr_assert_eq(redlock_client_new(base, uris, 32, NULL, &client), REDLOCK_OK);
    cr_assert_eq(redlock_client_nodes(client), 32);
    cr_assert_eq(redlock_client_quorum(client), 17);
    redlock_client_free(client);
    event_base_free(base);
}

/* One cause each. The text has nothing of the URI, which may be a part of a password. */
static const struct {
    const char *why, *uri[8];
} malformed[] = {
    {"it has no scheme: redis:// or unix://", {"", "secret@host:6379"}},
    {"its scheme is neither redis, rediss nor unix", {"http://host"}},
    {"the host is missing", {"redis://", "redis://:6379"}},
    {"the host has a character that no host has",
     {"redis://h1,h2", "redis://ho%20st", "redis://host%25eth0"}},
    {"an IPv6 address takes brackets, as in redis://[::1]",
     {"redis://::1", "redis://h1:6379,h2:6379"}},
    {"the zone of the address is not like [fe80::1%25eth0]",
     {"redis://[fe80::1%25]", "redis://[fe80::1%25et%20h0]", "redis://[fe80::1%25et%00h0]",
      "redis://[fe80::1%25eth0%25eth1]"}},
    {"the port is not from 1 to 65535", {"redis://host:0", "redis://host:65536"}},
    {"the port is not a number", {"redis://host:-1", "redis://host:port"}},
    {"the database is not a number from 0 to 999999",
     {"redis://host:6379/x", "redis://host:6379/-1", "redis://host:6379/1/2",
      "redis://host:6379/99999999999999999999"}},
    {"\"@\" in a password is written %40", {"redis://:p@ss@a", "redis://a@b@host"}},
    {"\"/\", \"?\" and \"#\" in a password are written %2F, %3F and %23",
     {"redis://:p/ss@a"}},
    {"the password has a NUL byte, %00", {"redis://user:secret%00@host"}},
    {"it has a character that must be written as % and two hexadecimal digits",
     {"redis://user:secret%ss@host", "redis://user:secret%zz@host", "redis://[::1",
      "redis://[::1]x", "redis://[fe80::1%eth0]", /* RFC 6874: %25 */
      "redis://[fe80::1%25eth0", "unix:///tmp/%zz"}},
    {"it has a blank", {"redis://ho st", "redis://host:6379\r\nX"}},
    {"a list takes commas, not blanks", {"redis://a redis://b"}},
    {"it is a list: each URI is an element of its own",
     {"redis://a,redis://b", "unix:///a,unix:///b"}},
    {"it has a query, which only unix:// takes", {"redis://host:6379?db=1"}},
    {"it has a \"#\", which is written %23", {"redis://host:6379#fragment"}},
    {"it is not unix:///path", {"unix://", "unix:///", "unix://relative/path"}},
    {"the query is not db=N",
     {"unix:///x?db=x", "unix:///x?db=-1", "unix:///x?db=", "unix:///x?database=1",
      "unix:///x?db=1&y=2"}},
    {"the path has a NUL byte, %00", {"unix:///tmp/%00x"}},
    {"the path is too long for a unix socket",
     {"unix:///tmp/01234567890123456789012345678901234567890123456789012345678901234567890"
      "123456789012345678901234567890123456789"}},
};

Test(input, malformed_uris)
{
    for (size_t i = 0; i < COUNT(malformed); i++)
        for (size_t j = 0; j < 8 && malformed[i].uri[j]; j++) {
            const char *uris[] = {SOCKET, malformed[i].uri[j]};
            char text[200];
            snprintf(text, sizeof(text), "node 2: the URI is malformed: %s",
                     malformed[i].why);
            refuse_client(i, uris, 2, NULL,
                          &(struct refusal)WHY(BAD_URI, MALFORMED, NULL, 0, 0, text));
        }
}

Test(input, uris_without_a_scheme)
{
    static const char *const rows[][2] = {
        {"host:1", "redis://host:1"},
        {"127.0.0.1:6379", "redis://127.0.0.1:6379"},
        {"localhost", "redis://localhost"},
        {"cache-1.example", "redis://cache-1.example"},
        {"[::1]:6379", "redis://[::1]:6379"},
        {"/run/redis.sock", "unix:///run/redis.sock"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *uris[] = {SOCKET, rows[i][0]};
        char text[200];
        snprintf(text, sizeof(text), "node 2: the URI has no scheme: did you mean %s?",
                 rows[i][1]);
        refuse_client(i, uris, 2, NULL,
                      &(struct refusal)WHY(BAD_URI, MALFORMED, NULL, 0, 0, text));
    }
}

Test(input, duplicate_nodes)
{
    static const char *const same[][3] = {
        {"redis://host:6379", "redis://host", "redis://host:6379"},
        {"redis://host", "redis://user:secret@HOST:6379/3", "redis://HOST:6379/3"},
        {"redis://[::1]:1", "redis://[::1]:1", "redis://[::1]:1"},
        {"redis://[fe80::A%25eth0]:1", "redis://[FE80::a%25eth%30]:1",
         "redis://[FE80::a%25eth0]:1"},
        {"unix:///tmp/a.sock", "unix:///tmp/a.sock?db=1", "unix:///tmp/a.sock?db=1"},
        {"unix:///tmp/a.sock", "unix:///tmp/%61.sock", "unix:///tmp/a.sock"},
    };
    for (size_t i = 0; i < COUNT(same); i++) {
        char text[200];
        snprintf(text, sizeof(text), "nodes 1 and 2 are the same: %s", same[i][2]);
        refuse_client(i, same[i], 2, NULL,
                      &(struct refusal)WHY(DUPLICATE_NODE, TWICE, NULL, 0, 0, text));
    }
}

static char long_text[REDLOCK_KEY_MAX + 1];

#define CLIENT(...)                                                                        \
    {                                                                                      \
        .size = sizeof(redlock_options), .connect_timeout_ms = 1, __VA_ARGS__              \
    }
#define LABEL                                                                              \
    WHY(BAD_OPTION, MALFORMED, "label", 0, 0,                                              \
        "must be one word of at most 64 bytes of printable ASCII")

static const struct {
    redlock_options options;
    struct refusal why;
} client_rows[] = {
    {CLIENT(.size = 0), NO_SIZE("options")},
    {CLIENT(.quorum = 1), LESS("quorum", 1, 2)},
    {CLIENT(.quorum = 4), LESS("quorum", 4, 3)},
    {CLIENT(.quorum = UINT32_MAX), LESS("quorum", UINT32_MAX, 3)},
    {CLIENT(.node_timeout_ms = -1), LESS("node_timeout_ms", -1, 0)},
    {CLIENT(.node_timeout_ms = INT64_MAX), LESS("node_timeout_ms", INT64_MAX, 31622400000)},
    {CLIENT(.connect_timeout_ms = 0), LESS("connect_timeout_ms", 0, 1)},
    {CLIENT(.connect_timeout_ms = -5), LESS("connect_timeout_ms", -5, 1)},
    {CLIENT(.connect_timeout_ms = INT64_MAX),
     LESS("connect_timeout_ms", INT64_MAX, 31622400000)},
    {CLIENT(.drift_ppm = 500001), LESS("drift_ppm", 500001, 500000)},
    {CLIENT(.max_ttl_ms = -1), LESS("max_ttl_ms", -1, 0)},
    {CLIENT(.max_ttl_ms = 86400001), LESS("max_ttl_ms", 86400001, 86400000)},
    {CLIENT(.label = "two words"), LABEL},
    {CLIENT(.label = "\n"), LABEL},
    {CLIENT(.label = long_text), LABEL},
    {CLIENT(.prefix = long_text), WHY(BAD_OPTION, TOO_LONG, "prefix", 512, 511,
                                      "has 512 bytes, and must have at most 511")},
};

Test(input, client_options)
{
    static const char *const uris[] = {SOCKET, "redis://b", "redis://c"};
    memset(long_text, 'x', REDLOCK_KEY_MAX);
    for (size_t i = 0; i < COUNT(client_rows); i++)
        refuse_client(i, uris, 3, &client_rows[i].options, &client_rows[i].why);
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
    if (without_file == REDLOCK_OK)
        refuse_client(0, uri, 2, &options,
                      &(struct refusal)WHY(BAD_OPTION, NONE, "tls_ca_file", 0, 0,
                                           "/tmp/redlock-test-nothing.crt: No such file or "
                                           "directory"));
    else
        cr_assert_eq(without_file, REDLOCK_UNSUPPORTED);
}

/* A caller that was built against a later header. */
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
    cr_assert_eq(redlock_client_new(base, uri, 3, &long_options.options, &client),
                 REDLOCK_OK);
    cr_assert_eq(redlock_client_quorum(client), 3);
    redlock_client_free(client);
    long_options.later[63] = 1;
    redlock_sync *sync = NULL;
    cr_assert_eq(redlock_client_new(base, uri, 3, &long_options.options, &client),
                 REDLOCK_UNSUPPORTED);
    cr_assert_str_eq(redlock_last_error()->field, "size");
    cr_assert_eq(redlock_sync_new(uri, 3, &long_options.options, &sync),
                 REDLOCK_UNSUPPORTED);
    event_base_free(base);
    static const struct refusal no_size = NO_SIZE("options");
    redlock_options short_options;
    redlock_options_init(&short_options);
    short_options.size--; /* of no release */
    refuse_client(0, uri, 3, &short_options, &no_size);
    memset(&short_options, 0xff, sizeof(short_options)); /* never initialized */
    refuse_client(1, uri, 3, &short_options, &no_size);
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
