/*
 * What a client hears: a connection to each node by which it is called, as
 * src/client/notifications.c. It is a hint, so calls may also be lost, come twice, or
 * overtake each other.
 */
#ifndef RL_SIM_EAR_H
#define RL_SIM_EAR_H

#include "store.h"
#include "swarm.h"

struct world;
struct client;
struct server;
struct user;

enum ear_state { EAR_AWAY, EAR_CONNECTING, EAR_LISTENING };

struct ear {
    enum ear_state state;
    bool heard;      /* the server has its subscription */
    uint8_t server;  /* which that is, or is to be */
    uint16_t number; /* of the connection: what is on its way for an earlier one is void */
    unsigned failures;
    rl_time due, since; /* by the client's clock */
    rl_time back;       /* what comes is no sooner than what came before; the true time */
};

/* A machine went off, and its servers do not know that yet. */
struct ghost {
    uint32_t process;
    rl_node_set servers;
    rl_time until; /* the true time */
};

void ears_init(struct client *client);

/* Somebody has to wait, so it is to be heard who calls. */
void ears_begin(struct client *client);

void ears_tick(struct world *world, struct client *client);
rl_time ears_due(const struct client *client);

/* The node was greeted, by another connection. */
void ear_greeted(struct client *client, unsigned node);

/* Where calls are heard; and whether they were from then on, by the client's clock. */
rl_node_set ears_where(const struct client *client);
bool ear_since(const struct client *client, unsigned node, rl_time sent);

/* Its process has ended; `power`: with its machine, and nobody hears of that. */
void ears_crash(struct world *world, struct client *client, bool power);

/* The server has closed all; or one connection is cut, which perhaps only one side sees. */
void ears_lose_server(struct world *world, struct client *client, unsigned server);
void ear_cut(struct world *world, struct client *client, unsigned node);

/* In whose name a place is taken. */
struct rl_word ear_place(struct world *world, const struct client *client, uint16_t number);

/* Who took it; NULL: nobody who would hear of it now. */
struct client *ear_client_of(struct world *world, struct rl_word place);
uint16_t ear_number_of(struct rl_word place);

/* Who listens to a server. */
struct ear_of {
    struct world *world;
    unsigned server;
};
bool ear_hears(void *ear_of, struct rl_word channel);

/* Whom a server has called, by a command that just ran there. */
void ears_call(struct world *world, const struct server *server,
               const struct store_reply *reply);

/* Events: a subscription arrives, is confirmed, brings a call, is seen to have ended. */
void ear_subscribed(struct world *world, unsigned client, uint32_t what);
void ear_confirmed(struct world *world, struct client *client, uint32_t what);
void ear_called(struct world *world, struct client *client, uint32_t what);
void ear_ended(struct world *world, struct client *client, uint32_t what);

#endif
