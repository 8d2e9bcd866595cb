/*
 * The library itself in virtual time: its clients, the bytes that they write, and the
 * scripts of lua/ in simulated servers. Nothing here depends on the machine.
 */
#ifndef TEST_VIRTUAL_FIXTURE_H
#define TEST_VIRTUAL_FIXTURE_H

#include "redlock/redlock.h"
#include "sim/virtual/node.h"
#include "sim/virtual/process.h"

#define NODES    5
#define CLIENTS  2
#define LONG     (120 * VIRTUAL_S)
#define TTL_MS   30000
#define MAJORITY 3

/* A process with one client, one lease, and what it was told. */
struct user {
    struct process process;
    redlock_client *client;
    redlock_lease *lease;
    redlock_lease_options options;
    unsigned told;
    redlock_code code;
};

extern struct node node[NODES];
extern struct user user[CLIENTS];

/* For a test suite. */
void virtual_setup(void);
void virtual_teardown(void);

void virtual_run_until(int64_t until);

/* How many keys all nodes have. */
unsigned virtual_keys(void);

/* Runs it, and all that follows, until the user is told a result. */
redlock_code user_told(struct user *mine, void (*action)(void *arg));

/* For process_call(), with the user as its argument. */
void user_connect(void *arg);
void user_acquire(void *arg);
void user_release(void *arg);
void user_free_lease(void *arg);
void user_admit(void *arg); /* all nodes, at once */

#endif
