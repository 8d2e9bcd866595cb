/* Admits nodes: checks an operator's request, starts it, and waits until it is done. */
#include <stdio.h>
#include <string.h>

#include "client/client.h"
#include "pattern.h"
#include "redlock/admin.h"

#define POLL_GAP (50 * RL_MS)

/* A member is REPLACED for certain after this: its marker was read several times. */
#define REPLACED_FOR (4 * RL_MEMBER_RETRY_DELAY)

/* Scans one page of keys with the client's prefix; returns the next cursor and one key. */
static const char page[] =
    "local page = redis.pcall('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', 1000)\n"
    "if page.err then return redis.error_reply('NOPERM ' .. page.err) end\n"
    "return {page[1], page[2][1] or ''}";

struct admit {
    struct rl_task task;
    struct rl_admission_request request;
    bool begun;
    rl_node_set scanning; /* nodes whose keys are not completely scanned yet */
    rl_time since;        /* it begins when all markers were read since then ... */
    rl_time deadline;     /* ... of the nodes that were reached until then */
    rl_time replaced_at;  /* REPLACE: since when a node is REPLACED; RL_NEVER: none is */
    redlock_admit_fn *callback;
    void *arg;
    char text[REDLOCK_KEY_MAX + 16];
    char pattern[RL_PATTERN_MAX]; /* of keys with the client's prefix */
};

static void admit_finish(struct admit *admit, redlock_code code, int node, const char *text)
{
    redlock_client *client = rl_client_of(&admit->task);
    redlock_admitted result = {.code = code, .node = node, .text = text};
    client->admit = NULL;
    rl_admission_end(&client->members.membership);
    rl_task_end(&admit->task);
    if (admit->callback)
        admit->callback(client, &result, admit->arg);
    rl_loop_called_back(&client->loop);
}

/* --- search for keys --- */

static bool scan(struct admit *admit, unsigned node, struct rl_word cursor)
{
    struct rl_word word[] = {
        {"EVAL", 4},
        {page, sizeof(page) - 1},
        {"0", 1},
        cursor,
        {admit->pattern, strlen(admit->pattern)},
    };
    return rl_nodes_send_raw(&rl_client_of(&admit->task)->nodes, &admit->task, 0, word, 5,
                             node);
}

/* --- begin --- */

static void admit_refuse(struct admit *admit, enum rl_admission_error refusal,
                         unsigned node)
{
    static const redlock_code codes[] = {
        [RL_ADMISSION_UNREACHED] = REDLOCK_UNREACHED,
        [RL_ADMISSION_NOT_EMPTY] = REDLOCK_NOT_EMPTY,
        [RL_ADMISSION_UNADMITTED] = REDLOCK_UNADMITTED,
        [RL_ADMISSION_MEMBER_INACTIVE] = REDLOCK_MEMBER_INACTIVE,
        [RL_ADMISSION_WRONG_DEPLOYMENT] = REDLOCK_WRONG_DEPLOYMENT,
        [RL_ADMISSION_EMPTY] = REDLOCK_MEMBER_INACTIVE,
    };
    const redlock_client *client = rl_client_of(&admit->task);
    enum rl_fault fault = RL_FAULT_NONE;
    if (node < client->nodes.n)
        fault = rl_members_fault(&client->members, node);
    const char *text = refusal == RL_ADMISSION_NOT_EMPTY ? "it has a marker"
                       : refusal == RL_ADMISSION_EMPTY
                           ? "it lost its data, and the markers promise that no node does"
                       : fault != RL_FAULT_NONE
                           ? rl_node_text(&client->nodes.node[node], fault)
                           : "";
    admit_finish(admit, codes[refusal],
                 node < client->nodes.n ? (int)node : REDLOCK_NO_NODE, text);
}

_Static_assert((int)REDLOCK_ADMIT_NEW == RL_ADMIT_NEW &&
                   (int)REDLOCK_ADMIT_AT_ONCE == RL_ADMIT_AT_ONCE &&
                   (int)REDLOCK_ADMIT_READMIT == RL_ADMIT_READMIT &&
                   (int)REDLOCK_ADMIT_REPLACE == RL_ADMIT_REPLACE &&
                   (int)REDLOCK_ADMIT_RETIRE == RL_ADMIT_RETIRE,
               "in the same order");

