#include "failure.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"

void redlock_failure_init_sized(redlock_failure *failure, size_t size, size_t node_size)
{
    redlock_failure empty = {
        .size = size,
        .node_size = node_size,
        .remaining_ms = REDLOCK_UNKNOWN,
    };
    rl_copy_sized(failure, size, &empty, sizeof(empty));
}

void rl_failure_clear(redlock_failure *failure)
{
    if (!failure)
        return;
    failure->error = (redlock_error){.code = REDLOCK_OK};
    failure->remaining_ms = REDLOCK_UNKNOWN;
    failure->holder[0] = '\0';
    failure->count = 0;
}

static void write_text(redlock_failure *failure, redlock_code code, const char *holder)
{
    size_t room = sizeof(failure->error.text);
    failure->error.code = code;
    if (!holder)
        snprintf(failure->error.text, room, "%s", redlock_code_text(code));
    else if (failure->remaining_ms < 0)
        snprintf(failure->error.text, room, "%s has the lock", holder);
    else
        snprintf(failure->error.text, room, "%s has the lock for another %" PRId64 " ms",
                 holder, failure->remaining_ms);
}

void rl_failure_by_nodes(redlock_failure *failure, redlock_code code,
                         const redlock_lease *lease, int64_t remaining_ms)
{
    redlock_node nodes[REDLOCK_NODES_MAX];
    if (!failure)
        return;
    size_t count = redlock_explain(lease, nodes, REDLOCK_NODES_MAX);
    failure->remaining_ms = remaining_ms;
    bool is_held = code == REDLOCK_TAKEN || code == REDLOCK_TIMEOUT;
    for (size_t i = 0; is_held && i < count && !failure->holder[0]; i++)
        if (nodes[i].verdict == REDLOCK_VERDICT_HELD)
            memcpy(failure->holder, nodes[i].holder, sizeof(failure->holder));
    write_text(failure, code, failure->holder[0] ? failure->holder : NULL);
    if (!failure->nodes || failure->node_size == 0)
        return;
    failure->count = count < failure->room ? count : failure->room;
    redlock_explain_sized(lease, failure->nodes, failure->room, failure->node_size);
}

void rl_failure_by_thread(redlock_failure *failure, redlock_code code, int64_t remaining_ms)
{
    if (!failure)
        return;
    failure->remaining_ms = remaining_ms;
    write_text(failure, code, "another thread of this process");
    if (remaining_ms < 0)
        snprintf(failure->error.text, sizeof(failure->error.text),
                 "another thread of this process waits for the lock");
}

void rl_failure_finish(redlock_failure *failure, redlock_code code)
{
    if (failure && failure->error.code != code)
        write_text(failure, code, NULL);
}
