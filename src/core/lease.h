/*
 * A lease: one attempt to hold one lock, and its life, as a machine that is stepped.
 *
 *     NEW -> ACQUIRING -> HELD -> RELEASING -> LINGERING -> OVER
 *       |         |         `-> LOST --^            ^
 *       `---------`-> BACKING_OUT ------------------'
 *
 * Where grants carry fences, the largest is the lease's. If fewer than a quorum stored just
 * that, a second round (settle) raises it on the others before the lease is held.
 *
 * Time comes in with the view, commands go out as data, and the machine says when it wants
 * to be stepped next. The safety rules are those of docs/safety.md; the algorithm is
 * Redlock as published:
 * https://redis.io/docs/latest/develop/use/patterns/distributed-locks/
 */
#ifndef RL_LEASE_H
#define RL_LEASE_H

#include "quorum.h"

/* What was asked for. */
struct rl_terms {
    rl_time ttl;
    rl_time margin;       /* LOST is told this long before the deadline */
    rl_time min_validity; /* less left when it is acquired: it is not */
    rl_time extend_every; /* 0: no watchdog */
    rl_time max_hold;     /* from when it was asked for to the end; RL_NEVER: no bound */
    rl_time node_timeout; /* 0: follows the measured round trip */
    uint32_t drift_ppm;
    uint8_t n, q;
};

#define RL_PATIENCE_FLOOR (50 * RL_MS) /* the least per-node timeout that is not fixed */
#define RL_PATIENCE_SHARE 10           /* and its bound, as a part of the TTL */
#define RL_RETRY_SHARE    20           /* a lost extension is tried again after this part */
#define RL_WATCHDOG_SHARE 3            /* the watchdog extends after at most this part */
#define RL_SPREAD_SHARE   8            /* of which it may be early by up to this part */
#define RL_EXTEND_SHARE   200          /* within this part of it they share a flush, */
#define RL_EXTEND_GRID    (10 * RL_MS) /* but no less, */
#define RL_EXTEND_COARSE  (50 * RL_MS) /* and no more */
#define RL_LINGER_GAP     (500 * RL_MS)

enum rl_lease_state {
    RL_LEASE_NEW,
    RL_LEASE_ACQUIRING,
    RL_LEASE_BACKING_OUT, /* lost: the release is under way, the failure is not told yet */
    RL_LEASE_HELD,
    RL_LEASE_LOST, /* told; the keys stay until the holder has stopped and releases */
    RL_LEASE_RELEASING,
    RL_LEASE_LINGERING, /* all is told; some node may still store the token */
    RL_LEASE_OVER,
};

/* Why a lease is where it is. */
enum rl_cause {
    RL_CAUSE_NONE,
    RL_CAUSE_TAKEN,       /* others' keys plus our grants made up a quorum */
    RL_CAUSE_NO_QUORUM,   /* too few nodes answered */
    RL_CAUSE_EXPIRED,     /* the validity ran out */
    RL_CAUSE_CANCELLED,   /* the caller wished so */
    RL_CAUSE_GONE,        /* the nodes no longer store the token */
    RL_CAUSE_MAX_HOLD,    /* it was held as long as it may be */
    RL_CAUSE_UNCONFIRMED, /* too few nodes confirmed the release */
};

enum rl_lease_event_type {
    RL_EVENT_START,   /* acquire */
    RL_EVENT_QUEUE,   /* give up at once, and say so: others who wait come first */
    RL_EVENT_ADOPT,   /* take over a token: its deadline, or 0 if that is not known */
    RL_EVENT_VOTE,    /* a node answered, or its connection ended before it did */
    RL_EVENT_READY,   /* a node was greeted: what is unknown there can be released */
    RL_EVENT_FORGOT,  /* a node was seen to have restarted: it may have lost the token */
    RL_EVENT_EXTEND,  /* the caller asks for an extension; a ttl above 0 replaces the old */
    RL_EVENT_RELEASE, /* the caller gives the lock back, or the attempt up */
    RL_EVENT_DISOWN,  /* the caller goes; the token stays where it is */
    RL_EVENT_EXPIRE,  /* look at the deadline, at nothing else */
    RL_EVENT_TICK,    /* the time that rl_lease_next() named has come */
};

struct rl_lease_event {
    enum rl_lease_event_type type;
    rl_time ttl;      /* EXTEND */
    rl_time deadline; /* ADOPT */
    uint8_t node;     /* VOTE, READY, FORGOT */
    uint32_t seq;     /* VOTE: the round that it answers */
    enum rl_text text;
    enum rl_vote vote;
    enum rl_fault fault;
    int32_t pttl;  /* what remains of another's lock there, ms; -1 unknown */
    int64_t fence; /* VOTE: what the grant stored, ADOPT: the lease's; 0: none */
    rl_time took;  /* VOTE: since it was asked */
};

