#include "sequence_caller.h"

#include <string.h>

#include "core/types.h"
#include "fuzz.h"
#include "sequence_nodes.h"

struct caller callers[CALLERS];
void (*caller_inside)(struct caller *caller);

static struct operation operations[OPERATIONS_MAX];
static size_t count;
static const struct operation *starting; /* inside of this call */

/* --- codes --- */

#define BIT(code) (UINT64_C(1) << REDLOCK_##code)
#define ANY_ROUND (BIT(OK) | BIT(NO_QUORUM) | BIT(DENIED) | BIT(CANCELLED))
#define MEMORY    (BIT(NO_MEMORY) | BIT(FORKED) | BIT(CLOSED))

/* "Results" and "Errors" of the headers. */
static const struct {
    uint64_t results, errors;
} codes[] = {
    [ACQUIRE] = {ANY_ROUND | BIT(TAKEN) | BIT(TIMEOUT) | BIT(EXPIRED) | BIT(BAD_TTL) |
                     BIT(NO_MEMORY) | BIT(SYSTEM),
                 MEMORY | BIT(BAD_KEY) | BIT(BAD_TTL) | BIT(BAD_OPTION)},
    [EXTEND] = {ANY_ROUND | BIT(EXPIRED) | BIT(GONE) | BIT(TAKEN) | BIT(MAX_HOLD) |
                    BIT(BAD_TTL),
                MEMORY | BIT(BUSY) | BIT(NOT_HELD) | BIT(BAD_TTL) | BIT(BAD_OPTION) |
                    BIT(BAD_TOKEN)},
    [RELEASE] = {BIT(OK) | BIT(GONE) | BIT(TAKEN) | BIT(UNCONFIRMED) | BIT(CANCELLED),
                 BIT(NOT_HELD) | BIT(FORKED) | BIT(CLOSED)},
    [DRAIN] = {BIT(OK), MEMORY | BIT(BUSY) | BIT(BAD_OPTION)},
    [ADMIT] = {BIT(OK) | BIT(DENIED) | BIT(NO_MEMORY) | BIT(CANCELLED) | BIT(NOT_EMPTY) |
                   BIT(UNREACHED) | BIT(UNADMITTED) | BIT(WRONG_DEPLOYMENT) |
                   BIT(MEMBER_INACTIVE),
               MEMORY | BIT(BUSY) | BIT(BAD_OPTION)},
    [INSPECT] = {ANY_ROUND, MEMORY | BIT(BAD_KEY) | BIT(BAD_OPTION)},
    [LIST] = {ANY_ROUND | BIT(NO_MEMORY), MEMORY | BIT(BAD_KEY) | BIT(BAD_OPTION)},
    [CHECK] = {BIT(OK) | BIT(CANCELLED), MEMORY | BIT(BAD_OPTION)},
    [ASK] = {BIT(OK), MEMORY | BIT(BAD_KEY) | BIT(BAD_OPTION)},
};

static bool is_among(redlock_code code, uint64_t set)
{
    return set >> code & 1;
}

/* --- operations --- */

struct operation *operation_begin(enum operation_type type, struct caller *caller,
                                  struct handle *handle)
{
    if (count == OPERATIONS_MAX)
        return NULL;
    struct operation *operation = &operations[count++];
    *operation = (struct operation){.type = type, .caller = caller, .handle = handle};
    operation->client = handle ? handle->client : caller->client;
    starting = operation;
    return operation;
}

void operation_started(struct operation *operation, redlock_code code)
{
    FUZZ_CHECK(code == REDLOCK_OK || is_among(code, codes[operation->type].errors));
    FUZZ_CHECK(code == REDLOCK_OK || redlock_last_error()->code == code);
    starting = NULL;
    if (code != REDLOCK_OK)
        operation->is_freed = true;
}

static void note(struct operation *operation, redlock_code code)
{
    FUZZ_CHECK(operation != starting && !operation->is_told && !operation->is_freed);
    FUZZ_CHECK(is_among(code, codes[operation->type].results));
    FUZZ_CHECK(process_now() == &operation->caller->process);
    operation->is_told = true;
}

