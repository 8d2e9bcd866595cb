/* One of a client's nodes: its link, the line to it and what is owed on that. */
#ifndef RL_SIM_MEMBER_H
#define RL_SIM_MEMBER_H

#include "core/fence.h"
#include "core/kind.h"
#include "core/link.h"
#include "swarm.h"

struct world;
struct client;

#define OWED_MAX 512

struct member {
    struct rl_link link;
    rl_time due;
    bool has_line;
    uint16_t line;
    unsigned known; /* scripts that its server knows: a bit for each rl_command */
    unsigned first, owed;
    uint16_t order[OWED_MAX]; /* a ring: what it was sent and has not answered */
    uint8_t server;           /* which it was that it greeted last */
    uint32_t life;            /* the server's process that it last greeted; 0: none */
    rl_time barred;           /* it must not vote before, by the oracle's own account */
    rl_time quarantined_until;
    rl_time refused; /* the same, where nobody is in quarantine for the link's sake */
    bool forgot;     /* it restarted, and has not been accepted since */
};

void member_init(struct world *world, struct client *client, unsigned node);
void member_tick(struct world *world, struct client *client, unsigned node);

/* The process has died; `power`: with its machine. */
void member_drop(struct world *world, struct client *client, unsigned node, bool power);

/* Says to a node what concerns its marker. */
void member_say_mark(struct world *world, struct client *client, unsigned node,
                     const struct rl_command_args *subject);

/* Asks it for the history of its data. */
void member_ask_history(struct world *world, struct client *client, unsigned node);

/* Whether the first words may be said now. */
void member_look_at_gate(struct world *world, struct client *client);

#endif