/* What the client sees at the moment of a step. */
struct rl_view {
    rl_time now;
    rl_nodes ready; /* may vote */
    rl_nodes open;  /* can be written to, in order: ready, suspect, quarantined */
    const rl_time *round_trip; /* per node, smoothed; 0 unknown */
};

/*
 * What happened, to be told to the caller, in this order. Losses first: nothing may be told
 * to a holder before it knows that it is none.
 */
enum rl_news {
    RL_NEWS_LOST = 1 << 0,
    RL_NEWS_HELD = 1 << 1,
    RL_NEWS_FAILED = 1 << 2,
    RL_NEWS_NOT_EXTENDED = 1 << 3,
    RL_NEWS_EXTENDED = 1 << 4,
    RL_NEWS_RENEWED = 1 << 5, /* extended by the watchdog */
    RL_NEWS_RELEASED = 1 << 6,
};

struct rl_update {
    rl_nodes send; /* to these nodes ... */
    enum rl_text text;
    bool plant; /* EXTEND: store the token again where no value is */
    uint32_t seq;
    unsigned news;
    bool sooner; /* it may want to be stepped sooner than it did, or its time is used up */
};

struct rl_lease {
    const struct rl_terms *terms;
    struct rl_ballot *ballot;
    int64_t *fences; /* what each grant stored; NULL: this kind has none */
    rl_time ttl;     /* of the last round that said one; at first that of the terms */
    struct rl_round round;
    rl_time valid;       /* the deadline; meaningful if `timed` */
    rl_time hold_until;  /* the deadline never passes this */
    rl_time next_round;  /* of the watchdog; when it lingers: of releases */
    rl_time wished_ttl;  /* replaces the TTL when the round begins that says it; 0: none */
    rl_time until;       /* when a token that was left behind has expired */
    int64_t fence;       /* the largest that was granted, once a quorum has; 0: none */
    rl_nodes touched;    /* were sent a text that stores the token */
    rl_nodes dirty;      /* may store the token */
    rl_nodes extended;   /* were sent an extension, which may store it, too */
    rl_nodes unanswered; /* were sent a release that is neither answered nor cut */
    rl_nodes holding;    /* known to have stored the token in the last won round */
    rl_nodes missing;    /* known not to store it, by what they said last */
    enum rl_lease_state state : 8;
    enum rl_cause cause : 8;
    uint8_t spread;   /* how early its watchdog is, of 256: 0, or rl_lease_spread() */
    bool timed : 1;   /* the deadline is known: not so for a bare token */
    bool decided : 1; /* the round's result is known */
    bool won : 1;     /* and it is that */
    bool asked : 1;   /* the round answers the caller's request */
    bool wished : 1;  /* the caller's request waits for the round to end */
    bool held : 1;    /* it is, or was: acquired or adopted */
};

/* All three live as long as the lease; `ballot` and `fences` have room for terms->n. */
void rl_lease_init(struct rl_lease *lease, const struct rl_terms *terms,
                   struct rl_ballot *ballot, int64_t *fences);

struct rl_update rl_lease_step(struct rl_lease *lease, const struct rl_view *view,
                               const struct rl_lease_event *event);

/*
 * What `spread` is to be for the leases of a client, which it numbers: the watchdogs of
 * those that are made one after the other are far apart. Set it after rl_lease_init().
 */
uint8_t rl_lease_spread(uint64_t number);

/* When the machine wants to be stepped with TICK, at the latest. */
rl_time rl_lease_next(const struct rl_lease *lease);

/*
 * Whether this text of this round is still to be said. What stores the token must not be
 * said again once the release was: it would come behind it.
 */
bool rl_lease_wants(const struct rl_lease *lease, enum rl_text text, uint32_t seq);

/* How long the lock is surely held from `now` on; 0 if it is not. */
rl_time rl_lease_left(const struct rl_lease *lease, rl_time now);

/* The fencing token; 0: there is none, or the lease was never held. */
int64_t rl_lease_fence(const struct rl_lease *lease);

/*
 * The per-node timeout for a node with this smoothed round trip: `node_timeout`, or if that
 * is 0 what follows the round trip, up to a part of the TTL.
 */
rl_time rl_lease_patience(rl_time node_timeout, rl_time ttl, rl_time round_trip);

#endif
