#include "health_rules_parts.h"

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

static enum rl_fault fault_of(const struct rl_health_context *all, unsigned node)
{
    return all->probes[node].fault;
}

#define FAULT(name) (UINT64_C(1) << RL_FAULT_##name)
#define UNREACHED                                                                          \
    (FAULT(CONNECTING) | FAULT(RESOLVE) | FAULT(CONNECT) | FAULT(CLOSED) |                 \
     FAULT(TIMEOUT) | FAULT(PROTOCOL) | FAULT(MEMORY) | FAULT(FILES))
#define REFUSED    (FAULT(NOAUTH) | FAULT(WRONGPASS))
#define OF_REPLICA (FAULT(REPLICA) | FAULT(READONLY) | FAULT(MASTERDOWN))
#define OF_CLUSTER (FAULT(CLUSTER) | FAULT(CLUSTERDOWN) | FAULT(MOVED) | FAULT(CROSSSLOT))

#define OF_FILES (FAULT(TLS_CA_FILE) | FAULT(TLS_CERT_FILE) | FAULT(TLS_KEY_FILE))
#define OF_TLS                                                                             \
    (OF_FILES | FAULT(TLS_CA) | FAULT(TLS_NAME) | FAULT(TLS_EXPIRED) |                     \
     FAULT(TLS_NOT_YET_VALID) | FAULT(TLS_CERTIFICATE) | FAULT(TLS_CLIENT) |               \
     FAULT(TLS_PLAINTEXT) | FAULT(TLS_VERSION) | FAULT(TLS_REFUSED) | FAULT(TLS))

/* Faults with an own rule. */
#define NAMED                                                                              \
    (UNREACHED | REFUSED | OF_REPLICA | OF_CLUSTER | OF_TLS | FAULT(NONE) |                \
     FAULT(NOPERM) | FAULT(NO_EVAL) | FAULT(PROTECTED) | FAULT(MAXCLIENTS) |               \
     FAULT(LOADING) | FAULT(DUPLICATE) | FAULT(QUARANTINE))
_Static_assert(RL_FAULT_COUNT <= 64, "a bit for each");

static bool show_fault(const struct rl_health_context *all, unsigned node, char *detail)
{
    const struct rl_probe *probe = &all->probes[node];
    rl_detail_add(detail, "%s", probe->text ? probe->text : rl_fault_text(probe->fault));
    return true;
}

static bool show_twin(const struct rl_health_context *all, unsigned node, char *detail)
{
    if (all->probes[node].twin)
        rl_detail_add(detail, "the other node is %s", all->probes[node].twin);
    return true;
}

static bool show_name(const struct rl_health_context *all, unsigned node, char *detail)
{
    rl_detail_add(detail, "%s: ", rl_fault_name(fault_of(all, node)));
    return show_fault(all, node, detail);
}

/* --- rights and refusals --- */

/* Lists the commands of this purpose for which the node reported this fault. */
static bool list_rights(const struct rl_probe *probe, enum rl_fault fault,
                        enum rl_purpose purpose, char *detail)
{
    for (size_t i = 0; i < probe->rights; i++)
        if (probe->right[i].fault == fault && probe->right[i].purpose == purpose)
            rl_detail_add(detail, "%s%s", detail[0] ? ", " : "", probe->right[i].name);
    return detail[0] != '\0';
}

static bool lacks_right(const struct rl_health_context *all, unsigned node, char *detail)
{
    const struct rl_probe *probe = &all->probes[node];
    if (probe->fault == RL_FAULT_NOPERM) {
        rl_detail_add(detail, "%s", probe->denied);
        return true;
    }
    if (!list_rights(probe, RL_FAULT_NOPERM, RL_TO_LOCK, detail))
        return false;
    rl_detail_add(detail, " on keys that begin with \"%s\"", all->prefix);
    return true;
}

static bool lacks_command(const struct rl_health_context *all, unsigned node, char *detail)
{
    if (fault_of(all, node) == RL_FAULT_NO_EVAL)
        return show_fault(all, node, detail);
    return list_rights(&all->probes[node], RL_FAULT_ERR, RL_TO_LOCK, detail);
}

static bool lacks_either(const struct rl_health_context *all, unsigned node,
                         enum rl_purpose purpose, char *detail)
{
    const struct rl_probe *probe = &all->probes[node];
    return list_rights(probe, RL_FAULT_NOPERM, purpose, detail) ||
           list_rights(probe, RL_FAULT_ERR, purpose, detail);
}

static bool lacks_time(const struct rl_health_context *all, unsigned node, char *detail)
{
    return lacks_either(all, node, RL_TO_TELL_TIME, detail);
}

