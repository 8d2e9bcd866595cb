/* Which nodes are fit to hold locks: each finding by the fact that makes it. */
#include "judge.h"

#include <stdio.h>
#include <string.h>

#include "desk.h"
#include "rights.h"

#define NODES  5
#define QUORUM 3

static struct rl_facts facts[NODES];
static redlock_fitness nodes[NODES];
static struct rl_findings findings[NODES];
static struct rl_judgement all;

/* Five nodes of which nothing is to be said. */
static void begin(void)
{
    static char uri[NODES][8];
    memset(facts, 0, sizeof(facts));
    memset(nodes, 0, sizeof(nodes));
    for (unsigned i = 0; i < NODES; i++) {
        snprintf(uri[i], sizeof(uri[i]), "n%u", i);
        facts[i].rights = rl_rights(facts[i].right);
        facts[i].appendonly = RL_YES;
        facts[i].unsynced_rewrite = RL_NO;
        facts[i].asked = 1000;
        facts[i].answered = 3000;
        facts[i].time = 1700000000 * RL_SECOND;
        nodes[i].uri = uri[i];
        strcpy(nodes[i].version, "redis 7.0.15");
        strcpy(nodes[i].policy, "noeviction");
        strcpy(nodes[i].fsync, "always");
    }
    all = (struct rl_judgement){
        .facts = facts,
        .nodes = nodes,
        .n = NODES,
        .prefix = "lock:",
        .allowance = 300 * RL_MS,
    };
}

static redlock_verdict judge(void)
{
    rl_judge_clocks(facts, nodes, NODES);
    for (unsigned i = 0; i < NODES; i++) {
        rl_judge_node(&all, i, &findings[i]);
        nodes[i].findings = findings[i].finding;
        nodes[i].count = findings[i].count;
        nodes[i].fit = true;
        for (size_t j = 0; j < nodes[i].count; j++)
            nodes[i].fit &= nodes[i].findings[j].rank != REDLOCK_DEFECT;
    }
    return rl_judge_all(nodes, NODES, QUORUM);
}

/* Node 2 has this finding and no other, and the other nodes have none. */
static void expect(redlock_rank rank, const char *code, const char *detail)
{
    redlock_verdict verdict = judge();
    for (unsigned i = 0; i < NODES; i++)
        cr_assert_eq(nodes[i].count, i == 2, "%s: node %u has %zu findings", code, i,
                     nodes[i].count);
    const redlock_finding *found = nodes[2].findings;
    cr_assert_str_eq(found->code, code);
    cr_assert_str_eq(found->detail, detail);
    cr_assert_eq(found->rank, rank, "%s", code);
    cr_assert_eq(nodes[2].fit, rank != REDLOCK_DEFECT);
    cr_assert_eq(verdict, rank == REDLOCK_NOTE ? REDLOCK_FIT : REDLOCK_FIT_WITH_WARNINGS);
}

static void refuse(unsigned node, const char *name, enum rl_fault fault)
{
    for (size_t i = 0; i < facts[node].rights; i++)
        if (strcmp(facts[node].right[i].name, name) == 0)
            facts[node].right[i].fault = fault;
}

Test(judge, nothing_found)
{
    begin();
    cr_assert_eq(judge(), REDLOCK_FIT);
    for (unsigned i = 0; i < NODES; i++)
        cr_assert(nodes[i].fit && nodes[i].count == 0);
}

Test(judge, every_fault_of_a_link_is_one_defect)
{
    for (int fault = 0; fault < RL_FAULT_COUNT; fault++) {
        begin();
        facts[2].fault = (enum rl_fault)fault;
        judge();
        cr_assert_eq(nodes[2].count, fault != RL_FAULT_NONE, "%s", rl_fault_name(fault));
        cr_assert_eq(nodes[2].fit, fault == RL_FAULT_NONE, "%s", rl_fault_name(fault));
    }
}

