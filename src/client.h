/*
 * The client: nodes, leases, a clock and an event loop put together, and the only place
 * where they meet.
 *
 * Everything happens in passes of the loop. Whatever wakes the client first reads the clock
 * and tells what has run out, then looks at what arrived; at the end of the pass it steps
 * what is due, writes what was queued, and sets its one timer.
 */
#ifndef RL_CLIENT_H
#define RL_CLIENT_H

#include "core/clock.h"
#include "core/fence.h"
#include "core/lease.h"
#include "core/link.h"
#include "core/steward.h"
#include "core/turn.h"
#include "fork.h"
#include "form.h"
#include "heap.h"
#include "net/node.h"
#include "redlock/redlock.h"
#include "token.h"

struct rl_task;
struct rl_ears;
struct rl_wish;

/* What a task does when it is called. Only `tick` must be there. */
struct rl_task_class {
    void (*tick)(struct rl_task *task);   /* the time that it was set to has come */
    void (*expire)(struct rl_task *task); /* look at hard deadlines, before replies */
    void (*ready)(struct rl_task *task, unsigned node); /* a node was greeted */
    void (*tried)(struct rl_task *task, unsigned node); /* it was, or cannot be */
    void (*open)(struct rl_task *task);                 /* the gate opened */
    /* A node was seen to restart, whether it is accepted or not. */
    void (*forgot)(struct rl_task *task, unsigned node);
    /* A node answered, or the connection ended before it did (`reply` NULL). */
    void (*answer)(struct rl_task *task, unsigned node, const struct rl_op *op,
                   const struct rl_reply *reply);
    /* A node calls whoever has this number (turn.h); from now on it can, or cannot. */
    void (*called)(struct rl_task *task, unsigned node, uint64_t number, unsigned rank);
    void (*hears)(struct rl_task *task, unsigned node, bool hears);
    bool (*unsettled)(struct rl_task *task); /* a drain is to wait for it */
    void (*over)(struct rl_task *task);      /* the attempt in it is, for good */
    void (*close)(struct rl_task *task); /* the client is being freed: call back, let go */
    void (*destroy)(struct rl_task *task);
};

/* Something that the client wakes. It lives in one of the client's lists. */
struct rl_task {
    struct rl_due due; /* first: the heap knows tasks by it */
    const struct rl_task_class *class;
    redlock_client *client; /* NULL once the client is gone */
    struct rl_task *prev, *next;
    struct rl_task *chain; /* in the list of those that tick soon, or of dead ones */
    unsigned owed;         /* answers by nodes that are outstanding, and the tick */
    bool soon;             /* it ticks when this pass ends */
    bool dead;             /* to be destroyed when nothing is owed and no callback runs */
};

struct rl_member {
    struct rl_task task;
    unsigned index;
    enum rl_fault distrust; /* why it is to be greeted anew after this answer; NONE: not */
    rl_time took; /* by the first answer that is looked at in this call; 0: there is none */
    struct rl_link link;
    struct rl_node node;
};

#define RL_FORMS 2 /* of a text: with the script's hash, and with the script */

struct redlock_client {
    struct event_base *base;
    struct event *timer, *end_of_pass;
    int timer_fd;
    rl_time boot, raw; /* CLOCK_BOOTTIME and CLOCK_MONOTONIC_RAW, as they were read last */
    rl_time armed_for; /* when the timer fires at the latest; RL_NEVER: it is not set */
    bool pass_ends;    /* the end of this pass is under way */
    unsigned depth;    /* calls that are running inside this client */
    unsigned api;      /* those of them that the caller made: nothing is told inside */
    bool hears;        /* what a node answered is being looked at */
    bool stale;        /* a callback has run since the clock was read */
    bool closing;
    unsigned generation; /* of the process, by forks */

    redlock_options options; /* its strings are ours */
    unsigned n, q;
    struct rl_member *member;
    struct rl_resolver resolver;
    rl_time max_ttl; /* the longest that may be forgotten */

    struct rl_steward steward; /* of fenced locks (wards.c) */
    struct rl_task ward_task;
    struct rl_node_time time[RL_NODES_MAX];
    rl_nodes awake; /* they answer, quarantined by their links or not */
    rl_nodes sound; /* and these may vote, by their markers */
    size_t marker_key_len;
    char marker_key[REDLOCK_KEY_MAX + 8];

    struct rl_ears *ears; /* for calls by the nodes (listen.c); NULL: nobody waited yet */
    uint64_t numbers;     /* that were given to those who wait */
    struct rl_wish *wish; /* the last one; NULL before the first */

    struct rl_clock clock;
    struct rl_view view;
    rl_time round_trip[RL_NODES_MAX];
    rl_nodes unwritten; /* nodes with something queued */
    struct rl_gate gate;
    struct rl_task gate_task;

    struct rl_token_bits token_bits; /* of this pass */

    struct rl_heap heap;
    size_t tasks;                     /* in existence, so that the heap has room for each */
    struct rl_task list;              /* head of a ring: leases, surveys, checks, ... */
    struct rl_task *zombie;           /* dead ones that wait to be destroyed */
    struct rl_task *soon, **soon_end; /* those that tick when this pass ends, in order */
    struct rl_task *drain, *admit;    /* one at a time; NULL: none */

    struct rl_form form[RL_TEXTS][RL_FORMS];
    struct rl_post post;
};

/* --- being woken --- */

/* Brackets everything that is done inside a client; the last leave frees what is dead. */
void rl_client_enter(redlock_client *client);
void rl_client_leave(redlock_client *client);

