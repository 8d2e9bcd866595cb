/*
 * libredlock for operators: checking the nodes, admitting them to a deployment of fenced
 * locks, inspecting a key, and breaking its lock. It uses the client of redlock.h, whose
 * rules apply.
 *
 * The library owns the arrays in what a callback receives. They are arrays of pointers, so
 * that their elements can grow.
 */
#ifndef REDLOCK_ADMIN_H
#define REDLOCK_ADMIN_H

#include "redlock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- admitting nodes to a deployment of fenced locks --- */

typedef enum redlock_admission {
    /*
     * Makes all nodes of the client a new deployment. No node may have a marker or a key
     * of the client's prefix. TTLs of the deployment's locks are limited to the option
     * max_ttl_ms, or if that is 0 to REDLOCK_QUARANTINE_FLOOR_MS. The nodes vote after a
     * quarantine, because they may have been a deployment before and have lost their
     * memory. It is computed from this max_ttl_ms, which must not be below that of the
     * earlier deployment. Stop its other servers first: by an older list of nodes a client
     * would still lock there.
     * Results: NOT_EMPTY, UNREACHED.
     */
    REDLOCK_ADMIT_NEW = 1,
    /* NEW, but the nodes vote at once: for servers that never held a fenced lock. */
    REDLOCK_ADMIT_AT_ONCE,
    /*
     * Waits until all nodes vote. A node without a marker gets a member index that no other
     * node has. If a majority lost its memory, the remaining nodes attest their own
     * markers: make sure that no server that was a node before still runs elsewhere.
     * `node` is a set, bit i for node i: what these nodes have lost never comes back. Where
     * markers promise DURABLE, only these get an index without a marker.
     * Results: UNREACHED, UNADMITTED, WRONG_DEPLOYMENT, MEMBER_INACTIVE (`node` is empty,
     * and not in the set; or a promise is to be set, and `node` does not vote).
     */
    REDLOCK_ADMIT_READMIT,
    /*
     * Gives the node `node` the member index that no other node has. That node must have no
     * marker and no key of the client's prefix, and all other nodes must vote. If another
     * admission replaces one of these meanwhile: MEMBER_INACTIVE, and `node` is that one;
     * continue by READMIT with its successor in the list.
     * Results: NOT_EMPTY, UNREACHED, UNADMITTED, MEMBER_INACTIVE.
     */
    REDLOCK_ADMIT_REPLACE,
    /*
     * The node `node` never votes again, whatever list of nodes a client has, until its key
     * "!marker" is deleted. The other nodes of this client must show that another server
     * has its member index. Results: UNREACHED, UNADMITTED (they do not).
     */
    REDLOCK_ADMIT_RETIRE,
} redlock_admission;

/*
 * What the operator promises of all nodes (docs/safety.md, Promises). The markers store it.
 * OR them into `how` of redlock_admit(), with NEW, AT_ONCE or READMIT. READMIT without any
 * leaves the promises as they are; with some it sets just these, if all nodes vote.
 */
enum {
    REDLOCK_PROMISE_NONE = 0x100,    /* READMIT: takes all of them back */
    REDLOCK_PROMISE_DURABLE = 0x200, /* a node loses nothing by a restart */
    REDLOCK_PROMISE_SOLE = 0x400,    /* of each member index one server at most is alive */
};

typedef struct redlock_admitted {
    redlock_code code; /* OK: all nodes vote */
    int node;          /* the node that prevents the admission, or NO_NODE */
    const char *text;  /* what is wrong with that node, or the key that it has; or "" */
} redlock_admitted;

typedef void redlock_admit_fn(redlock_client *client, const redlock_admitted *result,
                              void *arg);

