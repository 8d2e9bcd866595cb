#include "judge_parts.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rl_detail_add(char detail[RL_DETAIL], const char *format, ...)
{
    size_t len = strlen(detail);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail + len, RL_DETAIL - len, format, arguments);
    va_end(arguments);
}

/* --- nodes that do not vote --- */

static enum rl_fault fault_of(const struct rl_judgement *all, unsigned node)
{
    return all->facts[node].fault;
}

static bool is_unreachable(const struct rl_judgement *all, unsigned node, char *detail)
{
    switch (fault_of(all, node)) {
    case RL_FAULT_CONNECTING:
    case RL_FAULT_RESOLVE:
    case RL_FAULT_CONNECT:
    case RL_FAULT_CLOSED:
    case RL_FAULT_TIMEOUT:
    case RL_FAULT_PROTOCOL:
    case RL_FAULT_MEMORY:
    case RL_FAULT_FILES:
        rl_detail_add(detail, "%s", rl_fault_text(fault_of(all, node)));
        return true;
    default: return false;
    }
}

static bool is_protected(const struct rl_judgement *all, unsigned node, char *detail)
{
    (void)detail;
    return fault_of(all, node) == RL_FAULT_PROTECTED;
}

static bool has_too_many_clients(const struct rl_judgement *all, unsigned node,
                                 char *detail)
{
    (void)detail;
    return fault_of(all, node) == RL_FAULT_MAXCLIENTS;
}

static bool is_refused(const struct rl_judgement *all, unsigned node, char *detail)
{
    enum rl_fault fault = fault_of(all, node);
    if (fault != RL_FAULT_NOAUTH && fault != RL_FAULT_WRONGPASS)
        return false;
    rl_detail_add(detail, "%s", rl_fault_text(fault));
    return true;
}

static bool is_loading(const struct rl_judgement *all, unsigned node, char *detail)
{
    (void)detail;
    return fault_of(all, node) == RL_FAULT_LOADING;
}

static bool is_replica(const struct rl_judgement *all, unsigned node, char *detail)
{
    (void)detail;
    enum rl_fault fault = fault_of(all, node);
    return fault == RL_FAULT_REPLICA || fault == RL_FAULT_READONLY ||
           fault == RL_FAULT_MASTERDOWN;
}

static bool is_cluster(const struct rl_judgement *all, unsigned node, char *detail)
{
    (void)detail;
    enum rl_fault fault = fault_of(all, node);
    return fault == RL_FAULT_CLUSTER || fault == RL_FAULT_CLUSTERDOWN ||
           fault == RL_FAULT_MOVED || fault == RL_FAULT_CROSSSLOT;
}

static bool is_same_server(const struct rl_judgement *all, unsigned node, char *detail)
{
    const char *twin = all->facts[node].twin;
    if (fault_of(all, node) != RL_FAULT_DUPLICATE)
        return false;
    if (twin)
        rl_detail_add(detail, "as %s", twin);
    return true;
}

static bool has_restarted(const struct rl_judgement *all, unsigned node, char *detail)
{
    (void)detail;
    return fault_of(all, node) == RL_FAULT_QUARANTINE;
}

/* Any other fault: what the greeting met that has no name of its own here. */
static bool fails(const struct rl_judgement *all, unsigned node, char *detail)
{
    static rl_rule_fn *const named[] = {
        is_unreachable, is_protected, has_too_many_clients, is_refused,   is_loading,
        is_replica,     is_cluster,   is_same_server,       has_restarted};
    char ignored[RL_DETAIL] = "";
    enum rl_fault fault = fault_of(all, node);
    if (fault == RL_FAULT_NONE || fault == RL_FAULT_NOPERM)
        return false;
    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
        if (named[i](all, node, ignored))
            return false;
    rl_detail_add(detail, "%s: %s", rl_fault_name(fault), rl_fault_text(fault));
    return true;
}

/* --- rights and refusals --- */

/* Lists the commands of this purpose to which the node said so. */
static bool list_rights(const struct rl_facts *facts, enum rl_fault fault,
                        enum rl_purpose purpose, char *detail)
{
    for (size_t i = 0; i < facts->rights; i++)
        if (facts->right[i].fault == fault && facts->right[i].purpose == purpose)
            rl_detail_add(detail, "%s%s", detail[0] ? ", " : "", facts->right[i].name);
    return detail[0] != '\0';
}

