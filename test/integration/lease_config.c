/* Leases with the same options share one config; any option that differs needs another. */
#include <criterion/criterion.h>
#include <event2/event.h>

#include "lease/config.h"

static struct event_base *base;
static redlock_client *client;
static unsigned fences = 1; /* to reserve */
static bool of_sets;

static void open_client(void)
{
    const char *uri = "unix:///nonexistent";
    base = event_base_new();
    cr_assert_eq(redlock_client_new(base, &uri, 1, NULL, &client), REDLOCK_OK);
}

static void close_client(void)
{
    redlock_client_free(client);
    event_base_free(base);
}

TestSuite(lease_config, .init = open_client, .fini = close_client);

static struct rl_lease_config *config_of(const redlock_lease_options *options)
{
    struct rl_lease_config *config;
    cr_assert_eq(rl_lease_config_get(client, options, fences, of_sets, &config),
                 REDLOCK_OK);
    return config;
}

static int64_t delay(unsigned attempt, uint64_t random, void *arg)
{
    (void)attempt;
    (void)random;
    (void)arg;
    return 1;
}

static void report(redlock_lease *lease, const redlock_result *result, void *arg)
{
    (void)lease;
    (void)result;
    (void)arg;
}

/* Copies with other bytes in the struct's padding. */
static redlock_lease_options padded(const redlock_lease_options *options, int byte)
{
    redlock_lease_options copy;
    memset(&copy, byte, sizeof(copy));
#define COPY(field) copy.field = options->field
    COPY(size), COPY(fenced), COPY(fence), COPY(ttl_ms), COPY(wait_ms);
    COPY(min_validity_ms), COPY(margin_ms), COPY(watchdog), COPY(max_hold_ms);
    COPY(retry), COPY(retry_base_ms), COPY(retry_cap_ms), COPY(retry_fn);
    COPY(retry_arg), COPY(on_lost), COPY(lost_arg), COPY(on_extended), COPY(extended_arg);
    COPY(kind), COPY(slots);
#undef COPY
    return copy;
}

Test(lease_config, is_shared_by_equal_options)
{
    redlock_lease_options options, copy;
    redlock_lease_options_init(&options);
    struct rl_lease_config *first = config_of(&options), *second = config_of(NULL);
    cr_assert_eq(first, second, "NULL means the defaults");
    rl_lease_config_unref(second);
    for (int byte = 0; byte < 256; byte += 85) {
        copy = padded(&options, byte);
        second = config_of(&copy);
        cr_assert_eq(first, second, "padding of %02x", (unsigned)byte);
        rl_lease_config_unref(second);
    }
    rl_lease_config_unref(first);
}

/* Expects another config for options in which one field is changed. */
#define EXPECT_OTHER(change)                                                               \
    do {                                                                                   \
        redlock_lease_options options;                                                     \
        redlock_lease_options_init(&options);                                              \
        struct rl_lease_config *usual = config_of(&options);                               \
        change;                                                                            \
        struct rl_lease_config *other = config_of(&options);                               \
        cr_assert_neq(usual, other, #change);                                              \
        rl_lease_config_unref(usual);                                                      \
        rl_lease_config_unref(other);                                                      \
    } while (0)

Test(lease_config, differs_if_any_option_does)
{
    int arg;
    EXPECT_OTHER(options.fenced = true);
    EXPECT_OTHER(options.kind = REDLOCK_KIND_REDISSON);
    EXPECT_OTHER(options.kind = REDLOCK_KIND_SHARED);
    EXPECT_OTHER(options.kind = REDLOCK_KIND_SLOT; options.slots = 2);
    EXPECT_OTHER(options.fence = 7);
    EXPECT_OTHER(fences++);
    EXPECT_OTHER(of_sets = true);
    of_sets = false;
    EXPECT_OTHER(options.ttl_ms++);
    EXPECT_OTHER(options.wait_ms++);
    EXPECT_OTHER(options.min_validity_ms++);
    EXPECT_OTHER(options.margin_ms++);
    EXPECT_OTHER(options.watchdog = !options.watchdog);
    EXPECT_OTHER(options.max_hold_ms = 7);
    EXPECT_OTHER(options.retry = REDLOCK_RETRY_FIXED);
    EXPECT_OTHER(options.retry_base_ms++);
    EXPECT_OTHER(options.retry_cap_ms++);
    EXPECT_OTHER(options.retry = REDLOCK_RETRY_CUSTOM; options.retry_fn = delay);
    EXPECT_OTHER(options.retry_arg = &arg);
    EXPECT_OTHER(options.on_lost = report);
    EXPECT_OTHER(options.lost_arg = &arg);
    EXPECT_OTHER(options.on_extended = report);
    EXPECT_OTHER(options.extended_arg = &arg);
}

Test(lease_config, differs_for_an_election)
{
    redlock_lease_options options;
    redlock_lease_options_init(&options);
    options.fenced = true;
    struct rl_lease_config *usual = config_of(&options);
    options.kind = REDLOCK_KIND_ELECTION;
    struct rl_lease_config *other = config_of(&options);
    cr_assert_neq(usual, other);
    cr_assert_neq(usual->kind, other->kind);
    rl_lease_config_unref(usual);
    rl_lease_config_unref(other);
}

Test(lease_config, differs_for_a_record)
{
    redlock_lease_options options;
    redlock_lease_options_init(&options);
    struct rl_lease_config *usual = config_of(&options);
    options.kind = REDLOCK_KIND_RECORD;
    struct rl_lease_config *other = config_of(&options);
    cr_assert_neq(usual, other);
    rl_lease_config_unref(usual);
    rl_lease_config_unref(other);
}