/*
 * Begins when the client has tried every node, and has read the markers once more. Calls
 * back when all nodes vote, or when the admission is not possible. Only one admission runs
 * at a time. `how`: a redlock_admission, and promises. NEW and AT_ONCE do not use `node`.
 * NEW, AT_ONCE and REPLACE need the permission to SCAN.
 * Results: OK, DENIED (SCAN or the marker is refused), NO_MEMORY, CANCELLED (the client was
 * freed), and those of the mode.
 * Errors: BUSY, BAD_OPTION (no such mode, promise or node), NO_MEMORY, FORKED, CLOSED.
 */
REDLOCK_API redlock_code redlock_admit(redlock_client *client, unsigned how, size_t node,
                                       redlock_admit_fn *callback, void *arg);

/*
 * The client watches the markers of its nodes from now on, as one that holds fenced locks
 * does: nodes that lost their vote get it back, as far as no operator is needed.
 * Errors: FORKED, CLOSED.
 */
REDLOCK_API redlock_code redlock_client_watch_members(redlock_client *client);

/*
 * Like redlock_client_explain(), shows whether each node may vote on fenced locks. If it
 * may, `verdict` is ACTIVE; otherwise `fault` has the reason. `remaining_us` is what is
 * left of its quarantine; UNKNOWN: it is not quarantined, or its registration is not
 * complete.
 */
REDLOCK_API size_t redlock_client_members_sized(const redlock_client *client,
                                                redlock_node *nodes, size_t room,
                                                size_t size);
static inline size_t redlock_client_members(const redlock_client *client,
                                            redlock_node *nodes, size_t room)
{
    return redlock_client_members_sized(client, nodes, room, sizeof(*nodes));
}

/* --- inspecting a key, and breaking its lock --- */

typedef struct redlock_inspection {
    redlock_code code;     /* OK: q nodes replied, and silent ones do not matter */
    redlock_reason reason; /* of NO_QUORUM and DENIED: see redlock_result */
    unsigned quorum;
    unsigned held, free;  /* nodes that have, or had, a value; nodes that have none */
    unsigned agreeing;    /* nodes that have the most frequent value */
    int64_t remaining_ms; /* until so many keys expired that a quorum is free; or UNKNOWN */
    const redlock_node *const *nodes;
    size_t count;
    unsigned readers; /* of a shared lock: how many q nodes have, of the first 30 of each */
    const char *const *reader; /* ... and their tokens; NULL: none, or no memory */
    /* of a REDISSON lock: how often its owner has locked it, by one of `agreeing`; or 0 */
    unsigned depth;
    unsigned waiting; /* how many wait, up to 100: the most that a node has */
    int64_t fence;    /* the largest that a node with this value stores; or NO_FENCE */
    /*
     * When the most frequent value was made: ms since 1970, of whole seconds, by the clock
     * of its holder; or UNKNOWN.
     */
    int64_t since_ms;
    /* How long the first waiter has waited, by a node's clock; or UNKNOWN. */
    int64_t waited_ms;
} redlock_inspection;

typedef void redlock_inspect_fn(redlock_client *client,
                                const redlock_inspection *inspection, void *arg);

/*
 * Reads the key on every node and changes nothing. If q nodes replied, but it depends on
 * the others whether q have one value, the result is NO_QUORUM.
 * Results: OK, NO_QUORUM, DENIED, CANCELLED (the client was freed).
 * Errors: BAD_KEY, BAD_OPTION (no callback), NO_MEMORY, FORKED, CLOSED.
 */
REDLOCK_API redlock_code redlock_inspect(redlock_client *client, const void *key,
                                         size_t key_len, redlock_inspect_fn *callback,
                                         void *arg);

/*
 * Removes the key on every reachable node, without regard to its holder, and reports what
 * was there. OK: q nodes replied. For operators: a live holder's client calls on_lost at
 * its next extension, up to a third of what remained of the TTL later. Until then, and
 * without a watchdog until its deadline, that holder still treats the lock as held.
 * Results: those of redlock_inspect().
 * Errors: BAD_KEY, NO_MEMORY, FORKED, CLOSED.
 */
REDLOCK_API redlock_code redlock_break(redlock_client *client, const void *key,
                                       size_t key_len, redlock_inspect_fn *callback,
                                       void *arg);