static bool lacks_right(const struct rl_judgement *all, unsigned node, char *detail)
{
    const struct rl_facts *facts = &all->facts[node];
    if (facts->fault == RL_FAULT_NOPERM) {
        rl_detail_add(detail, "%s", facts->db ? "INFO or SELECT" : "INFO");
        return true;
    }
    if (!list_rights(facts, RL_FAULT_NOPERM, RL_TO_LOCK, detail))
        return false;
    rl_detail_add(detail, " on keys that begin with \"%s\"", all->prefix);
    return true;
}

static bool lacks_command(const struct rl_judgement *all, unsigned node, char *detail)
{
    return list_rights(&all->facts[node], RL_FAULT_ERR, RL_TO_LOCK, detail);
}

static bool lacks_either(const struct rl_judgement *all, unsigned node,
                         enum rl_purpose purpose, char *detail)
{
    const struct rl_facts *facts = &all->facts[node];
    return list_rights(facts, RL_FAULT_NOPERM, purpose, detail) ||
           list_rights(facts, RL_FAULT_ERR, purpose, detail);
}

static bool lacks_time(const struct rl_judgement *all, unsigned node, char *detail)
{
    return lacks_either(all, node, RL_TO_TELL_TIME, detail);
}

static bool lacks_calls(const struct rl_judgement *all, unsigned node, char *detail)
{
    return lacks_either(all, node, RL_TO_WAIT, detail);
}

static enum rl_fault fault_of_set(const struct rl_facts *facts)
{
    for (size_t i = 0; i < facts->rights; i++)
        if (strcmp(facts->right[i].name, "SET") == 0)
            return facts->right[i].fault;
    return RL_FAULT_NONE;
}

static bool is_full(const struct rl_judgement *all, unsigned node, char *detail)
{
    if (fault_of_set(&all->facts[node]) != RL_FAULT_OOM)
        return false;
    if (all->nodes[node].maxmemory > 0)
        rl_detail_add(detail, "maxmemory %lld bytes",
                      (long long)all->nodes[node].maxmemory);
    return true;
}

static bool refuses_writes(const struct rl_judgement *all, unsigned node, char *detail)
{
    enum rl_fault fault = fault_of_set(&all->facts[node]);
    if (fault == RL_FAULT_NONE || fault == RL_FAULT_OOM || fault == RL_FAULT_NOPERM ||
        fault == RL_FAULT_ERR)
        return false;
    rl_detail_add(detail, "%s", rl_fault_text(fault));
    return true;
}

/* --- memory and disk --- */

static bool has_evicting_policy(const redlock_fitness *node)
{
    return node->policy[0] && strcmp(node->policy, "noeviction") != 0;
}

static bool evicts(const struct rl_judgement *all, unsigned node, char *detail)
{
    const redlock_fitness *it = &all->nodes[node];
    rl_detail_add(detail, "maxmemory-policy %s", it->policy);
    return has_evicting_policy(it) && it->maxmemory != 0;
}

static bool may_evict(const struct rl_judgement *all, unsigned node, char *detail)
{
    const redlock_fitness *it = &all->nodes[node];
    rl_detail_add(detail, "maxmemory-policy %s", it->policy);
    return has_evicting_policy(it) && it->maxmemory == 0;
}

static bool forgets_all(const struct rl_judgement *all, unsigned node, char *detail)
{
    rl_detail_add(detail, "appendonly no");
    return all->facts[node].appendonly == RL_NO;
}

static bool forgets_seconds(const struct rl_judgement *all, unsigned node, char *detail)
{
    const char *fsync = all->nodes[node].fsync;
    rl_detail_add(detail, "appendfsync %s", fsync);
    return all->facts[node].appendonly == RL_YES && fsync[0] &&
           strcmp(fsync, "always") != 0;
}

static bool forgets_in_rewrite(const struct rl_judgement *all, unsigned node, char *detail)
{
    const struct rl_facts *facts = &all->facts[node];
    rl_detail_add(detail, "no-appendfsync-on-rewrite yes");
    return facts->appendonly == RL_YES && facts->unsynced_rewrite == RL_YES;
}

static bool has_replicas(const struct rl_judgement *all, unsigned node, char *detail)
{
    rl_detail_add(detail, "connected_slaves %lld", (long long)all->nodes[node].replicas);
    return all->nodes[node].replicas > 0;
}

/* --- compared with the others --- */

/* By how much at least its time of day is away from that of the median. */
static bool is_off(const struct rl_judgement *all, unsigned node, char *detail)
{
    const redlock_fitness *it = &all->nodes[node];
    rl_detail_add(detail, "by %+.3f s, give or take %.3f s", (double)it->offset_us / 1e6,
                  (double)it->offset_err_us / 1e6);
    return it->timed && llabs(it->offset_us) - it->offset_err_us > all->allowance;
}