Test(judge, faults_by_name)
{
    static const struct {
        enum rl_fault fault;
        const char *code, *detail;
    } rows[] = {
        {RL_FAULT_CONNECT, "unreachable", "the connection was refused or cannot be made"},
        {RL_FAULT_TIMEOUT, "unreachable", "no answer in time"},
        {RL_FAULT_RESOLVE, "unreachable", "the name does not resolve"},
        {RL_FAULT_PROTECTED, "protected_mode", ""},
        {RL_FAULT_MAXCLIENTS, "too_many_clients", ""},
        {RL_FAULT_WRONGPASS, "wrong_password", "the server refused the user or password"},
        {RL_FAULT_NOAUTH, "wrong_password", "the server wants a password"},
        {RL_FAULT_LOADING, "loading", ""},
        {RL_FAULT_REPLICA, "replica", ""},
        {RL_FAULT_READONLY, "replica", ""},
        {RL_FAULT_CLUSTER, "cluster", ""},
        {RL_FAULT_QUARANTINE, "restarted", ""},
        {RL_FAULT_NOPERM, "no_right", "INFO"},
        {RL_FAULT_BUSY, "fails", "BUSY: the server is busy with a script"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        begin();
        facts[2].fault = rows[i].fault;
        expect(REDLOCK_DEFECT, rows[i].code, rows[i].detail);
    }
    begin();
    facts[2].fault = RL_FAULT_DUPLICATE;
    facts[2].twin = "n0";
    expect(REDLOCK_DEFECT, "same_server", "as n0");
    begin();
    facts[2].fault = RL_FAULT_NOPERM;
    facts[2].db = true;
    expect(REDLOCK_DEFECT, "no_right", "INFO or SELECT");
}

Test(judge, rights)
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

Test(judge, refused_writes)
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

Test(judge, eviction)
{
    begin();
    strcpy(nodes[2].policy, "volatile-lru");
    expect(REDLOCK_WARNING, "could_evict", "maxmemory-policy volatile-lru");
    nodes[2].maxmemory = 1;
    expect(REDLOCK_DEFECT, "evicts", "maxmemory-policy volatile-lru");
    nodes[2].maxmemory = -1; /* not known: then it may */
    expect(REDLOCK_DEFECT, "evicts", "maxmemory-policy volatile-lru");
    strcpy(nodes[2].policy, "");
    expect(REDLOCK_NOTE, "memory_unknown", "");
}

static void make_forgetful(const char *fsync, enum rl_known unsynced_rewrite)
{
    begin();
    strcpy(nodes[2].fsync, fsync);
    facts[2].unsynced_rewrite = unsynced_rewrite;
}

Test(judge, restarts)
{
    make_forgetful("none", RL_NO);
    facts[2].appendonly = RL_NO;
    expect(REDLOCK_WARNING, "forgets", "appendonly no");
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

/* Strict makes all warnings weigh more; durable those alone that contradict it. */
Test(judge, strict_and_durable)
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
    facts[2].appendonly = RL_UNKNOWN;
    all.strict = all.durable = true;
    expect(REDLOCK_NOTE, "fsync_unknown", "");
}

/* The doubt counts for the node: 300 ms are allowed, and each round trip took 2 ms. */
Test(judge, clocks)
{
    begin();
    facts[2].time += 302 * RL_MS;
    cr_assert_eq(judge(), REDLOCK_FIT);
    cr_assert_eq(nodes[2].offset_us, 302000);
    cr_assert_eq(nodes[2].offset_err_us, 2000);
    facts[2].time += 1;
    expect(REDLOCK_WARNING, "clock_off", "by +0.302 s, give or take 0.002 s");
    facts[2].time -= 2 * RL_SECOND;
    expect(REDLOCK_WARNING, "clock_off", "by -1.698 s, give or take 0.002 s");
    facts[2].asked -= 4 * RL_SECOND; /* a round trip that long says nothing */
    facts[2].time -= 2 * RL_SECOND;
    cr_assert_eq(judge(), REDLOCK_FIT);
}

Test(judge, the_median_is_of_those_that_told)
{
    begin();
    for (unsigned i = 0; i < NODES; i++)
        facts[i].time = 0;
    cr_assert_eq(judge(), REDLOCK_FIT);
    cr_assert(!nodes[0].timed);
    facts[1].time = 100 * RL_SECOND;
    facts[2].time = 200 * RL_SECOND;
    expect(REDLOCK_WARNING, "clock_off", "by +100.000 s, give or take 0.002 s");
    cr_assert(nodes[1].timed && nodes[1].offset_us == 0);
}

Test(judge, versions)
{
    begin();
    strcpy(nodes[2].version, "valkey 8.1.1");
    expect(REDLOCK_WARNING, "other_version", "valkey 8.1.1, while n0 has redis 7.0.15");
    strcpy(nodes[2].version, "");
    cr_assert_eq(judge(), REDLOCK_FIT);
}

Test(judge, debug)
{
    begin();
    facts[2].debug = RL_YES;
    expect(REDLOCK_WARNING, "debug", "");
    facts[2].debug = RL_NO;
    cr_assert_eq(judge(), REDLOCK_FIT);
}

/* Five nodes of one deployment, of which all vote on fenced locks. */
static void begin_marked(void)
{
    begin();
    for (unsigned i = 0; i < NODES; i++) {
        facts[i].member = (struct rl_membership){
            .standing = RL_STANDING_SOUND,
            .seats = NODES,
            .deployment = 0xabc,
            .usual = 0xabc,
            .latest = 1,
            .quarantine = 12100 * RL_MS,
        };
        nodes[i].seat = i;
        nodes[i].generation = 1;
        nodes[i].quarantine_ms = -1;
    }
}

/* A warning, and a defect where the nodes are to have fenced locks. */
static void expect_standing(enum rl_standing standing, const char *code, const char *detail)
{
    facts[2].member.standing = standing;
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

Test(judge, fenced_locks)
{
    begin_marked();
    cr_assert_eq(judge(), REDLOCK_FIT);
    all.fenced = true;
    cr_assert_eq(judge(), REDLOCK_FIT);
    all.fenced = false;
    expect_standing(RL_STANDING_UNMARKED, "unmarked", "");
    expect_standing(RL_STANDING_ALONE, "alone", "");
    expect_standing(RL_STANDING_CLOCK, "clock_set", "");
    facts[2].member.garbled = true;
    expect_standing(RL_STANDING_ELSEWHERE, "elsewhere",
                    "the key lock:!marker holds something else");
    facts[2].member.seats = 7;
    expect_standing(RL_STANDING_ELSEWHERE, "elsewhere",
                    "its deployment has 7 nodes, and these are 5");
    facts[2].member.deployment = 0xdef;
    expect_standing(RL_STANDING_ELSEWHERE, "elsewhere",
                    "deployment 0000000000000def, and most are of 0000000000000abc");
    facts[2].member.latest = 3;
    expect_standing(RL_STANDING_REPLACED, "replaced",
                    "seat 2 is of generation 3, and this node of 1");
    expect_standing(RL_STANDING_FOREIGN, "foreign", "it restarted");
    facts[2].member.same_run = true;
    expect_standing(RL_STANDING_FOREIGN, "foreign", "it failed over");
    expect_standing(RL_STANDING_BARRED, "barred",
                    "12.1 s from when a client begins to wait for it");
    nodes[2].quarantine_ms = 8250;
    expect_standing(RL_STANDING_BARRED, "barred", "another 8.2 s");
    facts[2].member.behind = true;
    expect_standing(RL_STANDING_SOUND, "behind", "");
}

/* Of plain locks nothing is told; where fenced ones are wanted, each node lacks a marker.
 */
Test(judge, nodes_without_any_marker)
{
    begin_marked();
    for (unsigned i = 0; i < NODES; i++)
        facts[i].member = (struct rl_membership){.standing = RL_STANDING_UNMARKED};
    cr_assert_eq(judge(), REDLOCK_FIT);
    all.fenced = true;
    cr_assert_eq(judge(), REDLOCK_UNFIT);
    for (unsigned i = 0; i < NODES; i++) {
        cr_assert_eq(nodes[i].count, 1);
        cr_assert_str_eq(nodes[i].findings[0].code, "unmarked");
    }
}

/* What cannot be reached has no standing, and no other finding than that. */
Test(judge, a_node_that_is_not_seen_is_only_unreachable)
{
    begin_marked();
    facts[2].member = (struct rl_membership){.standing = RL_STANDING_UNSEEN};
    facts[2].fault = RL_FAULT_CONNECT;
    all.fenced = true;
    expect(REDLOCK_DEFECT, "unreachable", "the connection was refused or cannot be made");
}

Test(judge, a_quorum_of_fit_nodes)
{
    begin();
    facts[0].fault = facts[1].fault = RL_FAULT_CONNECT;
    cr_assert_eq(judge(), REDLOCK_FIT_WITH_WARNINGS);
    facts[3].fault = RL_FAULT_CONNECT;
    cr_assert_eq(judge(), REDLOCK_UNFIT);
}

/* One fact may make many findings; each is told, and there is room for all. */
Test(judge, many_at_once)
{
    begin();
    for (size_t i = 0; i < facts[2].rights; i++)
        facts[2].right[i].fault = RL_FAULT_NOPERM;
    strcpy(nodes[2].policy, "allkeys-lru");
    strcpy(nodes[2].fsync, "no");
    facts[2].unsynced_rewrite = RL_YES;
    nodes[2].replicas = 1;
    judge();
    cr_assert_eq(nodes[2].count, 7);
}

Test(judge, codes_are_names_and_each_is_used_once)
{
    const char *code[RL_FINDINGS_MAX];
    size_t count = rl_judge_codes(code);
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(strspn(code[i], "abcdefghijklmnopqrstuvwxyz_"), strlen(code[i]));
        for (size_t j = 0; j < i; j++)
            cr_assert_str_neq(code[i], code[j]);
    }
}

/* --- rights --- */

Test(rights, of_the_scripts_and_each_can_be_tried)
{
    struct rl_right right[RL_RIGHTS_MAX];
    struct rl_word word[RL_TRY_WORDS], key = {"lock:x", 6};
    static const char *const expected[] = {"SET",  "EVAL",   "EVALSHA", "GET",
                                           "PTTL", "DEL",    "PEXPIRE", "TIME",
                                           "ZADD", "ZRANGE", "ZREM",    "PUBLISH"};
    size_t count = rl_rights(right);
    cr_assert_eq(count, sizeof(expected) / sizeof(expected[0]));
    for (size_t i = 0; i < count; i++) {
        bool found = false;
        for (size_t j = 0; j < count; j++)
            found |= strcmp(expected[i], right[j].name) == 0;
        cr_assert(found, "%s", expected[i]);
        cr_assert_gt(rl_right_try(&right[i], key, word), 0, "%s", right[i].name);
        cr_assert_str_eq(word[0].text, right[i].name);
    }
}

static const char *acl(const char *user, const char *prefix, bool select)
{
    static char text[512];
    size_t len = rl_rights_acl(user, prefix, select, text, sizeof(text));
    cr_assert_eq(len, strlen(text));
    return text;
}

Test(rights, the_rule)
{
    cr_assert_not_null(strstr(acl("me", "lock:", false),
                              "ACL SETUSER me reset on >SECRET ~lock:* resetchannels "
                              "&lock:!wake:* -@all +info +set +eval +evalsha "));
    cr_assert_null(strstr(acl("me", "lock:", false), "+select"));
    cr_assert_not_null(strstr(acl("me", "lock:", true), "+select"));
    cr_assert_not_null(strstr(acl("me", "", false), " ~* "));
    cr_assert_not_null(strstr(acl("me", "a*[b]\\ \"", false), " ~a\\*\\[b\\]\\\\??* "));
    cr_assert_not_null(strstr(acl("a b", "", false), " SETUSER \"a b\" reset "));
    cr_assert_not_null(
        strstr(acl("it's\\\"\n", "", false), " SETUSER \"it's\\\\\\\"\\x0a\" reset "));
}

Test(rights, a_short_buffer_is_filled_and_ended)
{
    char text[8] = "xxxxxxx";
    size_t len = rl_rights_acl("me", "", false, text, sizeof(text));
    cr_assert_str_eq(text, "ACL SET");
    cr_assert_gt(len, sizeof(text));
    cr_assert_eq(rl_rights_acl("me", "", false, NULL, 0), len);
}
