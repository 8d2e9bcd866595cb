/*
 * Membership: which nodes of a fenced lock may vote, and how a node that lost its memory
 * gets its vote back. It is a state machine, one per client.
 *
 * A node may vote if its marker is active, the marker names the process of the node, and
 * the client knows no newer incarnation of the member. A node that forgot its data, runs as
 * another process, or whose clock was set gets a new incarnation, always in these steps.
 * Any client may do any of them:
 *
 *     assign    write a marker: quarantined, with a new incarnation
 *     register  write the incarnation into new markers of active nodes, until a majority of
 *               all nodes has it at one moment. A client that uses an older marker gets no
 *               vote there, reads the new one, and so learns of the incarnation.
 *     watch     keep one connection unbroken until every lock of the old incarnation ended
 *     lift      write a marker: active
 *
 * docs/safety.md has the proof, docs/model/marker.pml the model.
 */
#ifndef RL_MEMBERSHIP_H
#define RL_MEMBERSHIP_H

#include "core/kind.h"
#include "core/marker.h"
#include "pace.h"

enum rl_member_state {
    RL_MEMBER_UNSEEN,      /* not greeted on this connection */
    RL_MEMBER_UNMARKED,    /* no marker: it was never admitted, or lost its marker */
    RL_MEMBER_NO_MAJORITY, /* marked, but no majority of one deployment was seen */
    /* Its deployment is another, or has another number of nodes. */
    RL_MEMBER_OTHER_DEPLOYMENT,
    RL_MEMBER_REPLACED, /* its member index has a newer incarnation, or it is retired */
    RL_MEMBER_OTHER_PROCESS, /* the marker was written for another process */
    RL_MEMBER_QUARANTINED,   /* quarantined by its marker */
    RL_MEMBER_CLOCK, /* its clock was set, stands still, or is too fast or too slow */
    /* Its marker changed on this connection; its history is not confirmed yet. */
    RL_MEMBER_UNCONFIRMED,
    RL_MEMBER_ACTIVE,
};

/*
 * The quarantine of one node. The new incarnation is registered when a majority (while all
 * members recover: all nodes) has it at one moment. The witnesses are the nodes whose
 * markers have it; each must confirm that in a reply to a command sent since `asked`.
 */
struct rl_quarantine_watch {
    struct rl_incarnation of;
    rl_time asked;         /* just after they were known; 0: not yet */
    rl_node_set witnesses; /* their markers had the incarnation at `asked` */
    rl_node_set confirmed; /* replied to a command sent since `asked` */
    rl_time since;         /* when it was registered; RL_NEVER: not yet */
};

/*
 * A node's clock was found wrong. While it is in `doubted`, it has no vote at this client:
 * until it is known that our clock was wrong, or the marker is quarantined, or a quarantine
 * has passed since the last wrong reply.
 */
struct rl_doubt {
    struct rl_pace_change change; /* of the first wrong reply */
    rl_node_set attested;         /* these attest that our clock did not cause it */
    bool repeated;                /* more replies were wrong */
    rl_time first_at, last_at;    /* the first of them; and the last one, in any case */
};

/* The client's view of one node. */
struct rl_member {
    enum rl_member_state state : 8;
    bool greeted;
    bool keeps_data; /* nothing in its greeting refutes the promise `durable` */
    bool kept;       /* it still has the marker that this client read before the greeting */
    bool marked;     /* it has a valid marker */
    bool garbled;    /* its marker key holds something else */
    bool pending;    /* a command is under way */
    bool claims;     /* that command assigns it the member index `claimed` */
    /* Its marker changed on this connection, at `changed_at`, and not by our command; or it
       refused a command because of its marker. Its history is not confirmed yet. */
    bool unconfirmed;
    uint8_t claimed;
    uint8_t index; /* the last one this client saw at this address, as `last` */
    struct rl_incarnation last; /* generation 0: none */
    struct rl_process process;
    struct rl_marker marker;
    /* The client asked for its history, right after a command that reads the marker: the
       number of that request; 0: none, or that command failed. */
    uint32_t confirming;
    uint32_t requests; /* for its history, so far */
    uint64_t nonce;    /* of the marker, or of the one that our command writes */
    rl_time changed_at;
    struct rl_pace pace;
    struct rl_doubt doubt;
    rl_time looked_at; /* when the last command was sent that read its marker, or failed */
    rl_time look_at;   /* when to read its marker again */
    rl_time retry_at;  /* no commands before: one failed */
    struct rl_quarantine_watch watch;
};