static bool refuses_sets(const struct rl_health_context *all, unsigned node, char *detail)
{
    return lacks_either(all, node, RL_TO_LOCK_SETS, detail);
}

static bool cannot_notify(const struct rl_health_context *all, unsigned node, char *detail)
{
    return lacks_either(all, node, RL_TO_WAIT, detail);
}

static enum rl_fault fault_of_set(const struct rl_probe *probe)
{
    for (size_t i = 0; i < probe->rights; i++)
        if (strcmp(probe->right[i].name, "SET") == 0)
            return probe->right[i].fault;
    return RL_FAULT_NONE;
}

static bool is_full(const struct rl_health_context *all, unsigned node, char *detail)
{
    if (fault_of_set(&all->probes[node]) != RL_FAULT_OOM)
        return false;
    if (all->nodes[node].maxmemory > 0)
        rl_detail_add(detail, "maxmemory %lld bytes",
                      (long long)all->nodes[node].maxmemory);
    return true;
}

static bool refuses_writes(const struct rl_health_context *all, unsigned node, char *detail)
{
    enum rl_fault fault = fault_of_set(&all->probes[node]);
    if (fault == RL_FAULT_NONE || fault == RL_FAULT_OOM || fault == RL_FAULT_NOPERM ||
        fault == RL_FAULT_ERR)
        return false;
    rl_detail_add(detail, "%s", rl_fault_text(fault));
    return true;
}

/* --- memory and disk --- */

static bool has_evicting_policy(const redlock_node_health *node)
{
    return node->policy[0] && strcmp(node->policy, "noeviction") != 0;
}

static bool evicts(const struct rl_health_context *all, unsigned node, char *detail)
{
    const redlock_node_health *it = &all->nodes[node];
    rl_detail_add(detail, "maxmemory-policy %s", it->policy);
    return has_evicting_policy(it) && it->maxmemory != 0;
}

static bool may_evict(const struct rl_health_context *all, unsigned node, char *detail)
{
    const redlock_node_health *it = &all->nodes[node];
    rl_detail_add(detail, "maxmemory-policy %s", it->policy);
    return has_evicting_policy(it) && it->maxmemory == 0;
}

/* A restart costs a vote for a while. */
static void show_absence(const struct rl_health_context *all, char *detail)
{
    if (all->quarantine > 0)
        rl_detail_add(detail,
                      "; a client keeps a node that restarted out for %.1f s, less with a "
                      "shorter max-ttl",
                      (double)all->quarantine / RL_SECOND);
}

static bool loses_all(const struct rl_health_context *all, unsigned node, char *detail)
{
    rl_detail_add(detail, "appendonly no");
    show_absence(all, detail);
    return all->probes[node].appendonly == RL_NO;
}

static bool loses_seconds(const struct rl_health_context *all, unsigned node, char *detail)
{
    const char *fsync = all->nodes[node].fsync;
    rl_detail_add(detail, "appendfsync %s", fsync);
    show_absence(all, detail);
    return all->probes[node].appendonly == RL_YES && fsync[0] &&
           strcmp(fsync, "always") != 0;
}

static bool loses_in_rewrite(const struct rl_health_context *all, unsigned node,
                             char *detail)
{
    const struct rl_probe *probe = &all->probes[node];
    rl_detail_add(detail, "no-appendfsync-on-rewrite yes");
    return probe->appendonly == RL_YES && probe->unsynced_rewrite == RL_YES;
}

static bool has_replicas(const struct rl_health_context *all, unsigned node, char *detail)
{
    rl_detail_add(detail, "connected_slaves %lld", (long long)all->nodes[node].replicas);
    return all->nodes[node].replicas > 0;
}

/* --- comparison with other nodes --- */

/* The node's time of day certainly differs from the median's by more than the allowance. */
static bool is_off(const struct rl_health_context *all, unsigned node, char *detail)
{
    const redlock_node_health *it = &all->nodes[node];
    rl_detail_add(detail, "by %+.3f s, plus or minus %.3f s", (double)it->offset_us / 1e6,
                  (double)it->offset_err_us / 1e6);
    return it->timed && llabs(it->offset_us) - it->offset_err_us > all->allowance;
}

static unsigned same_version(const struct rl_health_context *all, unsigned node)
{
    unsigned same = 0;
    for (unsigned i = 0; i < all->n; i++)
        same += strcmp(all->nodes[i].version, all->nodes[node].version) == 0;
    return same;
}

/* Compares with the most frequent version; of several, with that of the first node. */
static bool has_other_version(const struct rl_health_context *all, unsigned node,
                              char *detail)
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

