/*
 * A Redis server of a run: a simulated one (virtual/node.h), what is wrong with it now, and
 * the oracle's account of it.
 */
#ifndef SIM_SERVER_H
#define SIM_SERVER_H

#include "core/marker.h"
#include "plan.h"
#include "virtual/node.h"

/* The marker as it was read last: it is asked for after each command. */
struct marker_read {
    struct bytes text;
    bool is_marker;
    struct rl_marker marker;
};

/* As `denied_call`: scripts make fewer calls, mostly. */
#define SERVER_DENIES_EVAL 9

struct server {
    struct node node;
    unsigned index;
    int64_t role_until;
    const char *error; /* it replies this instead of executing; NULL: nothing */
    bool greets;       /* but not to the greeting: it seems to be well */
    int64_t error_until;
    unsigned denied_call; /* the redis.call() of a script that is refused; 0: none */
    int64_t denied_until, garbage_until;
    struct keyspace saved; /* what a restart finds that forgets the latest */
    uint32_t process;      /* its number, from 1 on */
    uint32_t history;      /* of its data */
    struct event resumes, clock_ends, steps, forgets;
    struct marker_read marker_read;

    /* Oracle: */
    uint32_t memory;  /* how often it has lost something that it stored */
    bool was_active;  /* it may have voted */
    int64_t lost_at;  /* its memory since that, the last time; CLOCK_NEVER: it never did */
    bool is_fast;     /* its clock gains more than it may */
    int64_t ahead_at; /* when it did last; 0: never */
    int64_t stepped;  /* when its clock was stepped ahead last */
    int64_t erred_at; /* when its clock was out of its bounds last; 0: never */
    uint32_t retuned; /* how often its clock was set */
};

void server_begin(struct server *server, unsigned index);
void server_end(struct server *server);

/* The server's key, or NULL: there is none now, or it has expired. */
const struct key *server_key(const struct server *server, const char *name);

/* The token that a key may have: a string, or the only field of a hash; else empty. */
struct rl_word server_token(const struct key *key);

/* The i-th token that a key has, and until when, in ms: of a sorted set each reader's.
   False: there are no more. */
struct token_there {
    struct rl_word token;
    int64_t expires;
};
bool server_holder(const struct key *key, size_t i, struct token_there *ret_there);

/* The key with a token; NULL: none. */
const struct key *server_lock(const struct server *server, unsigned resource);

/* Its fence; 0: nothing. */
int64_t server_fence(const struct server *server, unsigned resource);

/* A set of resources: the least fence; when the first key of this token ends, in ms, or 0:
   another one holds one of them. */
int64_t server_least_fence(const struct server *server, unsigned resources);
int64_t server_expires(const struct server *server, unsigned resources,
                       struct rl_word token);

/* Valid until it changes; NULL: none. */
const struct rl_marker *server_marker(const struct server *server);

/* Tells which marker it has. */
void server_trace_marker(const struct server *server);
uint64_t server_nonce(const struct server *server); /* 0: it has no marker */

/* The server's marker counts in the process that it is now. */
bool server_is_marked(const struct server *server);

/* The server's marker becomes this, of its own process. */
void server_mark(struct server *server, struct rl_marker *marker);

/* The id, as INFO tells it. */
void server_describe(const struct server *server, struct rl_process *ret_process);

int64_t server_ms(const struct server *server); /* as it counts */

void server_hang(struct server *server, int64_t until);

/* The server ends for good. An operator who starts it again has emptied it. */
void server_bury(struct server *server);

/* The server ends, and is there again at `until` as another process. */
void server_restart(struct server *server, int64_t until);

/* It has no keys any more, nor what they were saved as. */
void server_empty(struct server *server);

/* The server lost something of `before`; `restart`: a watching client can know. */
void server_forgot(struct server *server, const struct keyspace *before, bool restart);

/* A copy of all keys; keyspace_free() it. */
struct keyspace server_copy(const struct server *server);

/* Nothing is wrong with it any more. */
void server_heal(struct server *server);

#endif