static void admit_begin(struct admit *admit)
{
    redlock_client *client = rl_client_of(&admit->task);
    unsigned node = client->nodes.n;
    admit->request.max_ttl_ms = client->options.max_ttl_ms ? client->options.max_ttl_ms
                                                           : REDLOCK_QUARANTINE_FLOOR_MS;
    enum rl_admission_error refusal =
        rl_members_admit(&client->members, &admit->request, &node);
    if (refusal != RL_ADMISSION_OK) {
        admit_refuse(admit, refusal, node);
        return;
    }
    rl_task_schedule(&admit->task, rl_time_add_sat(client->loop.now, POLL_GAP));
}

static bool is_new(const struct admit *admit)
{
    return admit->request.mode == RL_ADMIT_NEW || admit->request.mode == RL_ADMIT_AT_ONCE;
}

static void scan_all(struct admit *admit, rl_node_set nodes)
{
    admit->scanning = nodes;
    for (rl_node_set rest = nodes; rest; rest &= rest - 1)
        if (!scan(admit, rl_first(rest), (struct rl_word){"0", 1})) {
            admit_finish(admit, REDLOCK_NO_MEMORY, (int)rl_first(rest), "");
            return;
        }
}

static void scan_for_keys(struct admit *admit)
{
    redlock_client *client = rl_client_of(&admit->task);
    rl_node_set asleep = rl_all(client->nodes.n) & ~client->nodes.awake;
    if (asleep) {
        admit_refuse(admit, RL_ADMISSION_UNREACHED, rl_first(asleep));
        return;
    }
    for (unsigned i = 0; i < client->nodes.n; i++)
        if (client->members.membership.member[i].state != RL_MEMBER_UNMARKED) {
            admit_refuse(admit, RL_ADMISSION_NOT_EMPTY, i);
            return;
        }
    scan_all(admit, rl_all(client->nodes.n));
}

/* If the newcomer is down or has a marker, it is refused without a scan of its keys. */
static bool newcomer_may_have_keys(const struct admit *admit)
{
    const redlock_client *client = rl_client_of(&admit->task);
    unsigned newcomer = admit->request.newcomer;
    return admit->request.mode == RL_ADMIT_REPLACE &&
           client->nodes.awake & rl_bit(newcomer) &&
           client->members.membership.member[newcomer].state == RL_MEMBER_UNMARKED;
}

/* A node that refuses the commands to its marker; n: none. */
static unsigned find_denial(const redlock_client *client)
{
    unsigned i = 0;
    while (i < client->nodes.n && !rl_fault_is_denial(client->members.refusal[i]))
        i++;
    return i;
}

/*
 * REPLACE: a node of the list that does not vote any more, because another admission gave
 * its member index away meanwhile; n: none. A node that another client readmits is
 * REPLACED, too, until its new marker is read.
 */
static unsigned find_replaced(struct admit *admit)
{
    const redlock_client *client = rl_client_of(&admit->task);
    const struct rl_member *member = client->members.membership.member;
    unsigned i = 0, n = client->nodes.n;
    while (i < n && member[i].state != RL_MEMBER_REPLACED)
        i++;
    if (i == n || admit->request.mode != RL_ADMIT_REPLACE)
        admit->replaced_at = RL_NEVER;
    else
        admit->replaced_at = rl_min(admit->replaced_at, client->loop.now);
    return client->loop.now - REPLACED_FOR >= admit->replaced_at ? i : n;
}

