#include "stage.h"

#include <criterion/criterion.h>
#include <stdio.h>

redlock_options stage_options(void)
{
    redlock_options options;
    redlock_options_init(&options);
    options.label = "stage";
    options.node_timeout_ms = 5000;
    options.connect_timeout_ms = 10000;
    return options;
}

redlock_lease_options stage_lease_options(void)
{
    redlock_lease_options options;
    redlock_lease_options_init(&options);
    options.ttl_ms = 60000;
    return options;
}

redlock_client *stage_client(struct stage *stage, const redlock_options *options)
{
    redlock_options mine = stage_options();
    redlock_client *client = NULL;
    redlock_error error = {0};
    redlock_client_new(stage->base, stage->servers.uri, stage->servers.n,
                       options ? options : &mine, &client, &error);
    cr_assert_not_null(client, "%s", error.text);
    return client;
}

void stage_open_fresh_with(struct stage *stage, unsigned n, const redlock_options *options)
{
    memset(stage, 0, sizeof(*stage));
    servers_start(&stage->servers, n, NULL);
    stage->base = event_base_new();
    cr_assert_not_null(stage->base);
    stage->client = stage_client(stage, options);
}

void stage_open_fresh(struct stage *stage, unsigned n)
{
    stage_open_fresh_with(stage, n, NULL);
}

void stage_open_with(struct stage *stage, unsigned n, const redlock_options *options)
{
    stage_open_fresh_with(stage, n, options);
    stage_settle(stage);
}

void stage_open(struct stage *stage, unsigned n)
{
    stage_open_with(stage, n, NULL);
}

void stage_close(struct stage *stage)
{
    redlock_client_free(stage->client);
    if (stage->base)
        event_base_free(stage->base);
    servers_end(&stage->servers);
}

/* --- being told --- */

void told_note(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct told *told = arg;
    told->times++;
    told->lease = lease;
    told->result = *result;
}

redlock_lease *stage_acquire(struct stage *stage, const char *key,
                             const redlock_lease_options *options, struct told *told)
{
    redlock_lease_options mine = stage_lease_options();
    redlock_lease *lease = NULL;
    *told = (struct told){0};
    cr_assert_eq(redlock_acquire(stage->client, key, strlen(key), options ? options : &mine,
                                 told_note, told, &lease),
                 REDLOCK_OK);
    LOOP_UNTIL(stage->base, told->times > 0);
    cr_assert_eq(told->times, 1);
    cr_assert_eq(told->lease, lease);
    return lease;
}

redlock_lease *stage_hold(struct stage *stage, const char *key,
                          const redlock_lease_options *options)
{
    struct told told;
    redlock_lease *lease = stage_acquire(stage, key, options, &told);
    cr_assert_eq(told.result.code, REDLOCK_OK, "%s", redlock_code_name(told.result.code));
    return lease;
}

redlock_code stage_release(struct stage *stage, redlock_lease *lease)
{
    struct told told = {0};
    redlock_code code = redlock_release(lease, told_note, &told);
    if (code != REDLOCK_OK)
        return code;
    LOOP_UNTIL(stage->base, told.times > 0);
    cr_assert_eq(told.times, 1);
    return told.result.code;
}

redlock_code stage_extend(struct stage *stage, redlock_lease *lease, int64_t ttl_ms)
{
    struct told told = {0};
    redlock_code code = redlock_extend(lease, ttl_ms, told_note, &told);
    if (code != REDLOCK_OK)
        return code;
    LOOP_UNTIL(stage->base, told.times > 0);
    cr_assert_eq(told.times, 1);
    return told.result.code;
}

static void note_drained(redlock_client *client, bool clean, void *arg)
{
    int *drained = arg;
    (void)client;
    *drained = clean ? 1 : -1;
}

void stage_drain(struct stage *stage)
{
    int drained = 0;
    cr_assert_eq(
        redlock_client_drain(stage->client, LOOP_PATIENCE_MS, note_drained, &drained),
        REDLOCK_OK);
    LOOP_UNTIL(stage->base, drained);
    cr_assert_eq(drained, 1, "something is left");
}

/* --- fenced locks --- */

redlock_lease_options stage_fenced_options(void)
{
    redlock_lease_options options = stage_lease_options();
    options.fenced = true;
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

redlock_code stage_admit(struct stage *stage, redlock_admission how, size_t node,
                         struct admitted *admitted)
{
    struct admitted mine;
    if (!admitted)
        admitted = &mine;
    *admitted = (struct admitted){0};
    cr_assert_eq(redlock_admit(stage->client, how, node, admitted_note, admitted),
                 REDLOCK_OK);
    cr_assert_eq(admitted->times, 0, "never from inside the call");
    LOOP_UNTIL(stage->base, admitted->times > 0);
    cr_assert_eq(admitted->times, 1);
    return admitted->result.code;
}

void stage_open_fenced(struct stage *stage, unsigned n, const redlock_options *options)
{
    stage_open_with(stage, n, options);
    redlock_code code = stage_admit(stage, REDLOCK_ADMIT_AT_ONCE, 0, NULL);
    cr_assert_eq(code, REDLOCK_OK, "%s", redlock_code_name(code));
}

const redlock_node *stage_standing(const redlock_client *client, unsigned i)
{
    static redlock_node node[REDLOCK_NODES_MAX];
    cr_assert_gt(redlock_client_standing(client, node, REDLOCK_NODES_MAX), i);
    return &node[i];
}

bool stage_stands(const redlock_client *client, unsigned i, const char *fault)
{
    return strcmp(stage_standing(client, i)->fault, fault) == 0;
}

/* --- nodes --- */

const redlock_node *stage_node(const redlock_lease *lease, unsigned i)
{
    static redlock_node node[REDLOCK_NODES_MAX];
    cr_assert_gt(redlock_explain(lease, node, REDLOCK_NODES_MAX), i);
    return &node[i];
}

const redlock_node *stage_link(const redlock_client *client, unsigned i)
{
    static redlock_node node[REDLOCK_NODES_MAX];
    cr_assert_gt(redlock_client_explain(client, node, REDLOCK_NODES_MAX), i);
    return &node[i];
}

bool stage_is(const redlock_client *client, unsigned i, const char *state)
{
    return strcmp(stage_link(client, i)->verdict, state) == 0;
}

unsigned stage_verdicts(const redlock_lease *lease, const char *verdict)
{
    redlock_node node[REDLOCK_NODES_MAX];
    size_t n = redlock_explain(lease, node, REDLOCK_NODES_MAX);
    unsigned count = 0;
    for (size_t i = 0; i < n; i++)
        count += strcmp(node[i].verdict, verdict) == 0;
    return count;
}

void stage_settle(struct stage *stage)
{
    for (unsigned i = 0; i < stage->servers.n; i++)
        LOOP_UNTIL(stage->base, stage_is(stage->client, i, "ready"));
}
