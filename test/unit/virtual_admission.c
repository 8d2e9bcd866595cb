/*
 * An admission while other clients change the deployment: by the library itself, in virtual
 * time.
 */
#include "virtual_fixture.h"

#include <criterion/criterion.h>
#include <string.h>

#include "redlock/admin.h"
#include "sim/virtual/network.h"

#define MARKER    "!marker"
#define NEWCOMER  4
#define OTHER     1
#define SLOWLY    (VIRTUAL_S / 5)
#define FORGOTTEN 2 /* times */
#define SETTLED   (5 * VIRTUAL_S)
#define WATCHED   (30 * VIRTUAL_S) /* less than a quarantine */

/* All nodes were admitted by the second user, and the newcomer lost its data since. The
   first user has greeted the nodes when all were empty. */
static void admission_setup(void)
{
    virtual_setup();
    user[1].process.index = 1; /* on another host */
    user[1].options.fenced = true;
    user[1].options.wait_ms = TTL_MS; /* it may have to read the markers first */
    cr_assert_eq(user_told(&user[1], user_admit), REDLOCK_OK);
    virtual_run_until(events_now() + VIRTUAL_S);
    network.path[1][NEWCOMER + 1].up_blocked = NETWORK_NEVER;
    keyspace_clear(&node[NEWCOMER].redis->keyspace);
}

TestSuite(virtual_admission, .init = admission_setup, .fini = virtual_teardown);

static redlock_code code;
static unsigned told;

static void on_admitted(redlock_client *client, const redlock_admitted *result, void *arg)
{
    (void)client;
    (void)arg;
    code = result->code;
    told++;
}

static void admit(struct user *mine, redlock_admission how)
{
    told = 0;
    cr_assert_eq(redlock_admit(mine->client, how, NEWCOMER, on_admitted, mine), REDLOCK_OK);
}

static void replace(void *arg)
{
    admit(arg, REDLOCK_ADMIT_REPLACE);
}

static void readmit(void *arg)
{
    admit(arg, REDLOCK_ADMIT_READMIT);
}

static void renew(void *arg)
{
    admit(arg, REDLOCK_ADMIT_NEW);
}

static redlock_node member[NODES];

static void read_members(void *arg)
{
    struct user *mine = arg;
    cr_assert_eq(redlock_client_members(mine->client, member, NODES), NODES);
}

static bool has(unsigned i, redlock_fault fault)
{
    process_call(&user[0].process, read_members, &user[0]);
    return member[i].fault == fault;
}

static void await(unsigned i, redlock_fault fault)
{
    int64_t end = events_now() + LONG;
    while (!has(i, fault)) {
        cr_assert_lt(events_now(), end, "node %u is never %s", i,
                     redlock_fault_name(fault));
        cr_assert_eq(told, 0, "code %s", redlock_code_name(code));
        cr_assert(events_step(end));
    }
}

static const struct node *awaited; /* until the first user reads its marker */

static void *note_read(const struct node_command *command, struct bytes *out, size_t at)
{
    (void)out;
    (void)at;
    const struct rl_word *word = command->word;
    bool is_of_marker = command->words > 3 && word[3].len == strlen(MARKER) &&
                        memcmp(word[3].text, MARKER, word[3].len) == 0;
    if (command->node == awaited && is_of_marker &&
        command->link->connection->process_index == user[0].process.index)
        awaited = NULL;
    return NULL;
}

/*
 * A node loses its data, right after the first user has read its marker. The second user
 * readmits it. The first one learns that from the others before it reads the node itself
 * again: until then its old marker is that of a replaced server.
 */
