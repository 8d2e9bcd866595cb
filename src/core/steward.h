/*
 * The steward: who of the nodes of a fenced lock may vote, and how one that lost its memory
 * comes back; a machine that is stepped, one per client.
 *
 * A node votes if its marker says so, names this process of it, and no later incarnation of
 * its seat is known. A node that forgot, whose process is another, or whose clock was set
 * gets a new incarnation, always in these steps; any client may do each of them:
 *
 *     seat      its marker says: quarantined, of a new incarnation
 *     register  a majority of sound nodes learn of that, each by a new marker: whoever read
 *               the old one finds no vote there, and learns of it, too
 *     watch     over one unbroken connection, until what was held by the old one has ended
 *     lift      its marker says: sound
 *
 * docs/safety.md has the proof, docs/model/marker.pml the model.
 */
#ifndef RL_STEWARD_H
#define RL_STEWARD_H

#include "kind.h"
#include "marker.h"
#include "pace.h"

enum rl_standing {
    RL_STANDING_UNSEEN,    /* not greeted on this connection */
    RL_STANDING_UNMARKED,  /* it was never admitted, or forgot it */
    RL_STANDING_ALONE,     /* marked, but too few nodes of one deployment were seen */
    RL_STANDING_ELSEWHERE, /* of another deployment, or of one with more or fewer nodes */
    RL_STANDING_REPLACED,  /* its seat has a later incarnation */
    RL_STANDING_FOREIGN,   /* the marker was made for another process */
    RL_STANDING_BARRED,    /* quarantined */
    RL_STANDING_CLOCK,     /* its clock was set, or is too fast or too slow */
    /* Its marker changed on this connection, and its history is not confirmed yet. */
    RL_STANDING_UNCONFIRMED,
    RL_STANDING_SOUND,
};

/* How a quarantined node is waited for. */
struct rl_watch {
    struct rl_incarnation of;
    rl_time asked; /* from then on the jury is looked at once more; 0: not yet */
    rl_nodes jury; /* these knew the incarnation then */
    rl_nodes told; /* and these have told so since */
    rl_time since; /* registered from then on; RL_NEVER: not yet */
};

/* What is known of one node. */
struct rl_ward {
    enum rl_standing standing : 8;
    bool greeted;
    bool marked;  /* there is a marker */
    bool garbled; /* there is something else */
    bool owed;    /* an order is under way */
    bool claims;  /* that would give it the seat `claimed` */
    bool off;     /* its clock was found out, at `off_at` */
    /* Its marker changed on this connection, at `changed_at`, and by no order of ours. */
    bool unconfirmed;
    bool confirming; /* its history is asked for, right behind a look */
    uint8_t claimed;
    uint8_t seat;               /* that this address had in our life, as `last` */
    struct rl_incarnation last; /* generation 0: none */
    struct rl_process process;
    struct rl_marker marker;
    uint64_t nonce; /* of the marker, or of ours that is on its way to replace it */
    rl_time changed_at;
    struct rl_pace pace;
    rl_time off_at;
    rl_time look_at;    /* when it is to be looked at again */
    rl_time rest_until; /* no orders before: one has failed */
    struct rl_watch watch;
};

struct rl_steward_terms {
    uint8_t n;
    uint32_t drift_ppm;
};

/* What an operator wants beyond the usual (admission.h). */
enum rl_admission {
    RL_ADMIT_NOTHING,
    RL_ADMIT_NEW,     /* a deployment of nodes without a marker */
    RL_ADMIT_AT_ONCE, /* the same, of servers that never held a fenced lock: they vote now
                       */
    RL_ADMIT_WAIT,    /* seat whoever has none, and recover from the loss of a majority */
    RL_ADMIT_REPLACE, /* seat one node without a marker in the seat that nobody has */
};

struct rl_steward {
    struct rl_steward_terms terms;
    bool active; /* orders are given: this client holds fenced locks, or admits nodes */
    enum rl_admission admission;
    rl_nodes founding;       /* NEW, AT_ONCE: these are to be marked yet */
    rl_nodes undoing;        /* the same, failed: these are to lose our marker again */
    bool outrun;             /* the same: somebody else was first */
    uint8_t newcomer;        /* REPLACE */
    struct rl_roster roster; /* what was learned; deployment 0: not bound yet */
    rl_time learned_at;      /* when that was last other than before */
    rl_time doubted_at;      /* when a majority seemed off, so that we were; 0: never */
    struct rl_ward ward[RL_NODES_MAX];
};

