#include "quorum.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

redlock_options quorum_options(void)
{
    redlock_options options;
    redlock_options_init(&options);
    options.label = "quorum";
    options.node_timeout_ms = 5000;
    options.connect_timeout_ms = 10000;
    return options;
}

redlock_lease_options quorum_lease_options(void)
{
    redlock_lease_options options;
    redlock_lease_options_init(&options);
    options.ttl_ms = 60000;
    return options;
}

redlock_lease_options quorum_quiet_options(void)
{
    redlock_lease_options options = quorum_lease_options();
    options.watchdog = false;
    return options;
}

redlock_client *quorum_client(struct quorum *quorum, const redlock_options *options)
{
    redlock_options mine = quorum_options();
    redlock_client *client = NULL;
    redlock_client_new(quorum->base, quorum->servers.uri, quorum->servers.n,
                       options ? options : &mine, &client);
    cr_assert_not_null(client, "%s", redlock_last_error()->text);
    return client;
}

void quorum_open_fresh_with(struct quorum *quorum, unsigned n,
                            const redlock_options *options)
{
    memset(quorum, 0, sizeof(*quorum));
    servers_start(&quorum->servers, n, NULL);
    quorum->base = event_base_new();
    cr_assert_not_null(quorum->base);
    quorum->client = quorum_client(quorum, options);
}

void quorum_open_fresh(struct quorum *quorum, unsigned n)
{
    quorum_open_fresh_with(quorum, n, NULL);
}

void quorum_open_with(struct quorum *quorum, unsigned n, const redlock_options *options)
{
    quorum_open_fresh_with(quorum, n, options);
    quorum_await_ready(quorum);
}

void quorum_open(struct quorum *quorum, unsigned n)
{
    quorum_open_with(quorum, n, NULL);
}

void quorum_close(struct quorum *quorum)
{
    redlock_client_free(quorum->client);
    if (quorum->base)
        event_base_free(quorum->base);
    servers_end(&quorum->servers);
}

void quorum_close_empty(struct quorum *quorum)
{
    quorum_expect_empty(quorum);
    quorum_close(quorum);
}

/* --- reports --- */

void reported_note(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct reported *reported = arg;
    reported->times++;
    reported->lease = lease;
    reported->result = *result;
}

void reported_on_lost(redlock_lease_options *options, struct reported *reported)
{
    options->on_lost = reported_note;
    options->lost_arg = reported;
}

redlock_lease *quorum_start(struct quorum *quorum, const char *key,
                            const redlock_lease_options *options, struct reported *reported)
{
    redlock_lease_options mine = quorum_lease_options();
    redlock_lease *lease = NULL;
    *reported = (struct reported){0};
    cr_assert_eq(redlock_acquire(quorum->client, key, strlen(key),
                                 options ? options : &mine, reported_note, reported,
                                 &lease),
                 REDLOCK_OK);
    return lease;
}

redlock_lease *quorum_acquire(struct quorum *quorum, const char *key,
                              const redlock_lease_options *options,
                              struct reported *reported)
{
    redlock_lease *lease = quorum_start(quorum, key, options, reported);
    LOOP_UNTIL(quorum->base, reported->times > 0);
    cr_assert_eq(reported->times, 1);
    cr_assert_eq(reported->lease, lease);
    return lease;
}

redlock_lease *quorum_hold(struct quorum *quorum, const char *key,
                           const redlock_lease_options *options)
{
    struct reported reported;
    redlock_lease *lease = quorum_acquire(quorum, key, options, &reported);
    cr_assert_eq(reported.result.code, REDLOCK_OK, "%s",
                 redlock_code_name(reported.result.code));
    return lease;
}

redlock_code quorum_release(struct quorum *quorum, redlock_lease *lease)
{
    struct reported reported = {0};
    redlock_code code = redlock_release(lease, reported_note, &reported);
    if (code != REDLOCK_OK)
        return code;
    LOOP_UNTIL(quorum->base, reported.times > 0);
    cr_assert_eq(reported.times, 1);
    return reported.result.code;
}

redlock_code quorum_extend(struct quorum *quorum, redlock_lease *lease, int64_t ttl_ms)
{
    struct reported reported = {0};
    redlock_code code = redlock_extend(lease, ttl_ms, reported_note, &reported);
    if (code != REDLOCK_OK)
        return code;
    LOOP_UNTIL(quorum->base, reported.times > 0);
    cr_assert_eq(reported.times, 1);
    return reported.result.code;
}

static void note_drained(redlock_client *client, bool clean, void *arg)
{
    int *drained = arg;
    (void)client;
    *drained = clean ? 1 : -1;
}

void quorum_drain(struct quorum *quorum)
{
    int drained = 0;
    cr_assert_eq(
        redlock_client_drain(quorum->client, LOOP_PATIENCE_MS, note_drained, &drained),
        REDLOCK_OK);
    LOOP_UNTIL(quorum->base, drained);
    cr_assert_eq(drained, 1, "something is left");
}