static void forget(unsigned i)
{
    static const struct node_class watch = {.executed = note_read};
    int64_t end = events_now() + LONG;
    network.path[0][i + 1].latency = SLOWLY;
    virtual_run_until(events_now() + SETTLED);
    node_watch(&node[i], &watch);
    for (awaited = &node[i]; awaited;)
        cr_assert(events_step(end));
    keyspace_clear(&node[i].redis->keyspace);
    cr_assert_eq(user_told(&user[1], user_acquire), REDLOCK_OK);
    process_call(&user[1].process, user_free_lease, &user[1]);
    await(i, REDLOCK_FAULT_REPLACED);
    await(i, REDLOCK_FAULT_MEMBER_QUARANTINE);
}

static void expect_told(redlock_code expected)
{
    int64_t end = events_now() + 2 * LONG;
    while (!told)
        cr_assert(events_step(end));
    cr_assert_eq(code, expected, "%s", redlock_code_name(code));
}

Test(virtual_admission, replaced_for_a_moment_is_not_replaced)
{
    process_call(&user[0].process, replace, &user[0]);
    await(NEWCOMER, REDLOCK_FAULT_MEMBER_QUARANTINE);
    for (int i = 0; i < FORGOTTEN; i++) {
        forget(OTHER);
        virtual_run_until(events_now() + WATCHED);
        keyspace_clear(&node[NEWCOMER].redis->keyspace); /* it begins again */
        await(OTHER, REDLOCK_FAULT_NONE);
    }
    expect_told(REDLOCK_OK);
}

/* It loses its data when it already votes, and the second user gives it its index back. */
Test(virtual_admission, the_newcomer_replaced_for_a_moment_is_not_replaced)
{
    process_call(&user[0].process, replace, &user[0]);
    await(NEWCOMER, REDLOCK_FAULT_MEMBER_QUARANTINE);
    network.path[1][NEWCOMER + 1].up_blocked = 0;
    virtual_run_until(events_now() + WATCHED);
    forget(OTHER);
    await(NEWCOMER, REDLOCK_FAULT_NONE);
    forget(NEWCOMER);
    expect_told(REDLOCK_OK);
}

/* What the first user read when it greeted the nodes is outdated. */
Test(virtual_admission, of_what_the_nodes_have_now)
{
    process_call(&user[0].process, readmit, &user[0]);
    expect_told(REDLOCK_OK);
    process_call(&user[0].process, renew, &user[0]);
    expect_told(REDLOCK_NOT_EMPTY);
}

static void leave(void *arg)
{
    struct user *mine = arg;
    redlock_client_free(mine->client);
    mine->client = NULL;
}

/* A distant node does not reply for a while; the client keeps the connection for longer. */
Test(virtual_admission, does_not_begin_before_all_markers_were_read)
{
    struct path *path = &network.path[0][1];
    unsigned keys = virtual_keys();
    path->latency = SLOWLY / 2;
    process_call(&user[0].process, leave, &user[0]);
    process_call(&user[0].process, user_connect, &user[0]);
    virtual_run_until(events_now() + SETTLED);
    path->down_blocked = NETWORK_NEVER;
    process_call(&user[0].process, readmit, &user[0]);
    expect_told(REDLOCK_UNREACHED);
    path->down_blocked = 0;
    virtual_run_until(events_now() + SETTLED);
    path->down_blocked = events_now() + 2 * VIRTUAL_S;
    process_call(&user[0].process, readmit, &user[0]);
    virtual_run_until(path->down_blocked);
    cr_assert_eq(virtual_keys(), keys);
    expect_told(REDLOCK_OK);
}

/* A refusal changes nothing: the client that was refused brings nothing back. */
Test(virtual_admission, of_nodes_that_were_emptied)
{
    process_call(&user[0].process, renew, &user[0]);
    expect_told(REDLOCK_NOT_EMPTY);
    process_call(&user[1].process, leave, &user[1]);
    for (unsigned i = 0; i < NODES; i++)
        keyspace_clear(&node[i].redis->keyspace);
    virtual_run_until(events_now() + WATCHED);
    cr_assert_eq(virtual_keys(), 0);
    process_call(&user[0].process, renew, &user[0]);
    expect_told(REDLOCK_OK);
}
