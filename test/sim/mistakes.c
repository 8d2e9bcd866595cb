#include "mistakes.h"

#include <stdlib.h>
#include <string.h>

#include "oracle.h"
#include "world.h"

#define LONG_LEN 600 /* longer than any key, prefix or token may be */
#define NONE     (-1)

static char too_long[LONG_LEN + 1];

/* Refused, with the reason, and not for want of something. */
static void expect(redlock_code code, redlock_code expected, const char *what)
{
    const redlock_error *error = redlock_last_error();
    bool failed = code == REDLOCK_NO_MEMORY || code == REDLOCK_SYSTEM;
    bool right = code == expected && error->code == code && error->text[0];
    if (!right && !failed)
        oracle_accuse(INVARIANT_TOLD, "%s: %s", what, redlock_code_name(code));
}

/* --- clients --- */

static void expect_no_client(const char *const *uris, size_t count,
                             const redlock_options *options, redlock_code expected)
{
    redlock_client *client = NULL;
    struct event_base *base = process_loop(process_now());
    redlock_code code = redlock_client_new(base, uris, count, options, &client);
    expect(code, expected, uris[count - 1]);
    if (client || redlock_last_error()->code != code)
        oracle_accuse(INVARIANT_TOLD, "a client of %s", uris[count - 1]);
    redlock_client_free(client);
}

/* The first ones are good. */
static void mistake_uris(void)
{
    static const char *const wrong[] = {
        "10.0.0.1",
        "redis://",
        "redis://a b",
        "redis://h:0",
        "redis://h:70000",
        "redis://h/x",
        "redis://h/9999999",
        "redis://h?db=1",
        "redis://u:%00@h",
        "redis://%zz@h",
        "redis://[::1",
        "redis://h#f",
        "http://h",
        "unix://h/s",
        "unix:///",
        "unix:///s?x=1",
        "unix:///s?db=9999999",
        "/run/redis.sock",
        "redis://h_!",
        "redis://[]",
        "",
        too_long,
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const char *uris[] = {"redis://user:pass%20word@h:6380/3", "redis://[::1]:1",
                              "unix://u:p@/run/r.sock?db=2", wrong[i]};
        expect_no_client(uris, 4, NULL, REDLOCK_BAD_URI);
    }
    const char *same[] = {"redis://h", "redis://H:6379"};
    const char *paths[] = {"unix:///s", "unix:///s"};
    expect_no_client(same, 2, NULL, REDLOCK_DUPLICATE_NODE);
    expect_no_client(paths, 2, NULL, REDLOCK_DUPLICATE_NODE);
}

static void mistake_options(void)
{
    const char *const uris[] = {"redis://a", "redis://b", "redis://c"};
    redlock_options wrong[8];
    for (size_t i = 0; i < 8; i++)
        redlock_options_init(&wrong[i]);
    wrong[0].quorum = 1;
    wrong[1].node_timeout_ms = NONE;
    wrong[2].connect_timeout_ms = 0;
    wrong[3].drift_ppm = 1000000;
    wrong[4].max_ttl_ms = NONE;
    wrong[5].label = "two words";
    wrong[6].prefix = too_long;
    wrong[7].size = 0;
    for (size_t i = 0; i < 8; i++)
        expect_no_client(uris, 3, &wrong[i], REDLOCK_BAD_OPTION);
}

/* --- leases --- */

static void expect_no_lease(struct client *client, const char *key, size_t len,
                            const redlock_lease_options *options, redlock_code expected)
{
    redlock_lease *lease = NULL;
    expect(redlock_acquire(client->handle, key, len, options, NULL, NULL, &lease), expected,
           "an acquire");
    if (lease)
        oracle_accuse(INVARIANT_TOLD, "a lease by mistake");
    redlock_lease_free(lease);
}

static void mistake_keys(struct client *client)
{
    expect_no_lease(client, "", 0, NULL, REDLOCK_BAD_KEY);
    expect_no_lease(client, too_long, LONG_LEN, NULL, REDLOCK_BAD_KEY);
    expect_no_lease(client, "x!fence", 7, NULL, REDLOCK_BAD_KEY);
    expect_no_lease(client, "x!queue", 7, NULL, REDLOCK_BAD_KEY);
    expect_no_lease(client, "!marker", 7, NULL, REDLOCK_BAD_KEY);
}

