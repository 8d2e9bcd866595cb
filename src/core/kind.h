/*
 * A kind of lock: what its rounds say, and how a reply reads as a vote. A lease never knows
 * which kind it is; a new kind is Lua files and a row in the table of kind.c.
 */
#ifndef RL_KIND_H
#define RL_KIND_H

#include "fault.h"

enum rl_reply_type {
    RL_REPLY_NIL,
    RL_REPLY_STATUS,
    RL_REPLY_ERROR,
    RL_REPLY_INTEGER,
    RL_REPLY_STRING,
    RL_REPLY_ARRAY,
};

/* A decoded reply. Texts and items live as long as the call that hands it over. */
struct rl_reply {
    enum rl_reply_type type;
    int64_t integer;
    const char *text;
    size_t len;
    const struct rl_reply *item;
    size_t items;
};

#define RL_WORDS_MAX 16
#define RL_DIGITS    20
#define RL_NUMBERS   5

/* A script, as the build made it from lua/. */
struct rl_script {
    const char *body;
    size_t len;
    const char *sha1; /* 40 hex digits */
};

/* What a command is about. */
struct rl_subject {
    struct rl_word key, token;
    int64_t ttl_ms;
    bool plant;
    struct rl_word place; /* of RELEASE: in the queue of those who wait; empty: none */
    rl_time waited;       /* to take it, for how long by now; below 0: to leave it */
    /* of a kind that is fenced */
    struct rl_word fence_key, marker_key;
    struct rl_word nonce; /* RL_NONCE bytes: so the node's marker begins */
    int64_t max_ttl_ms;
    int64_t fence;   /* to be stored at least, in us by the nodes' clocks */
    unsigned fences; /* of ACQUIRE: how many, the last of which is stored */
    int64_t said;    /* when, by those */
    /* of MARK: set the marker to `wanted`, if it is as expected */
    bool write;
    struct rl_word expected, wanted;
};

struct rl_kind {
    const char *mark; /* its tokens begin with that */
    bool is_fenced;
    const struct rl_script *script[RL_TEXTS];
};

/* One command in words; `digits` is where its numbers are written. */
struct rl_command {
    struct rl_word word[RL_WORDS_MAX];
    size_t words;
    char digits[RL_NUMBERS][RL_DIGITS];
};

struct rl_answer {
    enum rl_vote vote;
    enum rl_fault fault;
    int32_t pttl;         /* what remains of another's value, ms; -1 unknown */
    struct rl_word value; /* the value that is there; empty if unknown */
    int64_t fence;        /* that is stored there; 0: unknown, or none */
    int64_t time;         /* of the node's clock, us; 0: not told */
    bool awaited;         /* of RELEASE: another waits */
    bool unplaced;        /* of RELEASE: the place in the queue could not be taken */
};

/* The kind that a token of ours names; the plain one for any other token. */
const struct rl_kind *rl_kind_of(struct rl_word token);

/* The kind of fenced locks, or that of the others. */
const struct rl_kind *rl_kind_that_is(bool fenced);

/* A bit for the script that says this, among those of all kinds; 0: none does. */
uint32_t rl_kind_script_bit(const struct rl_kind *kind, enum rl_text text);

/* All of them. */
const struct rl_kind *rl_kinds(size_t *ret_count);

/* Writes the command. `whole`: send the script itself, for the server does not know it. */
void rl_kind_command(const struct rl_kind *kind, enum rl_text text, bool whole,
                     const struct rl_subject *subject, struct rl_command *ret_command);

/* False: the reply is none that the command can have; the connection cannot be trusted. */
bool rl_kind_read(const struct rl_kind *kind, enum rl_text text,
                  const struct rl_reply *reply, struct rl_answer *ret_answer);

#endif
