/* What the tables of rules share. */
#ifndef RL_JUDGE_PARTS_H
#define RL_JUDGE_PARTS_H

#include "judge.h"

/* Whether a rule applies to a node; if so, with what was found. */
typedef bool rl_rule_fn(const struct rl_judgement *all, unsigned node,
                        char detail[RL_DETAIL]);

/* A warning about this is a defect, if that is what the nodes are for. */
enum rl_use { RL_ANY_USE, RL_DURABLE_USE, RL_FENCED_USE };

struct rl_rule {
    const char *code;
    redlock_rank rank;
    enum rl_use use;
    rl_rule_fn *holds;
    const char *text;
};

#define RL_MEMBERSHIP_RULES 8
extern const struct rl_rule rl_membership_rules[RL_MEMBERSHIP_RULES];

/* Appends to the detail; what does not fit is left out. */
__attribute__((format(printf, 2, 3))) void rl_detail_add(char detail[RL_DETAIL],
                                                         const char *format, ...);

#endif
