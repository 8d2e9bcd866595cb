/*
 * A lease: the state machine of one attempt to hold one lock.
 *
 *     NEW -> ACQUIRING -> HELD -> RELEASING -> CLEANUP -> OVER
 *       |         |         `-> LOST --^          ^
 *       `---------`-> ABORTING -------------------'
 *
 * If grants carry fences, the largest becomes the fence of the lease. If fewer than q nodes
 * stored exactly that fence, a second round (raise fence) raises it on the other granting
 * nodes before the lease is held.
 *
 * The machine reads no clock and does no I/O: the view carries the time, a step returns
 * the commands to send, and rl_lease_next() returns when to step next. The safety rules are
 * in docs/safety.md; the algorithm is Redlock as published:
 * https://redis.io/docs/latest/develop/use/patterns/distributed-locks/
 */
#ifndef RL_LEASE_H
#define RL_LEASE_H

#include "quorum.h"

/* The parameters of one lease. */
struct rl_lease_params {
    rl_time ttl;
    rl_time margin;       /* LOST is reported this long before the deadline */
    rl_time min_validity; /* an acquire that leaves less than this fails */
    rl_time extend_every; /* 0: no watchdog */
    rl_time max_hold;     /* the deadline is at most this after START or ADOPT */
    rl_time node_timeout; /* 0: computed from the measured round trip */
    uint32_t drift_ppm;
    uint8_t n, q;
    bool settles; /* q nodes are always sent the fence, also if they have it: a term */
};

/* The per-node timeout, unless it is fixed: at least RL_NODE_TIMEOUT_MIN, at most
   TTL / RL_NODE_TIMEOUT_SHARE; if the two conflict, the upper limit applies. */
#define RL_NODE_TIMEOUT_MIN   (50 * RL_MS)
#define RL_NODE_TIMEOUT_SHARE 10

/* A lost extension is retried after TTL / RL_RETRY_SHARE. */
#define RL_RETRY_SHARE 20

/* The watchdog extends after at most TTL / RL_WATCHDOG_SHARE: its interval. */
#define RL_WATCHDOG_SHARE 3

/* It extends up to interval / RL_SPREAD_SHARE earlier; `spread` sets how much. */
#define RL_SPREAD_SHARE 8

/*
 * It rounds the time down to a multiple of interval / RL_EXTEND_SHARE, at least
 * RL_EXTEND_GRID and at most RL_EXTEND_COARSE, so that many leases share one write. It
 * does not round if the interval is below 10 * RL_EXTEND_GRID.
 */
#define RL_EXTEND_SHARE  200
#define RL_EXTEND_GRID   (10 * RL_MS)
#define RL_EXTEND_COARSE (50 * RL_MS)

/*
 * If a node that lacks the lease may vote again, the watchdog extends within TTL /
 * RL_RETRY_SHARE, or within RL_REPAIR_EACH for each lease of the client if that is longer,
 * but at most TTL / RL_REPAIR_SHARE (safety.md, rule 7).
 */
#define RL_REPAIR_EACH  25 /* us */
#define RL_REPAIR_SHARE 6

/* Time between two attempts to release a token that a node may still store. */
#define RL_CLEANUP_INTERVAL (500 * RL_MS)

enum rl_lease_state {
    RL_LEASE_NEW,
    RL_LEASE_ACQUIRING,
    RL_LEASE_ABORTING, /* failed; the release is sent, the failure is not reported yet */
    RL_LEASE_HELD,
    RL_LEASE_LOST, /* the keys stay until the holder has stopped and releases */
    RL_LEASE_RELEASING,
    RL_LEASE_CLEANUP, /* the outcome is reported; a node may still store the token */
    RL_LEASE_OVER,
};

/* Why the last operation failed, also an extension of a lease that is still held; or why
   the lease ended. */
enum rl_cause {
    RL_CAUSE_NONE,
    RL_CAUSE_TAKEN,       /* other clients' keys, with our grants, take up a quorum */
    RL_CAUSE_NO_QUORUM,   /* too few nodes granted, and TAKEN does not apply */
    RL_CAUSE_EXPIRED,     /* the validity ran out */
    RL_CAUSE_CANCELLED,   /* the caller cancelled */
    RL_CAUSE_GONE,        /* the nodes do not store the token any more */
    RL_CAUSE_MAX_HOLD,    /* max_hold ended */
    RL_CAUSE_UNCONFIRMED, /* too few nodes confirmed the release */
};

enum rl_lease_event_type {
    RL_EVENT_START, /* acquire */
    /* Other waiters come first: fail without an acquire; the release queues this waiter. */
    RL_EVENT_ENQUEUE,
    RL_EVENT_ADOPT, /* take over a token that is held */
    RL_EVENT_VOTE,  /* a node replied, or its connection ended without a reply */
    /* A node was greeted or may vote now: release again what is unconfirmed; repair. */
    RL_EVENT_READY,
    RL_EVENT_RESTARTED, /* a node restarted and may have lost the token */
    RL_EVENT_EXTEND,    /* the caller extends; a ttl above 0 replaces the TTL */
    RL_EVENT_RELEASE,   /* the caller releases the lock, or cancels the attempt */
    RL_EVENT_DISOWN,    /* the caller drops the lease; the token stays on the nodes */
    RL_EVENT_EXPIRE,    /* check the deadline and nothing else */
    RL_EVENT_TICK,      /* the time from rl_lease_next() is reached */
};

