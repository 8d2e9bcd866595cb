/*
 * The greeting: the first commands on a connection. They authenticate the client, select
 * the database, and read the node's identity.
 */
#ifndef RL_GREETING_H
#define RL_GREETING_H

#include "core/kind.h"
#include "core/link.h"
#include "send_batch.h"

#define RL_GREETING_STEPS 7

/* What the greeting sends. User and password may be NULL. */
struct rl_credentials {
    const char *user;
    const char *password;
    int db;
    struct rl_word marker_key;
};

enum rl_greeting_step {
    RL_GREET_AUTH,
    RL_GREET_SELECT,
    RL_GREET_SERVER,
    RL_GREET_REPLICATION,
    RL_GREET_CLUSTER,
    RL_GREET_PERSISTENCE,
    RL_GREET_MARKER,
};

struct rl_greeting {
    enum rl_greeting_step step[RL_GREETING_STEPS]; /* the steps sent, in order */
    unsigned steps, answered;
    struct rl_identity identity;
};

/* Appends each command to the batch. False: no memory. */
bool rl_greeting_begin(struct rl_greeting *greeting, const struct rl_credentials *who,
                       struct rl_send_batch *batch);

/* Parses the next reply. Returns whether it was the last one. */
bool rl_greeting_read(struct rl_greeting *greeting, const struct rl_reply *reply);

#endif