static void go_on(struct admit *admit)
{
    const redlock_client *client = rl_client_of(&admit->task);
    unsigned denied = find_denial(client), replaced = find_replaced(admit);
    switch (rl_admission_progress(&client->members.membership)) {
    case RL_ADMISSION_DONE: admit_finish(admit, REDLOCK_OK, REDLOCK_NO_NODE, ""); break;
    case RL_ADMISSION_LOST_RACE:
        admit_finish(admit, REDLOCK_NOT_EMPTY, REDLOCK_NO_NODE,
                     "another admits these nodes at the same time");
        break;
    case RL_ADMISSION_RUNNING:
        if (denied < client->nodes.n)
            admit_finish(
                admit, REDLOCK_DENIED, (int)denied,
                rl_node_text(&client->nodes.node[denied], client->members.refusal[denied]));
        else if (replaced == admit->request.newcomer)
            admit_finish(admit, REDLOCK_NOT_EMPTY, (int)replaced,
                         "another server got its member index meanwhile");
        else if (replaced < client->nodes.n)
            admit_refuse(admit, RL_ADMISSION_MEMBER_INACTIVE, replaced);
        else
            rl_task_schedule(&admit->task, client->loop.now + POLL_GAP);
        break;
    }
}

static void admit_tick(struct rl_task *task)
{
    struct admit *admit = (struct admit *)task;
    redlock_client *client = rl_client_of(task);
    if (!admit->begun) {
        bool tries = rl_startup_tried(&client->nodes) != rl_all(client->nodes.n) &&
                     client->loop.now < admit->deadline;
        /* A node that does not reply is given up in the end: then it is not greeted. */
        if (tries || rl_admission_is_looking(&client->members.membership, admit->since)) {
            rl_task_schedule(task, client->loop.now + POLL_GAP);
            return;
        }
        admit->begun = true;
        if (is_new(admit))
            scan_for_keys(admit);
        else if (newcomer_may_have_keys(admit))
            scan_all(admit, rl_bit(admit->request.newcomer));
        else
            admit_begin(admit);
        return;
    }
    if (admit->scanning)
        return;
    go_on(admit);
}

/* The key may be a marker that another operator's admission has just written. */
static void report_key(struct admit *admit, struct rl_word key)
{
    const redlock_client *client = rl_client_of(&admit->task);
    bool is_marker = key.len == client->members.marker_key_len &&
                     memcmp(key.text, client->members.marker_key, key.len) == 0;
    if (is_marker)
        strcpy(admit->text, "it has a marker");
    else
        snprintf(admit->text, sizeof(admit->text), "it has the key %.*s", (int)key.len,
                 key.text);
}

static void admit_answer(struct rl_task *task, unsigned node, const struct rl_op *op,
                         const struct rl_reply *reply)
{
    struct admit *admit = (struct admit *)task;
    const struct rl_node *from = &rl_client_of(task)->nodes.node[node];
    (void)op;
    if (!reply) {
        admit_refuse(admit, RL_ADMISSION_UNREACHED, node);
    } else if (reply->type == RL_REPLY_ERROR) {
        enum rl_fault fault = rl_fault_of_error(reply->text, reply->len);
        admit_finish(admit, rl_fault_is_denial(fault) ? REDLOCK_DENIED : REDLOCK_UNREACHED,
                     (int)node, rl_node_text(from, fault));
    } else if (reply->type != RL_REPLY_ARRAY || reply->items != 2 ||
               reply->item[0].type != RL_REPLY_STRING ||
               reply->item[1].type != RL_REPLY_STRING) {
        admit_finish(admit, REDLOCK_UNREACHED, (int)node, rl_fault_text(RL_FAULT_PROTOCOL));
    } else if (reply->item[1].len > 0) {
        report_key(admit, (struct rl_word){reply->item[1].text, reply->item[1].len});
        admit_finish(admit, REDLOCK_NOT_EMPTY, (int)node, admit->text);
    } else if (reply->item[0].len != 1 || reply->item[0].text[0] != '0') {
        if (!scan(admit, node, (struct rl_word){reply->item[0].text, reply->item[0].len}))
            admit_finish(admit, REDLOCK_NO_MEMORY, (int)node, "");
    } else {
        admit->scanning &= ~rl_bit(node);
        if (!admit->scanning)
            admit_begin(admit);
    }
}

