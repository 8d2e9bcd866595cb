/* Sequences: calls of the interface, scripted replies and faults, on the simulator's I/O.
 */
#include "redlock/admin.h"

#include <string.h>

#include "fuzz.h"
#include "sequence_caller.h"
#include "sequence_nodes.h"
#include "sim/virtual/network.h"

#define STEPS_MAX  300
#define EVENTS_MAX 100000 /* of one span of time */
#define SPANS      15     /* of time: 1, 2, 4 ... ms */
#define INSIDE_MAX 3      /* calls inside of a callback, and callbacks inside of those */
#define KEYS       2

static const uint8_t *at, *end;
static unsigned inside; /* so many calls run inside of callbacks */

/* A number below this, from the next byte; 0 at the end. */
static unsigned take(unsigned below)
{
    return at < end ? *at++ % below : 0;
}

/* --- calls --- */

static redlock_key key_of(unsigned key)
{
    static const char *const names[KEYS] = {"a", "other"};
    return (redlock_key){names[key], strlen(names[key])};
}

static void acquire(struct handle *handle)
{
    static const int64_t ttls[] = {10000, 1000, 300, 60000, 0, 20};
    static const int64_t waits[] = {0, 100, 5000, REDLOCK_FOREVER};
    redlock_lease_options options;
    redlock_key key[KEYS];
    size_t count = 0;
    redlock_lease_options_init(&options);
    options.kind = handle->kind = take(REDLOCK_KIND_REDISSON + 1);
    options.slots = options.kind == REDLOCK_KIND_SLOT ? 2 : 0;
    options.ttl_ms = handle->ttl_ms = ttls[take(6)];
    options.wait_ms = waits[take(4)];
    unsigned flags = take(256);
    options.fenced = flags & 1 || options.kind == REDLOCK_KIND_ELECTION;
    options.watchdog = flags & 2;
    options.max_hold_ms = flags & 4 ? 3000 : REDLOCK_UNLIMITED;
    options.retry = flags & 8 ? REDLOCK_RETRY_FIXED : REDLOCK_RETRY_EXPONENTIAL;
    options.margin_ms = flags & 16 ? 50 : 0;
    options.on_lost = on_lost;
    options.on_extended = flags & 32 ? on_extended : NULL;
    options.lost_arg = options.extended_arg = handle;
    handle->fenced = options.fenced;
    handle->may_be_lost = false;
    handle->client = handle->caller->client;
    handle->keys =
        flags & 64 && options.kind == REDLOCK_KIND_EXCLUSIVE ? 3 : 1 + (flags >> 7);
    for (unsigned i = 0; i < KEYS; i++)
        if (handle->keys & 1u << i)
            key[count++] = key_of(i);
    struct operation *operation = operation_begin(ACQUIRE, handle->caller, handle);
    if (operation)
        operation_started(operation,
                          redlock_acquire_many(handle->caller->client, key, count, &options,
                                               on_result, operation, &handle->lease));
}

static void extend(struct handle *handle)
{
    static const int64_t ttls[] = {REDLOCK_AUTO, 200, 10000, 86400001};
    unsigned how = take(5);
    struct operation *operation = operation_begin(EXTEND, handle->caller, handle);
    if (!operation)
        return;
    if (how == 4) {
        redlock_code code = redlock_downgrade(handle->lease, on_result, operation);
        if (code == REDLOCK_OK)
            handle->kind = REDLOCK_KIND_SHARED;
        operation_started(operation, code);
        return;
    }
    if (ttls[how] > handle->ttl_ms)
        handle->ttl_ms = ttls[how];
    operation_started(operation,
                      redlock_extend(handle->lease, ttls[how], on_result, operation));
}

static void release(struct handle *handle)
{
    struct operation *operation = operation_begin(RELEASE, handle->caller, handle);
    if (operation)
        operation_started(operation, redlock_release(handle->lease, on_result, operation));
}

