/*
 * The greeting: the first commands on a connection. They authenticate the client, select
 * the database, read the node's identity, and name the connection.
 */
#ifndef RL_GREETING_H
#define RL_GREETING_H

#include "core/kind.h"
#include "core/link.h"
#include "send_batch.h"

#define RL_GREETING_STEPS 9

/* The values that the greeting sends. User, password and name may be NULL. */
struct rl_credentials {
    const char *user;
    const char *password;
    int db;
    struct rl_word marker_key;
    const char *name; /* of the connection, in CLIENT LIST */
};

enum rl_greeting_step {
    RL_GREET_AUTH,
    RL_GREET_SELECT,
    RL_GREET_SERVER,
    RL_GREET_REPLICATION,
    RL_GREET_CLUSTER,
    RL_GREET_PERSISTENCE,
    RL_GREET_SCRIPT,
    RL_GREET_NAME, /* not first: the server may close with an error of its own */
    RL_GREET_MARKER,
};

struct rl_greeting {
    enum rl_greeting_step step[RL_GREETING_STEPS]; /* the steps sent, in order */
    unsigned steps, answered;
    bool name_refused; /* by a node that accepted the steps before */
    struct rl_identity identity;
};

/* Appends each command to the batch. False: no memory. */
bool rl_greeting_begin(struct rl_greeting *greeting, const struct rl_credentials *who,
                       struct rl_send_batch *batch);

/* Whose reply comes next. */
static inline enum rl_greeting_step rl_greeting_step(const struct rl_greeting *greeting)
{
    return greeting->step[greeting->answered];
}

/* The command of a step that may lack a right. */
const char *rl_greeting_command(enum rl_greeting_step step);

/* The fault that an error reply to this step means. */
enum rl_fault rl_greeting_fault(enum rl_greeting_step step, const struct rl_reply *reply);

/* The length of the known sentence that an error reply to AUTH begins with, or 0. */
size_t rl_greeting_auth_len(const struct rl_reply *reply);

/* Parses the next reply. Returns whether it was the last one. */
bool rl_greeting_read(struct rl_greeting *greeting, const struct rl_reply *reply);

#endif
