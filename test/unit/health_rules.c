/* Which nodes are fit to hold locks: each finding, from the probe that causes it. */
#include "admin/health_rules.h"

#include <stdio.h>
#include <string.h>

#include "admin/acl.h"
#include "lease_fixture.h"

#define NODES  5
#define QUORUM 3

static struct rl_probe probe[NODES];
static redlock_node_health nodes[NODES];
static struct rl_findings findings[NODES];
static struct rl_health_context all;

/* Five nodes without any finding. */
static void begin(void)
{
    static char uri[NODES][8];
    memset(probe, 0, sizeof(probe));
    memset(nodes, 0, sizeof(nodes));
    for (unsigned i = 0; i < NODES; i++) {
        snprintf(uri[i], sizeof(uri[i]), "n%u", i);
        probe[i].rights = rl_acl_rights(probe[i].right);
        probe[i].appendonly = RL_YES;
        probe[i].unsynced_rewrite = RL_NO;
        probe[i].asked = 1000;
        probe[i].answered = 3000;
        probe[i].time = 1700000000 * RL_SECOND;
        nodes[i].uri = uri[i];
        nodes[i].certificate_us = REDLOCK_UNKNOWN;
        strcpy(nodes[i].version, "redis 7.0.15");
        strcpy(nodes[i].policy, "noeviction");
        strcpy(nodes[i].fsync, "always");
    }
    all = (struct rl_health_context){
        .probes = probe,
        .nodes = nodes,
        .n = NODES,
        .prefix = "lock:",
        .allowance = 300 * RL_MS,
    };
}

static redlock_health evaluate(void)
{
    rl_clock_offsets(probe, nodes, NODES);
    for (unsigned i = 0; i < NODES; i++) {
        rl_health_check_node(&all, i, &findings[i]);
        nodes[i].findings = findings[i].each;
        nodes[i].count = findings[i].count;
        nodes[i].fit = true;
        for (size_t j = 0; j < nodes[i].count; j++)
            nodes[i].fit &= nodes[i].findings[j]->severity != REDLOCK_DEFECT;
    }
    return rl_health_overall(nodes, NODES, QUORUM);
}

/* Node 2 has this finding and no other, and the other nodes have none. */
static void expect(redlock_severity severity, const char *code, const char *detail)
{
    redlock_health health = evaluate();
    for (unsigned i = 0; i < NODES; i++)
        cr_assert_eq(nodes[i].count, i == 2, "%s: node %u has %zu findings", code, i,
                     nodes[i].count);
    const redlock_finding *found = nodes[2].findings[0];
    cr_assert_str_eq(found->code, code);
    cr_assert_str_eq(found->detail, detail);
    cr_assert_eq(found->severity, severity, "%s", code);
    cr_assert_eq(nodes[2].fit, severity != REDLOCK_DEFECT);
    cr_assert_eq(health,
                 severity == REDLOCK_NOTE ? REDLOCK_FIT : REDLOCK_FIT_WITH_WARNINGS);
}

static void refuse(unsigned node, const char *name, enum rl_fault fault)
{
    for (size_t i = 0; i < probe[node].rights; i++)
        if (strcmp(probe[node].right[i].name, name) == 0)
            probe[node].right[i].fault = fault;
}

Test(health_rules, nothing_found)
{
    begin();
    cr_assert_eq(evaluate(), REDLOCK_FIT);
    for (unsigned i = 0; i < NODES; i++)
        cr_assert(nodes[i].fit && nodes[i].count == 0);
}

Test(health_rules, every_fault_of_a_link_is_one_defect)
{
    for (int fault = 0; fault < RL_FAULT_COUNT; fault++) {
        begin();
        probe[2].fault = (enum rl_fault)fault;
        evaluate();
        cr_assert_eq(nodes[2].count, fault != RL_FAULT_NONE, "%s", rl_fault_name(fault));
        cr_assert_eq(nodes[2].fit, fault == RL_FAULT_NONE, "%s", rl_fault_name(fault));
    }
}