/* The token of another lease, or one that the nodes never saw. */
static void adopt(struct handle *handle)
{
    const struct handle *from = &callers[take(CALLERS)].handle[take(LEASES)];
    bool is_made = !from->lease || redlock_token(from->lease)[0] == '\0';
    char token[REDLOCK_TOKEN_MAX + 1];
    redlock_lease_options options;
    redlock_lease_options_init(&options);
    snprintf(token, sizeof(token), "%s",
             is_made ? "p23456723456723456723456723456723" : redlock_token(from->lease));
    redlock_key key = key_of(0);
    options.ttl_ms = handle->ttl_ms = 10000;
    options.slots = from->kind == REDLOCK_KIND_SLOT ? 2 : 0;
    options.watchdog = take(2);
    options.on_lost = on_lost;
    options.lost_arg = handle;
    int64_t valid_ms = take(2) ? REDLOCK_UNKNOWN : 5000;
    handle->kind = redlock_token_kind(token, &handle->fenced);
    handle->fenced = false; /* its fence is not known */
    handle->keys = 1;
    handle->may_be_lost = valid_ms > 0;
    handle->client = handle->caller->client;
    nodes.may_overlap = true;
    (void)redlock_adopt(handle->caller->client, key.bytes, key.len, token, valid_ms,
                        &options, &handle->lease);
}

/* What the caller asks, without a round trip. */
static void look(const struct caller *caller, const struct handle *handle)
{
    redlock_node node[NODES_MAX];
    char text[2048];
    size_t count = redlock_explain(handle->lease, node, NODES_MAX);
    FUZZ_CHECK(count == 0 || count == nodes.n);
    if (!caller->client)
        return;
    FUZZ_CHECK(redlock_client_explain(caller->client, node, NODES_MAX) == nodes.n);
    FUZZ_CHECK(redlock_client_members(caller->client, node, NODES_MAX) == nodes.n);
    redlock_client_record(caller->client, text, sizeof(text));
    FUZZ_CHECK(strlen(text) < sizeof(text));
    FUZZ_CHECK(redlock_client_nodes_time(caller->client) >= REDLOCK_UNKNOWN);
}

static void call_client(struct caller *caller)
{
    static const enum operation_type types[] = {DRAIN, ADMIT, INSPECT, INSPECT,
                                                LIST,  CHECK, ASK};
    redlock_client *client = caller->client;
    redlock_code code = REDLOCK_OK;
    unsigned what = take(7), how = take(6);
    redlock_key key = key_of(how % KEYS);
    struct operation *operation = operation_begin(types[what], caller, NULL);
    if (!operation)
        return;
    switch (what) {
    case 0: code = redlock_client_drain(client, how * 500, on_drained, operation); break;
    case 1: code = redlock_admit(client, how, how % 3, on_admitted, operation); break;
    case 2:
        code = redlock_inspect(client, key.bytes, key.len, on_inspected, operation);
        break;
    case 3:
        code = redlock_break(client, key.bytes, key.len, on_inspected, operation);
        nodes.may_overlap = true;
        break;
    case 4: code = redlock_list(client, "", 0, how & 1, on_listed, operation); break;
    case 5: code = redlock_check(client, how & 7, on_checked, operation); break;
    case 6:
        code = redlock_hold_time(client, key.bytes, key.len, on_hold_time, operation);
        (void)redlock_note_hold_time(client, key.bytes, key.len, how * 1000);
        break;
    }
    operation_started(operation, code);
}

static void observe(struct caller *caller)
{
    redlock_key key = key_of(0);
    if (caller->observer) {
        redlock_observer *observer = caller->observer;
        caller->observer = NULL;
        redlock_observer_free(observer);
        return;
    }
    (void)redlock_observe(caller->client, key.bytes, key.len, on_leader, caller,
                          &caller->observer);
}

/* One call by this caller; in its process. */
static void call(void *arg)
{
    struct caller *caller = arg;
    unsigned what = take(13);
    struct handle *handle = &caller->handle[take(LEASES)];
    switch (what) {
    case 0:
    case 1:
        if (!handle->lease)
            acquire(handle);
        break;
    case 2: extend(handle); break;
    case 3: release(handle); break;
    case 4: redlock_cancel(handle->lease); break;
    case 5: redlock_disown(handle->lease); break;
    case 6: caller_free_lease(handle); break;
    case 7:
        if (!handle->lease)
            adopt(handle);
        break;
    case 8: look(caller, handle); break;
    case 9: call_client(caller); break;
    case 10: observe(caller); break;
    case 11:
        if (caller->client)
            caller_free_client(caller);
        break;
    case 12:
        if (!caller->client)
            caller_make_client(caller);
        break;
    }
}

/* The input says whether something is called inside of a callback. */
static void call_inside(struct caller *caller)
{
    if (inside == INSIDE_MAX || take(4) != 3)
        return;
    inside++;
    call(caller);
    inside--;
}