/* --- listing all locks --- */

/*
 * One key, with the code of its inspection: unless that is OK, it is unknown whether the
 * key is held. `inspection` is NULL at the end, and then `code` is how it went.
 */
typedef struct redlock_listed {
    redlock_code code;
    const void *key; /* without the client's prefix */
    size_t key_len;
    const redlock_inspection *inspection;
} redlock_listed;

typedef void redlock_list_fn(redlock_client *client, const redlock_listed *listed,
                             void *arg);

enum {
    REDLOCK_LIST_FOREIGN = 1, /* also keys that hold no token of this library */
};

/*
 * Finds all locks whose keys begin with `prefix` (without the client's own), and inspects
 * each as redlock_inspect() does. It scans one node after the other in small steps, with
 * pauses, so that others are not delayed; a lock that an earlier node has, too, is not
 * listed again. A key of which too few nodes reply is inspected again for two seconds; then
 * it is listed with NO_QUORUM. Keys that come or go meanwhile may be missed, and one may be
 * listed twice, as with SCAN. The memory that it takes does not depend on their number. The
 * user needs the rights to SCAN and EXISTS besides. `how`: the flags above, or 0.
 * Results: OK, NO_QUORUM (fewer than q nodes could be scanned: some locks may be missing),
 * DENIED, CANCELLED (the client was freed), NO_MEMORY; of the last call.
 * Errors: BAD_KEY (the prefix is too long), BAD_OPTION (no callback), NO_MEMORY, FORKED,
 * CLOSED.
 */
REDLOCK_API redlock_code redlock_list(redlock_client *client, const void *prefix,
                                      size_t prefix_len, unsigned how,
                                      redlock_list_fn *callback, void *arg);

/* --- checking the nodes --- */

/* The severity of a finding. */
typedef enum redlock_severity {
    REDLOCK_NOTE,    /* the client could not check this: the result is unknown */
    REDLOCK_WARNING, /* locks work now; a restart or an eviction can lose them */
    REDLOCK_DEFECT,  /* the node is not fit to hold locks */
} redlock_severity;

typedef struct redlock_finding {
    redlock_severity severity;
    const char *code;   /* short and lower case: same_server, evicts, ... */
    const char *text;   /* what is wrong, and what to do */
    const char *detail; /* what was found: another node, a setting, commands; or "" */
} redlock_finding;

/*
 * The states of a node as a member of a deployment of fenced locks. New ones are appended.
 */
#define REDLOCK_MEMBER_STATES(X)                                                           \
    X(UNSEEN, "unseen", "it was not reached")                                              \
    X(UNMARKED, "unmarked", "it has no marker")                                            \
    X(NO_MAJORITY, "no_majority", "too few nodes of its deployment were reached")          \
    X(OTHER_DEPLOYMENT, "other_deployment", "it belongs to another deployment")            \
    X(REPLACED, "replaced", "its member index was assigned again")                         \
    X(OTHER_PROCESS, "other_process", "its marker was made for another process")           \
    X(QUARANTINED, "quarantined", "its marker puts it in quarantine")                      \
    X(CLOCK, "clock", "its clock is not trusted")                                          \
    X(UNCONFIRMED, "unconfirmed", "its marker has changed and is read again")              \
    X(ACTIVE, "active", "it may vote on fenced locks")

typedef enum redlock_member_state {
#define REDLOCK_X_(state, name, text) REDLOCK_MEMBER_##state,
    REDLOCK_MEMBER_STATES(REDLOCK_X_)
#undef REDLOCK_X_
} redlock_member_state;

/* "active", and its text. Never NULL. */
REDLOCK_API const char *redlock_member_state_name(redlock_member_state state);
REDLOCK_API const char *redlock_member_state_text(redlock_member_state state);