static void add_uris(const struct rl_health_context *all, const char *text, rl_node_set set,
                     char *detail)
{
    for (; set; set &= set - 1) {
        rl_detail_add(detail, "%s%s", text, all->nodes[rl_first(set)].uri);
        text = ", ";
    }
}

static bool lacks_clients(const struct rl_health_context *all, unsigned node, char *detail)
{
    const struct rl_missing *it = &all->probes[node].missing;
    rl_node_set unlisted = 0;
    if (it->clients == 0)
        return false;
    for (unsigned i = 0; i < all->n; i++)
        unlisted |= all->probes[i].unlisted ? rl_bit(i) : 0;
    rl_detail_add(detail, "%zu client%s: %.*s from %.*s", it->clients,
                  it->clients > 1 ? "s, for example" : "", (int)it->name.len, it->name.text,
                  (int)it->address.len, it->address.text);
    add_uris(all, ", connected to ", it->at, detail);
    add_uris(all, ", unknown at ", unlisted, detail);
    return true;
}

static bool allows_debug(const struct rl_health_context *all, unsigned node, char *detail)
{
    (void)detail;
    return all->probes[node].debug == RL_YES;
}

/* --- certificates --- */

#define CERTIFICATE (14 * 86400 * RL_SECOND) /* that ends sooner is a warning */

static bool ends_soon(rl_time left, char *detail)
{
    rl_detail_add(detail, "in %.1f days", (double)left / RL_SECOND / 86400);
    return left < CERTIFICATE;
}

static bool has_old_certificate(const struct rl_health_context *all, unsigned node,
                                char *detail)
{
    rl_time left = all->nodes[node].certificate_us;
    return left >= 0 && ends_soon(left, detail);
}

static bool client_has_old_certificate(const struct rl_health_context *all, unsigned node,
                                       char *detail)
{
    rl_time left = all->probes[node].client_certificate;
    return left > 0 && ends_soon(left, detail);
}

/* --- settings that could not be read --- */

static bool hides_memory(const struct rl_health_context *all, unsigned node, char *detail)
{
    (void)detail;
    return fault_of(all, node) == RL_FAULT_NONE && !all->nodes[node].policy[0];
}

static bool hides_fsync(const struct rl_health_context *all, unsigned node, char *detail)
{
    const struct rl_probe *probe = &all->probes[node];
    (void)detail;
    return probe->fault == RL_FAULT_NONE &&
           (probe->appendonly == RL_UNKNOWN ||
            (probe->appendonly == RL_YES &&
             (!all->nodes[node].fsync[0] || probe->unsynced_rewrite == RL_UNKNOWN)));
}

/* --- the table --- */