struct rl_membership_params {
    uint8_t n;
    uint32_t drift_ppm;
};

enum rl_admission_mode {
    RL_ADMIT_NOTHING,
    RL_ADMIT_NEW,     /* make a deployment of nodes without a marker */
    RL_ADMIT_AT_ONCE, /* NEW without quarantine: they never held a fenced lock */
    RL_ADMIT_READMIT, /* assign free indexes, and recover from the loss of a majority */
    RL_ADMIT_REPLACE, /* assign the free index to one node without a marker */
    RL_ADMIT_RETIRE,  /* the node was replaced: it never votes again */
    RL_ADMIT_LOOK,    /* one is to begin: the client reads the markers, and writes none */
};

/* The operator's request (admission.h). */
struct rl_admission_request {
    enum rl_admission_mode mode;
    uint8_t newcomer;      /* REPLACE: the node that gets the index; RETIRE: that lost it */
    bool sets_promises;    /* READMIT: all markers get `promises` */
    uint32_t promises;     /* NEW, AT_ONCE, and READMIT that sets them */
    rl_node_set forgotten; /* READMIT: what these nodes have lost never comes back */
    int64_t max_ttl_ms;    /* NEW, AT_ONCE */
};

struct rl_membership {
    struct rl_membership_params params;
    bool active; /* sends commands: this client holds fenced locks, or admits nodes */
    struct rl_admission_request admission;
    rl_node_set bootstrapping; /* NEW, AT_ONCE: these have no marker yet */
    rl_node_set rolling_back;  /* NEW, AT_ONCE failed: remove our marker from these */
    bool lost_race;            /* NEW, AT_ONCE: another client was first */
    struct rl_roster roster;   /* merged from the markers; deployment 0: not bound yet */
    rl_time learned_at;        /* when `roster` last changed */
    rl_node_set doubted;       /* their clocks were found wrong: `doubt` of each */
    rl_time look_at;  /* all are read, because a clock was wrong: the last or next time */
    rl_time erred_at; /* our clock was wrong just before: by the unslewed clock; 0: never */
    struct rl_member member[RL_NODES_MAX];
};

/* A command to a node: read its marker, or compare and set it. */
struct rl_member_command {
    uint8_t node;
    bool write;
    bool erase; /* delete the marker */
    /* Right after it, request the master_replid of the node: the number of that request; 0:
       do not. */
    uint32_t history;
    struct rl_marker wanted; /* replaces member[node].marker, or a missing one */
};

/* A fence is at most this far ahead of a node's clock. */
#define RL_KAPPA (5 * RL_SECOND)

/* The interval between reads of the marker of a node that is quarantined or in a later
   state, and of an ACTIVE one, unless a clock was found wrong less than a quarantine ago.
   All others: every RL_MEMBER_RETRY_DELAY. */
#define RL_MEMBER_POLL_INTERVAL  (250 * RL_MS)
#define RL_MEMBER_PROBE_INTERVAL (10 * RL_SECOND)

/* Delay after a command that failed. */
#define RL_MEMBER_RETRY_DELAY RL_SECOND

/* The clock check uses at least this drift, ppm: a smaller one is not a wrong clock. */
#define RL_CLOCK_PPM 1000

/* A quarantine is 1 / RL_CLOCK_SHARE longer: our clock may run fast, by less than that. */
#define RL_CLOCK_SHARE 10

void rl_membership_init(struct rl_membership *membership,
                        const struct rl_membership_params *params);

/* A node was greeted. `marker`: the text of its marker; empty: none. `keeps_data`: nothing
   in the greeting refutes the promise that the node loses nothing. */