struct rl_lease_event {
    enum rl_lease_event_type type : 8;
    enum rl_command command : 8; /* VOTE */
    unsigned node : 8;           /* VOTE, READY, RESTARTED */
    enum rl_vote vote : 8;
    enum rl_fault fault : 8; /* VOTE */
    unsigned key : 8;        /* VOTE: of a set, which one is another client's */
    uint32_t seq;            /* VOTE: the round that it belongs to */
    int32_t pttl;  /* VOTE: remaining TTL of another client's value, ms; -1: unknown */
    int64_t fence; /* VOTE: the fence on the node, ADOPT: of the lease; 0: none */
    union {
        rl_time took;     /* VOTE: from the command to the reply */
        rl_time ttl;      /* EXTEND */
        rl_time deadline; /* ADOPT; 0: unknown */
    };
};

/* The time, and the state of the nodes, at a step. */
struct rl_view {
    rl_time now;
    rl_node_set ready; /* may vote */
    rl_node_set open;  /* accept commands, in order: ready, suspect or quarantined */
    const rl_time *round_trip; /* per node, smoothed; 0: unknown */
    size_t leases; /* at most so many the client had when a node last came back */
};

/* Reports to the caller, in this order. LOST comes first: a holder must learn that it lost
   the lock before it gets any other report. */
enum rl_report {
    RL_REPORT_LOST = 1 << 0,
    RL_REPORT_HELD = 1 << 1,
    RL_REPORT_FAILED = 1 << 2,
    RL_REPORT_NOT_EXTENDED = 1 << 3,
    RL_REPORT_EXTENDED = 1 << 4,
    RL_REPORT_RENEWED = 1 << 5, /* extended by the watchdog */
    RL_REPORT_RELEASED = 1 << 6,
    RL_REPORT_NOT_RENEWED = 1 << 7, /* a try of the watchdog failed; it will try again */
};

struct rl_update {
    rl_node_set send; /* send `command` to these nodes */
    enum rl_command command;
    bool recreate; /* EXTEND: store the token again where the key is missing */
    uint32_t seq;
    unsigned reports;
    rl_node_set silent; /* their timeouts have passed in this step */
    bool changed; /* by this step; false: nothing to send, to report or to reschedule */
};

struct rl_lease {
    const struct rl_lease_params *params;
    struct rl_ballot *ballot;
    int64_t *fences; /* per node, as it replied; NULL: the kind has no fences */
    rl_time ttl;     /* of the last ACQUIRE or EXTEND; initially params->ttl */
    struct rl_round round;
    rl_time valid; /* the deadline, if `timed`; while ACQUIRING, the one it would get */
    rl_time hold_until;    /* upper limit of the deadline */
    rl_time next_round;    /* next extension by the watchdog; in CLEANUP: next release */
    rl_time requested_ttl; /* replaces `ttl` when the next extension begins; 0: none */
    rl_time until;         /* from then on every copy of the token has expired */
    int64_t fence; /* largest fence of the grants, set once q nodes granted; 0: none */
    rl_node_set touched;    /* were sent a command that stores the token */
    rl_node_set dirty;      /* may store the token */
    rl_node_set extended;   /* were sent an extension, which may also store it */
    rl_node_set unanswered; /* were sent a release; no reply, and the connection is up */
    rl_node_set holding;    /* known to have stored the token in the last won round */
    rl_node_set missing;    /* known not to store it, by their last reply */
    enum rl_lease_state state : 8;
    enum rl_cause cause : 8;
    uint8_t spread;      /* how early the watchdog extends, in 1/256; rl_lease_spread() */
    bool timed : 1;      /* the deadline is known; it is unknown for a bare token */
    bool decided : 1;    /* the round is won or lost */
    bool won : 1;        /* the extension round is won */
    bool by_request : 1; /* the round is the extension that the caller requested */
    bool request_waits : 1; /* the caller's extension waits for the round to end */
    bool leaving : 1;       /* its release is requested, and waits: no extension is sent */
    bool held : 1;          /* it was acquired or adopted, now or earlier */
    bool failed_to_extend : 1; /* LOST: the last extension that was decided had failed */
};

/* `params`, `ballot` and `fences` must outlive the lease. `ballot` and `fences` have
   params->n elements; `fences` may be NULL. */
void rl_lease_init(struct rl_lease *lease, const struct rl_lease_params *params,
                   struct rl_ballot *ballot, int64_t *fences);

struct rl_update rl_lease_step(struct rl_lease *lease, const struct rl_view *view,
                               const struct rl_lease_event *event);

/*
 * The value of `spread` for the lease with this number; a client numbers its leases. Leases
 * with consecutive numbers get values that are far apart. Set `spread` after
 * rl_lease_init().
 */
uint8_t rl_lease_spread(uint64_t number);

/* The latest time of the next step with TICK; RL_NEVER: none is needed. */
rl_time rl_lease_next(const struct rl_lease *lease);

/* This command of round `seq` may be sent again. A command that stores the token must not
   follow the release: the node would store the token after it was released. */
bool rl_lease_resend_is_safe(const struct rl_lease *lease, enum rl_command command,
                             uint32_t seq);

/* The lock is certainly held for so long from `now`; 0: it is not. */
rl_time rl_lease_left(const struct rl_lease *lease, rl_time now);

/* The nodes that voted so, in their last vote. */
unsigned rl_lease_count_votes(const struct rl_lease *lease, enum rl_vote vote);

/* The fencing token; 0: none, or the lease was never held. */
int64_t rl_lease_fence(const struct rl_lease *lease);

/*
 * The timeout of a node with this smoothed round trip: `node_timeout`, or if that is 0,
 * four round trips within the limits above.
 */
rl_time rl_lease_node_timeout(rl_time node_timeout, rl_time ttl, rl_time round_trip);

#endif
