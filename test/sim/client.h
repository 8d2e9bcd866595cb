/*
 * A process that uses the library: the links to its nodes, its leases and its clock, put
 * together as src/client/loop.c, member.c and message.c do. The machines are those of the
 * library.
 */
#ifndef RL_SIM_CLIENT_H
#define RL_SIM_CLIENT_H

#include "attempt.h"
#include "core/clock.h"
#include "ear.h"
#include "member.h"
#include "skew.h"
#include "user.h"
#include "ward.h"
#include "wire.h"

#define ATTEMPTS_MAX 512
#define UNSENT_MAX   1024

struct client {
    uint8_t index;
    bool alive, in_pass;
    rl_time born;   /* the true time at which its process began */
    rl_time paused; /* its process stands still until then, by the true time */
    rl_time read;   /* when it last read its clocks */
    rl_time excuse; /* what it read when it last came back from standing still */
    struct skew boot, raw;
    bool boot_is_good; /* else the other is: see mishap.c */
    struct rl_clock clock;
    struct rl_view view;
    uint8_t address[NODES]; /* of its configuration */
    bool typo;              /* which names a wrong server */
    unsigned users;
    rl_node_set awake, sound; /* a fenced lock's nodes vote if they are both */
    struct rl_membership steward;
    rl_time ward_due;
    struct sample sample[NODES]; /* the oracle's account */
    rl_time doubts_until;        /* of its own clock; the true time */
    enum rl_admission_mode wish; /* an operator's */
    unsigned newcomer;
    rl_time look_again, until;
    enum rl_member_state stood[NODES]; /* as the trace has told it */
    rl_time round_trip[NODES];
    struct rl_node_time node_time[NODES];
    struct rl_startup_barrier gate;
    bool open; /* the gate is */
    struct member member[NODES];
    uint32_t process; /* its number, of all */
    uint16_t number;  /* of acquires */
    bool listens;
    struct ear ear[NODES];
    struct ghost ghost;
    unsigned attempts; /* slots ever used */
    struct attempt attempt[ATTEMPTS_MAX];
    struct user user[USERS_MAX];
    uint32_t timer; /* the number of the one that counts */
    rl_time armed;  /* for when at the latest, by its clock */
    unsigned unsent;
    uint16_t unsent_order[UNSENT_MAX];
};

/* A fresh process begins, and ends: `power`: with its machine. */
void client_start(struct world *world, struct client *client);
void client_crash(struct world *world, struct client *client, bool power);

/* Its process stands still. */
void client_pause(struct client *client, rl_time until);

/* What its clock would read now, if it looked. */
rl_time client_reading(const struct world *world, const struct client *client);

/* Something happened: the process wakes, handles it and ends its pass. */
void client_wake(struct world *world, struct client *client);
void client_connected(struct world *world, struct client *client, uint16_t line);
void client_answered(struct world *world, struct client *client, uint16_t order);
void client_closed(struct world *world, struct client *client, uint16_t line);
void client_end_pass(struct world *world, struct client *client);

/* Its clocks have changed: what its timer waits for comes at another time. */
void client_rearm(struct world *world, struct client *client);

/* A server's process has gone, and all lines to it with it. */
void client_lose_server(struct world *world, struct client *client, unsigned server);

/* Looks at the clock anew, within a pass. */
void client_look_at_clock(struct world *world, struct client *client);

/* Queues a command; it leaves at the end of the pass. */
void client_say(struct world *world, struct client *client, struct attempt *attempt,
                const struct rl_update *update, rl_node_set nodes, bool whole);

rl_time client_quarantine(const struct world *world);

#endif