void rl_membership_greeted(struct rl_membership *membership, unsigned node,
                           const struct rl_process *process, bool keeps_data,
                           struct rl_word marker, rl_time now);

/* The connection to the node ended. */
void rl_membership_disconnected(struct rl_membership *membership, unsigned node,
                                rl_time now);

/* The node replied to a command that was sent at `sent`; `marker` is its marker now. */
void rl_membership_replied(struct rl_membership *membership, unsigned node,
                           struct rl_word marker, rl_time sent, rl_time now);

/*
 * The node refused a command that was sent at `sent`: its marker differs from the one in
 * the command. It has no vote until a command has read the marker and the node's history is
 * confirmed.
 */
void rl_membership_marker_mismatch(struct rl_membership *membership, unsigned node,
                                   rl_time sent, rl_time now);

/*
 * The node replied to this request for its history; `replid` is empty if the reply has
 * none. Only the request that followed the latest read confirms anything. False: the
 * history has changed or cannot be confirmed, so the caller must reconnect.
 */
bool rl_membership_history(struct rl_membership *membership, unsigned node,
                           uint32_t request, struct rl_word replid, rl_time now);

/*
 * A grant that arrives while the node's history is not confirmed counts as UNKNOWN: the
 * marker that allowed it may have come back with older data.
 */
void rl_membership_check_grant(const struct rl_membership *membership, unsigned node,
                               enum rl_command command, struct rl_answer *answer);

/* A command could not be sent or was refused. `again`: it may be sent again at once. */
void rl_membership_command_failed(struct rl_membership *membership, unsigned node,
                                  bool again, rl_time now);

/*
 * A reply that arrived at `now` reports the time of the node. `unslewed` is the
 * time of our unslewed clock at `now`. False: neither the node's clock nor the rest of the
 * reply can be trusted.
 */
bool rl_membership_time(struct rl_membership *membership, unsigned node, rl_time sent,
                        rl_time now, rl_time unslewed, rl_time reported);

/* It may have commands to send. */
bool rl_membership_is_active(const struct rl_membership *membership);

/*
 * Gets the next command that is due; false: none is due. Call it until it returns false,
 * each time with two new random numbers.
 */
bool rl_membership_next_command(struct rl_membership *membership, rl_time now,
                                const uint64_t random[2],
                                struct rl_member_command *ret_command);

/* When a command may be due, if no event comes first. */
rl_time rl_membership_next(const struct rl_membership *membership);

/* The nodes in one of these states: RL_STATE_BIT(ACTIVE) | ... */
rl_node_set rl_membership_in_states(const struct rl_membership *membership,
                                    unsigned states);
#define RL_STATE_BIT(name) (1u << RL_MEMBER_##name)

/* The promises in the marker of this node, as this client read it last. */
uint32_t rl_membership_promises(const struct rl_membership *membership, unsigned node);

/* The markers of a majority have this promise. */
bool rl_membership_is_promised(const struct rl_membership *membership, uint32_t promise);

/* The server has no member index now, and never voted with the one in its marker. */
bool rl_member_is_lost(const struct rl_member *member);

/* The nodes that may vote. */
rl_node_set rl_membership_active(const struct rl_membership *membership);

/*
 * The last argument of each fenced command to this node: the nonce of the marker under
 * which the node may grant it. For a node that may not vote, it is a text with which no
 * marker begins.
 */
void rl_membership_nonce(const struct rl_membership *membership, unsigned node,
                         char ret_nonce[RL_NONCE]);

/* The length of the quarantine after the registration, by our clock; with another longest
   TTL than that of the roster. */
rl_time rl_membership_quarantine(const struct rl_membership *membership);
rl_time rl_membership_quarantine_for(const struct rl_membership *membership,
                                     int64_t max_ttl_ms);

/*
 * The nodes that may attest this node's incarnation and have it in their markers. While all
 * nodes attest each other (recovering), a node also attests itself: there may be no other.
 */
rl_node_set rl_membership_knowing(const struct rl_membership *membership, unsigned node);

#endif