Test(health_rules, faults_by_name)
{
    static const struct {
        enum rl_fault fault;
        const char *code, *detail;
    } rows[] = {
        {RL_FAULT_CONNECT, "unreachable", "cannot connect"},
        {RL_FAULT_TIMEOUT, "unreachable", "no reply in time"},
        {RL_FAULT_RESOLVE, "unreachable", "the host name does not resolve"},
        {RL_FAULT_PROTECTED, "protected_mode", ""},
        {RL_FAULT_MAXCLIENTS, "too_many_clients", ""},
        {RL_FAULT_WRONGPASS, "wrong_password", "the server rejected the user or password"},
        {RL_FAULT_NOAUTH, "wrong_password", "the server requires a password"},
        {RL_FAULT_LOADING, "loading", ""},
        {RL_FAULT_REPLICA, "replica", ""},
        {RL_FAULT_READONLY, "replica", ""},
        {RL_FAULT_CLUSTER, "cluster", ""},
        {RL_FAULT_QUARANTINE, "restarted", ""},
        {RL_FAULT_NO_EVAL, "no_command",
         "the server runs no scripts (EVAL), so it could not release a lock"},
        {RL_FAULT_BUSY, "fails", "busy: the server is busy running a script"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        begin();
        probe[2].fault = rows[i].fault;
        expect(REDLOCK_DEFECT, rows[i].code, rows[i].detail);
    }
    begin();
    probe[2].fault = RL_FAULT_DUPLICATE;
    probe[2].twin = "n0";
    expect(REDLOCK_DEFECT, "same_server", "the other node is n0");
    begin();
    probe[2].fault = RL_FAULT_NOPERM;
    probe[2].denied = "SELECT";
    expect(REDLOCK_DEFECT, "no_right", "SELECT");
}

Test(health_rules, rights)
{
    begin();
    refuse(2, "SET", RL_FAULT_NOPERM);
    refuse(2, "DEL", RL_FAULT_NOPERM);
    expect(REDLOCK_DEFECT, "no_right", "SET, DEL on keys that begin with \"lock:\"");
    begin();
    refuse(2, "EVAL", RL_FAULT_ERR);
    expect(REDLOCK_DEFECT, "no_command", "EVAL");
    begin();
    refuse(2, "TIME", RL_FAULT_NOPERM);
    expect(REDLOCK_WARNING, "no_time", "TIME");
}

Test(health_rules, refused_writes)
{
    begin();
    refuse(2, "SET", RL_FAULT_OOM);
    nodes[2].maxmemory = 1000;
    expect(REDLOCK_DEFECT, "over_memory", "maxmemory 1000 bytes");
    begin();
    refuse(2, "SET", RL_FAULT_MISCONF);
    expect(REDLOCK_DEFECT, "refuses_writes",
           "the server cannot save its data and refuses writes");
}

Test(health_rules, eviction)
{
    begin();
    strcpy(nodes[2].policy, "volatile-lru");
    expect(REDLOCK_WARNING, "could_evict", "maxmemory-policy volatile-lru");
    nodes[2].maxmemory = 1;
    expect(REDLOCK_DEFECT, "evicts", "maxmemory-policy volatile-lru");
    nodes[2].maxmemory = REDLOCK_UNKNOWN; /* then it may */
    expect(REDLOCK_DEFECT, "evicts", "maxmemory-policy volatile-lru");
    strcpy(nodes[2].policy, "");
    expect(REDLOCK_NOTE, "memory_unknown", "");
}

static void make_forgetful(const char *fsync, enum rl_tristate unsynced_rewrite)
{
    begin();
    strcpy(nodes[2].fsync, fsync);
    probe[2].unsynced_rewrite = unsynced_rewrite;
}

Test(health_rules, restarts)
{
    make_forgetful("none", RL_NO);
    probe[2].appendonly = RL_NO;
    expect(REDLOCK_WARNING, "forgets", "appendonly no");
    all.quarantine = 66602 * RL_MS;
    expect(
        REDLOCK_WARNING, "forgets",
        "appendonly no; a client keeps a node that restarted out for 66.6 s, less with a "
        "shorter max-ttl");
    all.quarantine = 0;
    make_forgetful("everysec", RL_NO);
    expect(REDLOCK_WARNING, "forgets_seconds", "appendfsync everysec");
    make_forgetful("no", RL_NO);
    expect(REDLOCK_WARNING, "forgets_seconds", "appendfsync no");
    make_forgetful("always", RL_YES);
    expect(REDLOCK_WARNING, "forgets_in_rewrite", "no-appendfsync-on-rewrite yes");
    make_forgetful("", RL_UNKNOWN);
    expect(REDLOCK_NOTE, "fsync_unknown", "");
    begin();
    nodes[2].replicas = 2;
    expect(REDLOCK_WARNING, "has_replicas", "connected_slaves 2");
}

/* `strict` makes all warnings defects; `durable` only those that contradict it. */
Test(health_rules, strict_and_durable)
{
    begin();
    strcpy(nodes[2].fsync, "everysec");
    all.durable = true;
    expect(REDLOCK_DEFECT, "forgets_seconds", "appendfsync everysec");
    begin();
    refuse(2, "TIME", RL_FAULT_NOPERM);
    all.durable = true;
    expect(REDLOCK_WARNING, "no_time", "TIME");
    all.strict = true;
    expect(REDLOCK_DEFECT, "no_time", "TIME");
    begin();
    probe[2].appendonly = RL_UNKNOWN;
    all.strict = all.durable = true;
    expect(REDLOCK_NOTE, "fsync_unknown", "");
}

/* Fenced locks need no memory of the nodes; who declares them durable is contradicted. */
Test(health_rules, fenced_locks_need_no_memory)
{
    begin();
    for (unsigned i = 0; i < NODES; i++) {
        nodes[i].member_state = REDLOCK_MEMBER_ACTIVE;
        probe[i].member.state = RL_MEMBER_ACTIVE;
        probe[i].member.members = NODES;
        probe[i].appendonly = RL_NO;
        strcpy(nodes[i].fsync, "none");
        nodes[i].replicas = 1;
    }
    cr_assert_eq(evaluate(), REDLOCK_FIT_WITH_WARNINGS);
    all.fenced = true;
    cr_assert_eq(evaluate(), REDLOCK_FIT);
    all.strict = true;
    cr_assert_eq(evaluate(), REDLOCK_FIT);
    nodes[2].promises = REDLOCK_PROMISE_DURABLE;
    cr_assert_eq(evaluate(), REDLOCK_FIT_WITH_WARNINGS);
    cr_assert_str_eq(nodes[2].findings[0]->code, "not_durable");
    cr_assert_eq(nodes[2].findings[0]->severity, REDLOCK_DEFECT);
    nodes[2].promises = 0;
    all.durable = true;
    cr_assert_eq(evaluate(), REDLOCK_UNFIT);
    cr_assert_str_eq(nodes[0].findings[0]->code, "forgets");
}

Test(health_rules, no_run_id)
{
    begin();
    probe[2].member.no_run_id = true;
    expect(REDLOCK_WARNING, "no_run_id", "");
    all.fenced = true;
    expect(REDLOCK_DEFECT, "no_run_id", "");
}

/* At both sides of 14 days; of a certificate that the client does not know, nothing. */
Test(health_rules, certificates)
{
    const int64_t days = 14 * 86400 * (int64_t)RL_SECOND;
    begin();
    nodes[2].certificate_us = days;
    probe[2].client_certificate = days;
    cr_assert_eq(evaluate(), REDLOCK_FIT);
    nodes[2].certificate_us = days - 1;
    expect(REDLOCK_WARNING, "certificate_ends", "in 14.0 days");
    nodes[2].certificate_us = 0;
    expect(REDLOCK_WARNING, "certificate_ends", "in 0.0 days");
    begin();
    probe[2].client_certificate = days / 4;
    expect(REDLOCK_WARNING, "client_certificate_ends", "in 3.5 days");
}

/* Each fault of TLS has a finding of its own, with what to do. */
Test(health_rules, faults_of_tls)
{
    for (int fault = 0; fault < RL_FAULT_COUNT; fault++) {
        if (strncmp(rl_fault_name((enum rl_fault)fault), "tls", 3) != 0)
            continue;
        begin();
        probe[2].fault = (enum rl_fault)fault;
        evaluate();
        cr_assert_eq(nodes[2].count, 1);
        cr_assert(strncmp(nodes[2].findings[0]->code, "tls_", 4) == 0);
        cr_assert(strncmp(nodes[2].findings[0]->text, "TLS: ", 5) == 0);
        cr_assert_eq(nodes[2].findings[0]->severity, REDLOCK_DEFECT);
    }
}

/*
 * The node gets the benefit of the doubt: 300 ms are allowed, and each round trip took 2
 * ms.
 */
Test(health_rules, clocks)
{
    begin();
    probe[2].time += 302 * RL_MS;
    cr_assert_eq(evaluate(), REDLOCK_FIT);
    cr_assert_eq(nodes[2].offset_us, 302000);
    cr_assert_eq(nodes[2].offset_err_us, 2000);
    probe[2].time += 1;
    expect(REDLOCK_WARNING, "clock_off", "by +0.302 s, plus or minus 0.002 s");
    probe[2].time -= 2 * RL_SECOND;
    expect(REDLOCK_WARNING, "clock_off", "by -1.698 s, plus or minus 0.002 s");
    probe[2].asked -= 4 * RL_SECOND; /* a round trip that long proves nothing */
    probe[2].time -= 2 * RL_SECOND;
    cr_assert_eq(evaluate(), REDLOCK_FIT);
}

Test(health_rules, the_median_is_of_the_nodes_that_replied)
{
    begin();
    for (unsigned i = 0; i < NODES; i++)
        probe[i].time = 0;
    cr_assert_eq(evaluate(), REDLOCK_FIT);
    cr_assert(!nodes[0].timed);
    probe[1].time = 100 * RL_SECOND;
    probe[2].time = 200 * RL_SECOND;
    expect(REDLOCK_WARNING, "clock_off", "by +100.000 s, plus or minus 0.002 s");
    cr_assert(nodes[1].timed && nodes[1].offset_us == 0);
}

Test(health_rules, versions)
{
    begin();
    strcpy(nodes[2].version, "valkey 8.1.1");
    expect(REDLOCK_WARNING, "other_version", "valkey 8.1.1, while n0 has redis 7.0.15");
    strcpy(nodes[2].version, "");
    cr_assert_eq(evaluate(), REDLOCK_FIT);
}

Test(health_rules, debug)
{
    begin();
    probe[2].debug = RL_YES;
    expect(REDLOCK_WARNING, "debug", "");
    probe[2].debug = RL_NO;
    cr_assert_eq(evaluate(), REDLOCK_FIT);
}

/* Five nodes of one deployment; all vote on fenced locks. */
static void begin_marked(void)
{
    begin();
    for (unsigned i = 0; i < NODES; i++) {
        probe[i].member = (struct rl_member_probe){
            .state = RL_MEMBER_ACTIVE,
            .members = NODES,
            .deployment = 0xabc,
            .majority_deployment = 0xabc,
            .latest = 1,
            .quarantine = 12100 * RL_MS,
        };
        nodes[i].member_index = i;
        nodes[i].generation = 1;
        nodes[i].quarantine_us = REDLOCK_UNKNOWN;
    }
}

/* A warning, and a defect if the nodes must support fenced locks. */
static void expect_state(enum rl_member_state state, const char *code, const char *detail)
{
    probe[2].member.state = state;
    expect(REDLOCK_WARNING, code, detail);
    all.durable = true;
    expect(REDLOCK_WARNING, code, detail);
    all.fenced = true;
    expect(REDLOCK_DEFECT, code, detail);
    all.fenced = false;
    all.strict = true;
    expect(REDLOCK_DEFECT, code, detail);
    begin_marked();
}

/* Who readmits a node, and how long that takes with the quarantine of begin_marked(). */
#define CLIENT  "redlock monitor or a client of fenced locks"
#define LONGEST " readmits it in 13.1 s at most"
#define CLOCK   "when its clock is right, it votes again in 13.1 s at most"

Test(health_rules, fenced_locks)
{
    begin_marked();
    cr_assert_eq(evaluate(), REDLOCK_FIT);
    all.fenced = true;
    cr_assert_eq(evaluate(), REDLOCK_FIT);
    all.fenced = false;
    expect_state(RL_MEMBER_UNMARKED, "unmarked", CLIENT " that knew it" LONGEST);
    expect_state(RL_MEMBER_NO_MAJORITY, "no_majority", "");
    expect_state(RL_MEMBER_CLOCK, "clock_set", CLOCK);
    probe[2].member.clock = RL_CLOCK_STILL;
    expect_state(RL_MEMBER_CLOCK, "clock_still", CLOCK);
    probe[2].member.clock = RL_CLOCK_FAST;
    expect_state(RL_MEMBER_CLOCK, "clock_fast", CLOCK);
    probe[2].member.clock = RL_CLOCK_SLOW;
    expect_state(RL_MEMBER_CLOCK, "clock_slow", CLOCK);
    probe[2].member.garbled = true;
    expect_state(RL_MEMBER_OTHER_DEPLOYMENT, "other_deployment",
                 "the key lock:!marker holds no valid marker: it was replaced, or a later "
                 "release wrote it");
    probe[2].member.members = 7;
    expect_state(RL_MEMBER_OTHER_DEPLOYMENT, "other_deployment",
                 "its deployment has 7 nodes, but 5 are configured");
    probe[2].member.deployment = 0xdef;
    expect_state(RL_MEMBER_OTHER_DEPLOYMENT, "other_deployment",
                 "deployment 0000000000000def; most nodes belong to 0000000000000abc");
    probe[2].member.latest = 3;
    expect_state(RL_MEMBER_REPLACED, "replaced",
                 "member index 2 has generation 3, and this node 1");
    expect_state(RL_MEMBER_OTHER_PROCESS, "other_process",
                 "its run_id changed; " CLIENT " that knew it" LONGEST);
    probe[2].member.same_run = true;
    expect_state(RL_MEMBER_OTHER_PROCESS, "other_process",
                 "its master_replid changed; " CLIENT " that knew it" LONGEST);
    expect_state(RL_MEMBER_QUARANTINED, "quarantined",
                 "its registration is not complete; " CLIENT LONGEST);
    probe[2].member.registered = true;
    expect_state(RL_MEMBER_QUARANTINED, "quarantined", CLIENT LONGEST);
    nodes[2].quarantine_us = 8250 * RL_MS;
    expect_state(RL_MEMBER_QUARANTINED, "quarantined", "8.2 s left");
    probe[2].member.outdated = true;
    expect_state(RL_MEMBER_ACTIVE, "behind", "");
}

static void promise(unsigned promises)
{
    for (unsigned i = 0; i < NODES; i++)
        nodes[i].promises = promises;
}

static void expect_detail(unsigned node, const char *code, const char *detail)
{
    evaluate();
    cr_assert_geq(nodes[node].count, 1, "%s", detail);
    cr_assert_str_eq(nodes[node].findings[0]->code, code);
    cr_assert_str_eq(nodes[node].findings[0]->detail, detail);
}

/* No majority votes: an operator is needed where no promise lets a client do it. */
Test(health_rules, what_brings_back_a_lost_majority)
{
    const char *by_operator =
        "its run_id changed; an operator has to readmit it, in 13.1 s at most";
    begin_marked();
    for (unsigned i = 0; i < 3; i++)
        probe[i].member.state = RL_MEMBER_OTHER_PROCESS;
    expect_detail(0, "other_process", by_operator);
    promise(REDLOCK_PROMISE_DURABLE);
    expect_detail(0, "other_process", by_operator);
    probe[2].member.state = RL_MEMBER_UNSEEN;
    expect_detail(0, "other_process",
                  "its run_id changed; once a majority votes, " CLIENT
                  " that knew it" LONGEST);
    probe[2].member.state = RL_MEMBER_OTHER_PROCESS;
    promise(REDLOCK_PROMISE_SOLE);
    expect_detail(0, "other_process",
                  "its run_id changed; once all nodes reply, " CLIENT LONGEST);
    probe[0].member = (struct rl_member_probe){
        .state = RL_MEMBER_UNMARKED,
        .quarantine = 12100 * RL_MS,
    };
    nodes[0].promises = 0;
    expect_detail(0, "unmarked", "once all nodes reply, " CLIENT " that knew it" LONGEST);
    promise(0);
    expect_detail(0, "unmarked", "an operator has to readmit it, in 13.1 s at most");
    nodes[1].promises = REDLOCK_PROMISE_DURABLE;
    expect_detail(
        0, "unmarked",
        "an operator has to readmit it, and to say that what it had never comes back");
}

Test(health_rules, settings_that_contradict_durable)
{
    begin_marked();
    strcpy(nodes[2].fsync, "none");
    probe[2].appendonly = RL_NO;
    expect(REDLOCK_WARNING, "forgets", "appendonly no"); /* nothing was promised */
    promise(REDLOCK_PROMISE_SOLE);
    expect(REDLOCK_WARNING, "forgets", "appendonly no");
    promise(REDLOCK_PROMISE_DURABLE);
    evaluate();
    cr_assert_eq(nodes[2].count, 2);
    cr_assert_str_eq(nodes[2].findings[1]->code, "not_durable");
    cr_assert_str_eq(nodes[2].findings[1]->detail, "appendonly no");
    cr_assert_eq(nodes[2].findings[1]->severity, REDLOCK_DEFECT);
    begin_marked();
    promise(REDLOCK_PROMISE_DURABLE);
    cr_assert_eq(evaluate(), REDLOCK_FIT);
    strcpy(nodes[2].fsync, "everysec");
    probe[2].unsynced_rewrite = RL_YES;
    nodes[2].replicas = 2;
    evaluate();
    const redlock_finding *last = nodes[2].findings[nodes[2].count - 1];
    cr_assert_str_eq(last->code, "not_durable");
    cr_assert_str_eq(last->detail,
                     "appendfsync everysec, no-appendfsync-on-rewrite yes, "
                     "connected_slaves 2");
    cr_assert(!nodes[2].fit);
}

/* Each node is compared with most markers; a node without a marker promises nothing. */
Test(health_rules, promises_that_differ)
{
    begin_marked();
    promise(REDLOCK_PROMISE_DURABLE | REDLOCK_PROMISE_SOLE);
    cr_assert_eq(evaluate(), REDLOCK_FIT);
    nodes[2].promises = REDLOCK_PROMISE_DURABLE;
    expect(REDLOCK_DEFECT, "promises_differ", "durable; most markers: durable, sole");
    nodes[2].promises = 0;
    expect(REDLOCK_DEFECT, "promises_differ", "none; most markers: durable, sole");
    promise(0);
    nodes[2].promises = REDLOCK_PROMISE_SOLE;
    expect(REDLOCK_DEFECT, "promises_differ", "sole; most markers: none");
    promise(REDLOCK_PROMISE_SOLE);
    probe[2].member = (struct rl_member_probe){
        .state = RL_MEMBER_UNMARKED,
        .quarantine = 12100 * RL_MS,
    };
    nodes[2].promises = 0;
    expect(REDLOCK_WARNING, "unmarked", CLIENT " that knew it" LONGEST);
}

/*
 * With plain locks nothing is reported; if fenced locks are required, each node lacks a
 * marker.
 */
Test(health_rules, nodes_without_any_marker)
{
    begin_marked();
    for (unsigned i = 0; i < NODES; i++)
        probe[i].member = (struct rl_member_probe){.state = RL_MEMBER_UNMARKED};
    cr_assert_eq(evaluate(), REDLOCK_FIT);
    all.fenced = true;
    cr_assert_eq(evaluate(), REDLOCK_UNFIT);
    for (unsigned i = 0; i < NODES; i++) {
        cr_assert_eq(nodes[i].count, 1);
        cr_assert_str_eq(nodes[i].findings[0]->code, "unmarked");
    }
}

/* An unreachable node has no member state and no other finding. */
Test(health_rules, an_unreachable_node_has_no_other_finding)
{
    begin_marked();
    probe[2].member = (struct rl_member_probe){.state = RL_MEMBER_UNSEEN};
    probe[2].fault = RL_FAULT_CONNECT;
    all.fenced = true;
    expect(REDLOCK_DEFECT, "unreachable", "cannot connect");
}

Test(health_rules, a_quorum_of_fit_nodes_is_enough)
{
    begin();
    probe[0].fault = probe[1].fault = RL_FAULT_CONNECT;
    cr_assert_eq(evaluate(), REDLOCK_FIT_WITH_WARNINGS);
    probe[3].fault = RL_FAULT_CONNECT;
    cr_assert_eq(evaluate(), REDLOCK_UNFIT);
}

/* One fact may cause many findings; each is reported, and there is room for all. */
Test(health_rules, many_findings_at_once)
{
    begin();
    for (size_t i = 0; i < probe[2].rights; i++)
        probe[2].right[i].fault = RL_FAULT_NOPERM;
    strcpy(nodes[2].policy, "allkeys-lru");
    strcpy(nodes[2].fsync, "no");
    probe[2].unsynced_rewrite = RL_YES;
    nodes[2].replicas = 1;
    evaluate();
    cr_assert_eq(nodes[2].count, 8);
}

Test(health_rules, codes_are_names_and_each_is_used_once)
{
    const char *code[RL_FINDINGS_MAX];
    size_t count = rl_health_rule_codes(code);
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(strspn(code[i], "abcdefghijklmnopqrstuvwxyz_"), strlen(code[i]));
        for (size_t j = 0; j < i; j++)
            cr_assert_str_neq(code[i], code[j]);
    }
}

