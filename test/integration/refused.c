/*
 * Calls that are refused at once: nothing is started, and no output is changed. No node is
 * needed. Those that make a client: input.c.
 */
#include <criterion/criterion.h>
#include <event2/event.h>

#include "redlock/stats.h"
#include "refusal.h"

#define SOCKET      "unix:///tmp/redlock-test-nothing.sock"
#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

/* Rows override the defaults of options. */
#pragma GCC diagnostic ignored "-Woverride-init"

static struct {
    struct event_base *base;
    redlock_client *client;
    redlock_sync *sync;
} alone;

static redlock_options client_options(void)
{
    redlock_options options;
    redlock_options_init(&options);
    options.max_ttl_ms = 60000;
    options.prefix = "ours:";
    return options;
}

static void open_alone(const redlock_options *options)
{
    static const char *const uri[] = {SOCKET};
    alone.base = event_base_new();
    cr_assert_eq(redlock_client_new(alone.base, uri, 1, options, &alone.client),
                 REDLOCK_OK);
    cr_assert_eq(redlock_sync_new(uri, 1, options, &alone.sync), REDLOCK_OK);
}

static void close_alone(void)
{
    redlock_client_free(alone.client);
    redlock_sync_free(alone.sync);
    event_base_free(alone.base);
    cr_assert_eq(refusal_calls, 0);
}

static void open_default(void)
{
    redlock_options options = client_options();
    open_alone(&options);
}

TestSuite(refused, .init = open_default, .fini = close_alone);

/* --- leases and locks --- */

static char long_text[REDLOCK_KEY_MAX + 1];

static const redlock_key one[] = {{"job", 3}}, two[] = {{"a", 1}, {"b", 1}};
static const redlock_key none[] = {{"a", 1}, {"", 0}}, null[] = {{NULL, 0}};
static const redlock_key twice[] = {{"b", 1}, {"c", 1}, {"a", 1}, {"b", 1}};
static const redlock_key with_fence[] = {{"a", 1}, {"a!fence", 7}};
static const redlock_key long_key[] = {{long_text, 508}};
static const redlock_key more[REDLOCK_KEYS_MAX + 1];
static const char *const reserved[] = {"!marker", "!fence", "!later",   "a!marker",
                                       "a!fence", "a!z",    "a!b!hold", "a!1!a"};
static const char *const fine[] = {"fence",   "!",         "job!",    "!MARKER",
                                   "!fence2", "job!fencE", "job!1",   "a!b c",
                                   "a!\xe4",  "a!b!",      "!fence:x"};

static const struct {
    const redlock_key *keys;
    size_t count;
    struct refusal why;
} key_rows[] = {
    {none + 1, 1, EMPTY(BAD_KEY, "key")},
    {null, 1, EMPTY(BAD_KEY, "key")},
    {none, 2, EMPTY(BAD_KEY, "key")},
    {long_key, 1,
     WHY(BAD_KEY, TOO_LONG, "key", 508, 507, "has 508 bytes, and must have at most 507")},
    {twice, 4, WHY(BAD_KEY, TWICE, "key", 0, 0, "is given twice: number 4")},
    {with_fence, 2, RESERVED},
    {NULL, 0, WHY(BAD_KEY, EMPTY, "keys", 0, 1, "are 0, and must be from 1 to 16")},
    {more, 17,
     WHY(BAD_KEY, OUT_OF_RANGE, "keys", 17, 16, "are 17, and must be from 1 to 16")},
};

static int never_fly(redlock_hold *hold, void *arg)
{
    (void)hold, (void)arg;
    refusal_calls++;
    return 0;
}

static void refuse_lease(size_t row, const redlock_key *keys, size_t count,
                         const redlock_lease_options *options, const struct refusal *want)
{
    redlock_lease *mark = (redlock_lease *)&mark, *lease = mark;
    redlock_client *client = alone.client;
    refusal_expect(
        "acquire_many", row,
        redlock_acquire_many(client, keys, count, options, on_lease, NULL, &lease), want);
    if (count == 1)
        refusal_expect("acquire", row,
                       redlock_acquire(client, keys->bytes, keys->len, options, on_lease,
                                       NULL, &lease),
                       want);
    if (!options || options->kind == REDLOCK_KIND_EXCLUSIVE) { /* a token says the kind */
        refusal_expect("adopt_many", row,
                       redlock_adopt_many(client, keys, count, "token", 0, options, &lease),
                       want);
        if (count == 1)
            refusal_expect(
                "adopt", row,
                redlock_adopt(client, keys->bytes, keys->len, "token", 0, options, &lease),
                want);
    }
    cr_assert_eq(lease, mark);
}