/* What is to be said to a node: look at the marker, or compare and set it. */
struct rl_steward_order {
    uint8_t node;
    bool history; /* right behind it, ask the node for its master_replid */
    bool write;
    bool erase;              /* `wanted` is no marker at all */
    struct rl_marker wanted; /* instead of ward[node].marker, or of none */
};

/* A fence may be so far ahead of a node's clock, and no further. */
#define RL_KAPPA (5 * RL_SECOND)
/* What comes later than that by a node's clock locks nothing. */
#define RL_LATENESS RL_SECOND

#define RL_STEWARD_GAP   (250 * RL_MS) /* between two looks at a node that does not vote */
#define RL_STEWARD_PROBE (10 * RL_SECOND) /* and at one that does */
#define RL_STEWARD_REST  RL_SECOND        /* after an order that failed */
#define RL_CLOCK_PAUSE   (500 * RL_MS)    /* is it the node's clock, or ours? */
#define RL_CLOCK_RECENT  (2 * RL_SECOND)
#define RL_CLOCK_PPM     1000 /* whatever the drift: so much is no fault of a clock */
#define RL_CLOCK_SHARE   10   /* our clock errs to be fast, by less than a tenth */

void rl_steward_init(struct rl_steward *steward, const struct rl_steward_terms *terms);

/* A node was greeted: its process, and the text that is its marker; empty: none. */
void rl_steward_greeted(struct rl_steward *steward, unsigned node,
                        const struct rl_process *process, struct rl_word marker,
                        rl_time now);

/* The connection to it ended. */
void rl_steward_gone(struct rl_steward *steward, unsigned node, rl_time now);

/* An order was answered: its marker as it is now, and when the order was sent. */
void rl_steward_answered(struct rl_steward *steward, unsigned node, struct rl_word marker,
                         rl_time sent, rl_time now);

/*
 * The node refused a command that was sent at `sent`, because its marker is another than
 * the command says. It has no vote until an order has read the marker and the node's
 * history is confirmed.
 */
void rl_steward_disputed(struct rl_steward *steward, unsigned node, rl_time sent,
                         rl_time now);

/*
 * The node answered the question for its history; `replid` is empty if it told none. False:
 * make the connection anew, for the history is another, or cannot be confirmed.
 */
bool rl_steward_history(struct rl_steward *steward, unsigned node, struct rl_word replid,
                        rl_time now);

/*
 * A grant that is heard while the node's history is not confirmed counts as unknown: the
 * marker that it ran under may have come back with older data.
 */
void rl_steward_weigh(const struct rl_steward *steward, unsigned node, enum rl_text text,
                      struct rl_answer *answer);

/* An order could not be said, or was refused; `again`: it may be given at once. */
void rl_steward_refused(struct rl_steward *steward, unsigned node, bool again, rl_time now);

/*
 * A node told its time in an answer that was heard at `now`, when a clock of ours that
 * nobody slews said `raw`. False: its clock cannot be trusted, nor what else it says.
 */
bool rl_steward_time(struct rl_steward *steward, unsigned node, rl_time sent, rl_time now,
                     rl_time raw, rl_time told);

/*
 * The next order that is due; false: none is. To be asked again until then, each time with
 * two fresh random numbers.
 */
bool rl_steward_order(struct rl_steward *steward, rl_time now, const uint64_t random[2],
                      struct rl_steward_order *ret_order);

/* When an order may be due, if nothing happens before. */
rl_time rl_steward_next(const struct rl_steward *steward);

/* Those that stand in one of these ways: RL_STANDS(SOUND) | ... */
rl_nodes rl_steward_standing(const struct rl_steward *steward, unsigned standings);
#define RL_STANDS(name) (1u << RL_STANDING_##name)

/* It has no seat any more, and never voted in the one that its marker names. */
bool rl_ward_is_lost(const struct rl_ward *ward);

/* These may vote. */
rl_nodes rl_steward_sound(const struct rl_steward *steward);

/*
 * The last word of each fenced command to this node: the nonce of the marker under which
 * the node may grant it. A node that may not vote gets a text that no marker begins with.
 */
void rl_steward_nonce(const struct rl_steward *steward, unsigned node,
                      char ret_nonce[RL_NONCE]);

/* How long a node stays in quarantine after its registration, by our clock. */
rl_time rl_steward_quarantine(const struct rl_steward *steward);

#endif
