/*
 * libredlock: a lock on a majority of N independent Redis masters.
 *
 * This is the asynchronous interface, on the caller's libevent loop. The promise: while a
 * lease is held and its deadline has not passed, no other client of the same nodes holds
 * the same key, as long as the nodes' clocks keep to the drift bound and no node forgets
 * what it stored. docs/safety.md has the assumptions and what happens beyond them.
 *
 * The rules that hold everywhere
 *
 *  1. Units. Times are milliseconds, int64_t, unless a name ends in _us. Keys are bytes.
 *  2. Threads. A client and all that belongs to it are used from one thread: the one that
 *     runs its event_base. Different clients may live in different threads.
 *  3. Callbacks. Every operation that was started (its function returned REDLOCK_OK) calls
 *     back exactly once, from the loop or from redlock_client_free(), never from inside
 *     the call that started it, unless its lease is freed before. An operation that did
 *     not start calls nothing.
 *  4. Inside a callback everything is allowed, also freeing the lease or the client.
 *  5. Ownership. Whoever got a handle frees it, once, with the one function of its type.
 *     free(NULL) is fine. What is passed in is copied; what a callback is handed lives
 *     until the callback returns.
 *  6. Outputs (ret_...) come last and are untouched on failure.
 *  7. After fork() the child's handles are inert: every call answers REDLOCK_FORKED, the
 *     free functions only free memory, and nothing is sent. Make a new client. A child
 *     that was forked in a callback must not return to the loop that it shares.
 *  8. Codes. REDLOCK_OK is 0. Every other code is said to mean what its line in
 *     REDLOCK_CODES says; redlock_code_text() has the same words.
 */
#ifndef REDLOCK_H
#define REDLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define REDLOCK_VERSION "0.1.0"

#if defined(__GNUC__)
#define REDLOCK_API __attribute__((visibility("default")))
#else
#define REDLOCK_API
#endif

struct event_base;

/* --- limits and defaults --- */

#define REDLOCK_NODES_MAX  32
#define REDLOCK_KEY_MAX    512 /* bytes, the prefix included */
#define REDLOCK_LABEL_MAX  64  /* bytes */
#define REDLOCK_TOKEN_MAX  128 /* bytes */
#define REDLOCK_TTL_MAX_MS 86400000
#define REDLOCK_FENCES_MAX 64 /* fencing tokens that one acquisition can reserve */

#define REDLOCK_PORT                6379
#define REDLOCK_TTL_MS              30000
#define REDLOCK_DRIFT_PPM           10000 /* 1 % */
#define REDLOCK_CONNECT_TIMEOUT_MS  1000
#define REDLOCK_QUARANTINE_FLOOR_MS 60000

/* --- codes --- */

