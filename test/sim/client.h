/*
 * A process that uses the library: a client of the nodes, and the users of its locks; and
 * what the oracle knows of it.
 */
#ifndef SIM_CLIENT_H
#define SIM_CLIENT_H

#include "redlock/admin.h"
#include "redlock/stats.h"
#include "seal.h"
#include "user.h"
#include "virtual/process.h"

/* The oracle's account of a node, as a client has been told. */
struct acquainted {
    unsigned server;      /* that it greeted last ... */
    uint32_t process;     /* ... and its process; 0: none yet */
    unsigned told_server; /* the same, of a greeting that may have no end */
    uint32_t told_process;
    int64_t barred_until; /* it must not vote before; true time */
    int64_t quarantined_until;
    int64_t refused_until; /* the same, where the link's quarantine is not asked */
    int64_t accepted_at;   /* its greeting was; true time */
    bool has_forgotten;    /* it restarted, and has not been accepted since */
    bool is_duplicate;     /* its server is also another node of the list */
    bool is_doubtful;      /* perhaps it is known by a greeting with nonsense in it */
    uint64_t nonce;        /* of its marker, as it was read last */
    uint64_t refused;      /* a nonce that it refused since then; 0: none ... */
    uint64_t refused_in;   /* ... as was read in this iteration */
    bool is_greeted;       /* the marker was read on the connection that is there now */
    /* When the marker was first read on the connection that asks for votes; true time; 0:
       not yet. */
    int64_t greeted_at;
    int64_t look_due;     /* its marker is read again before; true time */
    bool is_looking;      /* a command that reads it is under way */
    struct seal seal;     /* of its marker, as it was read last */
    bool has_been_active; /* so its marker said, once */
    /* The latest generation of each index that its marker had, as was read in iteration
       `has_since`, and before it; and which it had itself, the latest. */
    uint32_t has[NODES_MAX], has_before[NODES_MAX], had[NODES_MAX];
    /* Of these, the latest that the client could take for the node's own: it knew the
       deployment by then, and the marker named the node's process. */
    uint32_t owned[NODES_MAX];
    uint64_t had_of; /* the deployment of the last marker that was there; 0: none was */
    uint64_t has_since;
    bool was_marked;            /* a marker was there once */
    int64_t heard_at;           /* when a reply with a token was read last; true time */
    int64_t unsubscribed_since; /* though it waits there; true time; 0: it is subscribed */
    int64_t awaits_since;       /* a reply; true time; 0: it has read one since it asked */
    uint64_t suspect_in;        /* it has been suspect since this iteration; 0: it is not */
    struct sample sample;
};

/* Requests of its users. */
enum wish { WISH_ACQUIRE, WISH_ADOPT, WISH_EXTEND, WISH_RELEASE, WISHES };

#define NEWS_MAX 8 /* of enum news */

/* The oracle's account of what its users asked and were told, since the process began. */
#define SPANS_MAX 256 /* of a client that are open at a time */

struct counts {
    uint64_t asked[WISHES];
    uint64_t told[NEWS_MAX][REDLOCK_RESULTS];
    uint64_t spans_begun, holds_begun;
    struct open_span {
        uint64_t lease;
        const char *operation;
    } open[SPANS_MAX];
    unsigned open_count;
    unsigned iterations;
};

struct client {
    unsigned index;
    struct process process;
    redlock_client *handle;     /* NULL: there is none */
    redlock_observer *observer; /* of an election; NULL: none */
    int64_t term;               /* the last that it was told of */
    int64_t knew_leader_at;     /* or could not know; true time */
    bool is_alive;
    uint32_t number;             /* of its process, of all */
    int64_t born;                /* true time */
    unsigned address[NODES_MAX]; /* of its configuration */
    bool has_typo;               /* which names a wrong server */
    bool ends;                   /* it frees its client at the next chance */
    bool raw_is_good; /* its unslewed clock keeps to the bounds; else the other */
    unsigned users;
    struct counts counts;
    bool cannot_begin;              /* no attempt of a waiter, when its iteration ended */
    unsigned failures;              /* allocations of its process, before this iteration */
    unsigned checks, drains, lists; /* lists: or hold times; that are yet to be told of */
    struct user user[USERS_MAX];
    struct event returns, pauses;
    struct acquainted node[NODES_MAX];
    bool knows_deployment;          /* it had a marker of a majority at one moment */
    uint32_t generation[NODES_MAX]; /* the latest of each member index that it was told */
    int64_t learned_at;             /* when that was a later one; true time ... */
    uint64_t learned_in;            /* ... in this iteration ... */
    unsigned learned_by;            /* ... from this node */
    int64_t looks_since;            /* it reads markers; true time; 0: it does not */
    int64_t owed_look;              /* when its releases are judged again; true time */
    int64_t paused_until; /* when none of its clocks counted last; true time; 0: never */
    int64_t erred_at; /* its clock may have been wrong before; as struct sample's `sent` */
    rl_node_set voting, suspect; /* as the client explained it last */
    rl_node_set new_nonce;       /* nodes whose markers have another nonce since then */
    int64_t second;              /* that is counted, and the commands in it */
    unsigned commands;

    /* An operator's: */
    redlock_admission admission;
    bool founds; /* it has users, and was asked for a deployment, too */
    size_t newcomer;
    bool is_admitting;
    int64_t gives_up;
    struct event looks, comes;
};

/* Nothing of it has begun. */
void client_init(struct client *client, unsigned index);

/* The client has the faults of the present phase. */
void client_calm(struct client *client);

/* A new process begins. */
void client_start(struct client *client);

/* The client is killed, perhaps with its machine; or frees its client and ends. False: it
   is in the middle of a call. */
bool client_kill(struct client *client, bool power);
bool client_finish(struct client *client);

/* The client has an open connection to the server at a node's address. */
bool client_reaches(const struct client *client, unsigned node);

/* Nodes that it must not ask for a vote now, as it was told. Others may be asked in vain,
 * if their connections end before the command is written. */
rl_node_set client_barred_nodes(const struct client *client);

/* The stream is that of a node's votes, and not that of its notifications: this is not in
   the bytes of its greeting. `owner`: the argument of its handler. */
bool client_is_link(const struct client *client, const void *owner);

/* The node of its list at an address; NODES_MAX: none. */
unsigned client_node_at(const struct client *client, unsigned host);

/* A lower bound of what its clock reads: us by the faster of its two clocks. */
int64_t client_elapsed_since(const struct client *client, int64_t boot, int64_t raw);
int64_t client_boot(const struct client *client);
int64_t client_raw(const struct client *client); /* unslewed, with suspensions */

/* The highest rate of its clock, in ppm. */
int64_t client_rate(const struct client *client);

int64_t client_quarantine(void); /* of a node that restarted, ns */

#endif
