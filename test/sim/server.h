/* A Redis master as a process: it runs, hangs or is down, and it may answer with errors. */
#ifndef RL_SIM_SERVER_H
#define RL_SIM_SERVER_H

#include "skew.h"
#include "wire.h"

enum server_state { SERVER_RUNS, SERVER_HANGS, SERVER_DOWN };

/* What it is to a client that greets it. */
enum server_role { SERVER_MASTER, SERVER_REPLICA, SERVER_CLUSTER, SERVER_LOADING };

#define BACKLOG_MAX 4096

struct server {
    uint8_t index;
    enum server_state state;
    enum server_role role;
    rl_time role_until;
    uint32_t process; /* its number, of which the run_id is made; from 1 on */
    uint32_t life;    /* lines that were made in an earlier one have ended */
    uint32_t history; /* of its data: its replid is made of that */
    uint32_t memory;  /* how often it has lost something that it stored */
    struct store store;
    struct store saved; /* what a restart that forgets the latest finds */
    struct skew clock;
    bool was_sound;    /* it may have voted */
    rl_time lost_at;   /* its memory since that, the last time; RL_NEVER: it never did */
    rl_time ahead_at;  /* when its clock was last seen to gain more than it may; 0: never */
    bool fast;         /* it does so now */
    uint32_t retuned;  /* how often its clock was; what was planned before is void */
    rl_time stepped;   /* when its clock was stepped ahead last */
    const char *error; /* what it answers instead, until then; NULL: nothing */
    bool inside;       /* and the error comes after a script did its work */
    bool greets;       /* the error comes to commands only: it seems to be well */
    rl_time error_until;
    rl_time garbage_until;
    unsigned backlog; /* what it has in its sockets and reads when it goes on */
    uint16_t order[BACKLOG_MAX];
};

void server_init(struct world *world, unsigned server);

void server_describe(const struct server *server, struct rl_process *ret_process);

/* False: there is none. */
bool server_marker(const struct server *server, struct rl_marker *ret_marker);

/* Its marker becomes this, of its own process. */
void server_mark(struct world *world, struct server *server, struct rl_marker *marker);

/* In ms, as it counts. */
int64_t server_time(const struct world *world, const struct server *server);

/* An order has reached its socket. */
void server_hear(struct world *world, uint16_t order);

void server_hang(struct world *world, struct server *server, rl_time until);

/* It ends, and is there again at `until` as another process. */
void server_restart(struct world *world, struct server *server, rl_time until);

/* It closes all its lines. */
void server_hang_up(struct world *world, struct server *server);

/* It no longer has what it had in `before`; `restart`: those who watch can know. */
void server_forgot(struct world *world, struct server *server, const struct store *before,
                   bool restart);

/* EVENT_RESUME: it goes on, unless it is another process by now. */
void server_resume(struct world *world, struct server *server, uint32_t life);

/* A client's connection is made, as far as the server's kernel is concerned. */
void server_accept(struct world *world, struct line *line);

/* Nothing is wrong with it any more. */
void server_heal(struct world *world, struct server *server);

#endif