/* code, number, whether and how it stands with the lock, what to do */
#define REDLOCK_CODES(X)                                                                   \
    X(OK, 0, "done: the lock is held, extended or released, as was asked")                 \
    X(TAKEN, 1, "another holds the lock; it is not held here: try again later")            \
    X(TIMEOUT, 2, "another held the lock until the wait ran out; it is not held here")     \
    X(NO_QUORUM, 3,                                                                        \
      "too few nodes answered, or may vote: those that restarted are quarantined, for "    \
      "another remaining_ms; if this was an extension the lock is held to its old "        \
      "deadline, else it is not held: look at the nodes")                                  \
    X(EXPIRED, 4,                                                                          \
      "the validity ran out, or too little of it was left when a quorum could have been "  \
      "had (min_validity_ms, margin_ms); the lock is not held: stop now, or take a "       \
      "longer "                                                                            \
      "TTL")                                                                               \
    X(CANCELLED, 5, "cancelled; the lock is not held and what was set is being released")  \
    X(DENIED, 6,                                                                           \
      "the servers refused the user, the password, a right or this machine; what was "     \
      "held is held to its old deadline, and nothing was gained: mend the credentials, "   \
      "the ACL or protected mode")                                                         \
    X(GONE, 7,                                                                             \
      "the nodes no longer store this token: it was released, broken or forgotten; the "   \
      "lock "                                                                              \
      "is not held")                                                                       \
    X(UNCONFIRMED, 8,                                                                      \
      "too few nodes confirmed the release; what remains is released when they return, "   \
      "or "                                                                                \
      "expires")                                                                           \
    X(MAX_HOLD, 9, "the lock was held for as long as max_hold allows: stop now")           \
    X(USED, 10, "a node has a marker or keys already; nothing was changed")                \
    X(UNREACHED, 11, "not every node answers; nothing was changed")                        \
    X(UNADMITTED, 12, "the nodes belong to no deployment of fenced locks: admit them")     \
    X(UNSOUND, 13, "another node has no vote yet; nothing was changed: wait for it")       \
    X(MEMBERS, 14, "a node belongs to another deployment; nothing was changed")            \
    X(BAD_NODES, 20, "no node, or more than REDLOCK_NODES_MAX: mend the configuration")    \
    X(BAD_URI, 21, "a node's URI is malformed: mend the configuration")                    \
    X(DUPLICATE_NODE, 22, "a node is named twice: mend the configuration")                 \
    X(NOT_BUILT, 23, "not built in yet")                                                   \
    X(BAD_KEY, 24,                                                                         \
      "the key is empty, longer than 512 bytes with its prefix, or ends as ours do: "      \
      "!fence, !marker, !queue")                                                           \
    X(BAD_TTL, 25,                                                                         \
      "the TTL is not above its margins, or above 24 h, max_ttl_ms or what the nodes "     \
      "were "                                                                              \
      "admitted for")                                                                      \
    X(BAD_TOKEN, 26, "the token is empty or longer than 128 bytes")                        \
    X(BAD_OPTION, 27,                                                                      \
      "an option is out of its range: redlock_acquire_explain() and "                      \
      "redlock_lock_explain() "                                                            \
      "tell which")                                                                        \
    X(NO_MEMORY, 28, "out of memory; nothing was started")                                 \
    X(BUSY, 29, "an operation of this lease is under way: wait for its callback")          \
    X(NOT_HELD, 30, "the lease is not in a state for this call; nothing was started")      \
    X(FORKED, 31, "the handle belongs to the parent process: make a new client")           \
    X(CLOSED, 32, "the client was freed; nothing was started")                             \
    X(SYSTEM, 33, "a system call failed")                                                  \
    X(LOOP, 34, "this would wait inside a callback; nothing was started")

typedef enum redlock_code {
#define X(name, number, text) REDLOCK_##name = number,
    REDLOCK_CODES(X)
#undef X
} redlock_code;

/* "TAKEN", and the text above. Never NULL. */
REDLOCK_API const char *redlock_code_name(redlock_code code);
REDLOCK_API const char *redlock_code_text(redlock_code code);

/* Why a call failed, with what it failed on, in one line. */
typedef struct redlock_error {
    redlock_code code;
    char text[256];
} redlock_error;

/* --- client --- */

typedef struct redlock_client redlock_client;

typedef struct redlock_options {
    size_t size; /* set by redlock_options_init() */

    /* Credentials for nodes whose URI has none. The file is read at each connection. */
    const char *username;
    const char *password;
    const char *password_file;

    const char *prefix; /* put before every key; default none */
    const char *label;  /* who holds, shown to others; default host:pid */

    unsigned quorum;            /* 0: the majority; else from there to all nodes */
    int64_t node_timeout_ms;    /* 0: 4 x the round trip, at least 50 ms, at most TTL/10 */
    int64_t connect_timeout_ms; /* also the longest that a first acquire waits for nodes */
    uint32_t drift_ppm;         /* how much faster than ours a node's clock may run */

    /*
     * A node that this client saw restart is not counted for the longest TTL that anyone
     * uses on it. 0: the longest that this client used, at least a minute. A TTL above a
     * value that is set here is refused.
     */
    int64_t max_ttl_ms;
    bool durable; /* the nodes never forget: appendfsync always, and no replicas */
} redlock_options;

REDLOCK_API void redlock_options_init(redlock_options *options);

/*
 * A client of these nodes, on this loop. It connects in the background; the nodes may be
 * down. URIs: redis://[user[:password]@]host[:port][/db], unix:///path[?db=N]. The loop
 * stays alive as long as the client does. On failure `ret_error`, if given, says why.
 * Errors: BAD_NODES, BAD_URI, DUPLICATE_NODE, NOT_BUILT, BAD_OPTION, NO_MEMORY, SYSTEM.
 */
REDLOCK_API redlock_code redlock_client_new(struct event_base *base,
                                            const char *const *uris, size_t count,
                                            const redlock_options *options,
                                            redlock_client **ret_client,
                                            redlock_error *ret_error);

/*
 * Ends every operation with REDLOCK_CANCELLED, sends the releases that the sockets take
 * without waiting, and closes. Leases stay to be freed by whoever owns them; those that
 * were held are no longer extended and expire. See redlock_client_drain().
 */
