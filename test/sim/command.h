/*
 * The commands of a run: what a process writes, what a server makes of it, and when the
 * process reads the reply. They are parsed from the bytes, and tell the oracle.
 */
#ifndef SIM_COMMAND_H
#define SIM_COMMAND_H

#include "core/types.h"
#include "plan.h"
#include "redlock/redlock.h"
#include "seal.h"
#include "virtual/node.h"

enum ask {
    ASK_OTHER,
    ASK_GREETING, /* the last command of a greeting */
    ASK_ACQUIRE,
    ASK_RAISE,
    ASK_EXTEND,
    ASK_RELEASE,
    ASK_INSPECT,
    ASK_BREAK,
    ASK_OBSERVE,
    ASK_MARKER,
    ASK_SUBSCRIBE,
};

/* The truth of a reply. */
enum truth {
    TRUTH_UNKNOWN, /* nonsense, or an error after a part of it was done */
    TRUTH_GRANTED,
    TRUTH_HELD,
    TRUTH_GONE,
    TRUTH_RECREATED,
    TRUTH_ERROR,
};

struct claim;

struct command {
    struct command *next; /* behind it on its connection, as long as it was not executed */
    enum ask ask;
    bool is_locking; /* it asks for a vote: ACQUIRE or EXTEND */
    bool recreates;
    bool is_bare;       /* EXTEND: of a token whose fence the client does not know */
    bool reads;         /* of a shared lock */
    bool is_fenced;     /* by its script */
    bool is_of_slot;    /* RELEASE: of a semaphore ... */
    unsigned slots;     /* ... of which it says so many */
    bool joins, leaves; /* the queue */
    int64_t waited_us;  /* since it waits, as it says */
    int64_t intent_ms;  /* for how long it keeps readers out; 0: not at all */
    bool is_straggler;  /* it came after its connection was closed */
    unsigned client, node, server;
    bool is_of_set;
    unsigned resources;     /* a set of those whose keys it names */
    unsigned queue;         /* the resource in whose queue its entry is */
    bool passes;            /* it was notified, or waited, where it does not wait now: */
    unsigned passed;        /* in the queue of this resource */
    uint32_t client_number; /* of its process */
    struct claim *claim;    /* NULL: no token of a client */
    int64_t ttl_ms;
    char entry[96];      /* EXTEND, a downgrade: that of the writer */
    int64_t said;        /* true time */
    uint64_t iteration;  /* of its process, then */
    int64_t said_raw;    /* by the client's unslewed clock: not later than it may believe */
    uint64_t said_nonce; /* of the marker under which it asks; 0: none */
    /* MARKER, only while it is said: the marker that it expects, and the one it writes. */
    struct rl_word expected, wanted;

    /* When it was executed: */
    enum truth truth;
    bool is_no_script;
    bool is_refusal;    /* an error of the node itself: it must be greeted again */
    bool is_mismatch;   /* the marker is another than the command says */
    bool is_not_queued; /* its queue entry could not be added or removed */
    int64_t ran;
    uint32_t nth; /* of all that servers executed */
    uint32_t memory, process, history, clock_changes;
    struct seal seal;
    uint64_t nonce;                    /* of the marker */
    uint32_t generation[NODES_MAX];    /* that the marker has of each member index */
    int64_t told_us;                   /* the time of day that the reply has; 0: none */
    int64_t fence;                     /* that is stored beside the token then */
    int64_t expires;                   /* of the token there, ms; 0: not at all keys */
    int64_t expired;                   /* EXTEND: the same, right before it */
    unsigned taken;                    /* the resource whose key has this value: */
    char value[REDLOCK_TOKEN_MAX + 1]; /* that is there instead */
    int64_t pttl;
    bool is_garbled;    /* the reply is nonsense */
    bool is_unsure;     /* so is one before it: perhaps it is not believed */
    bool tells_process; /* it is that part of a greeting */
    bool is_master, is_cluster, is_loading, is_known,
        runs_scripts; /* what the greeting told */
};

struct connection;
struct network_observer;
extern const struct network_observer command_observer;

void command_begin(void);

/* All that was written on it was executed. */
bool command_is_idle(const struct connection *connection);

/* The process wrote there of a token, and has not read the reply. */
bool command_is_awaited(const struct connection *connection);

/* Commands that the process wrote on it, and whose replies it has not read. */
size_t command_pending(const struct connection *connection);

/* The process knows that it gets messages on this connection. */
bool command_is_subscribed(const struct connection *connection);

/* This is also true if the connection has ended and the process has yet to read that. */
bool command_was_subscribed(const struct connection *connection);

/* Commands that a server executes. */
bool command_is_greeting(const struct node_command *command);
const struct command *command_next(const struct node_command *command);
void command_begins(const struct node_command *command);
void *command_ran(const struct node_command *command, struct rl_word reply, bool garbled);

#endif
