/*
 * What happened in a run of random operations; checks that everything happened often
 * enough.
 */
#ifndef TEST_COUNTS_H
#define TEST_COUNTS_H

#include "operations.h"
#include "sim/store.h"

/* Of a key's life: its last millisecond, and the next one. */
enum border { BORDER_LAST, BORDER_AFTER, BORDERS };

/* Of a fence in a command, against the stored one. */
enum place { PLACE_BELOW, PLACE_EQUAL, PLACE_ABOVE, PLACES };

enum counts_kind { COUNTS_PLAIN, COUNTS_FENCED, COUNTS_KINDS };

/* Of decisions that depend on microseconds. */
struct verge {
    unsigned within, beyond; /* in the last millisecond, in the next one */
    unsigned exactly;        /* in its last microsecond */
};

struct counts {
    unsigned border[COUNTS_KINDS][RL_COMMANDS][BORDERS], fence_border[BORDERS];
    unsigned vote[COUNTS_KINDS][RL_COMMANDS][2][RL_VOTE_ABSENT + 1]; /* by hash, in full */
    unsigned fault[COUNTS_KINDS][RL_COMMANDS][RL_FAULT_COUNT];

    /* Of a fenced lock. */
    unsigned wrong_fence[RL_COMMANDS], wrong_marker[RL_COMMANDS]; /* a list */
    unsigned cut[RL_COMMANDS],
        /* of another holder's value, longer than any lock */
        uncut[RL_COMMANDS];
    unsigned looks, sets, misses, erasures;              /* of a marker */
    unsigned raised[RL_COMMANDS][RL_VOTE_ABSENT + 1][2]; /* it was not, it was */
    unsigned place[RL_COMMANDS][PLACES];
    struct verge ahead[RL_COMMANDS], late[RL_COMMANDS];

    /* Of the waiters. */
    unsigned entered[COUNTS_KINDS], left[COUNTS_KINDS];
    unsigned called[COUNTS_KINDS][3];   /* none, the first, and the second, too */
    unsigned passed_over[COUNTS_KINDS]; /* some that are not subscribed */

    unsigned doubts; /* no single moment explains what was seen */
};

/* A command that ran at about `now`, in the model or as the server showed it. */
struct event {
    const struct operation *operation;
    const struct rl_answer *answer;
    rl_time now;
    bool is_certain; /* in this millisecond */
    unsigned calls;
    const struct store *before, *after;
};

void counts_note(struct counts *counts, const struct event *event);
void counts_expect_all(const struct counts *counts);
bool counts_has_all(const struct counts *counts);

const char *counts_name(enum rl_command text);

#endif