/* In a struct redlock_failure, too. */
static void refuse_lock(size_t row, const redlock_key *keys, size_t count,
                        redlock_lock_options options, const struct refusal *want)
{
    redlock_hold *mark = (redlock_hold *)&mark, *hold = mark;
    redlock_sync *sync = alone.sync;
    redlock_failure failure;
    redlock_failure_init(&failure);
    options.failure = options.size ? &failure : NULL;
#define CALL(name, ...)                                                                    \
    do {                                                                                   \
        refusal_expect(#name, row, redlock_##name(sync, __VA_ARGS__), want);               \
        if (options.size)                                                                  \
            cr_assert_str_eq(failure.error->text, redlock_last_error()->text);             \
    } while (0)
    CALL(lock_many, keys, count, 1, &options, &hold);
    if (options.kind == REDLOCK_KIND_EXCLUSIVE && !options.recursive)
        CALL(lock_adopt_many, keys, count, "token", 0, &options, &hold);
    if (count == 1) {
        const void *key = keys->bytes;
        size_t len = keys->len;
        CALL(lock, key, len, &options, &hold);
        CALL(try_lock, key, len, &options, &hold);
        CALL(lock_for, key, len, 1, &options, &hold);
        CALL(single_flight, key, len, 1, &options, never_fly, NULL, NULL, NULL);
        if (options.kind == REDLOCK_KIND_EXCLUSIVE && !options.recursive)
            CALL(lock_adopt, key, len, "token", 0, &options, &hold);
    }
#undef CALL
    cr_assert_eq(hold, mark);
}

static void refuse_keys(size_t row, const redlock_key *keys, size_t count,
                        const struct refusal *want)
{
    redlock_lock_options options;
    redlock_lock_options_init(&options);
    refuse_lease(row, keys, count, NULL, want);
    refuse_lock(row, keys, count, options, want);
    refusal_expect("lock_release_many", row,
                   redlock_lock_release_many(alone.sync, keys, count, "token"), want);
}

Test(refused, keys)
{
    char text[80];
    snprintf(text, sizeof(text), "has %zu bytes, and must have at most 507", SIZE_MAX);
    const struct refusal too_long =
        WHY(BAD_KEY, TOO_LONG, "key", (int64_t)SIZE_MAX, 507, text);
    for (size_t i = 0; i < COUNT(key_rows); i++)
        refuse_keys(i, key_rows[i].keys, key_rows[i].count, &key_rows[i].why);
    refuse_lease(0, &(redlock_key){long_text, SIZE_MAX}, 1, NULL, &too_long);
}

/* What the library stores beside a lock, now or in a later release. */
Test(refused, reserved_keys)
{
    redlock_options options = client_options();
    for (size_t i = 0; i < COUNT(reserved); i++)
        refuse_keys(i, &(redlock_key){reserved[i], strlen(reserved[i])}, 1,
                    &(struct refusal)RESERVED);
    for (size_t i = 0; i < COUNT(fine); i++) {
        redlock_lease *lease = NULL;
        cr_assert_eq(
            redlock_adopt(alone.client, fine[i], strlen(fine[i]), "token", 0, NULL, &lease),
            REDLOCK_OK, "%s", fine[i]);
        redlock_lease_free(lease);
    }
    options.prefix = "job!";
    close_alone();
    open_alone(&options);
    refuse_lease(0, &(redlock_key){"fence", 5}, 1, NULL, &(struct refusal)RESERVED);
    refuse_lease(1, &(redlock_key){"later", 5}, 1, NULL, &(struct refusal)RESERVED);
}

/* Both kinds of options have these members. */
#define TTL(reason, value, bound, less, why)                                               \
    WHY(BAD_TTL, reason, "ttl_ms", value, bound,                                           \
        "is " #value ", and must be at " less " " #bound ": the " why)
#define LEAVES "TTL leaves less than the least validity"
#define OF_BOTH(O)                                                                         \
    {O(.ttl_ms = 0), RANGE(BAD_TTL, "ttl_ms", 0, 1)},                                      \
        {O(.ttl_ms = -1), RANGE(BAD_TTL, "ttl_ms", -1, 1)},                                \
        {O(.ttl_ms = INT64_MIN), RANGE(BAD_TTL, "ttl_ms", INT64_MIN, 1)},                  \
        {O(.ttl_ms = 86400001), RANGE(BAD_TTL, "ttl_ms", 86400001, 86400000)},             \
        {O(.ttl_ms = INT64_MAX), RANGE(BAD_TTL, "ttl_ms", INT64_MAX, 86400000)},           \
        {O(.ttl_ms = 2),                                                                   \
         TTL(TTL_DRIFT, 2, 3, "least", "allowance for clock drift takes all of the TTL")}, \
        {O(.ttl_ms = 60001), TTL(TTL_CLIENT_MAX, 60001, 60000, "most",                     \
                                 "TTL is longer than the client's longest TTL")},          \
        {O(.ttl_ms = 1000, .margin_ms = 1000),                                             \
         TTL(TTL_MARGIN, 1000, 1013, "least", "margin takes all of the TTL")},             \
        {O(.ttl_ms = 1000, .margin_ms = 988),                                              \
         TTL(TTL_MARGIN, 1000, 1001, "least", "margin takes all of the TTL")},             \
        {O(.ttl_ms = 1000, .min_validity_ms = 1000),                                       \
         TTL(TTL_MIN_VALIDITY, 1000, 1013, "least", LEAVES)},                              \
        {O(.ttl_ms = 1000, .min_validity_ms = 990),                                        \
         TTL(TTL_MIN_VALIDITY, 1000, 1003, "least", LEAVES)},                              \
        {O(.margin_ms = -1), LESS("margin_ms", -1, 0)},                                    \
        {O(.min_validity_ms = -1), LESS("min_validity_ms", -1, 0)},                        \
        {O(.max_hold_ms = -1), LESS("max_hold_ms", -1, 0)},                                \
        {O(.max_hold_ms = 5, .margin_ms = 7),                                              \
         WHY(BAD_OPTION, OUT_OF_RANGE, "max_hold_ms", 5, 8,                                \
             "is 5, and must be at least 8: longer than the margin and the least "         \
             "validity")},                                                                 \
    {                                                                                      \
        O(.fence = -1), LESS("fence", -1, 0)                                               \
    }

#define KIND(name)                                                                         \
    WHY(BAD_OPTION, CONFLICT, "kind", 0, 0, "is " name ", and such a lock has one key")
#define NEVER_FENCED(name)                                                                 \
    WHY(BAD_OPTION, CONFLICT, "fenced", 0, 0,                                              \
        "is set, and a lock of the kind " name " is never fenced")
#define NO_SLOTS(name)                                                                     \
    WHY(BAD_OPTION, CONFLICT, "slots", 0, 0,                                               \
        "is set, and a lock of the kind " name " has none")
#define OF_KINDS(O)                                                                        \
    {O(.kind = 99), WHY(BAD_OPTION, OUT_OF_RANGE, "kind", 0, 0,                            \
                        "is 99, and no option chooses this kind")},                        \
        {O(.kind = REDLOCK_KIND_REDISSON, .fenced = true), NEVER_FENCED("redisson")},      \
        {O(.kind = REDLOCK_KIND_SHARED, .slots = 2), NO_SLOTS("shared")},                  \
        {O(.kind = REDLOCK_KIND_ELECTION, .slots = 2), NO_SLOTS("election")},              \
        {O(.kind = REDLOCK_KIND_SLOT), LESS("slots", 0, 1)},                               \
    {                                                                                      \
        O(.kind = REDLOCK_KIND_SLOT, .slots = REDLOCK_SLOTS_MAX + 1),                      \
            LESS("slots", REDLOCK_SLOTS_MAX + 1, REDLOCK_SLOTS_MAX)                        \
    }

#define LEASE(...)                                                                         \
    {                                                                                      \
        .size = sizeof(redlock_lease_options), .ttl_ms = 30000, __VA_ARGS__                \
    }

static const struct {
    redlock_lease_options options;
    struct refusal why;
} lease_rows[] = {
    OF_BOTH(LEASE),
    OF_KINDS(LEASE),
    {LEASE(.size = 0), NO_SIZE("lease_options")},
    {LEASE(.wait_ms = INT64_MAX), LESS("wait_ms", INT64_MAX, 31622400000)},
    {LEASE(.wait_ms = -2), LESS("wait_ms", -2, -1)},
    {LEASE(.wait_ms = REDLOCK_UNKNOWN), LESS("wait_ms", -3, -1)},
    {LEASE(.retry_base_ms = -1), LESS("retry_base_ms", -1, 0)},
    {LEASE(.retry_cap_ms = -1), LESS("retry_cap_ms", -1, 0)},
    {LEASE(.retry_cap_ms = INT64_MAX), LESS("retry_cap_ms", INT64_MAX, 31622400000)},
    {LEASE(.retry = REDLOCK_RETRY_CUSTOM),
     WHY(BAD_OPTION, NOT_SET, "retry_fn", 0, 0,
         "is NULL, and a custom retry policy needs it")},
    {LEASE(.retry = (redlock_retry)99), LESS("retry", 99, 3)},
    {LEASE(.retry = (redlock_retry)-1), LESS("retry", UINT32_MAX, 3)},
    {LEASE(.kind = REDLOCK_KIND_RECORD, .fenced = true), NEVER_FENCED("record")},
    {LEASE(.kind = REDLOCK_KIND_RECORD, .slots = 2), NO_SLOTS("record")},
    {LEASE(.kind = REDLOCK_KIND_RECORD, .ttl_ms = 86400001),
     RANGE(BAD_TTL, "ttl_ms", 86400001, 86400000)},
};

Test(refused, lease_options)
{
    for (size_t i = 0; i < COUNT(lease_rows); i++)
        refuse_lease(i, one, 1, &lease_rows[i].options, &lease_rows[i].why);
}

#define LOCK(...)                                                                          \
    {                                                                                      \
        .size = sizeof(redlock_lock_options), .ttl_ms = 30000, __VA_ARGS__                 \
    }

static const struct {
    redlock_lock_options options;
    struct refusal why;
} lock_rows[] = {
    OF_BOTH(LOCK),
    OF_KINDS(LOCK),
    {LOCK(.size = 0), NO_SIZE("lock_options")},
    {LOCK(.handoffs = 64), LESS("handoffs", 64, 63)},
    {LOCK(.kind = REDLOCK_KIND_RECORD), WHY(BAD_OPTION, OUT_OF_RANGE, "kind", 0, 0,
                                            "is record, which is no lock of a thread")},
    {LOCK(.recursive = true, .any_thread = true),
     WHY(BAD_OPTION, CONFLICT, "any_thread", 0, 0,
         "is set, and recursive: only the thread that locked may lock again")},
    {LOCK(.recursive = true, .kind = REDLOCK_KIND_SLOT, .slots = 2),
     WHY(BAD_OPTION, CONFLICT, "recursive", 0, 0,
         "is set, and the kind is slot: a thread may hold several")},
};

Test(refused, lock_options)
{
    for (size_t i = 0; i < COUNT(lock_rows); i++)
        refuse_lock(i, one, 1, lock_rows[i].options, &lock_rows[i].why);
}

Test(refused, stop_of_another_client)
{
    static const struct refusal foreign =
        WHY(BAD_OPTION, FOREIGN, "stop", 0, 0, "belongs to another client");
    redlock_lock_options options;
    redlock_sync *other;
    redlock_lock_options_init(&options);
    cr_assert_eq(redlock_sync_new(&(const char *){SOCKET}, 1, NULL, &other), REDLOCK_OK);
    cr_assert_eq(redlock_stop_new(other, &options.stop), REDLOCK_OK);
    refuse_lock(0, one, 1, options, &foreign);
    redlock_stop_free(options.stop);
    redlock_sync_free(other);
}

/* Only an exclusive lock has several keys; the key of a slot needs room for its number. */
Test(refused, keys_of_a_kind)
{
    static const struct {
        redlock_kind kind;
        struct refusal why;
    } rows[] = {
        {REDLOCK_KIND_SHARED, KIND("shared")},     {REDLOCK_KIND_SLOT, KIND("slot")},
        {REDLOCK_KIND_ELECTION, KIND("election")}, {REDLOCK_KIND_RECORD, KIND("record")},
        {REDLOCK_KIND_REDISSON, KIND("redisson")},
    };
    redlock_lease_options lease;
    redlock_lock_options lock;
    redlock_lease_options_init(&lease);
    redlock_lock_options_init(&lock);
    for (size_t i = 0; i < COUNT(rows); i++) {
        lease.kind = lock.kind = rows[i].kind;
        lease.slots = lock.slots = lease.kind == REDLOCK_KIND_SLOT ? 2 : 0;
        refuse_lease(i, two, 2, &lease, &rows[i].why);
        if (lock.kind != REDLOCK_KIND_RECORD)
            refuse_lock(i, two, 2, lock, &rows[i].why);
    }
    lease.kind = REDLOCK_KIND_SLOT;
    lease.slots = 2;
    refuse_lease(9, &(redlock_key){long_text, 505}, 1, &lease,
                 &(struct refusal)WHY(BAD_KEY, TOO_LONG, "key", 510, 508,
                                      "has 510 bytes, and must have at most 508"));
}

/* --- other calls --- */

#define REFUSES(call, ...)                                                                 \
    refusal_expect(#call, 0, redlock_##call, &(struct refusal)__VA_ARGS__)

/* These only report. */
Test(refused, no_callback)
{
    redlock_observer *observer = NULL;
    redlock_sync_observer *sync_observer = NULL;
    redlock_client *client = alone.client;
    REFUSES(client_drain(client, 0, NULL, NULL), NO_CALLBACK);
    REFUSES(inspect(client, "job", 3, NULL, NULL), NO_CALLBACK);
    REFUSES(check(client, 0, NULL, NULL), NO_CALLBACK);
    REFUSES(list(client, "", 0, 0, NULL, NULL), NO_CALLBACK);
    REFUSES(hold_time(client, "job", 3, NULL, NULL), NO_CALLBACK);
    REFUSES(observe(client, "job", 3, NULL, NULL, &observer), NO_CALLBACK);
    REFUSES(sync_observe(alone.sync, "job", 3, NULL, NULL, &sync_observer), NO_CALLBACK);
    cr_assert(!observer && !sync_observer);
}

Test(refused, keys_of_other_calls)
{
    redlock_observer *observer = NULL;
    redlock_sync_observer *sync_observer = NULL;
    redlock_client *client = alone.client;
    for (unsigned i = 0; i < 2; i++) {
        const char *key = i ? "job!fence" : "";
        size_t len = strlen(key);
        struct refusal why = EMPTY(BAD_KEY, "key"), reserved = RESERVED;
        if (i)
            why = reserved;
        refusal_expect("inspect", i, redlock_inspect(client, key, len, on_inspected, NULL),
                       &why);
        refusal_expect("break", i, redlock_break(client, key, len, NULL, NULL), &why);
        refusal_expect("hold_time", i,
                       redlock_hold_time(client, key, len, on_hold_time, NULL), &why);
        refusal_expect("note_hold_time", i, redlock_note_hold_time(client, key, len, 1),
                       &why);
        refusal_expect("observe", i,
                       redlock_observe(client, key, len, on_leader, NULL, &observer), &why);
        refusal_expect("sync_observe", i,
                       redlock_sync_observe(alone.sync, key, len, on_sync_leader, NULL,
                                            &sync_observer),
                       &why);
        refusal_expect("lock_release", i,
                       redlock_lock_release(alone.sync, key, len, "token"), &why);
    }
    REFUSES(list(client, long_text, 508, 0, on_listed, NULL),
            WHY(BAD_KEY, TOO_LONG, "prefix", 508, 507,
                "has 508 bytes, and must have at most 507"));
    cr_assert(!observer && !sync_observer);
}

Test(refused, times)
{
    redlock_lease *lease = NULL;
    redlock_hold *hold = NULL;
    redlock_client *client = alone.client;
    redlock_sync *sync = alone.sync;
    REFUSES(client_drain(client, -3, on_drained, NULL), LESS("timeout_ms", -3, -2));
    REFUSES(note_hold_time(client, "job", 3, -1), LESS("held_ms", -1, 0));
    REFUSES(note_hold_time(client, "job", 3, REDLOCK_UNKNOWN), LESS("held_ms", -3, 0));
    REFUSES(adopt(client, "job", 3, "token", -2, NULL, &lease), LESS("valid_ms", -2, 0));
    REFUSES(adopt(client, "job", 3, "token", REDLOCK_FOREVER, NULL, &lease),
            LESS("valid_ms", -1, 0));
    REFUSES(lock_for(sync, "job", 3, -2, NULL, &hold), LESS("wait_ms", -2, -1));
    REFUSES(lock_for(sync, "job", 3, REDLOCK_UNKNOWN, NULL, &hold),
            LESS("wait_ms", -3, -1));
    REFUSES(lock_many(sync, two, 2, -2, NULL, &hold), LESS("wait_ms", -2, -1));
    REFUSES(lock_many(sync, two, 2, REDLOCK_UNKNOWN, NULL, &hold), LESS("wait_ms", -3, -1));
    REFUSES(single_flight(sync, "job", 3, -2, NULL, never_fly, NULL, NULL, NULL),
            LESS("wait_ms", -2, -1));
    REFUSES(
        single_flight(sync, "job", 3, REDLOCK_UNKNOWN, NULL, never_fly, NULL, NULL, NULL),
        LESS("wait_ms", -3, -1));
    REFUSES(lock_adopt(sync, "job", 3, "token", -2, NULL, &hold), LESS("valid_ms", -2, 0));
    REFUSES(lock_adopt(sync, "job", 3, "token", REDLOCK_FOREVER, NULL, &hold),
            LESS("valid_ms", -1, 0));
    cr_assert_eq(redlock_adopt(client, "job", 3, "token", REDLOCK_UNKNOWN, NULL, &lease),
                 REDLOCK_OK);
    REFUSES(extend(lease, REDLOCK_UNKNOWN, NULL, NULL), RANGE(BAD_TTL, "ttl_ms", -3, 1));
    REFUSES(extend(lease, -1, NULL, NULL), RANGE(BAD_TTL, "ttl_ms", -1, 1));
    REFUSES(extend(lease, 60001, NULL, NULL),
            TTL(TTL_CLIENT_MAX, 60001, 60000, "most",
                "TTL is longer than the client's longest TTL"));
    REFUSES(downgrade(lease, NULL, NULL),
            WHY(BAD_TOKEN, FOREIGN, "token", 0, 0, "is not one of this library"));
    redlock_lease_free(lease);
    cr_assert_null(hold);
}

Test(refused, tokens)
{
    static const char *const slot = "pSLOTefghijklmnopqrstuvwxyz234567";
    char token[REDLOCK_TOKEN_MAX + 2] = "";
    redlock_lease *lease = NULL;
    redlock_hold *hold = NULL;
    redlock_client *client = alone.client;
    redlock_sync *sync = alone.sync;
    redlock_lease_options options;
    redlock_lease_options_init(&options);
    options.slots = 3;
    memset(token, 't', REDLOCK_TOKEN_MAX + 1);
    struct refusal long_token = WHY(BAD_TOKEN, TOO_LONG, "token", 129, 128,
                                    "has 129 bytes, and must have at most 128");
    for (unsigned i = 0; i < 3; i++) {
        const char *text = i == 0 ? NULL : i == 1 ? "" : token;
        struct refusal why = EMPTY(BAD_TOKEN, "token");
        if (i == 2)
            why = long_token;
        refusal_expect("adopt", i, redlock_adopt(client, "job", 3, text, 0, NULL, &lease),
                       &why);
        refusal_expect("lock_adopt", i,
                       redlock_lock_adopt(sync, "job", 3, text, 0, NULL, &hold), &why);
        refusal_expect("lock_release", i, redlock_lock_release(sync, "job", 3, text), &why);
    }
    REFUSES(adopt(client, "job", 3, slot, 0, &options, &lease),
            WHY(BAD_KEY, MALFORMED, "key", 0, 0,
                "does not end in the number of a slot, as \"!3\""));
    cr_assert(!lease && !hold);
    token[REDLOCK_TOKEN_MAX] = '\0';
    cr_assert_eq(redlock_adopt(client, "key", 3, token, 0, NULL, &lease), REDLOCK_OK);
    cr_assert_str_eq(redlock_token(lease), token);
    redlock_lease_free(lease);
}

Test(refused, admissions_and_statistics)
{
    redlock_stats stats = {0};
    redlock_client *client = alone.client;
    REFUSES(admit(client, 0, 0, NULL, NULL), LESS("how", 0, 1));
    REFUSES(admit(client, 6, 0, NULL, NULL), LESS("how", 6, 5));
    REFUSES(admit(client, REDLOCK_ADMIT_REPLACE, 1, NULL, NULL), LESS("node", 1, 0));
    for (unsigned i = 0; i < 2; i++)
        refusal_expect(
            "admit", i,
            redlock_admit(client,
                          i ? REDLOCK_ADMIT_RETIRE | REDLOCK_PROMISE_DURABLE
                            : REDLOCK_ADMIT_NEW | REDLOCK_PROMISE_NONE |
                                  REDLOCK_PROMISE_SOLE,
                          0, NULL, NULL),
            &(struct refusal)WHY(BAD_OPTION, NONE, "how", 0, 0,
                                 "has promises: only NEW, AT_ONCE and READMIT take "
                                 "them, and NONE excludes others"));
    REFUSES(client_stats(client, &stats), NO_SIZE("stats"));
    REFUSES(sync_stats(alone.sync, &stats), NO_SIZE("stats"));
}
