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

struct rl_word {
    const char *text;
    size_t len;
};

#define RL_WORDS_MAX 12
#define RL_DIGITS    20

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
};

struct rl_kind {
    char letter; /* the first of its tokens */
    const struct rl_script *script[RL_TEXTS];
};

/* One command in words; `digits` is where its number is written. */
struct rl_command {
    struct rl_word word[RL_WORDS_MAX];
    size_t words;
    char digits[RL_DIGITS];
};

struct rl_answer {
    enum rl_vote vote;
    enum rl_fault fault;
    int32_t pttl;         /* what remains of another's value, ms; -1 unknown */
    struct rl_word value; /* the value that is there; empty if unknown */
};

/* The kind that a token of ours names; the plain one for any other token. */
const struct rl_kind *rl_kind_of(struct rl_word token);

/* Writes the command. `whole`: send the script itself, for the server does not know it. */
void rl_kind_command(const struct rl_kind *kind, enum rl_text text, bool whole,
                     const struct rl_subject *subject, struct rl_command *ret_command);

/* False: the reply is none that the command can have; the connection cannot be trusted. */
bool rl_kind_read(enum rl_text text, const struct rl_reply *reply,
                  struct rl_answer *ret_answer);

#endif
