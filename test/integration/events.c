/* The caller's `log` and `trace`: which events they get, when, and what they may do. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "quorum.h"
#include "redlock/stats.h"

#define EVENTS_MAX 400
#define LINE       600

/* All events and spans, one line each. */
struct book {
    unsigned count;
    char line[EVENTS_MAX][LINE];
    redlock_client **client; /* is freed at the first line; NULL: it is not */
    redlock_lease **lease;   /* likewise */
};

static char *add_line(struct book *book)
{
    cr_assert_lt(book->count, EVENTS_MAX);
    return book->line[book->count++];
}

static void free_all(struct book *book)
{
    if (book->lease) {
        redlock_lease_free(*book->lease);
        *book->lease = NULL;
        book->lease = NULL;
    }
    if (book->client) {
        redlock_client *client = *book->client;
        *book->client = NULL;
        book->client = NULL;
        redlock_client_free(client);
    }
}

static void note_event(const redlock_event *event, void *arg)
{
    char *line = add_line(arg), *end = line;
    end += sprintf(end, "%s %s", redlock_level_name(event->level), event->name);
    for (size_t i = 0; i < event->count; i++) {
        const redlock_field *field = &event->fields[i];
        if (field->text)
            end += sprintf(end, " %s=%s", field->name, field->text);
        else
            end += sprintf(end, " %s=%lld", field->name, (long long)field->number);
        cr_assert(!field->text || strlen(field->text) == field->len);
    }
    free_all(arg);
}

static void note_span(const redlock_span *span, void *arg)
{
    sprintf(add_line(arg), "%s %s %llu %.*s %s %s %u%s%s", span->ended ? "end" : "begin",
            span->operation, (unsigned long long)span->lease, (int)span->key_len,
            (const char *)span->key, redlock_kind_name(span->kind),
            span->ended ? redlock_code_name(span->code) : "-", span->attempts,
            span->user ? " for " : "", span->user ? (const char *)span->user : "");
    cr_assert_geq(span->duration_us, 0);
    free_all(arg);
}

static unsigned count(const struct book *book, const char *words)
{
    unsigned found = 0;
    for (unsigned i = 0; i < book->count; i++)
        found += strstr(book->line[i], words) == book->line[i];
    return found;
}

static void show(const struct book *book)
{
    for (unsigned i = 0; i < book->count; i++)
        fprintf(stderr, "%s\n", book->line[i]);
}

#define EXPECT_COUNT(book, words, wanted)                                                  \
    do {                                                                                   \
        if (count(book, words) != (wanted))                                                \
            show(book);                                                                    \
        cr_assert_eq(count(book, words), wanted, "%u times: %s", count(book, words),       \
                     words);                                                               \
    } while (0)

#define EXPECT_LINES(book, wanted)                                                         \
    do {                                                                                   \
        unsigned all = sizeof(wanted) / sizeof((wanted)[0]);                               \
        if ((book)->count != all)                                                          \
            show(book);                                                                    \
        cr_assert_eq((book)->count, all);                                                  \
        for (unsigned i = 0; i < all; i++)                                                 \
            cr_assert_str_eq((book)->line[i], (wanted)[i]);                                \
    } while (0)

static redlock_options logging(struct book *book)
{
    redlock_options options = quorum_options();
    options.log = note_event;
    options.log_arg = book;
    return options;
}

static struct book book, spans;

Test(events, of_nodes)
{
    struct quorum s;
    redlock_options options = logging(&book);
    char words[LINE];
    quorum_open_with(&s, 3, &options);
    LOOP_UNTIL(s.base, book.count == 3);
    EXPECT_COUNT(&book, "info node_connected node=", 3);
    servers_kill(&s.servers, 1);
    LOOP_UNTIL(s.base, book.count >= 5);
    snprintf(words, sizeof(words), "warning node_disconnected node=1 uri=%s fault=closed",
             s.servers.server[1].uri);
    EXPECT_COUNT(&book, words, 1);
    snprintf(words, sizeof(words),
             "warning node_unreachable node=1 uri=%s fault=connect "
             "text=cannot connect: Connection refused",
             s.servers.server[1].uri);
    EXPECT_COUNT(&book, words, 1);
    servers_launch(&s.servers, 1);
    LOOP_UNTIL(s.base, count(&book, "warning node_quarantined node=1 "));
    EXPECT_COUNT(&book, "warning node_restarted node=1 ", 1);
    EXPECT_COUNT(&book, "warning node_unreachable node=1 ", 1);
    quorum_close(&s);
}

Test(events, of_a_node_that_is_configured_wrong)
{
    struct quorum s;
    redlock_options options = logging(&book);
    quorum_open_fresh(&s, 3);
    servers_do(&s.servers, 2, "CONFIG SET requirepass horse");
    redlock_client *client = quorum_client(&s, &options);
    LOOP_UNTIL(s.base, book.count >= 3);
    EXPECT_COUNT(&book, "error node_refused node=2 ", 1);
    redlock_client_free(client);
    servers_do(&s.servers, 2, "CONFIG SET requirepass \"\"");
    quorum_close(&s);
}