/*
 * The same for a call of the public interface: what happens is told at the end of the pass,
 * and the clock is read, but for one that only asks for what is to begin then. Not OK: the
 * call cannot be made, and there is nothing to leave.
 */
redlock_code rl_client_call(redlock_client *client);
redlock_code rl_client_call_untimed(redlock_client *client);
void rl_client_return(redlock_client *client);

/* Enters from the loop: reads the clock, and tells what has run out before anything else.
 */
void rl_client_wake(redlock_client *client);

/* This pass of the loop is to end with what is due and with what was queued. */
void rl_client_plan(redlock_client *client);

/* Its events. False: the loop or the system refuses; what was made is to be closed. */
bool rl_client_open_loop(redlock_client *client);
void rl_client_close_loop(redlock_client *client);

/* The last step of freeing, when nothing runs inside any more. */
void rl_client_close(redlock_client *client);

/* The clock, read anew; and both that it is made of, so that `raw` is of now, too. */
rl_time rl_client_read_clock(redlock_client *client);
void rl_client_read_clocks(redlock_client *client);

/*
 * A callback may take its time: what comes after it must not go by the old clock. Between
 * answers that were read at one go that is read only when it is asked for.
 */
static inline void rl_client_freshen(redlock_client *client)
{
    if (client->stale)
        rl_client_read_clock(client);
}

static inline void rl_client_called_back(redlock_client *client)
{
    client->stale = true;
    if (!client->hears)
        rl_client_freshen(client);
}

uint64_t rl_client_random(redlock_client *client);

/* Whether this process is the one that made the client. */
bool rl_client_is_ours(const redlock_client *client);

/* --- tasks --- */

/* False: no memory. */
bool rl_task_init(struct rl_task *task, redlock_client *client,
                  const struct rl_task_class *class);
void rl_task_end(struct rl_task *task); /* no more calls; destroyed as soon as it can be */

void rl_task_repaid(struct rl_task *task); /* one of those things that it was owed */
void rl_task_bury(struct rl_task *task);
void rl_task_destroy_dead(redlock_client *client);

/* Ticks at `at`, or earlier: a later time than the one that is set changes nothing. */
void rl_task_due(struct rl_task *task, rl_time at);

/* Ticks when this pass ends, after whoever is to do so already; in that end: in the next.
 */
void rl_task_soon(struct rl_task *task);
void rl_task_tick_soon(redlock_client *client);

/* --- members --- */

redlock_code rl_members_parse(redlock_client *client, const char *const *uris,
                              redlock_error *error);
bool rl_members_init(redlock_client *client); /* false: no memory */
void rl_members_start(redlock_client *client);
void rl_members_deafen(redlock_client *client); /* nothing more is read */
void rl_member_failed(struct rl_member *member, enum rl_fault fault);
void rl_member_sent(struct rl_member *member); /* it owes an answer, from now on */

/* The first words of this member on a connection of its own; false: no memory. */
bool rl_member_greet(const struct rl_member *member, struct rl_node *node);

/* After the answer that is looked at, the connection is given up and made anew. */
void rl_member_distrust(struct rl_member *member, enum rl_fault fault);

/* --- saying things --- */

struct rl_message {
    const struct rl_kind *kind;
    enum rl_text text;
    uint32_t seq;
    struct rl_subject subject;
};

/* Queues the message for these nodes; returns those for which there was no memory. */
rl_nodes rl_client_say(redlock_client *client, struct rl_task *task,
                       const struct rl_message *message, rl_nodes nodes);

/*
 * Reads a reply to what was said. False: the node does not know the script; it answers if
 * the message is said again, whole this time. NOSCRIPT in answer to anything but an EVALSHA
 * is an ordinary refusal: the same command would get the same answer again.
 */
bool rl_client_hear(redlock_client *client, const struct rl_kind *kind, unsigned node,
                    const struct rl_op *op, const struct rl_reply *reply,
                    struct rl_answer *ret_answer);

/*
 * Queues a command that is no round; `seq` is in the operation that answers it. False: no
 * memory.
 */
bool rl_client_ask(redlock_client *client, struct rl_task *task, uint32_t seq,
                   const struct rl_word *word, size_t words, unsigned node);

/* Joins prefix and key; not terminated. False: it is empty, too long, or of our own. */
bool rl_client_key(const redlock_client *client, const void *key, size_t len,
                   char ret_key[REDLOCK_KEY_MAX], size_t *ret_len);

/* Keeps a value that a node told, as a string. */
void rl_client_keep_value(struct rl_word value, char ret_value[REDLOCK_TOKEN_MAX + 1]);

/* Describes one ballot, with the value that is there. */
void rl_client_describe(const redlock_client *client, unsigned node,
                        const struct rl_ballot *ballot, const char *value,
                        redlock_node *ret_node);

/* A node that was not asked is explained by its link, or by its marker. */
RL_RARE void rl_client_note_absent(const redlock_client *client, struct rl_ballot *ballot,
                                   bool is_fenced);

/* How long an answer to what is no lease's round is awaited. */
rl_time rl_client_patience(const redlock_client *client, unsigned node);

/* So many nodes refuse the credentials that no quorum can be had. */
bool rl_client_is_denied(const redlock_client *client, const struct rl_ballot *ballot);

/* Calls a drain back once nothing is left to be waited for (drain.c). */
void rl_drain_look(redlock_client *client);

/* The nodes' idea of the longest TTL grows with what is used. */
void rl_client_use_ttl(redlock_client *client, rl_time ttl);

#endif