static void mistake_terms(struct client *client)
{
    enum { COUNT = 13 };
    redlock_lease_options wrong[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        redlock_lease_options_init(&wrong[i]);
        wrong[i].ttl_ms = world.plan.ttl_min / VIRTUAL_MS;
    }
    wrong[0].wait_ms = -2;
    wrong[1].margin_ms = NONE;
    wrong[2].min_validity_ms = NONE;
    wrong[3].max_hold_ms = NONE;
    wrong[4].fence = NONE;
    wrong[5].retry = (redlock_retry)99;
    wrong[6].retry = REDLOCK_RETRY_CUSTOM;
    wrong[7].retry_base_ms = NONE;
    wrong[8].size = 0;
    wrong[9].margin_ms = wrong[9].max_hold_ms = 1;
    wrong[10].ttl_ms = 0;
    wrong[11].ttl_ms = REDLOCK_TTL_MAX_MS + 1;
    wrong[12].margin_ms = wrong[12].ttl_ms;
    for (size_t i = 0; i < COUNT; i++)
        expect_no_lease(client, "stock", 5, &wrong[i],
                        i < 10 ? REDLOCK_BAD_OPTION : REDLOCK_BAD_TTL);
}

static void mistake_adoptions(struct client *client)
{
    redlock_lease *lease = NULL;
    redlock_client *handle = client->handle;
    expect(redlock_adopt(handle, "stock", 5, "", 10, NULL, &lease), REDLOCK_BAD_TOKEN,
           "an empty token");
    expect(redlock_adopt(handle, "stock", 5, too_long, 10, NULL, &lease), REDLOCK_BAD_TOKEN,
           "a long token");
    expect(redlock_adopt(handle, "", 0, "token", 10, NULL, &lease), REDLOCK_BAD_KEY,
           "an empty key");
    expect(redlock_adopt(handle, "stock", 5, "token", -5, NULL, &lease), REDLOCK_BAD_OPTION,
           "a time below none");
    if (lease)
        oracle_accuse(INVARIANT_TOLD, "a lease by mistake");
    redlock_lease_free(lease);
}

/* Nothing is there: as free(NULL). */
static void mistake_nothing(void)
{
    redlock_node node[1];
    redlock_lease *lease = NULL;
    expect(redlock_acquire(NULL, "stock", 5, NULL, NULL, NULL, &lease), REDLOCK_CLOSED,
           "an acquire of no client");
    expect(redlock_extend(NULL, 0, NULL, NULL), REDLOCK_CLOSED, "an extension of nothing");
    expect(redlock_release(NULL, NULL, NULL), REDLOCK_CLOSED, "a release of nothing");
    redlock_cancel(NULL);
    redlock_disown(NULL);
    redlock_lease_free(NULL);
    redlock_client_free(NULL);
    if (redlock_valid_ms(NULL) != 0 || redlock_fence(NULL) != 0 ||
        redlock_token(NULL)[0] != '\0' || redlock_explain(NULL, node, 1) != 0)
        oracle_accuse(INVARIANT_TOLD, "something of nothing");
}

/* --- operators --- */

static void mistake_operations(struct client *client)
{
    redlock_client *handle = client->handle;
    expect(redlock_check(handle, 0, NULL, NULL), REDLOCK_BAD_OPTION, "a check for nobody");
    expect(redlock_client_drain(handle, 0, NULL, NULL), REDLOCK_BAD_OPTION,
           "a drain for nobody");
    expect(redlock_inspect(handle, "stock", 5, NULL, NULL), REDLOCK_BAD_OPTION,
           "an inspection for nobody");
    expect(redlock_break(handle, "", 0, NULL, NULL), REDLOCK_BAD_KEY, "a break of no key");
}

/* --- names --- */

#define NUMBERS 80

static void ask_names(void)
{
    bool all = true;
    for (int i = 0; i < NUMBERS; i++)
        all = all && redlock_code_name((redlock_code)i) &&
              redlock_code_text((redlock_code)i) && redlock_fault_name((redlock_fault)i) &&
              redlock_fault_text((redlock_fault)i) &&
              redlock_verdict_name((redlock_verdict)i) &&
              redlock_verdict_text((redlock_verdict)i) &&
              redlock_member_state_name((redlock_member_state)i) &&
              redlock_member_state_text((redlock_member_state)i);
    if (!all || !redlock_version())
        oracle_accuse(INVARIANT_TOLD, "a name is missing");
}

void mistakes_make(struct client *client)
{
    memset(too_long, 'k', LONG_LEN);
    mistake_uris();
    mistake_options();
    mistake_keys(client);
    mistake_terms(client);
    mistake_adoptions(client);
    mistake_nothing();
    mistake_operations(client);
    ask_names();
}