/* One node, as it was found. UNKNOWN, and the empty string: not known. */
typedef struct redlock_node_health {
    const char *uri; /* without the password */
    bool fit;        /* no finding is a defect */
    int64_t latency_us;
    char version[40];      /* redis 7.0.15 */
    char policy[24];       /* maxmemory-policy */
    char fsync[16];        /* appendfsync; none: there is no append-only file */
    int64_t maxmemory;     /* bytes; 0: no limit */
    int64_t replicas;      /* connected replicas */
    bool timed;            /* the next two are known */
    int64_t offset_us;     /* its time of day minus the median of the nodes */
    int64_t offset_err_us; /* the possible error of offset_us, from the round trips */
    const redlock_finding *const *findings;
    size_t count;

    /* Its state for fenced locks: */
    redlock_member_state member_state;
    int64_t member_index;  /* in its deployment */
    int64_t generation;    /* of the member index: 1 + how often it was assigned anew */
    int64_t quarantine_us; /* what is left of its quarantine, if this client watches it */
    int64_t max_ttl_us;    /* the longest TTL that the deployment was admitted for */
    unsigned promises;     /* in its marker: REDLOCK_PROMISE_DURABLE, _SOLE, or 0 */

    /* Until the node's certificate ends. */
    int64_t certificate_us;
} redlock_node_health;

typedef enum redlock_health {
    REDLOCK_FIT,
    REDLOCK_FIT_WITH_WARNINGS, /* q nodes are fit, but there is a warning or a defect */
    REDLOCK_UNFIT,             /* fewer than q nodes are fit */
    REDLOCK_NOT_CHECKED,       /* the client was freed before */
} redlock_health;

typedef struct redlock_health_report {
    redlock_code code; /* unless it is OK, nothing else is known */
    redlock_health health;
    unsigned quorum, fit; /* nodes that are needed, and nodes without a defect */
    const redlock_node_health *const *nodes;
    size_t count;
} redlock_health_report;

typedef void redlock_check_fn(redlock_client *client, const redlock_health_report *report,
                              void *arg);

enum {
    REDLOCK_CHECK_STRICT = 1, /* a warning counts as a defect */
    REDLOCK_CHECK_FENCED = 2, /* a node without a vote on fenced locks has a defect */
    /*
     * Compare by CLIENT LIST which clients are connected to each node. If some are missing
     * at a node, the check takes six seconds more. Not for every few seconds, and not by a
     * client that holds locks: a node needs some milliseconds for a list of thousands, the
     * client 0.25 s for five lists of 40,000.
     */
    REDLOCK_CHECK_CLIENTS = 4,
};

/*
 * Checks whether these nodes are fit to hold locks. The client waits until it has tried
 * each node. Then it asks the nodes that reply for their settings and their time, and
 * tests each permission that a client needs with commands that have no effect. It writes
 * no key. A setting that the user may not read is a note. If the client's options have
 * `durable`, warnings about what a restart forgets are defects; with CHECK_FENCED and
 * without `durable` they are none. The state of the nodes for fenced locks is that of their
 * last greeting. `how`: the flags above, or 0.
 * Results: OK, CANCELLED (the client was freed).
 * Errors: BAD_OPTION (no callback), NO_MEMORY, FORKED, CLOSED.
 */
REDLOCK_API redlock_code redlock_check(redlock_client *client, unsigned how,
                                       redlock_check_fn *callback, void *arg);

/*
 * The least ACL rule for this client's prefix and user, as one command: "ACL SETUSER lock
 * ...". Its password is the word SECRET: replace it by yours. `uses`: what the user does
 * besides, or 0. Writes at most `room` bytes, the last of them NUL; returns the length of
 * the whole rule in bytes, without the NUL.
 */
#define REDLOCK_ACL_REDISSON 1u /* locks in Redisson's layout */
#define REDLOCK_ACL_LIST     2u /* redlock_list() */
REDLOCK_API size_t redlock_client_acl(const redlock_client *client, unsigned uses,
                                      char *text, size_t room);

#ifdef __cplusplus
}
#endif

#endif
