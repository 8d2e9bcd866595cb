/*
 * A link: the connection to one node, as a machine that is stepped.
 *
 *     DOWN -> CONNECTING -> GREETING -> READY <-> SUSPECT
 *       ^                           `-> QUARANTINED -^
 *       `------------- any of them, when it fails
 *
 * Only a READY node votes. A node that owes an answer for too long is SUSPECT: it is not
 * asked, but its stream stays open, for a release that follows on the same stream cannot
 * overtake what was sent before. If it stays silent the connection is given up.
 */
#ifndef RL_LINK_H
#define RL_LINK_H

#include "fault.h"
#include "marker.h"

struct rl_link_terms {
    rl_time connect_timeout; /* from the first step of connecting to the greeting's end */
    rl_time node_timeout;    /* 0: follows the measured round trip */
    rl_time quarantine;      /* how long a node that restarted is not counted; 0: durable */
};

#define RL_SUSPECT_FLOOR (50 * RL_MS)
#define RL_SUSPECT_CAP   RL_SECOND
#define RL_LINK_GRAIN    RL_MS
#define RL_GIVE_UP       RL_SECOND /* after at least this time without an answer */
#define RL_BACKOFF_BASE  (10 * RL_MS)
#define RL_BACKOFF_CAP   RL_SECOND
#define RL_DENIED_CAP    (5 * RL_SECOND) /* when asking again soon cannot help */

/* Who a node says that it is. */
struct rl_identity {
    bool is_master;
    bool is_cluster;
    bool is_loading;
    bool is_duplicate;    /* another node of this client has the same run_id */
    enum rl_fault denied; /* an error that the greeting met */
    struct rl_process process;
    int64_t time;                   /* of its clock, us; 0: not told */
    size_t marker_len;              /* 0: it has none */
    char marker[RL_MARKER_MAX + 1]; /* cut, if it is longer: then it is none of ours */
};

enum rl_link_state {
    RL_LINK_DOWN,
    RL_LINK_CONNECTING,
    RL_LINK_GREETING,
    RL_LINK_READY,
    RL_LINK_SUSPECT,
    RL_LINK_QUARANTINED,
};

enum rl_link_event_type {
    RL_LINK_TICK,      /* the time that rl_link_next() named has come */
    RL_LINK_CONNECTED, /* bytes can be exchanged */
    RL_LINK_GREETED,   /* the greeting was answered */
    RL_LINK_SENT,      /* a command was sent while none was owed an answer */
    RL_LINK_ANSWERED,  /* the oldest command was answered */
    RL_LINK_FAULT,     /* the answer says that the node cannot vote */
    RL_LINK_FAILED,    /* the connection ended, or could not be made */
};

struct rl_link_event {
    enum rl_link_event_type type;
    rl_time now;
    uint64_t random;
    const struct rl_identity *identity; /* GREETED */
    enum rl_fault fault;                /* FAULT, FAILED */
    rl_time sent;                       /* ANSWERED: when the answered command was sent */
    rl_time oldest; /* ANSWERED: when the next one was; RL_NEVER: none */
};

enum rl_link_action {
    RL_LINK_NOTHING,
    RL_LINK_CONNECT,
    RL_LINK_GREET,
    RL_LINK_ABORT, /* close, so that what is not delivered yet never will be */
};

struct rl_link {
    struct rl_link_terms terms;
    enum rl_link_state state;
    enum rl_fault fault;      /* why it is not ready */
    rl_time since;            /* when connecting began */
    rl_time greeted_at;       /* when the greeting was sent */
    rl_time retry_at;         /* DOWN: when to connect again */
    rl_time quarantine_until; /* not counted before */
    rl_time oldest;           /* when the oldest unanswered command was sent */
    rl_time round_trip;       /* smoothed; 0: not measured yet */
    unsigned failures;        /* since it was last open for RL_BACKOFF_CAP */
    bool restarted;           /* since it was open last: it may have forgotten locks, which
                                 each lease is told at each greeting, also a refused one */
    bool duplicate;           /* as it was greeted last: another node is the same server */
    char run_id[RL_RUN_ID + 1];
};

void rl_link_init(struct rl_link *link, const struct rl_link_terms *terms, rl_time now);
enum rl_link_action rl_link_step(struct rl_link *link, const struct rl_link_event *event);

/*
 * Whether it has to be stepped with ANSWERED. Of commands that a node that votes was sent
 * within RL_LINK_GRAIN the last answer says all: when the oldest that is owed now was sent.
 * Unless they take long: then each is a sign of life, and a longer round trip.
 */
bool rl_link_learns(const struct rl_link *link, rl_time now, rl_time oldest);

/* When the machine wants to be stepped with TICK, at the latest. */
rl_time rl_link_next(const struct rl_link *link);

bool rl_link_is_ready(const struct rl_link *link); /* it may vote */
bool rl_link_is_open(const struct rl_link *link);  /* it can be written to, in order */

/* It answers: it is ready, or would be but for its quarantine. */
bool rl_link_is_awake(const struct rl_link *link);

/* It was tried: it is open, or it has failed at least once. */
bool rl_link_is_settled(const struct rl_link *link);

/*
 * The gate before the first words of a fresh client. It opens when every node was tried;
 * when it is known whether there is a majority, and the others had as long again, at least
 * RL_GATE_GRACE, so that a release or a survey reaches whoever can be reached; and in any
 * case after connect_timeout.
 */
#define RL_GATE_GRACE (100 * RL_MS)

struct rl_gate {
    rl_time opened_at; /* RL_NEVER: still shut */
    rl_time start, deadline;
};

void rl_gate_init(struct rl_gate *gate, rl_time now, rl_time connect_timeout);

static inline bool rl_gate_is_open(const struct rl_gate *gate)
{
    return gate->opened_at != RL_NEVER;
}

/* Looks at the links; returns whether the gate is open, now and from then on. */
bool rl_gate_step(struct rl_gate *gate, unsigned n, unsigned q, rl_nodes ready,
                  rl_nodes settled, rl_time now);

#endif