static const struct rl_rule rules[] = {
    {"unreachable", REDLOCK_DEFECT, RL_ANY_USE, UNREACHED, show_fault,
     "the node cannot be reached: start it, or fix its address or the network"},
    {"protected_mode", REDLOCK_DEFECT, RL_ANY_USE, FAULT(PROTECTED), NULL,
     "the node is in protected mode and refuses clients from other machines: set a "
     "password for its default user, and configure that password here"},
    {"too_many_clients", REDLOCK_DEFECT, RL_ANY_USE, FAULT(MAXCLIENTS), NULL,
     "the node has reached its maxclients limit: raise maxclients, or disconnect some "
     "clients"},
    {"wrong_password", REDLOCK_DEFECT, RL_ANY_USE, REFUSED, show_fault,
     "the node rejects the user or the password: correct the credentials"},
    {"loading", REDLOCK_DEFECT, RL_ANY_USE, FAULT(LOADING), NULL,
     "the node is loading its data: wait, then check again"},
    {"replica", REDLOCK_DEFECT, RL_ANY_USE, OF_REPLICA, NULL,
     "the node is a replica: configure a master, or promote it with REPLICAOF NO ONE"},
    {"cluster", REDLOCK_DEFECT, RL_ANY_USE, OF_CLUSTER, NULL,
     "the node is in cluster mode: use a separate server with cluster-enabled no"},
    {"same_server", REDLOCK_DEFECT, RL_ANY_USE, FAULT(DUPLICATE), show_twin,
     "the node is the same server as another node and would vote twice: configure a "
     "different server"},
    {"restarted", REDLOCK_DEFECT, RL_ANY_USE, FAULT(QUARANTINE), NULL,
     "the node restarted and may have lost locks: it votes again once the longest TTL has "
     "passed"},
    {"tls_ca", REDLOCK_DEFECT, RL_ANY_USE, FAULT(TLS_CA), show_fault,
     "TLS: the node's certificate is signed by an unknown CA: configure the CA that signed "
     "it"},
    {"tls_name", REDLOCK_DEFECT, RL_ANY_USE, FAULT(TLS_NAME), show_fault,
     "TLS: the node's certificate is for another name or address: use a name that it has, "
     "or "
     "give the node one with this name"},
    {"tls_expired", REDLOCK_DEFECT, RL_ANY_USE, FAULT(TLS_EXPIRED), show_fault,
     "TLS: the node's certificate has expired: renew it on the node"},
    {"tls_not_yet_valid", REDLOCK_DEFECT, RL_ANY_USE, FAULT(TLS_NOT_YET_VALID), show_fault,
     "TLS: the node's certificate is not valid yet: correct the clock of this host, or the "
     "certificate"},
    {"tls_certificate", REDLOCK_DEFECT, RL_ANY_USE, FAULT(TLS_CERTIFICATE), show_fault,
     "TLS: the node's certificate is not acceptable: replace it on the node"},
    {"tls_client", REDLOCK_DEFECT, RL_ANY_USE, FAULT(TLS_CLIENT), show_fault,
     "TLS: the node requires a client certificate that it accepts: configure one"},
    {"tls_plaintext", REDLOCK_DEFECT, RL_ANY_USE, FAULT(TLS_PLAINTEXT), show_fault,
     "TLS: the node's port speaks plain text: use redis://, or the node's tls-port"},
    {"tls_version", REDLOCK_DEFECT, RL_ANY_USE, FAULT(TLS_VERSION), show_fault,
     "TLS: the node has no version in common: let its tls-protocols have TLSv1.2 or later"},
    {"tls_file", REDLOCK_DEFECT, RL_ANY_USE, OF_FILES, show_fault,
     "TLS: a file of this client cannot be used: correct it"},
    {"tls_fails", REDLOCK_DEFECT, RL_ANY_USE, FAULT(TLS_REFUSED) | FAULT(TLS), show_fault,
     "TLS: the connection fails: compare the node's settings tls-* with those of this "
     "client"},
    {"fails", REDLOCK_DEFECT, RL_ANY_USE, ~NAMED, show_name,
     "the node does not reply as a master does: check the server"},
    {"no_right", REDLOCK_DEFECT, RL_ANY_USE, 0, lacks_right,
     "the user lacks a right: grant the least rights"},
    {"no_command", REDLOCK_DEFECT, RL_ANY_USE, 0, lacks_command,
     "the node lacks a command, or the command differs from that of Redis: do not rename "
     "commands, do not use a proxy, and load Valkey's module for Lua"},
    {"over_memory", REDLOCK_DEFECT, RL_ANY_USE, 0, is_full,
     "the node is over its maxmemory and refuses new locks: raise maxmemory or free "
     "memory"},
    {"refuses_writes", REDLOCK_DEFECT, RL_ANY_USE, 0, refuses_writes,
     "the node refuses to set keys: fix the cause that it reports"},
    {"evicts", REDLOCK_DEFECT, RL_ANY_USE, 0, evicts,
     "the node may evict locks: set maxmemory-policy noeviction"},

    {"could_evict", REDLOCK_WARNING, RL_ANY_USE, 0, may_evict,
     "the node would evict locks once maxmemory is set: set maxmemory-policy noeviction"},
    {"forgets", REDLOCK_WARNING, RL_DURABLE_USE, 0, loses_all,
     "a restart loses the node's locks: set appendonly yes and appendfsync always, or keep "
     "the node down for the longest TTL after a crash"},
    {"forgets_seconds", REDLOCK_WARNING, RL_DURABLE_USE, 0, loses_seconds,
     "a restart loses the newest locks: set appendfsync always, or keep the node down for "
     "the longest TTL after a crash"},
    {"forgets_in_rewrite", REDLOCK_WARNING, RL_DURABLE_USE, 0, loses_in_rewrite,
     "a crash during a rewrite of the append-only file loses locks: set "
     "no-appendfsync-on-rewrite no"},
    {"has_replicas", REDLOCK_WARNING, RL_DURABLE_USE, 0, has_replicas,
     "a promoted replica may not have all locks: run the node without replicas"},
    {"clock_off", REDLOCK_WARNING, RL_ANY_USE, 0, is_off,
     "the node's time of day differs from that of most nodes: let NTP set the clock before "
     "Redis starts, and restart a node whose clock stands still"},
    {"no_time", REDLOCK_WARNING, RL_ANY_USE, 0, lacks_time,
     "the node's clock cannot be compared: grant the user the right to TIME"},
    {"no_sets", REDLOCK_WARNING, RL_ANY_USE, 0, refuses_sets,
     "the node refuses locks of several keys: grant the least rights"},
    {"no_calls", REDLOCK_WARNING, RL_ANY_USE, 0, cannot_notify,
     "the node cannot notify waiters, so they poll for the lock: grant the least rights"},
    {"certificate_ends", REDLOCK_WARNING, RL_ANY_USE, 0, has_old_certificate,
     "TLS: the node's certificate ends soon: renew it on the node"},
    {"client_certificate_ends", REDLOCK_WARNING, RL_ANY_USE, 0, client_has_old_certificate,
     "TLS: the certificate of this client ends soon: renew it"},
    {"other_version", REDLOCK_WARNING, RL_ANY_USE, 0, has_other_version,
     "the node has a different version than most nodes: run the same version on all nodes, "
     "unless an upgrade is in progress"},
    {"missing_clients", REDLOCK_WARNING, RL_ANY_USE, 0, lacks_clients,
     "clients of other nodes are not connected to this one: give them the same list of "
     "nodes, since two lists can give a lock two holders, or access"},
    {"debug", REDLOCK_WARNING, RL_ANY_USE, 0, allows_debug,
     "the DEBUG command can load an old snapshot unnoticed: set enable-debug-command no"},

    {"memory_unknown", REDLOCK_NOTE, RL_ANY_USE, 0, hides_memory,
     "it is unknown whether the node evicts keys: check on the node that maxmemory-policy "
     "is noeviction"},
    {"fsync_unknown", REDLOCK_NOTE, RL_ANY_USE, 0, hides_fsync,
     "it is unknown what a restart loses, because CONFIG GET is refused: check on the node "
     "that appendfsync is always"},
};