/* --- ACL rights --- */

Test(acl_rights, of_the_scripts_are_complete_and_each_can_be_tried)
{
    struct rl_acl_right right[RL_ACL_RIGHTS_MAX];
    struct rl_word word[RL_ACL_RIGHT_WORDS], key = {"lock:x", 6};
    static const char *const expected[] = {
        "SET",  "EVAL", "EVALSHA", "GETRANGE", "PTTL",    "DEL",    "PEXPIRE",
        "TIME", "ZADD", "ZRANGE",  "ZREM",     "PUBLISH", "ZSCORE", "EXISTS"};
    size_t count = rl_acl_rights(right);
    cr_assert_eq(count, sizeof(expected) / sizeof(expected[0]));
    for (size_t i = 0; i < count; i++) {
        bool found = false;
        for (size_t j = 0; j < count; j++)
            found |= strcmp(expected[i], right[j].name) == 0;
        cr_assert(found, "%s", expected[i]);
        cr_assert_gt(rl_acl_right_argv(&right[i], key, word), 0, "%s", right[i].name);
        cr_assert_str_eq(word[0].text, right[i].name);
    }
}

static const char *acl(const char *user, const char *prefix, bool select)
{
    static char text[512];
    size_t len = rl_acl_rule(user, prefix, select, 0, text, sizeof(text));
    cr_assert_eq(len, strlen(text));
    return text;
}