Test(events, of_locks)
{
    struct quorum s;
    struct reported lost = {0}, reported = {0};
    redlock_options options = logging(&book);
    redlock_lease_options lease_options = quorum_lease_options();
    quorum_open_with(&s, 3, &options);
    servers_do_first(&s.servers, 3, "SET theirs another PX 60000");
    redlock_lease *lease = quorum_acquire(&s, "theirs", &lease_options, &reported);
    redlock_lease_free(lease);
    reported_on_lost(&lease_options, &lost);
    lease_options.ttl_ms = 1000;
    lease = quorum_hold(&s, "ours", &lease_options);
    servers_kill_first(&s.servers, 2);
    EXPECT_REPORTED(&s, &lost, REDLOCK_EXPIRED);
    LOOP_UNTIL(s.base, count(&book, "error lock_lost "));
    EXPECT_COUNT(&book,
                 "error lock_lost lease=2 key=ours kind=exclusive fenced=0 code=EXPIRED "
                 "reason=",
                 1);
    cr_assert_gt(count(&book, "warning watchdog_extension_failed lease=2 key=ours "), 0);
    redlock_lease_free(lease);
    reported = (struct reported){0};
    redlock_lease_free(quorum_acquire(&s, "ours", &lease_options, &reported));
    LOOP_UNTIL(s.base, count(&book,
                             "warning acquire_failed lease=3 key=ours kind=exclusive "
                             "fenced=0 code=NO_QUORUM reason="));
    cr_assert_eq(count(&book, "warning acquire_failed lease=1 "), 0, "TAKEN is none");
    quorum_close(&s);
}

/* Those of locks, among the spans. */
static void note_user(const redlock_event *event, void *arg)
{
    (void)arg;
    if (event->user)
        sprintf(add_line(&spans), "%s for %s", event->name, (const char *)event->user);
}

static redlock_options tracing(void)
{
    redlock_options options = quorum_options();
    options.trace = note_span;
    options.trace_arg = &spans;
    return options;
}

/* Each operation has one begin and one end, also if the lease or the client is freed. */
Test(events, spans_of_operations)
{
    struct quorum s;
    redlock_options options = tracing();
    redlock_lease_options lease_options = quorum_quiet_options();
    struct reported reported[2] = {0};
    quorum_open_with(&s, 3, &options);
    redlock_lease *lease = quorum_hold(&s, "k", &lease_options);
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_OK);
    redlock_lease *freed = quorum_start(&s, "k", &lease_options, &reported[0]);
    redlock_lease_free(freed);
    cr_assert_eq(quorum_release(&s, lease), REDLOCK_OK);
    quorum_start(&s, "k", &lease_options, &reported[1]);
    redlock_client_free(s.client);
    s.client = NULL;
    static const char *const wanted[] = {
        "begin acquire 1 k exclusive - 0",       "begin hold 1 k exclusive - 1",
        "end acquire 1 k exclusive OK 1",        "begin extend 1 k exclusive - 1",
        "end extend 1 k exclusive OK 1",         "begin acquire 2 k exclusive - 0",
        "end acquire 2 k exclusive CANCELLED 0", "begin release 1 k exclusive - 1",
        "end hold 1 k exclusive OK 1",           "end release 1 k exclusive OK 1",
        "begin acquire 3 k exclusive - 0",       "end acquire 3 k exclusive CANCELLED 0",
    };
    EXPECT_LINES(&spans, wanted);
    redlock_lease_free(lease);
    redlock_lease_free(reported[1].lease);
    quorum_close(&s);
}