REDLOCK_API void redlock_client_free(redlock_client *client);

typedef void redlock_drain_fn(redlock_client *client, bool clean, void *arg);

/*
 * Calls back when every node that can be reached has answered all that it was sent and no
 * release is left to be confirmed there, or after `timeout_ms` (below 0: one per-node
 * timeout); `clean` says which. One at a time. Errors: BUSY, FORKED, NO_MEMORY.
 */
REDLOCK_API redlock_code redlock_client_drain(redlock_client *client, int64_t timeout_ms,
                                              redlock_drain_fn *callback, void *arg);

REDLOCK_API size_t redlock_client_nodes(const redlock_client *client);
REDLOCK_API unsigned redlock_client_quorum(const redlock_client *client);

/* How one node stands or answered. Strings live as long as the client. */
typedef struct redlock_node {
    const char *uri; /* without the password */
    const char
        *verdict; /* granted, held, gone, planted, error, unknown, silent, absent ... */
    const char *fault;    /* short and upper case: TIMEOUT, NOPERM, ...; NONE if none */
    const char *text;     /* the same in words */
    bool denied;          /* the fault is one of credentials, rights or protected mode */
    int64_t latency_us;   /* -1: no answer */
    int64_t remaining_ms; /* of another's lock there, or of its quarantine; -1: unknown */
    char holder[REDLOCK_TOKEN_MAX + 1]; /* its label, or the foreign value; printable */
    char value[REDLOCK_TOKEN_MAX + 1];  /* the raw value there, if it is text; else "" */
} redlock_node;

/* The connections as they stand. Writes at most `room`; returns the number of nodes. */
REDLOCK_API size_t redlock_client_explain(const redlock_client *client, redlock_node *nodes,
                                          size_t room);

/* --- leases --- */

typedef struct redlock_lease redlock_lease;

/* What became of an operation. */
typedef struct redlock_result {
    redlock_code code;
    unsigned nodes, quorum;
    unsigned granted;  /* nodes that granted; where it failed, also those that were late */
    unsigned attempts; /* rounds that it took */
    int64_t took_us;   /* of the last attempt, or of the round */
    int64_t valid_ms;  /* how long the lock is surely held from now; 0: it is not */
    /*
     * Until a quorum can be free: others' locks have expired, and the quarantine of nodes
     * that restarted is over. -1: unknown.
     */
    int64_t remaining_ms;
    bool awaited; /* of a release: another client waits, or did just now */
} redlock_result;

typedef void redlock_lease_fn(redlock_lease *lease, const redlock_result *result,
                              void *arg);

typedef enum redlock_retry {
    REDLOCK_RETRY_EXPONENTIAL, /* uniform in [0, min(cap, base * 2^attempt)]: full jitter */
    REDLOCK_RETRY_FIXED,       /* base */
    REDLOCK_RETRY_NONE,
    REDLOCK_RETRY_CUSTOM,
} redlock_retry;

/* The delay after attempt number `attempt` (from 0); below 0: give up. */
typedef int64_t redlock_retry_fn(unsigned attempt, uint64_t random, void *arg);

typedef struct redlock_lease_options {
    size_t size; /* set by redlock_lease_options_init() */

    /*
     * A fenced lock: on nodes that were admitted (redlock_admit()), with a fencing token
     * that rises with each acquisition, whatever nodes forget. docs/safety.md has the
     * proof and the bounds. Its TTL must not be above the one that they were admitted for.
     */
    bool fenced;
    int64_t fence; /* of redlock_adopt(): the lock's fencing token; 0: not known */
    /*
     * So many fencing tokens are reserved by an acquisition, 0: one. For whoever passes a
     * lease from owner to owner, as redlock/sync.h does: redlock_fence() is the first, and
     * the next ones follow it without a gap.
     */
    unsigned fences;

    int64_t ttl_ms;
    /*
     * 0: one attempt; below 0: for as long as it takes. A last attempt begins when the wait
     * ends. A fresh client's first one also waits for its nodes, up to connect_timeout_ms.
     * It counts from the end of the pass of the loop in which the lease was asked for.
     */
    int64_t wait_ms;
    int64_t min_validity_ms; /* less left when it is acquired: it is not */
    int64_t margin_ms;       /* LOST is told this long before the deadline */
    bool watchdog;           /* extend at a third of the TTL or a little sooner */
    int64_t max_hold_ms;     /* 0: no bound */

    /*
     * Others may be waiting, as the last release of this key told (`awaited`): before the
     * first attempt a place behind them is taken, if there is a wait.
     */
    bool behind;

    /*
     * When to try again. Whoever waits is called by the nodes when it is its turn; the
     * policy is for when they cannot, for want of a right or of a second connection. A
     * custom one is followed always, and to be called makes it sooner.
     */
    redlock_retry retry;
    int64_t retry_base_ms, retry_cap_ms;
    redlock_retry_fn *retry_fn;
    void *retry_arg;

    /*
     * Called once if a held lock is lost: its code says why (EXPIRED, GONE, TAKEN,
     * MAX_HOLD) and valid_ms how long it still excludes others. Stop, then release or
     * free the lease. Without a watchdog it is how an expiry is told.
     */
    redlock_lease_fn *on_lost;
    void *lost_arg;

    /* Called after each extension by the watchdog: valid_ms tells the new deadline. */
    redlock_lease_fn *on_extended;
    void *extended_arg;
} redlock_lease_options;

