/*
 * A kind of lock: the commands of its rounds, and how to parse a reply as a vote. The lease
 * machine does not depend on the kind. A new kind needs Lua files and a row in the table in
 * kind.c.
 */
#ifndef RL_KIND_H
#define RL_KIND_H

#include "fault.h"
#include "redlock/kinds.h"

enum rl_reply_type {
    RL_REPLY_NIL,
    RL_REPLY_STATUS,
    RL_REPLY_ERROR,
    RL_REPLY_INTEGER,
    RL_REPLY_STRING,
    RL_REPLY_ARRAY,
};

/* A decoded reply. `text` and `item` are valid only during the call that passes it. */
struct rl_reply {
    enum rl_reply_type type;
    int64_t integer;
    const char *text;
    size_t len;
    const struct rl_reply *item;
    size_t items;
};

#define RL_SET_MAX     16 /* keys of a set; REDLOCK_KEYS_MAX */
#define RL_INSPECT_MAX 32 /* keys that are inspected by one command */
#define RL_WORDS_MAX   (2 * RL_SET_MAX + 16)
#define RL_SLOTS_MAX   128 /* of a semaphore; REDLOCK_SLOTS_MAX */
#define RL_DIGITS      20
#define RL_NUMBERS     8

/* A script; the build generates it from lua/. */
struct rl_script {
    const char *body;
    size_t len;
    const char *sha1; /* 40 hex digits */
    unsigned bit;     /* its number among all scripts, below RL_SCRIPTS_MAX */
};

/* A set of scripts. */
typedef uint64_t rl_script_set;

#define RL_SCRIPTS_MAX 64

/*
 * The arguments of a command; those that it does not need are 0. From `set` to `fences`:
 * what a plain lock of one key needs only if it waits.
 */
struct rl_command_args {
    struct rl_word key, token;
    int64_t ttl_ms;
    const struct rl_word *set; /* kinds of sets and INSPECT, instead of `key`: `set_size` */
    struct rl_word base;       /* a slot: the key without its number; one of `slots` */
    struct rl_word queue_entry; /* RELEASE: entry in the wait queue; empty: none; OBSERVE:
                                   where to be notified of changes */
    rl_time waited;    /* RELEASE: add it, waiting for this long; below 0: remove it */
    int64_t intent_ms; /* ... keep readers out for this long; 0: do not; OBSERVE: for
                          how long to be notified */
    /* fenced kinds */
    struct rl_word fence_key, marker_key; /* of a set: its fence keys follow its keys */
    struct rl_word nonce;                 /* RL_NONCE bytes: how the node's marker begins */
    int64_t max_ttl_ms;
    int64_t fence;   /* the node stores at least this, us of the nodes' clocks */
    int64_t sent_at; /* when the command is sent, by those clocks */
    struct rl_word expected, wanted; /* MARKER: if its text is not NULL, set the marker to
                                        `wanted` if it equals `expected` */
    unsigned set_size, slots;
    unsigned queue_at;   /* RELEASE of a set: in the queue of this key ... */
    unsigned queue_from; /* ... and not in the one of this key; or RL_NO_KEY */
    unsigned fences;     /* ACQUIRE: how many to reserve; the node stores the last */
    bool recreate;
};

#define RL_NO_KEY RL_SET_MAX

/* A kind of lock, fenced or not. */
struct rl_kind {
    enum redlock_kind type;
    bool is_fenced;
    const char *mark; /* its tokens begin with this ... */
    const char *word; /* ... and their digits with this; NULL: all digits are random */
    const struct rl_script *script[RL_COMMANDS];
};

static inline bool rl_kind_is_of_sets(const struct rl_kind *kind)
{
    return kind->type == REDLOCK_KIND_SET;
}

/* The arguments of one command; `digits` holds the text of its numbers. */
struct rl_argv {
    struct rl_word word[RL_WORDS_MAX];
    size_t words;
    unsigned numbers;
    char digits[RL_NUMBERS][RL_DIGITS];
};

struct rl_answer {
    enum rl_vote vote;
    enum rl_fault fault;
    int32_t pttl;         /* remaining TTL of another client's value, ms; -1: unknown */
    unsigned key;         /* a set: the key that has this value */
    struct rl_word value; /* the value of the key; empty: unknown */
    union {
        struct rl_word
            free; /* RELEASE of a slot: a digit for each, '1': it is free there */
        struct rl_word rest; /* INSPECT: the other keys: rl_kind_read_rest() */
    };
    struct rl_word readers; /* INSPECT: the tokens of a shared lock, a space between them */
    uint32_t depth;         /* INSPECT: how often the owner of a hash has locked it; or 0 */
    uint32_t waiting;       /* INSPECT: how many are in the queue, up to 100 */
    int64_t fence;          /* that the node stores; 0: unknown or none */
    int64_t time;           /* of the node's clock, us; 0: unknown */
    uint32_t waited;        /* INSPECT: for how long the first of them has waited, ms */
    bool has_waiters;       /* RELEASE: another client waits */
    bool not_queued;        /* RELEASE: the node could not update the queue entry */
};

/* The digits of a token, behind the mark; and the most bytes of its label. */
#define RL_TOKEN_DIGITS 32
#define RL_LABEL_MAX    64

/* The kind of a token of this library; NULL: `token` is none. */
const struct rl_kind *rl_kind_of(struct rl_word token);

/* NULL: there is no such kind, or it is never fenced, or always. */
const struct rl_kind *rl_kind_that_is(bool fenced, enum redlock_kind type);

/* The script of this command; empty: it has none. */
rl_script_set rl_kind_script_bit(const struct rl_kind *kind, enum rl_command command);

/* All kinds, as an array of *ret_count. */
const struct rl_kind *rl_kinds(size_t *ret_count);

/* Writes the command. `whole`: send the script itself (EVAL), not its SHA-1 (EVALSHA). */
void rl_kind_argv(const struct rl_kind *kind, enum rl_command command, bool whole,
                  const struct rl_command_args *args, struct rl_argv *ret_argv);

/* False: the command cannot have this reply, so the connection cannot be trusted. */
bool rl_kind_read(const struct rl_kind *kind, enum rl_command command,
                  const struct rl_reply *reply, struct rl_answer *ret_answer);

/* The next key of an inspection, in `answer->rest`. False: there is none. */
bool rl_kind_read_rest(struct rl_answer *answer);

#endif
