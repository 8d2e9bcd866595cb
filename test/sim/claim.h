/*
 * The oracle's account of one token: which servers stored it, what its client has heard of
 * that, and what its user wants of it.
 */
#ifndef SIM_CLAIM_H
#define SIM_CLAIM_H

#include "core/types.h"
#include "redlock/redlock.h"
#include "seal.h"

#define CLAIMS_MAX 16384

/*
 * How a token's keys left a server before their time: those of a set one by one. Ends when
 * they are stored again.
 */
struct loss {
    int64_t first, at; /* true times of the first one, and the last */
    int64_t expires;   /* what the server had said, ms */
    bool is_lost;
    bool is_broken;    /* deleted by hand, once at least */
    bool is_restart;   /* each time: those who watch can know */
    uint64_t watchers; /* clients that had greeted the server before, each by which node */
};

/* A vote that its client has heard. */
struct vote {
    unsigned server;
    uint32_t memory, nth;
    uint64_t iteration; /* of its process, when it asked */
    int64_t ran, heard; /* true times */
    int64_t expires;    /* of the key then, ms of the server's clock */
    int64_t fence;      /* beside the token, the last time */
    struct seal seal;
};

/* The latest round of extensions. */
struct extension {
    uint64_t iteration;         /* of its process, in which it was asked for; 0: none */
    int64_t boot, raw;          /* its process' clocks then ... */
    int64_t before;             /* ... and for how long that iteration lasted by then; ns */
    rl_node_set asked, granted; /* asked: those that have not refused */
    int64_t ttl_ms;
    int64_t due; /* it is lost, and the next one begins before; true time; 0: it is not */
    unsigned failures; /* allocations of its process, before */
    bool is_unsure;    /* a command of it was sent twice */
};

/* The repairs of a held lease, where nodes that lack it may vote again. */
struct repair {
    int64_t due[NODES_MAX]; /* it is extended there before; true time; 0: it need not be */
    rl_node_set first;      /* the latest round is the one that was due there ... */
    rl_node_set again;      /* ... and stored the token again: what is due is the next */
    uint64_t iteration;     /* of its process, in which that round began ... */
    int64_t began;          /* ... true time; 0: none has */
    unsigned credit;        /* for how many rounds there is a reason */
};

struct command;
struct user;

struct claim {
    char token[REDLOCK_TOKEN_MAX + 1];
    size_t len;
    unsigned client, resources; /* a set */
    uint32_t client_number;     /* of the process that made it */
    struct user *user;          /* who wants it, or holds it; NULL: nobody any more */
    redlock_lease_options options;
    unsigned fences;
    int64_t made;         /* true time */
    int64_t ttl_ms;       /* the longest that was asked for ... */
    int64_t least_ttl_ms; /* ... and the shortest */
    int64_t kept_until;   /* it was disowned, and excludes others until then; true time */
    int64_t clean_until;  /* its process takes the key away where it can, but not later */
    unsigned failures;    /* allocations of its process, before it was first asked for */
    bool is_cleaned;      /* it is to: the user wants it no more */
    bool is_handed;       /* it was disowned and adopted: a late SET may come */
    bool is_over;         /* nothing may ask for it any more ... */
    uint64_t over_since;  /* ... after this iteration of its process */
    int64_t boot, raw;    /* its process' clocks when it was first asked for, or adopted */
    int64_t lost_due;     /* LOST must be reported before; true time; CLOCK_NEVER */
    bool is_lost;         /* the user was told ... */
    uint64_t lost_in;     /* ... in this iteration of its process */
    bool has_deadline;    /* the user has had one; not before a bare token is extended */
    uint64_t handed_in;   /* in this iteration of its process one user disowned it, with a
                             deadline, and another one adopted it; 0: never */

    /* By nodes of its client's list: */
    rl_node_set asked, granted, told, answered, released;
    rl_node_set garbled; /* nonsense was read there, or before: perhaps it was believed */
    rl_node_set missing; /* heard to be so, once, and not granted since ... */
    rl_node_set surely_missing; /* ... in reply to what was asked last */
    uint64_t gone_in;     /* the iteration in which a majority was missing last; 0: never */
    uint64_t asked_last;  /* in this iteration */
    rl_node_set rests_on; /* who granted what the user was told last ... */
    uint64_t round;       /* ... which was asked for from this iteration on */
    int64_t succeeded_at; /* when it was told that; true time */
    struct vote vote[NODES_MAX];
    int64_t pttl[NODES_MAX];     /* of what was heard to be there instead; -1: no expiry */
    rl_node_set held, gone;      /* what was heard last */
    rl_node_set was_held, voted; /* ever */
    char value[NODES_MAX][REDLOCK_TOKEN_MAX + 1];
    unsigned taken[NODES_MAX];    /* the resource that has it */
    unsigned acquires[NODES_MAX]; /* that were executed */
    struct extension extension;
    struct repair repair;
    uint64_t resent_in; /* the iteration in which an extension was sent again; 0: never */
    rl_node_set to_resend;        /* did not know the script of a command ... */
    int64_t resend_of[NODES_MAX]; /* ... that was sent then; true time */
    rl_node_set to_recreate;      /* the same, of an extension that recreates */
    rl_node_set extended_again;   /* were sent an extension in iteration `resent_in` */

    /* By servers: */
    rl_node_set with_term;      /* that have stored it as a leader's ... */
    int64_t term;               /* ... with this number */
    rl_node_set is_ghost;       /* an old state, or a late message, brought it back */
    unsigned node[SERVERS_MAX]; /* by which node of the list it was stored */
    struct loss loss[SERVERS_MAX];
    int64_t expires[SERVERS_MAX]; /* as each had it when it stored or extended last, ms */
};

void claims_begin(void);

/* One token, perhaps before a downgrade, which changes its first letter. */
bool claim_token_is(struct rl_word a, struct rl_word b);

/* The user downgrades: from now on the token is a reader's. */
void claim_downgrade(struct claim *claim);

/* The claim of a token; NULL: none. */
struct claim *claim_of(struct rl_word token);

/* A token that is new. */
struct claim *claim_new(const struct command *command, struct rl_word token);

static inline struct rl_word claim_word(const struct claim *claim)
{
    return (struct rl_word){claim->token, claim->len};
}

/* The process has disowned it, and another one has adopted it. */
bool claim_is_former(const struct claim *claim, const struct command *command);

/* All, from the first on. */
struct claim *claim_at(size_t i);
size_t claims_count(void);

/* The user wants it no more; `cleaned`: and its client is to take the keys away. */
void claim_leave(struct claim *claim, bool cleaned);

#endif