/* TTL 30 s, one attempt, watchdog on, margin 0, retries of 20 ms growing to 500 ms. */
REDLOCK_API void redlock_lease_options_init(redlock_lease_options *options);

/*
 * Acquires `key` by SET NX PX on all nodes at once; decided at the majority. A lost attempt
 * releases what it set before it is told or tried again, under a fresh token.
 * Result: OK, TAKEN, TIMEOUT, NO_QUORUM, EXPIRED, CANCELLED, DENIED, BAD_TTL (a fenced
 * lock's is above what the nodes were admitted for).
 * Errors: BAD_KEY, BAD_TTL, BAD_OPTION, NO_MEMORY, FORKED, SYSTEM (no random numbers).
 */
REDLOCK_API redlock_code redlock_acquire(redlock_client *client, const void *key,
                                         size_t key_len,
                                         const redlock_lease_options *options,
                                         redlock_lease_fn *callback, void *arg,
                                         redlock_lease **ret_lease);

/*
 * Takes over a lock by its token. `valid_ms`: what is left of its validity, from whoever
 * held it; 0 or less: not known. Then the lease counts as held only after an extension
 * that q nodes granted, never plants a key, and that the lock was held without a gap is
 * unproven. Errors: BAD_KEY, BAD_TOKEN, BAD_TTL, BAD_OPTION, NO_MEMORY, FORKED.
 */
REDLOCK_API redlock_code redlock_adopt(redlock_client *client, const void *key,
                                       size_t key_len, const char *token, int64_t valid_ms,
                                       const redlock_lease_options *options,
                                       redlock_lease **ret_lease);

/*
 * Why redlock_acquire() and redlock_adopt() refuse these, before they begin: BAD_KEY,
 * BAD_TTL or BAD_OPTION, and in `ret_error` which option it is, its value and its limits.
 * OK: they do not refuse them. Asks no node and changes nothing; any thread may call it.
 */
REDLOCK_API redlock_code redlock_acquire_explain(const redlock_client *client,
                                                 const void *key, size_t key_len,
                                                 const redlock_lease_options *options,
                                                 redlock_error *ret_error);

/*
 * Extends to `ttl_ms` from now (0: the lease's own TTL). A shorter TTL than what is left
 * shortens the validity here, never the keys on the nodes. Counts only if a majority
 * extended before the old deadline; a lost round leaves that as it was. Result: OK,
 * NO_QUORUM, DENIED, EXPIRED, GONE, TAKEN, MAX_HOLD, CANCELLED, BAD_TTL. Errors: BUSY,
 * NOT_HELD, BAD_TTL, FORKED, CLOSED.
 */
REDLOCK_API redlock_code redlock_extend(redlock_lease *lease, int64_t ttl_ms,
                                        redlock_lease_fn *callback, void *arg);

/*
 * Releases on all nodes, at the end of this pass of the loop. From now on the lease is not
 * held, and no loss is told any more; a running extension ends CANCELLED. Decided by q
 * confirmations, the rest goes on in the background. `callback` may be NULL. Idempotent on
 * the nodes.
 * Result: OK, GONE, TAKEN, UNCONFIRMED, CANCELLED (the client was freed first).
 * Errors: NOT_HELD (also: already released), FORKED, CLOSED.
 */
REDLOCK_API redlock_code redlock_release(redlock_lease *lease, redlock_lease_fn *callback,
                                         void *arg);

/*
 * Gives an acquire up: it ends with CANCELLED and what was set is released in the
 * background. Nothing happens if it has ended.
 */