Test(acl_rights, rule_has_every_right)
{
    cr_assert_not_null(strstr(acl("me", "lock:", false),
                              "ACL SETUSER me reset on >SECRET ~lock:* resetchannels "
                              "&lock:!wake:* -@all +info +set +getrange "));
    cr_assert_null(strstr(acl("me", "lock:", false), "+select"));
    cr_assert_not_null(strstr(acl("me", "lock:", false), " +client|setname"));
    cr_assert_not_null(strstr(acl("me", "lock:", true), "+select"));
    cr_assert_not_null(strstr(acl("me", "", false), " ~* "));
    cr_assert_not_null(strstr(acl("me", "a*[b]\\ \"", false), " ~a\\*\\[b\\]\\\\??* "));
    cr_assert_not_null(strstr(acl("a b", "", false), " SETUSER \"a b\" reset "));
    cr_assert_not_null(
        strstr(acl("it's\\\"\n", "", false), " SETUSER \"it's\\\\\\\"\\x0a\" reset "));
}

Test(acl_rights, a_short_buffer_is_filled_and_terminated)
{
    char text[8] = "xxxxxxx";
    size_t len = rl_acl_rule("me", "", false, 0, text, sizeof(text));
    cr_assert_str_eq(text, "ACL SET");
    cr_assert_gt(len, sizeof(text));
    cr_assert_eq(rl_acl_rule("me", "", false, 0, NULL, 0), len);
}

Test(acl_rights, of_redissons_layout_are_in_the_rule_if_it_is_used)
{
    char text[512];
    rl_acl_rule("me", "a:", false, true, text, sizeof(text));
    cr_assert_not_null(strstr(text, " &a:!wake:* &redisson_lock__channel:* -@all "));
    cr_assert_not_null(strstr(text, " +hincrby +hdel "));
    cr_assert_not_null(strstr(text, " +hexists "));
    cr_assert_null(strstr(acl("me", "", false), "+h"));
    cr_assert_null(strstr(acl("me", "", false), "redisson"));
}