static unsigned same_version(const struct rl_judgement *all, unsigned node)
{
    unsigned same = 0;
    for (unsigned i = 0; i < all->n; i++)
        same += strcmp(all->nodes[i].version, all->nodes[node].version) == 0;
    return same;
}

/* Whoever runs what most nodes run, and the first of those, is what the others differ from.
 */
static bool has_other_version(const struct rl_judgement *all, unsigned node, char *detail)
{
    unsigned usual = node;
    if (!all->nodes[node].version[0])
        return false;
    for (unsigned i = all->n; i-- > 0;)
        if (all->nodes[i].version[0] && same_version(all, i) >= same_version(all, usual))
            usual = i;
    if (strcmp(all->nodes[usual].version, all->nodes[node].version) == 0)
        return false;
    rl_detail_add(detail, "%s, while %s has %s", all->nodes[node].version,
                  all->nodes[usual].uri, all->nodes[usual].version);
    return true;
}

static bool takes_debug(const struct rl_judgement *all, unsigned node, char *detail)
{
    (void)detail;
    return all->facts[node].debug == RL_YES;
}

/* --- what could not be looked at --- */

static bool hides_memory(const struct rl_judgement *all, unsigned node, char *detail)
{
    (void)detail;
    return fault_of(all, node) == RL_FAULT_NONE && !all->nodes[node].policy[0];
}

static bool hides_fsync(const struct rl_judgement *all, unsigned node, char *detail)
{
    const struct rl_facts *facts = &all->facts[node];
    (void)detail;
    return facts->fault == RL_FAULT_NONE &&
           (facts->appendonly == RL_UNKNOWN ||
            (facts->appendonly == RL_YES &&
             (!all->nodes[node].fsync[0] || facts->unsynced_rewrite == RL_UNKNOWN)));
}

/* --- the table --- */

static const struct rl_rule rules[] = {
    {"unreachable", REDLOCK_DEFECT, RL_ANY_USE, is_unreachable,
     "it cannot be reached: start it, or mend its address or the network"},
    {"protected_mode", REDLOCK_DEFECT, RL_ANY_USE, is_protected,
     "it is in protected mode and takes no clients from other machines: set a password for "
     "its default user, and name it here"},
    {"too_many_clients", REDLOCK_DEFECT, RL_ANY_USE, has_too_many_clients,
     "it has as many clients as it may have: raise its maxclients, or end some of them"},
    {"wrong_password", REDLOCK_DEFECT, RL_ANY_USE, is_refused,
     "it refuses the user or the password: mend the credentials"},
    {"loading", REDLOCK_DEFECT, RL_ANY_USE, is_loading,
     "it is loading its data: wait, and check again"},
    {"replica", REDLOCK_DEFECT, RL_ANY_USE, is_replica,
     "it is a replica: name a master, or make it one by REPLICAOF NO ONE"},
    {"cluster", REDLOCK_DEFECT, RL_ANY_USE, is_cluster,
     "it is in cluster mode: take a server of its own with cluster-enabled no"},
    {"same_server", REDLOCK_DEFECT, RL_ANY_USE, is_same_server,
     "it is the same server as another node and would vote twice: name another one"},
    {"restarted", REDLOCK_DEFECT, RL_ANY_USE, has_restarted,
     "it restarted and may have forgotten locks: it counts again when the longest TTL is "
     "over"},
    {"fails", REDLOCK_DEFECT, RL_ANY_USE, fails,
     "it does not answer as a master does: look there"},
    {"no_right", REDLOCK_DEFECT, RL_ANY_USE, lacks_right,
     "the user lacks a right: give it what redlock check --acl prints"},
    {"no_command", REDLOCK_DEFECT, RL_ANY_USE, lacks_command,
     "it does not know a command, or not as Redis does: undo its renaming, use no proxy"},
    {"over_memory", REDLOCK_DEFECT, RL_ANY_USE, is_full,
     "it is over its maxmemory and refuses new locks: raise maxmemory or free memory"},
    {"refuses_writes", REDLOCK_DEFECT, RL_ANY_USE, refuses_writes,
     "it refuses to set keys: mend what it names"},
    {"evicts", REDLOCK_DEFECT, RL_ANY_USE, evicts,
     "it may evict locks: set maxmemory-policy noeviction"},

    {"could_evict", REDLOCK_WARNING, RL_ANY_USE, may_evict,
     "it would evict locks as soon as maxmemory is set: set maxmemory-policy noeviction"},
    {"forgets", REDLOCK_WARNING, RL_DURABLE_USE, forgets_all,
     "a restart forgets its locks: set appendonly yes and appendfsync always, or keep it "
     "down for the longest TTL after a crash"},
    {"forgets_seconds", REDLOCK_WARNING, RL_DURABLE_USE, forgets_seconds,
     "a restart forgets the newest locks: set appendfsync always, or keep it down for the "
     "longest TTL after a crash"},
    {"forgets_in_rewrite", REDLOCK_WARNING, RL_DURABLE_USE, forgets_in_rewrite,
     "a crash while the append-only file is rewritten forgets locks: set "
     "no-appendfsync-on-rewrite no"},
    {"has_replicas", REDLOCK_WARNING, RL_DURABLE_USE, has_replicas,
     "a replica that takes over has not all of its locks: run it without replicas"},
    {"clock_off", REDLOCK_WARNING, RL_ANY_USE, is_off,
     "its time of day differs from that of the nodes' median, and a step to mend it ends "
     "locks early: let NTP set it before Redis starts"},
    {"no_time", REDLOCK_WARNING, RL_ANY_USE, lacks_time,
     "its clock cannot be compared: give the user the right to TIME"},
    {"no_calls", REDLOCK_WARNING, RL_ANY_USE, lacks_calls,
     "it cannot call who waits for a lock, who then asks again and again: give the user "
     "what redlock check --acl prints"},
    {"other_version", REDLOCK_WARNING, RL_ANY_USE, has_other_version,
     "it has another version than most nodes: run the same on all, unless an upgrade is "
     "under way"},
    {"debug", REDLOCK_WARNING, RL_ANY_USE, takes_debug,
     "DEBUG can have it load an old snapshot, and nobody would notice: set "
     "enable-debug-command no"},

    {"memory_unknown", REDLOCK_NOTE, RL_ANY_USE, hides_memory,
     "whether it evicts is not known: see there that maxmemory-policy is noeviction"},
    {"fsync_unknown", REDLOCK_NOTE, RL_ANY_USE, hides_fsync,
     "what a restart forgets is not known: CONFIG GET is refused; see there that "
     "appendfsync is always"},
};