REDLOCK_API void redlock_cancel(redlock_lease *lease);

/* Leaves the lock where it is, for whoever has the token: no release, no extension. */
REDLOCK_API void redlock_disown(redlock_lease *lease);

/*
 * Frees the handle, in any state: an acquire is cancelled and a lock that is held or was
 * lost is released, both in the background and without a callback.
 */
REDLOCK_API void redlock_lease_free(redlock_lease *lease);

/*
 * Is it still mine? How long the lock is surely held from now on, by the clock read anew;
 * 0 if it is not. Arithmetic only: no round trip.
 */
REDLOCK_API int64_t redlock_valid_ms(const redlock_lease *lease);

/*
 * The fencing token, or the first of those reserved: microseconds of the nodes' time, below
 * 2^53, larger than that of every earlier holder. Send it with each write, to a resource
 * that refuses smaller ones. 0: the lock is not fenced, has not been acquired, or was
 * adopted without it.
 */
REDLOCK_API int64_t redlock_fence(const redlock_lease *lease);

/* The token as it is on the nodes; "" before the first attempt began. */
REDLOCK_API const char *redlock_token(const redlock_lease *lease);

/*
 * The last outcome, node by node. The text of a node whose answer came too late, or not at
 * all, says which limit that was and which option moves it. Writes at most `room`; returns
 * the number of nodes.
 */
REDLOCK_API size_t redlock_explain(const redlock_lease *lease, redlock_node *nodes,
                                   size_t room);

/* --- admitting nodes to a deployment of fenced locks --- */

typedef enum redlock_admission {
    /*
     * All nodes of the client, none of which has a marker or a key of its prefix, become a
     * deployment. Its locks have TTLs up to the option max_ttl_ms, else up to
     * REDLOCK_QUARANTINE_FLOOR_MS. They vote when a quarantine has passed, for they might
     * have been one before and have lost their memory. USED, UNREACHED.
     */
    REDLOCK_ADMIT_NEW = 1,
    /* The same, but they vote at once: servers that never held a fenced lock. */
    REDLOCK_ADMIT_AT_ONCE,
    /*
     * Waits until all nodes vote. Nodes without a marker are seated in the seats that
     * nobody has; where a majority lost its memory, the rest vouches for itself: be sure
     * that no server that was a node before is still alive elsewhere. UNREACHED,
     * UNADMITTED, MEMBERS.
     */
    REDLOCK_ADMIT_WAIT,
    /*
     * The node with that index, which has no marker and no key of the client's prefix,
     * takes the seat that none of the others has, and all of those vote. USED, UNREACHED,
     * UNADMITTED, UNSOUND.
     */
    REDLOCK_ADMIT_REPLACE,
} redlock_admission;

typedef struct redlock_admitted {
    redlock_code code; /* OK: all nodes vote; CANCELLED: the client was freed */
    int node;          /* the one that is in the way; -1: none in particular */
    const char *text;  /* what it is, or has; "" */
} redlock_admitted;

typedef void redlock_admit_fn(redlock_client *client, const redlock_admitted *result,
                              void *arg);

/*
 * Begins when every node was tried, and calls back when all nodes vote or it cannot be. One
 * at a time; `node` is of REPLACE. Needs the right to SCAN but for WAIT.
 * Errors: BUSY, BAD_OPTION (no such node), NO_MEMORY, FORKED, CLOSED.
 */
REDLOCK_API redlock_code redlock_admit(redlock_client *client, redlock_admission how,
                                       size_t node, redlock_admit_fn *callback, void *arg);

/*
 * As redlock_client_explain(), but whether each node may vote on fenced locks: the verdict
 * is "sound", or the fault says why not. remaining_ms: how long its quarantine still
 * lasts; -1: it is in none, or its registration is not complete.
 */
REDLOCK_API size_t redlock_client_standing(const redlock_client *client,
                                           redlock_node *nodes, size_t room);

/* --- looking at a key, and breaking its lock --- */

typedef struct redlock_survey {
    redlock_code code; /* OK: q nodes answered; NO_QUORUM, DENIED, CANCELLED */
    unsigned quorum;
    unsigned held, free;  /* nodes on which some value is, or was; and none */
    unsigned agreeing;    /* nodes that have the most frequent value */
    int64_t remaining_ms; /* until the keys there leave a quorum free; -1: unknown */
    const redlock_node *nodes;
    size_t count;
} redlock_survey;

typedef void redlock_survey_fn(redlock_client *client, const redlock_survey *survey,
                               void *arg);