static void close_admit(struct rl_task *task)
{
    admit_finish((struct admit *)task, REDLOCK_CANCELLED, REDLOCK_NO_NODE, "");
}

static const struct rl_task_class admit_class = {
    .tick = admit_tick,
    .replied = admit_answer,
    .close = close_admit,
    .destroy = rl_task_free,
};

#define PROMISES (REDLOCK_PROMISE_NONE | REDLOCK_PROMISE_DURABLE | REDLOCK_PROMISE_SOLE)

static redlock_code read_request(const redlock_client *client, unsigned how, size_t node,
                                 struct rl_admission_request *ret_request)
{
    unsigned promises = how & PROMISES, mode = how & ~(unsigned)PROMISES;
    bool takes_some = mode <= REDLOCK_ADMIT_READMIT, none = promises & REDLOCK_PROMISE_NONE;
    redlock_code code =
        rl_check_range("how", mode, REDLOCK_ADMIT_NEW, REDLOCK_ADMIT_RETIRE);
    bool is_of_node = mode == REDLOCK_ADMIT_REPLACE || mode == REDLOCK_ADMIT_RETIRE;
    if (code == REDLOCK_OK && is_of_node)
        code = rl_check_range("node", (int64_t)node, 0, client->nodes.n - 1);
    if (code != REDLOCK_OK)
        return code;
    if ((promises && !takes_some) || (none && promises != REDLOCK_PROMISE_NONE))
        return rl_fail_field(REDLOCK_BAD_OPTION, REDLOCK_REASON_NONE, "how",
                             "has promises: only NEW, AT_ONCE and READMIT take them, and "
                             "NONE excludes others");
    *ret_request = (struct rl_admission_request){
        .mode = (enum rl_admission_mode)mode,
        .newcomer = is_of_node ? (uint8_t)node : 0,
        .sets_promises = mode == REDLOCK_ADMIT_READMIT && promises,
        .promises = (promises & REDLOCK_PROMISE_DURABLE ? RL_PROMISE_DURABLE : 0) |
                    (promises & REDLOCK_PROMISE_SOLE ? RL_PROMISE_SOLE : 0),
        .forgotten = mode == REDLOCK_ADMIT_READMIT ? (rl_node_set)node : 0,
    };
    return REDLOCK_OK;
}

static redlock_code admit_make(redlock_client *client, unsigned how, size_t node,
                               redlock_admit_fn *callback, void *arg)
{
    struct rl_admission_request request;
    if (client->admit)
        return rl_fail(REDLOCK_BUSY, REDLOCK_REASON_RUNNING,
                       "another admission of this client is running");
    redlock_code code = read_request(client, how, node, &request);
    if (code != REDLOCK_OK)
        return code;
    struct admit *admit = rl_task_new(sizeof(*admit), &client->loop, &admit_class);
    if (!admit)
        return rl_fail_by_code(REDLOCK_NO_MEMORY);
    admit->request = request;
    admit->replaced_at = RL_NEVER;
    admit->callback = callback;
    admit->arg = arg;
    admit->since = client->loop.now;
    admit->deadline =
        rl_time_add_sat(client->loop.now, client->options.connect_timeout_ms * RL_MS);
    rl_pattern_of("", 0, client->options.prefix, admit->pattern);
    client->admit = &admit->task;
    rl_members_look(&client->members);
    rl_task_schedule(&admit->task, client->loop.now);
    return REDLOCK_OK;
}

redlock_code redlock_client_watch_members(redlock_client *client)
{
    redlock_code code = rl_client_call(client);
    if (code != REDLOCK_OK)
        return code;
    rl_members_enable(&client->members);
    rl_loop_return(&client->loop);
    return REDLOCK_OK;
}

redlock_code redlock_admit(redlock_client *client, unsigned how, size_t node,
                           redlock_admit_fn *callback, void *arg)
{
    redlock_code code = rl_client_call(client);
    if (code != REDLOCK_OK)
        return code;
    code = admit_make(client, how, node, callback, arg);
    rl_loop_return(&client->loop);
    return code;
}
