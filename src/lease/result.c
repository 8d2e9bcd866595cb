/* The result of an operation, as its callback gets it. */
#include "core/reason.h"
#include "handle.h"

/* Why an operation that the caller or the client ended was cancelled. */
static redlock_reason reason_of_cancel(const redlock_lease *lease)
{
    if (lease->first.task.loop->closing)
        return REDLOCK_REASON_CLIENT_FREED;
    if (rl_handle_is_releasing(lease))
        return REDLOCK_REASON_RELEASED;
    return lease->disowned ? REDLOCK_REASON_DISOWNED : REDLOCK_REASON_BY_CALLER;
}

static redlock_reason reason_of(const redlock_lease *lease, redlock_code code)
{
    const struct rl_lease *core = rl_handle_core(lease);
    switch (code) {
    case REDLOCK_CANCELLED: return reason_of_cancel(lease);
    case REDLOCK_BAD_TTL: return REDLOCK_REASON_TTL_ADMITTED;
    case REDLOCK_SYSTEM: return REDLOCK_REASON_RANDOM;
    case REDLOCK_DENIED: return rl_reason_of_nodes(core->ballot, core->params->n);
    case REDLOCK_NO_QUORUM:
    case REDLOCK_EXPIRED:
    case REDLOCK_UNCONFIRMED: return rl_reason_of_lease(core, lease->first.task.loop->now);
    default: return REDLOCK_REASON_NONE;
    }
}

redlock_result rl_handle_result(const redlock_lease *lease, redlock_code code)
{
    const redlock_client *client = rl_client_of(&lease->first.task);
    const struct rl_lease *core = rl_handle_core(lease);
    redlock_result result = {
        .code = code,
        .reason = reason_of(lease, code),
        .nodes = lease->first.config->params.n,
        .quorum = lease->first.config->params.q,
        .attempts = lease->waiting.attempts,
        .remaining_ms = REDLOCK_UNKNOWN,
    };
    if (!core || core->state == RL_LEASE_NEW)
        return result;
    unsigned n = core->params->n;
    bool held = core->state == RL_LEASE_HELD, granted = held && code == REDLOCK_OK;
    for (unsigned i = 0; !granted && i < n; i++)
        result.granted += core->ballot[i].vote == RL_VOTE_GRANTED;
    if (granted)
        result.granted = rl_count(core->holding);
    bool enough = held ? granted : result.granted >= core->params->q;
    result.took_ms = (client->loop.now - core->round.start) / RL_MS;
    if (lease->state != RL_HANDLE_RELEASE_WAITS)
        result.valid_ms = rl_lease_left(core, client->loop.now) / RL_MS;
    int64_t quorum_in = enough ? 0 : rl_quorum_in(core->ballot, n, core->params->q);
    if (quorum_in >= 0)
        result.remaining_ms = quorum_in;
    return result;
}