void quorum_free_lease(struct quorum *quorum, redlock_lease *lease)
{
    redlock_lease_free(lease);
    quorum_drain(quorum);
}

void quorum_expect_empty(struct quorum *quorum)
{
    quorum_drain(quorum);
    cr_assert_eq(servers_keys(&quorum->servers), 0);
}

/* --- fenced locks --- */

redlock_lease_options quorum_fenced_options(void)
{
    redlock_lease_options options = quorum_lease_options();
    options.fenced = true;
    return options;
}

redlock_lease_options quorum_quiet_fenced_options(void)
{
    redlock_lease_options options = quorum_fenced_options();
    options.watchdog = false;
    return options;
}

void admitted_note(redlock_client *client, const redlock_admitted *result, void *arg)
{
    struct admitted *admitted = arg;
    (void)client;
    admitted->times++;
    admitted->result = *result;
    snprintf(admitted->text, sizeof(admitted->text), "%s", result->text);
}

redlock_code quorum_admit(struct quorum *quorum, redlock_admission how, size_t node,
                          struct admitted *admitted)
{
    struct admitted mine;
    if (!admitted)
        admitted = &mine;
    *admitted = (struct admitted){0};
    cr_assert_eq(redlock_admit(quorum->client, how, node, admitted_note, admitted),
                 REDLOCK_OK);
    cr_assert_eq(admitted->times, 0, "never from inside the call");
    LOOP_UNTIL(quorum->base, admitted->times > 0);
    cr_assert_eq(admitted->times, 1);
    return admitted->result.code;
}

void quorum_open_fenced(struct quorum *quorum, unsigned n, const redlock_options *options)
{
    quorum_open_with(quorum, n, options);
    redlock_code code = quorum_admit(quorum, REDLOCK_ADMIT_AT_ONCE, 0, NULL);
    cr_assert_eq(code, REDLOCK_OK, "%s", redlock_code_name(code));
}

redlock_lease *quorum_hold_fenced(struct quorum *quorum, const char *key)
{
    redlock_lease_options options = quorum_quiet_fenced_options();
    redlock_lease *lease = quorum_hold(quorum, key, &options);
    cr_assert_gt(redlock_fence(lease), 0);
    return lease;
}

int64_t quorum_stored_fence(struct quorum *quorum, unsigned i, const char *key)
{
    redisReply *reply = servers_run(&quorum->servers, i, "GET %s!fence", key);
    cr_assert_eq(reply->type, REDIS_REPLY_STRING, "no fence on server %u", i);
    int64_t fence = strtoll(reply->str, NULL, 10);
    freeReplyObject(reply);
    return fence;
}

int64_t quorum_time_us(struct quorum *quorum, unsigned i)
{
    redisReply *reply = servers_run(&quorum->servers, i, "TIME");
    cr_assert_eq(reply->elements, 2);
    int64_t time = strtoll(reply->element[0]->str, NULL, 10) * 1000000 +
                   strtoll(reply->element[1]->str, NULL, 10);
    freeReplyObject(reply);
    return time;
}

void quorum_expect_fences(struct quorum *quorum, unsigned keys)
{
    quorum_await_ready(quorum);
    quorum_drain(quorum);
    cr_assert_eq(servers_keys(&quorum->servers), (1 + keys) * quorum->servers.n);
}

const redlock_node *quorum_member(const redlock_client *client, unsigned i)
{
    static redlock_node node[REDLOCK_NODES_MAX];
    cr_assert_gt(redlock_client_members(client, node, REDLOCK_NODES_MAX), i);
    return &node[i];
}

bool quorum_member_is(const redlock_client *client, unsigned i, const char *fault)
{
    return strcmp(redlock_fault_name(quorum_member(client, i)->fault), fault) == 0;
}

/* --- nodes --- */

const redlock_node *quorum_node(const redlock_lease *lease, unsigned i)
{
    static redlock_node node[REDLOCK_NODES_MAX];
    cr_assert_gt(redlock_explain(lease, node, REDLOCK_NODES_MAX), i);
    return &node[i];
}

const redlock_node *quorum_link(const redlock_client *client, unsigned i)
{
    static redlock_node node[REDLOCK_NODES_MAX];
    cr_assert_gt(redlock_client_explain(client, node, REDLOCK_NODES_MAX), i);
    return &node[i];
}

bool quorum_is(const redlock_client *client, unsigned i, const char *state)
{
    return strcmp(redlock_verdict_name(quorum_link(client, i)->verdict), state) == 0;
}

unsigned quorum_count_votes(const redlock_lease *lease, const char *verdict)
{
    redlock_node node[REDLOCK_NODES_MAX];
    size_t n = redlock_explain(lease, node, REDLOCK_NODES_MAX);
    unsigned count = 0;
    for (size_t i = 0; i < n; i++)
        count += strcmp(redlock_verdict_name(node[i].verdict), verdict) == 0;
    return count;
}

void quorum_await_ready(struct quorum *quorum)
{
    for (unsigned i = 0; i < quorum->servers.n; i++)
        LOOP_UNTIL(quorum->base, quorum_is(quorum->client, i, "ready"));
}