#define RULES (sizeof(rules) / sizeof(rules[0]))

static redlock_rank weigh(const struct rl_judgement *all, const struct rl_rule *rule)
{
    bool heavier = all->strict || (all->durable && rule->use == RL_DURABLE_USE) ||
                   (all->fenced && rule->use == RL_FENCED_USE);
    return rule->rank == REDLOCK_WARNING && heavier ? REDLOCK_DEFECT : rule->rank;
}

static const struct rl_rule *rule(size_t index)
{
    return index < RULES ? &rules[index] : &rl_membership_rules[index - RULES];
}

void rl_judge_node(const struct rl_judgement *all, unsigned node,
                   struct rl_findings *ret_findings)
{
    static_assert(RULES + RL_MEMBERSHIP_RULES <= RL_FINDINGS_MAX,
                  "each rule finds something at most once");
    ret_findings->count = 0;
    for (size_t i = 0; i < RULES + RL_MEMBERSHIP_RULES; i++) {
        char *detail = ret_findings->detail[ret_findings->count];
        detail[0] = '\0';
        if (!rule(i)->holds(all, node, detail))
            continue;
        ret_findings->finding[ret_findings->count++] = (redlock_finding){
            .rank = weigh(all, rule(i)),
            .code = rule(i)->code,
            .text = rule(i)->text,
            .detail = detail,
        };
    }
}

redlock_verdict rl_judge_all(const redlock_fitness *nodes, unsigned n, unsigned q)
{
    unsigned fit = 0;
    bool warned = false;
    for (unsigned i = 0; i < n; i++) {
        fit += nodes[i].fit;
        for (size_t j = 0; j < nodes[i].count; j++)
            warned |= nodes[i].findings[j].rank != REDLOCK_NOTE;
    }
    if (fit < q)
        return REDLOCK_UNFIT;
    return warned ? REDLOCK_FIT_WITH_WARNINGS : REDLOCK_FIT;
}

size_t rl_judge_codes(const char *ret_code[RL_FINDINGS_MAX])
{
    for (size_t i = 0; i < RULES + RL_MEMBERSHIP_RULES; i++)
        ret_code[i] = rule(i)->code;
    return RULES + RL_MEMBERSHIP_RULES;
}
