#include "reason.h"

static redlock_reason reason_of_fault(enum rl_fault fault)
{
    switch (fault) {
    case RL_FAULT_NOAUTH:
    case RL_FAULT_WRONGPASS: return REDLOCK_REASON_PASSWORD;
    case RL_FAULT_NOPERM: return REDLOCK_REASON_PERMISSION;
    case RL_FAULT_NO_EVAL: return REDLOCK_REASON_REFUSED;
    case RL_FAULT_PROTECTED: return REDLOCK_REASON_PROTECTED;
    case RL_FAULT_QUARANTINE:
    case RL_FAULT_MEMBER_QUARANTINE: return REDLOCK_REASON_QUARANTINED;
    case RL_FAULT_MARKER:
    case RL_FAULT_UNMARKED:
    case RL_FAULT_MARKER_LOST:
    case RL_FAULT_NO_MAJORITY:
    case RL_FAULT_OTHER_DEPLOYMENT:
    case RL_FAULT_REPLACED:
    case RL_FAULT_OTHER_PROCESS:
    case RL_FAULT_OTHER_HISTORY: return REDLOCK_REASON_NOT_ADMITTED;
    case RL_FAULT_CLOCK_SET:
    case RL_FAULT_CLOCK_STILL:
    case RL_FAULT_CLOCK_FAST:
    case RL_FAULT_CLOCK_SLOW: return REDLOCK_REASON_CLOCK;
    case RL_FAULT_MEMORY:
    case RL_FAULT_FILES: return REDLOCK_REASON_RESOURCES;
    case RL_FAULT_CONNECTING:
    case RL_FAULT_RESOLVE:
    case RL_FAULT_CONNECT:
    case RL_FAULT_CLOSED:
    case RL_FAULT_TLS_PLAINTEXT:
    case RL_FAULT_TLS_VERSION:
    case RL_FAULT_TLS_REFUSED:
    case RL_FAULT_TLS_CA_FILE:
    case RL_FAULT_TLS_CERT_FILE:
    case RL_FAULT_TLS_KEY_FILE:
    case RL_FAULT_TLS: return REDLOCK_REASON_NOT_CONNECTED;
    case RL_FAULT_LATE:
    case RL_FAULT_TIMEOUT: return REDLOCK_REASON_SILENT;
    default:
        return rl_fault_is_denial(fault) ? REDLOCK_REASON_CERTIFICATE
                                         : REDLOCK_REASON_REFUSED;
    }
}

redlock_reason rl_reason_of_node(const struct rl_ballot *ballot)
{
    switch (ballot->vote) {
    case RL_VOTE_GRANTED:
    case RL_VOTE_UNASKED:
    case RL_VOTE_WAITING: return REDLOCK_REASON_NONE;
    case RL_VOTE_HELD:
    case RL_VOTE_GONE:
    case RL_VOTE_RECREATED: return REDLOCK_REASON_MISSING;
    case RL_VOTE_SILENT: return REDLOCK_REASON_SILENT;
    default:
        return ballot->fault == RL_FAULT_NONE ? REDLOCK_REASON_NONE
                                              : reason_of_fault(ballot->fault);
    }
}

/* What a person must mend comes before what may pass. */
static const redlock_reason order[] = {
    REDLOCK_REASON_PASSWORD,      REDLOCK_REASON_PERMISSION,  REDLOCK_REASON_PROTECTED,
    REDLOCK_REASON_CERTIFICATE,   REDLOCK_REASON_QUARANTINED, REDLOCK_REASON_NOT_ADMITTED,
    REDLOCK_REASON_CLOCK,         REDLOCK_REASON_REFUSED,     REDLOCK_REASON_RESOURCES,
    REDLOCK_REASON_NOT_CONNECTED, REDLOCK_REASON_SILENT,      REDLOCK_REASON_MISSING,
};

/* NONE ranks last. */
static size_t rank_of(redlock_reason reason)
{
    size_t rank = 0;
    while (rank < sizeof(order) / sizeof(order[0]) && order[rank] != reason)
        rank++;
    return rank;
}

redlock_reason rl_reason_of_nodes(const struct rl_ballot *ballot, unsigned n)
{
    redlock_reason first = REDLOCK_REASON_NONE;
    for (unsigned i = 0; i < n; i++) {
        redlock_reason reason = rl_reason_of_node(&ballot[i]);
        if (rank_of(reason) < rank_of(first))
            first = reason;
    }
    return first != REDLOCK_REASON_NONE ? first : REDLOCK_REASON_SILENT;
}

/* The lock was held. What kept the last extension from succeeding comes first. */
static redlock_reason reason_of_end(const struct rl_lease *lease, rl_time now)
{
    if (lease->failed_to_extend)
        return rl_reason_of_nodes(lease->ballot, lease->params->n);
    return now < lease->valid ? REDLOCK_REASON_MARGIN : REDLOCK_REASON_DEADLINE;
}

/* A round ended at the deadline. LATE if a quorum granted, but too late; else what kept
   nodes from granting. */
static redlock_reason reason_of_round(const struct rl_lease *lease)
{
    if (rl_lease_count_votes(lease, RL_VOTE_GRANTED) >= lease->params->q)
        return REDLOCK_REASON_LATE;
    return rl_reason_of_nodes(lease->ballot, lease->params->n);
}

redlock_reason rl_reason_of_lease(const struct rl_lease *lease, rl_time now)
{
    switch (lease->cause) {
    case RL_CAUSE_NO_QUORUM:
    case RL_CAUSE_UNCONFIRMED: return rl_reason_of_nodes(lease->ballot, lease->params->n);
    case RL_CAUSE_EXPIRED:
        return lease->state == RL_LEASE_LOST ? reason_of_end(lease, now)
                                             : reason_of_round(lease);
    default: return REDLOCK_REASON_NONE;
    }
}
