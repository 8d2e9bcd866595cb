/* What happened in a run of random operations, and that all of it happened often enough. */
#ifndef TEST_TALLY_H
#define TEST_TALLY_H

#include "operations.h"
#include "sim/store.h"

/* Of a key's life: its last millisecond, and the next one. */
enum border { BORDER_LAST, BORDER_AFTER, BORDERS };

/* Of a fence that is said, against the one that is stored. */
enum place { PLACE_BELOW, PLACE_EQUAL, PLACE_ABOVE, PLACES };

enum tally_kind { TALLY_PLAIN, TALLY_FENCED, TALLY_KINDS };

/* Of the moments when something is decided by microseconds. */
struct verge {
    unsigned within, beyond; /* in the last millisecond, in the next one */
    unsigned exactly;        /* in its last microsecond */
};

struct tally {
    unsigned border[TALLY_KINDS][RL_TEXTS][BORDERS], fence_border[BORDERS];
    unsigned vote[TALLY_KINDS][RL_TEXTS][2][RL_VOTE_ABSENT + 1]; /* by hash, whole */
    unsigned fault[TALLY_KINDS][RL_TEXTS][RL_FAULT_COUNT];

    /* Of a fenced lock. */
    unsigned wrong_fence[RL_TEXTS], wrong_marker[RL_TEXTS]; /* a list */
    unsigned cut[RL_TEXTS], uncut[RL_TEXTS]; /* of another's value, longer than any lock */
    unsigned looks, sets, misses, erasures;  /* of a marker */
    unsigned raised[RL_TEXTS][RL_VOTE_ABSENT + 1][2]; /* it was not, it was */
    unsigned place[RL_TEXTS][PLACES];
    struct verge ahead[RL_TEXTS], late[RL_TEXTS];

    /* Of those who wait. */
    unsigned entered[TALLY_KINDS], left[TALLY_KINDS];
    unsigned called[TALLY_KINDS][3];   /* nobody, the first, and the second, too */
    unsigned passed_over[TALLY_KINDS]; /* some who do not listen */

    unsigned doubts; /* where no one moment explains what was seen */
};

/* A command that ran at about `now`, by the model or as the server showed it. */
struct event {
    const struct operation *operation;
    const struct rl_answer *answer;
    rl_time now;
    bool is_certain; /* in this millisecond */
    unsigned calls;
    const struct store *before, *after;
};

void tally_note(struct tally *tally, const struct event *event);
void tally_expect_all(const struct tally *tally);
bool tally_has_all(const struct tally *tally);

const char *tally_name(enum rl_text text);

#endif