/* --- what happens to them --- */

static void pass(int64_t span)
{
    unsigned events = 0;
    for (int64_t until = events_now() + span; events_step(until);)
        FUZZ_CHECK(++events < EVENTS_MAX);
}

static void script_reply(unsigned index)
{
    static const char *const usual[] = {
        "+OK\r\n",
        ":1\r\n",
        ":0\r\n",
        ":2\r\n",
        "$-1\r\n",
        "-NOSCRIPT no\r\n",
        "-READONLY no\r\n",
        "-LOADING no\r\n",
        "-NOAUTH no\r\n",
        "-NOPERM no\r\n",
        "-OOM no\r\n",
        "-MARKER\r\n",
        "*2\r\n$39\r\np23456723456723456723456723456723@other\r\n:500\r\n",
        "$36\r\n1 1800000000 123456 1800000000000000\r\n",
        "",
    };
    const unsigned usuals = sizeof(usual) / sizeof(usual[0]);
    bool executed = take(2);
    unsigned which = take(2 * usuals);
    if (which < usuals) {
        nodes_script(index, usual[which], strlen(usual[which]), executed);
        return;
    }
    size_t len = which - usuals < (size_t)(end - at) ? which - usuals : (size_t)(end - at);
    nodes_script(index, (const char *)at, len, executed);
    at += len;
}

static void forget(struct node *node, bool all)
{
    nodes.may_overlap = true;
    if (all)
        node_restart(node);
    else
        keyspace_clear(&node->redis->keyspace);
}

static void disturb_node(unsigned index)
{
    struct node *node = &nodes.node[index];
    struct redis_config *config = &node->redis->config;
    switch (take(11)) {
    case 0: script_reply(index); break;
    case 1: node_hang(node); break;
    case 2: node_resume(node); break;
    case 3: node_hang_up(node); break;
    case 4: node_stop(node); break;
    case 5: forget(node, true); break;
    case 6: forget(node, false); break;
    case 7: redis_forget_scripts(node->redis); break;
    case 8: config->is_replica = !config->is_replica; break;
    case 9: config->is_loading = !config->is_loading; break;
    case 10: network_block(index + 1, events_now() + (VIRTUAL_MS << take(SPANS))); break;
    }
}

static void disturb_process(struct process *process)
{
    unsigned what = take(3), how = take(SPANS);
    if (what == 0)
        process->faults.no_memory = how % 8;
    else if (what == 1)
        process->faults.no_random = how % 8;
    else
        process_stop(process, events_now() + (VIRTUAL_MS << how));
}

static void step(void)
{
    switch (take(8)) {
    case 0: disturb_node(take(nodes.n)); break;
    case 1: disturb_process(&callers[take(CALLERS)].process); break;
    case 2:
    case 3: pass(VIRTUAL_MS << take(SPANS)); break;
    default: {
        struct caller *caller = &callers[take(CALLERS)];
        process_call(&caller->process, call, caller);
    }
    }
}

static void make_client(void *arg)
{
    caller_make_client(arg);
}

static void admit(void *arg)
{
    struct caller *caller = arg;
    struct operation *operation = operation_begin(ADMIT, caller, NULL);
    operation_started(operation, redlock_admit(caller->client, REDLOCK_ADMIT_AT_ONCE, 0,
                                               on_admitted, operation));
}

static void begin(void)
{
    unsigned flags = take(256);
    inside = 0;
    events_begin(1 + take(256));
    network_begin();
    network.faults.cut = flags & 1 ? 2 : 0;
    network.faults.loss = flags & 2 ? 50 : 0;
    network.faults.send_room = flags & 4 ? 200 : network.faults.send_room;
    nodes_begin(1 + 2 * ((flags >> 3) % 3));
    callers_begin();
    for (unsigned i = 0; i < CALLERS; i++)
        process_call(&callers[i].process, make_client, &callers[i]);
    if (flags & 32)
        process_call(&callers[0].process, admit, &callers[0]);
    if (flags & 64)
        pass(VIRTUAL_S);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    at = data;
    end = data + size;
    caller_inside = call_inside;
    begin();
    for (unsigned steps = 0; at < end && steps < STEPS_MAX; steps++)
        step();
    end = at;
    callers_end();
    pass(VIRTUAL_S);
    nodes_end();
    network_end();
    events_end();
    return 0;
}
