/*
 * The health rules: whether a node is fit to hold locks. A pure function from probes to
 * findings: it reads no clock, contacts no server and allocates no memory. The tables in
 * health_rules.c and member_rules.c contain each finding, its severity and the advice.
 */
#ifndef RL_HEALTH_RULES_H
#define RL_HEALTH_RULES_H

#include "core/fault.h"
#include "core/fenced/membership.h"
#include "core/kind.h"
#include "redlock/admin.h"

/* The rights are listed by acl.h. */
#define RL_ACL_RIGHTS_MAX 24

/* A command locks, compares clocks (TIME), or queues and notifies waiters. Those of the
   last two are not tried. */
enum rl_purpose {
    RL_TO_LOCK,
    RL_TO_LOCK_SETS,
    RL_TO_TELL_TIME,
    RL_TO_WAIT,
    RL_TO_SUBSCRIBE,
    RL_TO_CONNECT,
};

/* One command that a client needs, and the fault that the node reported for it. */
struct rl_acl_right {
    const char *name;
    size_t row; /* in the table of acl.c */
    enum rl_purpose purpose;
    enum rl_fault fault;
};

enum rl_tristate { RL_UNKNOWN, RL_NO, RL_YES };

/* A node's state as a member for fenced locks. All zero: the node was not greeted. */
struct rl_member_probe {
    enum rl_member_state state;
    enum rl_clock_error clock; /* CLOCK: what is wrong with it */
    bool no_run_id;            /* INFO has none */
    bool garbled;              /* the marker's key holds no valid marker */
    bool outdated;             /* its marker lacks the latest incarnation of some member */
    bool same_run;             /* OTHER_PROCESS: the same run_id, another master_replid */
    unsigned members;          /* of its deployment; 0: it has no marker */
    uint64_t deployment;       /* in its marker; 0: none */
    uint64_t majority_deployment; /* in the markers of most nodes; 0: none */
    uint32_t latest;              /* the latest known generation of its member index */
    bool registered;              /* QUARANTINED: enough nodes know its incarnation */
    rl_time quarantine;           /* the total length of a quarantine */
};

/* The clients that are not connected to a node, but to others. */
struct rl_missing {
    size_t clients;
    struct rl_word name, address; /* of the first */
    rl_node_set at;               /* the nodes that it is connected to */
};

/* Findings about one node. All zero: none. */
struct rl_probe {
    enum rl_fault fault; /* why the node does not vote; NONE: it votes */
    const char *text;    /* of `fault`, with what was said of it; NULL: nothing was */
    const char *denied;  /* NOPERM: the command of the greeting that was refused */
    const char *twin;    /* DUPLICATE: the other node on the same server */
    struct rl_acl_right right[RL_ACL_RIGHTS_MAX];
    size_t rights;
    enum rl_tristate appendonly, unsynced_rewrite, debug;
    rl_time client_certificate; /* until it ends; not above 0: none */
    struct rl_member_probe member;
    /* The node's time of day, or 0 if unknown. It was read between `asked` and `answered`.
     */
    rl_time time, asked, answered;
    bool unlisted; /* CLIENT LIST was sent, and there is no list */
    struct rl_missing missing;
};

struct rl_health_context {
    const struct rl_probe *probes;
    const redlock_node_health *nodes; /* values that are shown unchanged */
    unsigned n;
    const char *prefix;
    bool strict, durable, fenced;
    rl_time allowance;  /* how far a clock may differ from the median */
    rl_time quarantine; /* of a node that restarts; 0: none, the nodes are durable */
};

#define RL_FINDINGS_MAX 60
#define RL_DETAIL       200

/* The findings of one node, and their details. */
struct rl_findings {
    redlock_finding finding[RL_FINDINGS_MAX];
    const redlock_finding *each[RL_FINDINGS_MAX];
    char detail[RL_FINDINGS_MAX][RL_DETAIL];
    size_t count;
};

/* Sets timed, offset_us and offset_err_us of each node. */
void rl_clock_offsets(const struct rl_probe *probe, redlock_node_health *nodes, unsigned n);

void rl_health_check_node(const struct rl_health_context *all, unsigned node,
                          struct rl_findings *ret_findings);

/* The overall health of the nodes. Call it when their findings are complete. */
redlock_health rl_health_overall(const redlock_node_health *nodes, unsigned n, unsigned q);

/* Returns the number of rules, and their codes; for tests. */
size_t rl_health_rule_codes(const char *ret_code[RL_FINDINGS_MAX]);

#endif
