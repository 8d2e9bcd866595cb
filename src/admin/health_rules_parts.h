/* Declarations that the tables of rules share. */
#ifndef RL_HEALTH_RULES_PARTS_H
#define RL_HEALTH_RULES_PARTS_H

#include "health_rules.h"

/* The second condition of a rule. If it is true, `detail` describes what was found. */
typedef bool rl_rule_fn(const struct rl_health_context *all, unsigned node,
                        char detail[RL_DETAIL]);

/* A warning of a rule is a defect if the nodes are meant for this use. */
enum rl_use { RL_ANY_USE, RL_DURABLE_USE, RL_FENCED_USE };

struct rl_rule {
    const char *code;
    redlock_severity severity;
    enum rl_use use;
    /* The faults of a node to which the rule applies; in rl_member_rules, the states of a
       member. 0: any. */
    uint64_t when;
    rl_rule_fn *holds; /* NULL: true */
    const char *text;
};

#define RL_MEMBER_RULES 14
extern const struct rl_rule rl_member_rules[RL_MEMBER_RULES];

/* A bit for the node's state as a member. 0: it is used only for plain locks. */
uint64_t rl_member_state_bit(const struct rl_health_context *all, unsigned node);

/* Appends to the detail, which is truncated to RL_DETAIL. */
__attribute__((format(printf, 2, 3))) void rl_detail_add(char detail[RL_DETAIL],
                                                         const char *format, ...);

#endif