static void do_inside(struct caller *caller)
{
    const struct operation *before = starting;
    caller_inside(caller);
    starting = before;
}

/* --- exclusion --- */

static bool excludes(redlock_kind a, redlock_kind b)
{
    if (a == REDLOCK_KIND_EXCLUSIVE || b == REDLOCK_KIND_EXCLUSIVE)
        return a == b || a == REDLOCK_KIND_SHARED || b == REDLOCK_KIND_SHARED;
    return a == b && a != REDLOCK_KIND_SHARED && a != REDLOCK_KIND_SLOT;
}

struct question {
    const redlock_lease *lease;
    int64_t valid_ms;
};

static void ask_valid(void *arg)
{
    struct question *question = arg;
    question->valid_ms = redlock_valid_ms(question->lease);
}

static int64_t valid_ms(struct handle *handle)
{
    struct question question = {.lease = handle->lease};
    if (handle->lease)
        process_ask(&handle->caller->process, ask_valid, &question);
    FUZZ_CHECK(question.valid_ms >= 0 && question.valid_ms <= handle->ttl_ms);
    return question.valid_ms;
}

static void judge_held(struct handle *handle, const redlock_result *result)
{
    const char *token = redlock_token(handle->lease);
    rl_node_set granted = nodes_granted(token);
    FUZZ_CHECK(result->granted >= result->quorum && result->quorum > nodes.n / 2);
    FUZZ_CHECK(nodes.is_full || rl_count(granted) >= result->quorum);
    FUZZ_CHECK(!handle->fenced || redlock_fence(handle->lease) > 0 || nodes.liars);
    if (nodes.may_overlap || valid_ms(handle) == 0)
        return;
    for (size_t i = 0; i < CALLERS * LEASES; i++) {
        struct handle *other = &callers[i / LEASES].handle[i % LEASES];
        if (other == handle || !(other->keys & handle->keys) ||
            !excludes(other->kind, handle->kind))
            continue;
        FUZZ_CHECK(valid_ms(other) == 0 || strcmp(redlock_token(other->lease), token) == 0);
    }
}

/* --- callbacks --- */

void on_result(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct operation *operation = arg;
    struct handle *handle = operation->handle;
    note(operation, result->code);
    FUZZ_CHECK(lease == handle->lease);
    if (result->code == REDLOCK_OK && operation->type != RELEASE) {
        handle->may_be_lost = true;
        judge_held(handle, result);
    }
    do_inside(operation->caller);
}

void on_lost(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct handle *handle = arg;
    FUZZ_CHECK(lease == handle->lease && handle->may_be_lost && !starting);
    FUZZ_CHECK(
        is_among(result->code, BIT(EXPIRED) | BIT(GONE) | BIT(TAKEN) | BIT(MAX_HOLD)));
    handle->may_be_lost = false;
    do_inside(handle->caller);
}

void on_extended(redlock_lease *lease, const redlock_result *result, void *arg)
{
    struct handle *handle = arg;
    FUZZ_CHECK(lease == handle->lease && result->code == REDLOCK_OK && !starting);
    judge_held(handle, result);
    do_inside(handle->caller);
}

void on_drained(redlock_client *client, bool clean, void *arg)
{
    struct operation *operation = arg;
    (void)clean;
    FUZZ_CHECK(client == operation->client);
    note(operation, REDLOCK_OK);
    do_inside(operation->caller);
}

void on_admitted(redlock_client *client, const redlock_admitted *result, void *arg)
{
    struct operation *operation = arg;
    FUZZ_CHECK(client == operation->client && result->text);
    note(operation, result->code);
    do_inside(operation->caller);
}

void on_inspected(redlock_client *client, const redlock_inspection *inspection, void *arg)
{
    struct operation *operation = arg;
    FUZZ_CHECK(client == operation->client && inspection->count == nodes.n);
    note(operation, inspection->code);
    do_inside(operation->caller);
}

