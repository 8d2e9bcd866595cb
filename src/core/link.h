/*
 * A link: the state machine of the connection to one node.
 *
 *     DOWN -> CONNECTING -> GREETING -> READY <-> SUSPECT
 *       ^                           `-> QUARANTINED -^
 *       `------------- from any state, when it fails
 *
 * Only a READY node votes. A node with a reply that is overdue becomes SUSPECT: the client
 * does not ask it for votes, but keeps the connection open. A release on the same
 * connection cannot overtake the commands that were sent before it. If the node stays
 * silent, the link aborts the connection.
 */
#ifndef RL_LINK_H
#define RL_LINK_H

#include "fault.h"
#include "marker.h"

struct rl_link_params {
    rl_time connect_timeout; /* from the start of connecting to the end of the greeting */
    rl_time node_timeout;    /* 0: computed from the measured round trip */
    rl_time quarantine;      /* how long a restarted node does not vote; 0: durable */
};

/* Limits of the computed node timeout. A node with a longer overdue reply is SUSPECT. */
#define RL_SUSPECT_FLOOR (50 * RL_MS)
#define RL_SUSPECT_CAP   RL_SECOND

/* See rl_link_wants_reply(). */
#define RL_LINK_GRAIN RL_MS

/* The link aborts after at least this time without a reply. */
#define RL_GIVE_UP RL_SECOND

/* Delay before connecting again: the first, the longest, and the longest if a quick retry
   cannot help. */
#define RL_BACKOFF_BASE (10 * RL_MS)
#define RL_BACKOFF_CAP  (500 * RL_MS)
#define RL_DENIED_CAP   (5 * RL_SECOND)

/* The identity of a node, from its replies to the greeting. */
struct rl_identity {
    bool is_master;
    bool has_role;
    bool is_cluster;
    bool is_loading;
    bool keeps_data;          /* append-only file, last write ok, and no earlier history */
    bool is_duplicate;        /* another node of this client is the same server */
    enum rl_fault denied;     /* the error reply to the greeting, if any */
    enum rl_fault no_scripts; /* the same, to EVAL */
    struct rl_process process;
    int64_t time;                   /* of its clock, us; 0: unknown */
    size_t marker_len;              /* 0: it has no marker */
    char marker[RL_MARKER_MAX + 1]; /* truncated if longer: then it is invalid */
};

/*
 * What tells this process of a server from others: its run_id, or the master_replid of a
 * master without one. A replica has the master_replid of its master. Empty: nothing does.
 */
const char *rl_identity_server_id(const struct rl_identity *identity);

enum rl_link_state {
    RL_LINK_DOWN,
    RL_LINK_CONNECTING,
    RL_LINK_GREETING,
    RL_LINK_READY,
    RL_LINK_SUSPECT,
    RL_LINK_QUARANTINED,
};

enum rl_link_event_type {
    RL_LINK_TICK,      /* the time from rl_link_next() is reached */
    RL_LINK_CONNECTED, /* bytes can be exchanged */
    RL_LINK_GREETED,   /* the node replied to the greeting */
    RL_LINK_SENT,      /* a command was sent while no reply was outstanding */
    RL_LINK_ANSWERED,  /* the node replied to the oldest outstanding command */
    RL_LINK_FAULT,     /* the reply shows that the node cannot vote */
    RL_LINK_FAILED,    /* the connection ended or could not be made */
};

struct rl_link_event {
    enum rl_link_event_type type;
    rl_time now;
    uint64_t random;
    const struct rl_identity *identity; /* GREETED */
    enum rl_fault fault;                /* FAULT, FAILED */
    rl_time sent;                       /* ANSWERED: when that command was sent */
    rl_time oldest; /* ANSWERED: when the next outstanding one was; RL_NEVER: none */
};

enum rl_link_action {
    RL_LINK_NOTHING,
    RL_LINK_CONNECT,
    RL_LINK_GREET,
    RL_LINK_ABORT, /* close so that undelivered data never arrives */
};

struct rl_link {
    struct rl_link_params params;
    enum rl_link_state state;
    enum rl_fault fault;      /* why it is not READY */
    rl_time since;            /* when connecting began */
    rl_time greeted_at;       /* when the greeting was sent */
    rl_time retry_at;         /* DOWN: when to connect again */
    rl_time seen_restart;     /* when the last restart was; 0: none was seen */
    rl_time quarantine_until; /* the node does not vote before */
    rl_time oldest;     /* when the oldest outstanding command was sent; RL_NEVER: none */
    rl_time round_trip; /* smoothed; 0: not measured yet */
    rl_time shortest_trip; /* of this connection */
    unsigned failures;     /* since the link was last open for RL_BACKOFF_CAP */
    /* The node restarted since the link was last open, and may have forgotten locks. The
       client notifies each lease at each greeting, also at a refused one. */
    bool restarted;
    bool duplicate; /* by the last greeting: another node is the same server */
    char server_id[RL_RUN_ID + 1]; /* of the last server; empty: none was identified */
};

void rl_link_init(struct rl_link *link, const struct rl_link_params *params, rl_time now);
enum rl_link_action rl_link_step(struct rl_link *link, const struct rl_link_event *event);

/* The client uses a longer TTL from now on: so long is the quarantine of its last restart,
   too, also if the old one is over. Step the link with TICK then. */
void rl_link_set_quarantine(struct rl_link *link, rl_time quarantine);

/*
 * The client must step the link with ANSWERED for this reply; `oldest` is as in the event.
 * For a READY node, only the last reply to the commands that were sent within
 * RL_LINK_GRAIN, or an eighth of the node timeout, updates the link. While the oldest
 * outstanding command is older than half the node timeout, each reply updates it: it is a
 * sign of life and a sample of a longer round trip.
 */
bool rl_link_wants_reply(const struct rl_link *link, rl_time now, rl_time oldest);

/* The latest time of the next step with TICK; RL_NEVER: none is needed. */
rl_time rl_link_next(const struct rl_link *link);

bool rl_link_is_ready(const struct rl_link *link); /* the node may vote */
bool rl_link_is_open(const struct rl_link *link);  /* it accepts commands, in order */

/* The node replies in time: it is READY or QUARANTINED. */
bool rl_link_is_awake(const struct rl_link *link);

/* The link is open, or has failed at least once. */
bool rl_link_was_tried(const struct rl_link *link);

/*
 * The startup barrier: a new client sends no commands before it is over. It is over when
 * the first of these is true:
 *
 * - Every node was tried.
 * - It is known whether q nodes are ready, and since then the same time has passed again,
 *   at least RL_STARTUP_GRACE and at least a fixed `node_timeout` (0: none). So a release
 *   or an inspection reaches every node that replies within that time.
 * - connect_timeout has passed.
 */
#define RL_STARTUP_GRACE (100 * RL_MS)

struct rl_startup_barrier {
    rl_time over_at; /* RL_NEVER: not over yet */
    rl_time start, grace, deadline;
};

void rl_startup_barrier_init(struct rl_startup_barrier *barrier, rl_time now,
                             rl_time node_timeout, rl_time connect_timeout);

static inline bool rl_startup_barrier_is_open(const struct rl_startup_barrier *barrier)
{
    return barrier->over_at != RL_NEVER;
}

/* Updates the barrier. Returns whether it is over; once over, it stays over. */
bool rl_startup_barrier_step(struct rl_startup_barrier *barrier, unsigned n, unsigned q,
                             rl_node_set ready, rl_node_set tried, rl_time now);

#endif