/*
 * Reads the key on every node and changes nothing.
 * Errors: BAD_KEY, NO_MEMORY, FORKED.
 */
REDLOCK_API redlock_code redlock_inspect(redlock_client *client, const void *key,
                                         size_t key_len, redlock_survey_fn *callback,
                                         void *arg);

/*
 * Removes the key on every node that can be reached, whoever holds it, and tells what was
 * there. For operators: a holder that lives is told LOST at its next extension, but until
 * then it believes that it holds the lock. Errors as above.
 */
REDLOCK_API redlock_code redlock_break(redlock_client *client, const void *key,
                                       size_t key_len, redlock_survey_fn *callback,
                                       void *arg);

/* --- looking at the nodes --- */

/* What a finding weighs. */
typedef enum redlock_rank {
    REDLOCK_NOTE,    /* could not be looked at: it is not known whether there is anything */
    REDLOCK_WARNING, /* locks work, until something happens that can happen */
    REDLOCK_DEFECT,  /* the node is not fit to hold locks */
} redlock_rank;

typedef struct redlock_finding {
    redlock_rank rank;
    const char *code;   /* short and lower case: same_server, evicts, ... */
    const char *text;   /* what it is, and what to do */
    const char *detail; /* what was found: another node, a setting, commands; or "" */
} redlock_finding;

/* One node, as it was found. Numbers below 0 and empty texts: not known. */
typedef struct redlock_fitness {
    const char *uri; /* without the password */
    bool fit;        /* no finding is a defect */
    int64_t latency_us;
    char version[40];      /* redis 7.0.15 */
    char policy[24];       /* maxmemory-policy */
    char fsync[16];        /* appendfsync; none: there is no append-only file */
    int64_t maxmemory;     /* bytes; 0: no limit */
    int64_t replicas;      /* that are connected */
    bool timed;            /* the next two are known */
    int64_t offset_us;     /* of its time of day from that of the nodes' median */
    int64_t offset_err_us; /* by so much it may be off: the round trips */
    const redlock_finding *findings;
    size_t count;

    /* As a node of fenced locks: */
    char standing[16]; /* sound, unmarked, barred, foreign, ...: see redlock check --help */
    int64_t seat;      /* in its deployment */
    int64_t generation;    /* of the seat: how often it was given anew, and 1 */
    int64_t quarantine_ms; /* that is left, if it is watched here */
    int64_t max_ttl_ms;    /* the longest TTL that the deployment was admitted for */
} redlock_fitness;

typedef enum redlock_verdict {
    REDLOCK_FIT,
    REDLOCK_FIT_WITH_WARNINGS, /* q nodes are fit, but something was found */
    REDLOCK_UNFIT,             /* less than q nodes are fit */
    REDLOCK_UNTRIED,           /* the client was freed before */
} redlock_verdict;

typedef struct redlock_checkup {
    redlock_code code; /* OK; CANCELLED: nothing else is known */
    redlock_verdict verdict;
    unsigned quorum, fit; /* nodes that are needed, and those without a defect */
    const redlock_fitness *nodes;
    size_t count;
} redlock_checkup;

typedef void redlock_check_fn(redlock_client *client, const redlock_checkup *checkup,
                              void *arg);

enum {
    REDLOCK_CHECK_STRICT = 1, /* warnings are defects */
    REDLOCK_CHECK_FENCED = 2, /* whatever keeps a node from fenced locks is one */
};

/*
 * Are these nodes fit to hold locks? Waits until each was tried, asks those that answer for
 * their settings, their time and, by commands that do nothing, for each right that a client
 * needs. It writes no key, and a setting that the user may not read is a note. If the
 * client's options say `durable`, warnings about what a restart forgets are defects. What
 * the nodes are to fenced locks is told as it was when they were greeted. `how`: of the
 * above, or 0. Errors: NO_MEMORY, FORKED, CLOSED.
 */
REDLOCK_API redlock_code redlock_check(redlock_client *client, unsigned how,
                                       redlock_check_fn *callback, void *arg);

/*
 * The least ACL rule for this client's prefix and user, as the words of one command: "ACL
 * SETUSER lock ...". The password in it is SECRET: put yours there. Writes at most `room`
 * bytes, the last of them NUL; returns how many bytes the whole has, without the NUL.
 */
REDLOCK_API size_t redlock_client_acl(const redlock_client *client, char *text,
                                      size_t room);

#ifdef __cplusplus
}
#endif

#endif