void on_listed(redlock_client *client, const redlock_listed *listed, void *arg)
{
    struct operation *operation = arg;
    FUZZ_CHECK(client == operation->client && !operation->is_told);
    if (!listed->inspection)
        note(operation, listed->code);
    do_inside(operation->caller);
}

void on_checked(redlock_client *client, const redlock_health_report *report, void *arg)
{
    struct operation *operation = arg;
    FUZZ_CHECK(client == operation->client);
    note(operation, report->code);
    do_inside(operation->caller);
}

void on_hold_time(redlock_client *client, int64_t longest_ms, void *arg)
{
    struct operation *operation = arg;
    FUZZ_CHECK(client == operation->client);
    FUZZ_CHECK(longest_ms >= 0 || longest_ms == REDLOCK_UNKNOWN);
    note(operation, REDLOCK_OK);
    do_inside(operation->caller);
}

void on_leader(redlock_observer *observer, const redlock_leader *leader, void *arg)
{
    struct caller *caller = arg;
    FUZZ_CHECK(observer == caller->observer && leader->id && leader->token && !starting);
    do_inside(caller);
}

/* --- clients and leases --- */

static void read_event(const redlock_event *event, void *arg)
{
    struct caller *caller = arg;
    FUZZ_CHECK(process_now() == &caller->process && event->name);
    for (size_t i = 0; i < event->count; i++)
        FUZZ_CHECK(!event->fields[i].text ||
                   event->fields[i].text[event->fields[i].len] == '\0');
    do_inside(caller);
}

static void read_span(const redlock_span *span, void *arg)
{
    struct caller *caller = arg;
    FUZZ_CHECK(process_now() == &caller->process && span->operation && span->key_len > 0);
    do_inside(caller);
}

void caller_make_client(struct caller *caller)
{
    static const char *const uris[NODES_MAX] = {"redis://10.0.0.1", "redis://node2",
                                                "redis://node3", "redis://10.0.0.4",
                                                "redis://10.0.0.5"};
    redlock_options options;
    redlock_options_init(&options);
    options.log = read_event;
    options.trace = read_span;
    options.log_arg = options.trace_arg = caller;
    redlock_client *client;
    if (redlock_client_new(process_loop(&caller->process), uris, nodes.n, &options,
                           &client) == REDLOCK_OK)
        caller->client = client;
}

/* All that it has started is told by now. */
void caller_free_client(struct caller *caller)
{
    redlock_client *client = caller->client;
    caller->client = NULL;
    redlock_client_free(client);
    for (size_t i = 0; i < count; i++)
        FUZZ_CHECK(operations[i].client != client || operations[i].is_told ||
                   operations[i].is_freed);
}

void caller_free_lease(struct handle *handle)
{
    redlock_lease *lease = handle->lease;
    handle->lease = NULL;
    for (size_t i = 0; i < count; i++)
        operations[i].is_freed |= operations[i].handle == handle;
    redlock_lease_free(lease);
}

void callers_begin(void)
{
    count = 0;
    starting = NULL;
    for (unsigned i = 0; i < CALLERS; i++) {
        callers[i] = (struct caller){.client = NULL};
        process_begin(&callers[i].process, "host", 100 + i);
        callers[i].process.index = i;
        for (unsigned k = 0; k < LEASES; k++)
            callers[i].handle[k].caller = &callers[i];
    }
}

static void free_all(void *arg)
{
    struct caller *caller = arg;
    redlock_observer_free(caller->observer);
    caller->observer = NULL;
    for (unsigned i = 0; i < LEASES; i++)
        caller_free_lease(&caller->handle[i]);
    caller_free_client(caller);
}

void callers_end(void)
{
    for (unsigned i = 0; i < CALLERS; i++)
        process_call(&callers[i].process, free_all, &callers[i]);
    for (unsigned i = 0; i < CALLERS; i++) {
        FUZZ_CHECK(callers[i].process.blocks == 0);
        process_end(&callers[i].process);
    }
}
