/*
 * The network: lines between clients and servers, and the orders that travel on them. On a
 * line nothing overtakes. What was lost is sent again by the kernel, later, as long as the
 * line stands; a reset throws away what the sender's kernel still has, and nothing else.
 */
#ifndef RL_SIM_WIRE_H
#define RL_SIM_WIRE_H

#include "core/link.h"
#include "store.h"
#include "swarm.h"

struct world;

#define LINES_MAX   4096
#define ORDERS_MAX  4096
#define SAYINGS_MAX 4096

#define RETRANSMISSION     (200 * RL_MS) /* the least time after which a kernel sends again */
#define RETRANSMISSION_MAX (64 * RETRANSMISSION)

/* The words of a command, which the orders of a round share. */
struct saying {
    unsigned refs;
    struct rl_argv command;
};

/* A command to one server, and the answer to it. */
struct order {
    uint8_t refs; /* the client that waits for the answer, and whatever moves it */
    uint8_t client, node, server;
    bool greeting, whole, plant;
    bool of_history;     /* INFO replication, and no command */
    bool of_ward;        /* about the marker, and of no attempt */
    bool cut;            /* its client does not listen any more */
    bool launched;       /* on its way: a reset does not stop it */
    bool enters, leaves; /* a place in the queue */
    struct rl_word place;
    bool straggles; /* and it came after its line was closed */
    uint16_t line, saying, token, attempt;
    enum rl_command text;
    uint32_t seq, life; /* life: of the process that answered the greeting */
    int32_t ttl_ms;
    rl_time sent;                           /* by the client's clock */
    rl_time left;                           /* the client, by the true time */
    enum rl_vote truth;                     /* what the server did */
    bool is_master, is_cluster, is_loading; /* what the greeting told */
    enum rl_fault denied;
    struct rl_process process;
    struct rl_word marker;
    rl_time time;    /* by the server's clock, as INFO tells it */
    uint32_t memory; /* of the server, when it ran */
    rl_time ran;     /* the true time */
    uint32_t nth;    /* of all that servers ran */
    int64_t fence;   /* of the key, as the server stored it after this */
    bool has_nonce;
    char nonce[RL_NONCE]; /* the last word of a fenced lock's command */
    struct store_reply reply;
};

/* A connection. */
struct line {
    uint16_t refs; /* the client's end, the server's end, and events */
    uint8_t client, node, server;
    bool made, refused; /* what became of connect() */
    bool reset;     /* by its client, whose kernel has dropped what was not on its way */
    bool closed;    /* by its client, in whatever way */
    bool accepted;  /* by a server that ran when it was made */
    uint32_t life;  /* the server's process */
    rl_time there;  /* what is sent arrives no sooner than what was sent before */
    rl_time back;   /* the same for the answers */
    rl_time mended; /* when what was lost is sent again */
};

/* What happens on the way between a client and a server; blocked until then. */
struct path {
    rl_time latency, there_blocked, back_blocked;
};

struct wire {
    struct path path[CLIENTS_MAX][SERVERS];
    unsigned lines, orders, sayings; /* ever used at once: what lies above is fresh */
    unsigned free_lines, free_orders, free_sayings;
    uint16_t free_line[LINES_MAX], free_order[ORDERS_MAX], free_saying[SAYINGS_MAX];
    struct line line[LINES_MAX];
    struct order order[ORDERS_MAX];
    struct saying saying[SAYINGS_MAX];
};

uint16_t wire_new_saying(struct world *world);
void wire_drop_saying(struct world *world, uint16_t saying);
uint16_t wire_new_order(struct world *world);
void wire_drop_order(struct world *world, uint16_t order);
void wire_drop_line(struct world *world, uint16_t line);

/* When what is sent at `at` arrives, on a connection of its own. */
rl_time wire_arrival(struct world *world, unsigned client, unsigned server, bool there,
                     rl_time at);

/* A client's connect(): the line is the client's and the coming event's. */
uint16_t wire_connect(struct world *world, unsigned client, unsigned node);

/* The bytes leave at `at`, now or later; and those of the answer, now. */
void wire_send(struct world *world, uint16_t order, rl_time at);
void wire_answer(struct world *world, uint16_t order);

/* The client closes: with a reset, or so that the kernel goes on delivering. */
void wire_close(struct world *world, uint16_t line, bool reset);

/* The server's process is gone, or somebody between resets the line: the client hears. */
void wire_break(struct world *world, uint16_t line);

#endif
