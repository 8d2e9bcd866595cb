/*
 * Is a node fit to hold locks? The judgement alone: facts in, findings out. No clock, no
 * server, no memory is asked for. What can be found, what it weighs and what to do about it
 * is one table in judge.c.
 */
#ifndef RL_JUDGE_H
#define RL_JUDGE_H

#include "core/fault.h"
#include "core/kind.h"
#include "core/steward.h"
#include "redlock/redlock.h"

/* As rights.h names them. */
#define RL_RIGHTS_MAX 16
#define RL_RIGHT_NAME 24

/* What a command is for: TIME to compare clocks, others to be called when one waits. */
enum rl_purpose { RL_TO_LOCK, RL_TO_TELL_TIME, RL_TO_WAIT };

/* One command that a client needs, and what the node said to it. */
struct rl_right {
    char name[RL_RIGHT_NAME];
    enum rl_purpose purpose;
    enum rl_fault fault;
};

enum rl_known { RL_UNKNOWN, RL_NO, RL_YES };

/* What a node is to fenced locks. All zero: it was not greeted. */
struct rl_membership {
    enum rl_standing standing;
    bool garbled;        /* where the marker should be is something else */
    bool behind;         /* it does not know the latest incarnation of each seat */
    bool same_run;       /* FOREIGN: the server did not restart: its data are another's */
    unsigned seats;      /* of its deployment; 0: it has no marker */
    uint64_t deployment; /* that it names, and the one that most nodes name; 0: none */
    uint64_t usual;
    uint32_t latest;    /* generation of its seat that is known */
    rl_time quarantine; /* how long it is in all */
};

/* What was learned of one node. All zero: nothing. */
struct rl_facts {
    enum rl_fault fault; /* why it does not vote; NONE: it does */
    bool db;             /* its URI names a database */
    const char *twin;    /* DUPLICATE: the other node that is the same server */
    struct rl_right right[RL_RIGHTS_MAX];
    size_t rights;
    enum rl_known appendonly, unsynced_rewrite, debug;
    struct rl_membership member;
    /* Our clock when its time of day was `time` lies between these two. */
    rl_time time, asked, answered; /* `time` 0: not known */
};

struct rl_judgement {
    const struct rl_facts *facts;
    const redlock_fitness *nodes; /* what of the facts is shown as it is */
    unsigned n;
    const char *prefix;
    bool strict, durable, fenced;
    rl_time allowance; /* how far a clock may be from that of the median */
};

#define RL_FINDINGS_MAX 40
#define RL_DETAIL       200

/* The findings of one node, and what their details say. */
struct rl_findings {
    redlock_finding finding[RL_FINDINGS_MAX];
    char detail[RL_FINDINGS_MAX][RL_DETAIL];
    size_t count;
};

/* Sets offset_us and its like in each node that told its time. */
void rl_judge_clocks(const struct rl_facts *facts, redlock_fitness *nodes, unsigned n);

void rl_judge_node(const struct rl_judgement *all, unsigned node,
                   struct rl_findings *ret_findings);

/* What the nodes amount to, once their findings are in. */
redlock_verdict rl_judge_all(const redlock_fitness *nodes, unsigned n, unsigned q);

/* How many rules there are, and their codes: for tests. */
size_t rl_judge_codes(const char *ret_code[RL_FINDINGS_MAX]);

#endif
