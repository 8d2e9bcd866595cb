#include "failure.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "failed_nodes.h"

static const redlock_error none = {.code = REDLOCK_OK};

void redlock_failure_init_sized(redlock_failure *failure, size_t size, size_t node_size)
{
    redlock_failure empty = {
        .size = size,
        .node_size = node_size,
        .error = &none,
        .remaining_ms = REDLOCK_UNKNOWN,
    };
    rl_copy_sized(failure, size, &empty, sizeof(empty));
}

redlock_code rl_failure_begin(redlock_failure **ret_failure)
{
    redlock_failure *failure = *ret_failure;
    if (!failure)
        return REDLOCK_OK;
    redlock_code code = rl_check_sized(failure, RL_FIRST_SIZE(redlock_failure, count),
                                       sizeof(*failure), "redlock_failure_init");
    if (code != REDLOCK_OK) {
        *ret_failure = NULL;
        return code;
    }
    failure->error = &none;
    failure->remaining_ms = REDLOCK_UNKNOWN;
    failure->holder[0] = '\0';
    failure->count = 0;
    return REDLOCK_OK;
}

static redlock_code fail_by_holder(redlock_code code, redlock_reason reason,
                                   const char *holder, int64_t remaining_ms)
{
    if (!holder[0])
        return rl_fail_by_reason(code, reason);
    if (remaining_ms < 0)
        return rl_fail(code, reason, "%s has the lock", holder);
    return rl_fail(code, reason, "%s has the lock for another %" PRId64 " ms", holder,
                   remaining_ms);
}

/* The holder, by the first node that names one; "": unknown. */
static const char *holder_of(const redlock_node *nodes, size_t count, redlock_code code)
{
    bool is_held = code == REDLOCK_TAKEN || code == REDLOCK_TIMEOUT;
    for (size_t i = 0; is_held && i < count; i++)
        if (nodes[i].verdict == REDLOCK_VERDICT_HELD && nodes[i].holder[0])
            return nodes[i].holder;
    return "";
}

void rl_failure_by_nodes(redlock_failure *failure, const redlock_hold *hold,
                         redlock_code code, redlock_reason reason,
                         const redlock_lease *lease, int64_t remaining_ms)
{
    redlock_node nodes[REDLOCK_NODES_MAX];
    size_t count = rl_hold_nodes(hold, lease, nodes);
    const char *holder = holder_of(nodes, count, code);
    if (code == REDLOCK_NO_QUORUM || code == REDLOCK_DENIED ||
        code == REDLOCK_UNCONFIRMED || code == REDLOCK_EXPIRED)
        rl_fail_by_nodes(code, reason, nodes, count);
    else
        fail_by_holder(code, reason, holder, remaining_ms);
    if (!failure)
        return;
    failure->remaining_ms = remaining_ms;
    strcpy(failure->holder, holder);
    if (!failure->nodes || failure->node_size == 0)
        return;
    failure->count = count < failure->room ? count : failure->room;
    rl_nodes_put(nodes, count, failure->nodes, failure->room, failure->node_size);
}

redlock_code rl_failure_by_thread(redlock_failure *failure, redlock_code code,
                                  int64_t remaining_ms)
{
    if (failure)
        failure->remaining_ms = remaining_ms;
    if (remaining_ms < 0)
        return rl_fail(code, REDLOCK_REASON_THREAD,
                       "a thread of this process waits for the lock");
    return fail_by_holder(code, REDLOCK_REASON_THREAD, "a thread of this process",
                          remaining_ms);
}

redlock_code rl_failure_finish(redlock_failure *failure, redlock_code code)
{
    static _Thread_local redlock_error last;
    if (failure && code != REDLOCK_OK) {
        last = *redlock_last_error();
        failure->error = &last;
    }
    return code;
}