#define RULES (sizeof(rules) / sizeof(rules[0]))

static redlock_severity severity_of(const struct rl_health_context *all,
                                    const struct rl_rule *rule)
{
    bool heavier = all->strict || (all->durable && rule->use == RL_DURABLE_USE) ||
                   (all->fenced && rule->use == RL_FENCED_USE);
    return rule->severity == REDLOCK_WARNING && heavier ? REDLOCK_DEFECT : rule->severity;
}

static const struct rl_rule *rule(size_t index)
{
    return index < RULES ? &rules[index] : &rl_member_rules[index - RULES];
}

static bool applies(const struct rl_health_context *all, unsigned node, size_t index,
                    char *detail)
{
    const struct rl_rule *it = rule(index);
    /* Fenced locks need no memory of the nodes, unless a marker promises it: not_durable.
     */
    if (it->use == RL_DURABLE_USE && all->fenced && !all->durable)
        return false;
    uint64_t now =
        index < RULES ? UINT64_C(1) << fault_of(all, node) : rl_member_state_bit(all, node);
    return (!it->when || it->when & now) && (!it->holds || it->holds(all, node, detail));
}

void rl_health_check_node(const struct rl_health_context *all, unsigned node,
                          struct rl_findings *ret_findings)
{
    static_assert(RULES + RL_MEMBER_RULES <= RL_FINDINGS_MAX,
                  "each rule finds something at most once");
    ret_findings->count = 0;
    for (size_t i = 0; i < RULES + RL_MEMBER_RULES; i++) {
        char *detail = ret_findings->detail[ret_findings->count];
        detail[0] = '\0';
        if (!applies(all, node, i, detail))
            continue;
        redlock_finding *found = &ret_findings->finding[ret_findings->count];
        ret_findings->each[ret_findings->count++] = found;
        *found = (redlock_finding){
            .severity = severity_of(all, rule(i)),
            .code = rule(i)->code,
            .text = rule(i)->text,
            .detail = detail,
        };
    }
}

redlock_health rl_health_overall(const redlock_node_health *nodes, unsigned n, unsigned q)
{
    unsigned fit = 0;
    bool warned = false;
    for (unsigned i = 0; i < n; i++) {
        fit += nodes[i].fit;
        for (size_t j = 0; j < nodes[i].count; j++)
            warned |= nodes[i].findings[j]->severity != REDLOCK_NOTE;
    }
    if (fit < q)
        return REDLOCK_UNFIT;
    return warned ? REDLOCK_FIT_WITH_WARNINGS : REDLOCK_FIT;
}

size_t rl_health_rule_codes(const char *ret_code[RL_FINDINGS_MAX])
{
    for (size_t i = 0; i < RULES + RL_MEMBER_RULES; i++)
        ret_code[i] = rule(i)->code;
    return RULES + RL_MEMBER_RULES;
}