/* How each hold ends, and whose it is; events of a lock have its user, too. */
Test(events, spans_of_holds)
{
    struct quorum s;
    struct reported lost = {0};
    redlock_options options = tracing();
    redlock_lease_options lease_options = quorum_quiet_options();
    char released[] = "released", lost_one[] = "lost", given[] = "given",
         adopted[] = "adopted", kept[] = "kept", token[REDLOCK_TOKEN_MAX + 1];
    redlock_lease *lease;
    options.log = note_user;
    quorum_open_with(&s, 3, &options);
    lease_options.user = released;
    redlock_lease_free(quorum_hold(&s, "a", &lease_options));
    lease_options.user = lost_one;
    reported_on_lost(&lease_options, &lost);
    lease = quorum_hold(&s, "b", &lease_options);
    servers_do_first(&s.servers, 3, "DEL b");
    quorum_extend(&s, lease, 0);
    EXPECT_REPORTED(&s, &lost, REDLOCK_GONE);
    redlock_lease_free(lease);
    lease_options.on_lost = NULL;
    lease_options.user = given;
    lease = quorum_hold(&s, "c", &lease_options);
    cr_assert_eq(redlock_lease_number(lease), 3);
    strcpy(token, redlock_token(lease));
    redlock_disown(lease);
    redlock_lease_free(lease);
    lease_options.user = adopted;
    cr_assert_eq(
        redlock_adopt(s.client, "c", 1, token, REDLOCK_UNKNOWN, &lease_options, &lease),
        REDLOCK_OK);
    cr_assert_eq(quorum_extend(&s, lease, 0), REDLOCK_OK);
    redlock_lease_free(lease);
    lease_options.user = kept;
    lease = quorum_hold(&s, "d", &lease_options);
    redlock_client_free(s.client);
    s.client = NULL;
    cr_assert_eq(redlock_lease_number(lease), 5);
    redlock_lease_free(lease);
    static const char *const wanted[] = {
        "begin acquire 1 a exclusive - 0 for released",
        "begin hold 1 a exclusive - 1 for released",
        "end acquire 1 a exclusive OK 1 for released",
        "end hold 1 a exclusive OK 1 for released",
        "begin acquire 2 b exclusive - 0 for lost",
        "begin hold 2 b exclusive - 1 for lost",
        "end acquire 2 b exclusive OK 1 for lost",
        "begin extend 2 b exclusive - 1 for lost",
        "lock_lost for lost",
        "end hold 2 b exclusive GONE 1 for lost",
        "extension_failed for lost",
        "end extend 2 b exclusive GONE 1 for lost",
        "begin acquire 3 c exclusive - 0 for given",
        "begin hold 3 c exclusive - 1 for given",
        "end acquire 3 c exclusive OK 1 for given",
        "end hold 3 c exclusive CANCELLED 1 for given",
        "begin extend 4 c exclusive - 0 for adopted",
        "begin hold 4 c exclusive - 0 for adopted",
        "end extend 4 c exclusive OK 0 for adopted",
        "end hold 4 c exclusive OK 0 for adopted",
        "begin acquire 5 d exclusive - 0 for kept",
        "begin hold 5 d exclusive - 1 for kept",
        "end acquire 5 d exclusive OK 1 for kept",
        "end hold 5 d exclusive CANCELLED 1 for kept",
    };
    EXPECT_LINES(&spans, wanted);
    quorum_close(&s);
}

/* The client is freed in the callback of its first event: nothing is called after that. */
Test(events, that_free_the_client)
{
    struct quorum s;
    redlock_lease *lease;
    redlock_options options = tracing();
    redlock_lease_options lease_options = quorum_quiet_options();
    options.log = note_event;
    options.log_arg = &book;
    quorum_open_fresh_with(&s, 3, &options);
    cr_assert_eq(redlock_acquire(s.client, "k", 1, &lease_options, NULL, NULL, &lease),
                 REDLOCK_OK);
    spans.client = &s.client;
    spans.lease = &lease;
    LOOP_UNTIL(s.base, s.client == NULL);
    EXPECT_COUNT(&spans, "begin acquire 1 k ", 1);
    EXPECT_COUNT(&spans, "end acquire 1 k exclusive CANCELLED", 1);
    quorum_close(&s);
}

static void note_much(const redlock_event *event, void *arg)
{
    (void)event;
    ++*(unsigned *)arg;
}

/* Excess events are dropped, and counted. */
Test(events, too_many_at_once)
{
    enum { MANY = 20000 };
    struct quorum s;
    unsigned seen = 0, logged;
    redlock_stats stats;
    redlock_options options = quorum_options();
    redlock_lease_options lease_options = quorum_quiet_options();
    static redlock_lease *lease[MANY];
    options.log = note_much;
    options.log_arg = &seen;
    quorum_open_with(&s, 3, &options);
    LOOP_UNTIL(s.base, seen >= 3);
    logged = seen;
    servers_kill_first(&s.servers, 3);
    LOOP_UNTIL(s.base, seen >= logged + 6);
    logged = seen;
    for (unsigned i = 0; i < MANY; i++)
        cr_assert_eq(
            redlock_acquire(s.client, &i, sizeof(i), &lease_options, NULL, NULL, &lease[i]),
            REDLOCK_OK);
    redlock_stats_init(&stats);
    do {
        event_base_loop(s.base, EVLOOP_ONCE);
        cr_assert_eq(redlock_client_stats(s.client, &stats), REDLOCK_OK);
    } while (stats.acquiring > 0);
    LOOP_UNTIL(s.base, seen > logged);
    cr_assert_gt(stats.events_dropped, 0);
    cr_assert_eq(seen - logged + stats.events_dropped, MANY);
    for (unsigned i = 0; i < MANY; i++)
        redlock_lease_free(lease[i]);
    quorum_close(&s);
}
