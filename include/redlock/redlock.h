/*
 * libredlock: a lock on a majority of N independent Redis masters.
 *
 * This is the asynchronous interface, on the caller's libevent loop. The promise: while a
 * lease is held and its deadline has not passed, no other client of the same nodes holds
 * the same key. It assumes that the nodes' clocks keep to the drift bound and that no node
 * forgets what it stored. docs/safety.md lists the assumptions and what happens when one of
 * them fails.
 *
 * The rules that hold everywhere
 *
 *  1. Units. Times are milliseconds, int64_t, unless a name ends in _us. Keys are bytes.
 *  2. Threads. A client, and everything that belongs to it, is used from one thread only:
 *     the thread that runs its event_base. Different clients may be used from different
 *     threads. One thread may create a client and another one run its event_base. The
 *     first thread must stop using both before the second one begins; pthread_create() and
 *     mutexes ensure that order.
 *  3. Callbacks. An operation has started if its function returned REDLOCK_OK. Every
 *     started operation calls back exactly once, unless its lease is freed before. The
 *     callback runs from the loop or from redlock_client_free(), never inside the call that
 *     started the operation. An operation that did not start calls nothing. A callback may
 *     be NULL. Exceptions: redlock_inspect(), redlock_check(), redlock_list(),
 *     redlock_observe(), redlock_hold_time() and redlock_client_drain() only report, and
 *     refuse NULL with BAD_OPTION.
 *  4. Inside a callback every call is allowed, also freeing the lease or the client.
 *  5. Ownership. The caller that receives a handle frees it, once, with the one function of
 *     its type. free(NULL) is allowed. Arguments are copied. What a callback receives is
 *     valid until the callback returns.
 *  6. Outputs (ret_...) are the last parameters and are unchanged on failure.
 *  7. After fork() the child's handles are inert: calls return REDLOCK_FORKED, the
 *     free functions only free memory, and nothing is sent or reported. The child has to
 *     create a new client, on another event_base or on this one after event_reinit(). A
 *     child that was forked in a callback must not return from that callback.
 *     Lookups of host names go on in the parent alone; the child's client begins its own.
 *     If the parent was looking up a name during the fork, the C library may leave the
 *     child unable to resolve names: then such nodes of its client have the fault TIMEOUT.
 *     Numeric addresses and sockets always work.
 *  8. Codes. REDLOCK_OK is 0. REDLOCK_CODES has the meaning of each code. A reason tells
 *     the causes of one code apart. The comment on a function lists the codes other than OK
 *     that it returns ("Errors") and the codes that its callback gets ("Results"). Every
 *     call that returns a code returns CLOSED if its client is NULL or this process has
 *     freed it, and otherwise FORKED in a forked child. If a call returns another code than
 *     OK, redlock_last_error() says why: which argument or option, its value and the limit
 *     that it broke.
 *  9. Growth. Each struct of the headers (here without redlock_) stays what it is:
 *
 *     sized   options, lease_options, lock_options, failure, stats, node_stats, node
 *     owned   error, event, span, result, leader, settings, admitted, inspection, listed,
 *             finding, node_health, health_report
 *     frozen  field, key, label, histogram
 *
 *     The caller allocates what is sized. It may get more members at its end: the inline
 *     functions pass the size that the program was built with to those that end in _sized,
 *     and the library reads and writes no more. An _init() function clears what the library
 *     does not know, and 0 in a member that is added later means: as before it existed. A
 *     call gets BAD_OPTION if such a struct was not initialized, and UNSUPPORTED, and
 *     starts nothing, if it sets a member that this library does not know.
 *     What is owned belongs to the library, which shows it by a pointer. It may get more
 *     members at its end: do not copy it as a whole, and read a member that was added later
 *     only if redlock_version() is that of its release, or later.
 *     What is frozen stands in arrays and in other structs. It never grows.
 */
#ifndef REDLOCK_H
#define REDLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "faults.h"
#include "kinds.h"
#include "reasons.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define REDLOCK_API __attribute__((visibility("default")))
#else
#define REDLOCK_API
#endif

struct event_base;

/* --- version --- */

/* Of this header: what the program is compiled with. The number of 1.2.3 is 10203. */
#define REDLOCK_VERSION        "1.0.0"
#define REDLOCK_VERSION_NUMBER 10000

/* The version of the library that runs: "1.0.0", or "1.0.0-dev+g0123456" if no release. */
REDLOCK_API const char *redlock_version(void);

/* --- limits and defaults --- */

#define REDLOCK_NODES_MAX  32
#define REDLOCK_KEY_MAX    512 /* bytes, including the prefix */
#define REDLOCK_KEYS_MAX   16  /* of one lease */
#define REDLOCK_SLOTS_MAX  128 /* of a semaphore */
#define REDLOCK_LABEL_MAX  64  /* bytes */
#define REDLOCK_TOKEN_MAX  128 /* bytes */
#define REDLOCK_TEXT_MAX   255 /* bytes, of redlock_node.text */
#define REDLOCK_TTL_MAX_MS 86400000

/* The longest TTL of a record (REDLOCK_KIND_RECORD): 62 days. */
#define REDLOCK_RECORD_MAX_MS INT64_C(5356800000)

#define REDLOCK_PORT                6379
#define REDLOCK_TTL_MS              30000
#define REDLOCK_DRIFT_PPM           10000 /* 1 % */
#define REDLOCK_CONNECT_TIMEOUT_MS  1000
#define REDLOCK_QUARANTINE_FLOOR_MS 60000

/* --- values with a meaning of their own; no other value below 0 is allowed there. Those
   below 0 differ, so that none is taken for another. --- */

enum {
    REDLOCK_FOREVER = -1, /* a wait: without a limit */
    /* a drain: as long as a node may take to reply, and a new client to connect */
    REDLOCK_NODE_TIMEOUT = -2,
    /* a result: a time or a number that is not known; of all arguments, valid_ms takes it
     */
    REDLOCK_UNKNOWN = -3,
    REDLOCK_GIVE_UP = -4,    /* from a redlock_retry_fn: no further attempt */
    REDLOCK_NO_NODE = -5,    /* a result: there is no such node */
    REDLOCK_AUTO = 0,        /* the library chooses, or takes the lease's own value */
    REDLOCK_ONE_ATTEMPT = 0, /* a wait: no second attempt */
    REDLOCK_UNLIMITED = 0,   /* max_hold_ms */
    REDLOCK_NO_FENCE = 0,    /* a fencing token: none, or not known */
};

/* --- codes --- */

/*
 * Code, number, text: one clause. The state of the lock, and what to do:
 *
 * OK                the lock is held, extended or released, as requested.
 * TAKEN, TIMEOUT    of an acquire: not held here; retry later, or wait longer. Of a held
 *                   lock: lost; stop the work.
 * NO_QUORUM         of an acquire: not held. Of an extension: held until the old deadline.
 *                   See `reason` and redlock_explain(); repair the nodes.
 * EXPIRED           of an acquire: not held; use a longer TTL. Of a held lock: lost; stop
 *                   the work. `valid_ms` is what is left of it.
 * CANCELLED         of an acquire: not held; what was set is being released. Else `reason`
 *                   says who has the lock now: RELEASED (nobody), DISOWNED (the next holder
 *                   of the token), CLIENT_FREED (it ends with its TTL).
 * DENIED            as NO_QUORUM; a retry does not help. Correct the password, the ACL,
 *                   protected mode or the certificates.
 * GONE              lost: released, broken or forgotten. Stop the work.
 * UNCONFIRMED       not held here. What is left is released when its nodes return, or
 *                   expires.
 * MAX_HOLD          lost: stop the work.
 * NOT_EMPTY to WRONG_DEPLOYMENT
 *                   of an admission. Nothing was changed. Use empty nodes; retry when all
 *                   nodes reply; admit the nodes; wait until the node votes; correct the
 *                   list of nodes.
 * BAD_NODES and all larger ones
 *                   the call has started nothing, and a lock that is held stays held. But
 *                   an acquire can also end with BAD_TTL, NO_MEMORY or SYSTEM: it is not
 *                   held. CLOSED: what this process held ends with its TTL at the latest.
 */
#define REDLOCK_CODES(X)                                                                   \
    X(OK, 0, "it succeeded")                                                               \
    X(TAKEN, 1, "another owner holds the lock")                                            \
    X(TIMEOUT, 2, "another owner held the lock until the wait time ended")                 \
    X(NO_QUORUM, 3, "too few nodes gave a usable reply")                                   \
    X(EXPIRED, 4, "too little of the TTL is left")                                         \
    X(CANCELLED, 5, "the operation was cancelled")                                         \
    X(DENIED, 6, "the nodes denied access")                                                \
    X(GONE, 7, "the nodes no longer store the token of this lock")                         \
    X(UNCONFIRMED, 8, "too few nodes confirmed the release")                               \
    X(MAX_HOLD, 9, "the longest time to hold the lock is over")                            \
    X(NOT_EMPTY, 10, "a node already has a marker or keys")                                \
    X(UNREACHED, 11, "a node did not reply")                                               \
    X(UNADMITTED, 12, "the nodes belong to no deployment of fenced locks")                 \
    X(MEMBER_INACTIVE, 13, "another node does not vote yet")                               \
    X(WRONG_DEPLOYMENT, 14, "a node belongs to another deployment")                        \
    X(BAD_NODES, 20, "the number of nodes is not possible")                                \
    X(BAD_URI, 21, "the URI of a node is malformed")                                       \
    X(DUPLICATE_NODE, 22, "a node is configured twice")                                    \
    X(UNSUPPORTED, 23, "this version does not support the requested feature")              \
    X(BAD_KEY, 24, "the key is not possible")                                              \
    X(BAD_TTL, 25, "the TTL is not possible")                                              \
    X(BAD_TOKEN, 26, "the token is not possible")                                          \
    X(BAD_OPTION, 27, "an argument or option is not possible")                             \
    X(NO_MEMORY, 28, "out of memory")                                                      \
    X(BUSY, 29, "another operation has not ended")                                         \
    X(NOT_HELD, 30, "this handle does not hold the lock")                                  \
    X(FORKED, 31, "the client belongs to the parent process: create a new one")            \
    X(CLOSED, 32, "there is no open client")                                               \
    X(SYSTEM, 33, "a system call failed")                                                  \
    X(WOULD_DEADLOCK, 34, "the call would wait for itself")

typedef enum redlock_code {
#define REDLOCK_X_(name, number, text) REDLOCK_##name = number,
    REDLOCK_CODES(REDLOCK_X_)
#undef REDLOCK_X_
} redlock_code;

/* "TAKEN", and the text above. Never NULL. */
REDLOCK_API const char *redlock_code_name(redlock_code code);
REDLOCK_API const char *redlock_code_text(redlock_code code);

/* "SILENT", and the text in reasons.h. Never NULL. */
REDLOCK_API const char *redlock_reason_name(redlock_reason reason);
REDLOCK_API const char *redlock_reason_text(redlock_reason reason);

/* Why a call failed and which argument caused it. */
typedef struct redlock_error {
    redlock_code code;
    redlock_reason reason;
    /*
     * The argument or option at fault, as this header names it: "ttl_ms"; NULL: none. Then
     * `text` begins with this name and a space, so that a program can put its own name for
     * it there.
     */
    const char *field;
    /* of the field, and the bound that it broke; if they are equal, it broke no bound */
    int64_t value, bound;
    char text[1024]; /* one line */
} redlock_error;

/*
 * Why the last call of this thread failed, if its function returns a code. Each thread has
 * its own. Read it right after that call: every later call of the thread may change it. It
 * is never NULL; its code is OK before the first failure, and a call that succeeds leaves
 * it as it is. It says nothing about an operation that has started: its callback gets the
 * result.
 */
REDLOCK_API const redlock_error *redlock_last_error(void);

/*
 * "exclusive" and so on; "foreign" for any other value. Never NULL.
 */
REDLOCK_API const char *redlock_kind_name(redlock_kind kind);

/*
 * The kind of lock that a token belongs to; FOREIGN: `token` is no token of this library,
 * or NULL. `ret_fenced` may be NULL.
 */
REDLOCK_API redlock_kind redlock_token_kind(const char *token, bool *ret_fenced);

/* --- events and traces: what a client reports besides results --- */

typedef enum redlock_level {
    REDLOCK_LEVEL_ERROR,   /* a lock was lost, or a node is configured wrong */
    REDLOCK_LEVEL_WARNING, /* it works, with less margin */
    REDLOCK_LEVEL_INFO,
} redlock_level;

/* "error" */
REDLOCK_API const char *redlock_level_name(redlock_level level);

/* A text, or a number if `text` is NULL. */
typedef struct redlock_field {
    const char *name;
    const char *text; /* `len` bytes, any of them, and a NUL */
    size_t len;
    int64_t number; /* a time is in the unit in which the name ends */
} redlock_field;

/* What happened, and its level. docs/telemetry.md has the fields of each. New ones are
   appended. */
#define REDLOCK_EVENTS(X)                                                                  \
    X(NODE_CONNECTED, "node_connected", INFO)                                              \
    X(NODE_UNREACHABLE, "node_unreachable", WARNING)                                       \
    X(NODE_REFUSED, "node_refused", ERROR)                                                 \
    X(NODE_DISCONNECTED, "node_disconnected", WARNING)                                     \
    X(NODE_SUSPECT, "node_suspect", WARNING)                                               \
    X(NODE_RECOVERED, "node_recovered", INFO)                                              \
    X(NODE_RESTARTED, "node_restarted", WARNING)                                           \
    X(NODE_QUARANTINED, "node_quarantined", WARNING)                                       \
    X(NODE_QUARANTINE_ENDED, "node_quarantine_ended", INFO)                                \
    X(MEMBER_ACTIVE, "member_active", INFO)                                                \
    X(MEMBER_INACTIVE, "member_inactive", WARNING)                                         \
    X(ACQUIRE_FAILED, "acquire_failed", WARNING)                                           \
    X(LOCK_LOST, "lock_lost", ERROR)                                                       \
    X(EXTENSION_FAILED, "extension_failed", WARNING)                                       \
    X(WATCHDOG_EXTENSION_FAILED, "watchdog_extension_failed", WARNING)                     \
    X(WATCHDOG_EXTENSION_RECOVERED, "watchdog_extension_recovered", INFO)                  \
    X(RELEASE_FAILED, "release_failed", WARNING)

typedef enum redlock_event_type {
#define REDLOCK_X_(type, name, level) REDLOCK_EVENT_##type,
    REDLOCK_EVENTS(REDLOCK_X_)
#undef REDLOCK_X_
} redlock_event_type;

typedef struct redlock_event {
    redlock_event_type type;
    redlock_level level;
    const char *name; /* "node_disconnected" */
    const redlock_field *fields;
    size_t count;
    void *user; /* of a lock: as in redlock_span; of a node: NULL */
} redlock_event;

typedef void redlock_log_fn(const redlock_event *event, void *arg);

/* The begin or the end of an operation that has started, or of a hold. */
typedef struct redlock_span {
    bool ended;
    const char *operation; /* "acquire", "extend", "release", or "hold" */
    /* redlock_lease_number(). A lease has at most one span of each name at a time. */
    uint64_t lease;
    const void *key; /* with its prefix; of several keys one of them */
    size_t key_len;
    redlock_kind kind; /* of several keys: SET */
    bool fenced;
    /* at the end: */
    /*
     * CANCELLED also if the lease was freed before. Of a hold: OK if the lock was released,
     * CANCELLED if it was disowned or the client was freed, otherwise why it was lost.
     */
    redlock_code code;
    unsigned attempts; /* that the acquire took */
    int64_t duration_us;
    void *user; /* of the lock's options when the span began, at its end, too */
} redlock_span;

typedef void redlock_trace_fn(const redlock_span *span, void *arg);

/* --- client --- */

typedef struct redlock_client redlock_client;

typedef struct redlock_options {
    size_t size; /* set by redlock_options_init() */

    /*
     * Credentials for nodes whose URI has none. The file is read at each connection: its
     * first line, at most 511 bytes, is used instead of `password` if it can be read.
     */
    const char *username;
    const char *password;
    const char *password_file;

    const char *prefix; /* put before every key; default none */
    /* Names the holder to others, and the client in CLIENT LIST; default host:pid. */
    const char *label;

    unsigned quorum; /* q, from the majority to all nodes; AUTO: the majority */
    /*
     * How long a node may take to reply. AUTO: 4 x the round trip, at least 50 ms, at most
     * TTL/10. A first acquire waits until a majority is connected. Then it waits for the
     * other nodes as long as that took, at least 100 ms and at least this time. It never
     * waits longer than connect_timeout_ms in total.
     */
    int64_t node_timeout_ms;
    int64_t connect_timeout_ms; /* also the longest that a first acquire waits for nodes */
    uint32_t drift_ppm; /* how much faster a node's clock may run than the client's */

    /*
     * The longest TTL that any client uses on these nodes. A node that this client saw
     * restart does not vote until every lock with that TTL must have expired. AUTO: the
     * longest TTL that this client has used, at least 60 s. If it is set, a longer TTL is
     * refused.
     */
    int64_t max_ttl_ms;
    bool durable; /* the nodes never forget: appendfsync always, and no replicas */

    /*
     * TLS 1.2 or later, for nodes whose URI begins with rediss://. The certificate of a
     * node must be signed by a CA of these files, and must name the URI's host: a name, or
     * an address among its addresses. PEM files; each is read again when a connection
     * begins and it was changed.
     */
    bool tls;                  /* also for redis:// */
    bool tls_insecure;         /* accept any certificate: for tests */
    const char *tls_ca_file;   /* neither a file nor a folder: the system's CAs */
    const char *tls_ca_dir;    /* of certificates that are named by openssl rehash */
    const char *tls_cert_file; /* the client's certificate and its chain; default none */
    const char *tls_key_file;  /* its key, not encrypted; default: in tls_cert_file */
    const char *tls_name;      /* expected of every node instead of its host; sent as SNI */

    /*
     * Called with what happened: with each event, and at the begin and the end of each
     * operation. NULL: not called. They are called at the end of the loop iteration, in the
     * order in which it happened, and by redlock_client_free() for the last time. They get
     * no password and no token. If too many wait, the newest are dropped and counted
     * (redlock_stats.events_dropped). A client for threads calls them in its own thread.
     */
    redlock_log_fn *log;
    void *log_arg;
    redlock_trace_fn *trace;
    void *trace_arg;
} redlock_options;

/* 0, NULL and false, but REDLOCK_CONNECT_TIMEOUT_MS and REDLOCK_DRIFT_PPM. */
REDLOCK_API void redlock_options_init_sized(redlock_options *options, size_t size);
static inline void redlock_options_init(redlock_options *options)
{
    redlock_options_init_sized(options, sizeof(*options));
}

/*
 * Creates a client of these nodes on this loop. It connects in the background; the nodes
 * may be down. URIs: redis://[user[:password]@]host[:port][/db], the same with rediss://
 * (TLS), unix:///path[?db=N]. A host is a name, an IPv4 address, or an IPv6 address in
 * brackets, with a zone if needed: [fe80::1%25eth0]. Names are looked up by getaddrinfo(3)
 * in threads of the library, at most 64 in the process. Such a thread may outlive the
 * client: a plugin that contains a static libredlock must not be unloaded by dlclose().
 * The loop does not end while the client exists. `base` must outlive the client: call
 * event_base_free() after redlock_client_free(). NULL options: the defaults.
 * Errors: BAD_NODES, BAD_URI, DUPLICATE_NODE, UNSUPPORTED (there is no TLS: this build has
 * none, or the system no OpenSSL), BAD_OPTION (also: a TLS file cannot be used), NO_MEMORY,
 * SYSTEM.
 */
REDLOCK_API redlock_code redlock_client_new(struct event_base *base,
                                            const char *const *uris, size_t count,
                                            const redlock_options *options,
                                            redlock_client **ret_client);

/*
 * Ends every operation with REDLOCK_CANCELLED, sends the releases that the sockets accept
 * without blocking, and closes the connections. The caller still has to free its leases.
 * Leases that were held are no longer extended and expire. See redlock_client_drain().
 */
REDLOCK_API void redlock_client_free(redlock_client *client);

typedef void redlock_drain_fn(redlock_client *client, bool clean, void *arg);

/*
 * Calls back with `clean` true when every reachable node has replied to all that the client
 * sent to it and has no release left to confirm. Calls back with `clean` false after
 * `timeout_ms` (or NODE_TIMEOUT, or FOREVER). Only one drain runs at a time.
 * Errors: BUSY, BAD_OPTION (also: no callback), NO_MEMORY, FORKED, CLOSED.
 */
REDLOCK_API redlock_code redlock_client_drain(redlock_client *client, int64_t timeout_ms,
                                              redlock_drain_fn *callback, void *arg);

/* The number of nodes, and of those that a quorum needs. The client must not be NULL. */
REDLOCK_API size_t redlock_client_nodes(const redlock_client *client);
REDLOCK_API unsigned redlock_client_quorum(const redlock_client *client);

/*
 * The nodes' time of day in microseconds since 1970: the median of what they told when they
 * were greeted, or later, and what has passed since then. It errs by half a round trip, and
 * by what the clocks drift apart. UNKNOWN: fewer than q nodes have told it.
 */
REDLOCK_API int64_t redlock_client_nodes_time(redlock_client *client);

/* The faults of faults.h: REDLOCK_FAULT_NONE, REDLOCK_FAULT_TIMEOUT ... */
typedef enum redlock_fault {
#define REDLOCK_X_(fault, name, prefix, text) REDLOCK_FAULT_##fault,
    REDLOCK_FAULTS(REDLOCK_X_)
#undef REDLOCK_X_
} redlock_fault;

/* "timeout", and its text. Never NULL. */
REDLOCK_API const char *redlock_fault_name(redlock_fault fault);
REDLOCK_API const char *redlock_fault_text(redlock_fault fault);

/* The vote or the state of a node. New ones are appended. */
#define REDLOCK_VERDICTS(X)                                                                \
    /* its vote in a round */                                                              \
    X(UNASKED, "unasked", "the client sent it nothing")                                    \
    X(WAITING, "waiting", "the client waits for its reply")                                \
    X(GRANTED, "granted", "it acquired, extended or released, as requested")               \
    X(HELD, "held", "its key holds another value")                                         \
    X(GONE, "gone", "its key is missing")                                                  \
    X(RECREATED, "recreated", "an extension found no key and stored the token again")      \
    X(ERROR, "error", "it refused with an error; nothing was changed")                     \
    X(UNKNOWN, "unknown", "the command may have been executed; no reply confirms it")      \
    X(SILENT, "silent", "it did not reply in time")                                        \
    X(ABSENT, "absent", "it could not vote when the round began, or cannot vote now")      \
    /* its connection */                                                                   \
    X(DOWN, "down", "it is not connected")                                                 \
    X(CONNECTING, "connecting", "the client connects to it")                               \
    X(GREETING, "greeting", "it has not replied to the first commands yet")                \
    X(READY, "ready", "it is connected and may vote")                                      \
    X(SUSPECT, "suspect", "its replies are late")                                          \
    X(QUARANTINED, "quarantined", "it may have forgotten locks and does not vote yet")     \
    /* its membership in a deployment of fenced locks; if it may not vote: ABSENT */       \
    X(ACTIVE, "active", "it may vote on fenced locks")

typedef enum redlock_verdict {
#define REDLOCK_X_(verdict, name, text) REDLOCK_VERDICT_##verdict,
    REDLOCK_VERDICTS(REDLOCK_X_)
#undef REDLOCK_X_
} redlock_verdict;

/* "granted", and its text. Never NULL. */
REDLOCK_API const char *redlock_verdict_name(redlock_verdict verdict);
REDLOCK_API const char *redlock_verdict_text(redlock_verdict verdict);

/* The value of a node where a writer that waits keeps a reader out. */
#define REDLOCK_WAITING_WRITER "a waiting writer"

/* The state of one node, or its reply. Strings live as long as the client. */
typedef struct redlock_node {
    const char *uri; /* without the password */
    redlock_verdict verdict;
    redlock_fault fault;
    bool denied;        /* the fault is about credentials, an ACL or protected mode */
    int64_t latency_us; /* UNKNOWN: no reply */
    /* until its key expires or its quarantine ends, at most 24 days; or UNKNOWN */
    int64_t remaining_us;
    /*
     * The fault's text, with what the server, the system, the resolver or OpenSSL last said
     * of it: "cannot connect: Connection refused"; or the limit that the node exceeded.
     * Printable; it has no password and no token.
     */
    char text[REDLOCK_TEXT_MAX + 1];
    char holder[REDLOCK_TOKEN_MAX + 1]; /* the holder's label, or the value; printable */
    char value[REDLOCK_TOKEN_MAX + 1];  /* the raw value there, if it is text; else "" */
    unsigned key; /* of several keys: the caller's number of the one that has this value */
} redlock_node;

/*
 * The present state of the connections. Writes at most `room` elements; returns the number
 * of nodes.
 */
REDLOCK_API size_t redlock_client_explain_sized(const redlock_client *client,
                                                redlock_node *nodes, size_t room,
                                                size_t size);
static inline size_t redlock_client_explain(const redlock_client *client,
                                            redlock_node *nodes, size_t room)
{
    return redlock_client_explain_sized(client, nodes, room, sizeof(*nodes));
}

/*
 * The flight recorder: the last 256 events of the client, as text, for example when a lock
 * was lost. It records at all times what the client sent, what the nodes replied, what the
 * caller asked for and was told, and when. One event per line, the oldest first; the lines
 * before and after them have the present state. docs/recorder.md describes them. The text
 * has no password, of a token only four bytes, and at most the first 128 bytes of a key.
 *
 * Writes a string of at most `room` bytes, with the NUL; if the text is longer, it leaves
 * out lines at the beginning. Returns the length of the whole text, without the NUL.
 * `text` may be NULL if `room` is 0. It sends nothing and allocates nothing.
 */
REDLOCK_API size_t redlock_client_record(const redlock_client *client, char *text,
                                         size_t room);

/* --- leases --- */

typedef struct redlock_lease redlock_lease;

/* The result of an operation. */
typedef struct redlock_result {
    redlock_code code;
    redlock_reason reason; /* why `code`; NONE also if it is OK */
    unsigned nodes, quorum;
    /*
     * Nodes that granted in the last round, also late after a failure. If too few may vote
     * for an extension, none is asked, and those that may vote count as they did before.
     */
    unsigned granted;
    unsigned attempts; /* attempts that the acquire took */
    int64_t took_ms;   /* duration of the last attempt, or of the round */
    int64_t valid_ms;  /* how long from now the lock is certainly held; 0: it is not held */
    /*
     * Time until a quorum can be free: the locks of others have expired, and the quarantine
     * of restarted nodes is over. Or UNKNOWN.
     */
    int64_t remaining_ms;
} redlock_result;

typedef void redlock_lease_fn(redlock_lease *lease, const redlock_result *result,
                              void *arg);

typedef enum redlock_retry {
    REDLOCK_RETRY_EXPONENTIAL, /* uniform in [0, min(cap, base * 2^attempt)]: full jitter */
    REDLOCK_RETRY_FIXED,       /* base */
    REDLOCK_RETRY_NONE,
    REDLOCK_RETRY_CUSTOM,
} redlock_retry;

/* Returns the delay after attempt number `attempt` (from 0), in ms, or GIVE_UP. */
typedef int64_t redlock_retry_fn(unsigned attempt, uint64_t random, void *arg);

typedef struct redlock_lease_options {
    size_t size; /* set by redlock_lease_options_init() */

    /*
     * The kind of lock: see redlock/kinds.h. Only an EXCLUSIVE lock may have several keys
     * and be downgraded. redlock_adopt() ignores `kind`, `fenced` and, except for a SLOT,
     * `slots`: the token says them. A token of another program is that of an EXCLUSIVE
     * lock.
     */
    redlock_kind kind;
    unsigned slots; /* of a SLOT: how many there are, up to REDLOCK_SLOTS_MAX; else 0 */
    /*
     * A fenced lock. It needs nodes that were admitted (redlock_admit()). Its fencing token
     * rises with each acquisition, even if nodes forget. docs/safety.md has the proof and
     * the bounds. Its TTL must not exceed the TTL that the nodes were admitted for. An
     * ELECTION is always fenced, a RECORD and a REDISSON lock never are.
     */
    bool fenced;
    int64_t fence; /* of redlock_adopt(): the lock's fencing token, or NO_FENCE */

    int64_t ttl_ms;
    /*
     * How long an acquire waits, or ONE_ATTEMPT, or FOREVER. A last attempt begins when the
     * wait time ends. The first attempt of a new client also waits for its nodes, up to
     * connect_timeout_ms. The wait time counts from the end of the loop iteration in which
     * redlock_acquire() was called.
     */
    int64_t wait_ms;
    int64_t min_validity_ms; /* an acquire that leaves less validity fails */
    int64_t margin_ms;       /* the client calls on_lost this long before the deadline */
    bool watchdog;           /* extend after a third of the TTL, or a little earlier */
    int64_t max_hold_ms;     /* the longest time to hold the lock; or UNLIMITED */

    /*
     * When to retry. The nodes notify a queued waiter when it is the next one. The policy
     * applies if too few nodes can notify it: an ACL permission or the second connection is
     * missing, the key's value is not a token of this library, or another program uses the
     * key of the wait queue. A custom policy always applies; a notification makes the retry
     * earlier.
     */
    redlock_retry retry;
    int64_t retry_base_ms, retry_cap_ms;
    redlock_retry_fn *retry_fn;
    void *retry_arg;

    /*
     * Called once if a held lock is lost. `code` has the reason; `valid_ms` is how long the
     * lock still excludes others. Stop the work, then release or free the lease. Without a
     * watchdog this also reports the normal expiry.
     * Results: EXPIRED, GONE, TAKEN, MAX_HOLD.
     */
    redlock_lease_fn *on_lost;
    void *lost_arg;

    /* Called after each extension by the watchdog: `valid_ms` is the new validity. */
    redlock_lease_fn *on_extended;
    void *extended_arg;

    /*
     * Given back in the spans and events of this lock, for example to tie them to a
     * request. The client never reads what it points to. That is needed until the lease is
     * freed and its last span has ended, or until the client is freed.
     */
    void *user;
} redlock_lease_options;

/* TTL 30 s, one attempt, watchdog on, margin 0, retries of 20 ms growing to 500 ms. */
REDLOCK_API void redlock_lease_options_init_sized(redlock_lease_options *options,
                                                  size_t size);
static inline void redlock_lease_options_init(redlock_lease_options *options)
{
    redlock_lease_options_init_sized(options, sizeof(*options));
}

/*
 * Acquires `key` with SET NX PX on all nodes at once; a quorum decides. NULL options: the
 * defaults, in each call that takes these. After a lost attempt the client first releases
 * what the attempt set. Then it reports the failure, or retries with a new token.
 * Results: OK, TAKEN, TIMEOUT, NO_QUORUM, EXPIRED, CANCELLED, DENIED, BAD_TTL (the TTL of a
 * fenced lock exceeds what the nodes were admitted for), NO_MEMORY, SYSTEM (no random
 * numbers).
 * Errors: BAD_KEY, BAD_TTL, BAD_OPTION, NO_MEMORY, FORKED, CLOSED.
 */
REDLOCK_API redlock_code redlock_acquire(redlock_client *client, const void *key,
                                         size_t key_len,
                                         const redlock_lease_options *options,
                                         redlock_lease_fn *callback, void *arg,
                                         redlock_lease **ret_lease);

/* One of several keys. */
typedef struct redlock_key {
    const void *bytes;
    size_t len;
} redlock_key;

/*
 * Acquires several keys, up to REDLOCK_KEYS_MAX, all or nothing: one lease, one token, and,
 * if it is fenced, one fencing token that is larger than every earlier one of each key. A
 * node that lacks one of the keys lacks the lease. For everybody else each key is an
 * ordinary lock. The order of the keys does not matter: there can be no deadlock, because
 * nobody holds some of them while it waits for others. But where others always want single
 * ones of them, a large set can wait for ever. redlock_explain() says which key was taken.
 * Results: those of redlock_acquire().
 * Errors: those of redlock_acquire(); BAD_KEY also if a key is given twice, or too many.
 */
REDLOCK_API redlock_code redlock_acquire_many(redlock_client *client,
                                              const redlock_key *keys, size_t count,
                                              const redlock_lease_options *options,
                                              redlock_lease_fn *callback, void *arg,
                                              redlock_lease **ret_lease);

/*
 * Takes over a lock by its token. `valid_ms` is what is left of its validity now: what the
 * former holder knew, minus the time that has passed since. 0 or UNKNOWN: the lease is not
 * held until redlock_extend() succeeds, granted by q nodes. Before that success, an
 * extension does not recreate missing keys. The success does not prove that the lock was
 * held without a gap: another client may have held it in between. The key of a SLOT is that
 * of its slot: "KEY!3".
 * Errors: BAD_KEY, BAD_TOKEN, BAD_TTL, BAD_OPTION, NO_MEMORY, FORKED, CLOSED.
 */
REDLOCK_API redlock_code redlock_adopt(redlock_client *client, const void *key,
                                       size_t key_len, const char *token, int64_t valid_ms,
                                       const redlock_lease_options *options,
                                       redlock_lease **ret_lease);

/*
 * Adopts several keys of redlock_acquire_many().
 * Errors: those of redlock_adopt().
 */
REDLOCK_API redlock_code redlock_adopt_many(redlock_client *client, const redlock_key *keys,
                                            size_t count, const char *token,
                                            int64_t valid_ms,
                                            const redlock_lease_options *options,
                                            redlock_lease **ret_lease);

/*
 * Extends the lock to `ttl_ms` from now (AUTO: the lease's own TTL). A TTL shorter than
 * what is left shortens the validity here, never the keys on the nodes. The extension
 * counts only if a quorum extended before the old deadline; a lost round leaves the
 * deadline as it was.
 * Results: OK, NO_QUORUM, DENIED, EXPIRED, GONE, TAKEN, MAX_HOLD, CANCELLED (released or
 * disowned meanwhile, or the client was freed), BAD_TTL (as of redlock_acquire()).
 * Errors: BUSY, NOT_HELD, BAD_TTL, FORKED, CLOSED.
 */
REDLOCK_API redlock_code redlock_extend(redlock_lease *lease, int64_t ttl_ms,
                                        redlock_lease_fn *callback, void *arg);

/*
 * Turns an exclusive lock into a shared one, without a gap: an extension by the lease's own
 * TTL, after which other readers may come in. From this call on the lease is a reader's,
 * whatever the result, and its token begins with another letter. There is no way back: two
 * readers that want to write would wait for each other for ever.
 * Results: those of redlock_extend().
 * Errors: BUSY, NOT_HELD, BAD_OPTION (the lock is not EXCLUSIVE), BAD_TOKEN (it was
 * adopted, and is not one of this library), NO_MEMORY, FORKED, CLOSED.
 */
REDLOCK_API redlock_code redlock_downgrade(redlock_lease *lease, redlock_lease_fn *callback,
                                           void *arg);

/*
 * Releases the lock on all nodes, at the end of this loop iteration. From this call on the
 * lease is not held. A loss that came before is still reported, at the end of this loop
 * iteration; a running extension ends with CANCELLED. The result is decided when q nodes
 * confirmed; the client releases the lock on the other nodes in the background. `callback`
 * may be NULL. On the nodes a release is idempotent.
 * Results: OK, GONE, TAKEN, UNCONFIRMED, CANCELLED (the client was freed first).
 * Errors: NOT_HELD (also: already released), FORKED, CLOSED.
 */
REDLOCK_API redlock_code redlock_release(redlock_lease *lease, redlock_lease_fn *callback,
                                         void *arg);

/*
 * Gives up an acquire: it ends with CANCELLED, and the client releases what was set in the
 * background. If the acquire has ended, this does nothing.
 */
REDLOCK_API void redlock_cancel(redlock_lease *lease);

/*
 * Leaves the lock on the nodes for another holder of its token: the lease neither releases
 * nor extends it.
 */
REDLOCK_API void redlock_disown(redlock_lease *lease);

/*
 * Frees the handle in any state. It cancels a running acquire, and releases a lock that is
 * held or was lost: both in the background and without a callback.
 */
REDLOCK_API void redlock_lease_free(redlock_lease *lease);

/* --- a TTL that learns: for holders that nobody extends --- */

/* `longest_ms`: of the recent holds of the key; 0: none is known; UNKNOWN: too few answers.
 */
typedef void redlock_hold_time_fn(redlock_client *client, int64_t longest_ms, void *arg);

/*
 * Asks the nodes how long the key was held lately: the largest of q answers. Called right
 * before redlock_acquire() it takes no round trip of its own: q answers come before q
 * grants. Twice that time is a TTL that a hold is unlikely to outlive; extend the lock to
 * it.
 * Errors: BAD_KEY, BAD_OPTION (no callback), NO_MEMORY, FORKED, CLOSED.
 */
REDLOCK_API redlock_code redlock_hold_time(redlock_client *client, const void *key,
                                           size_t key_len, redlock_hold_time_fn *callback,
                                           void *arg);

/*
 * Tells the nodes that a hold of the key ends now, after `held_ms`. They remember the
 * longest for 24 h, and each further hold takes 0.6 % away from it. Tell twice the time of
 * a hold that outlived its TTL. It is sent with what is sent next, and nothing reports it.
 * Errors: BAD_KEY, BAD_OPTION (held_ms is out of range), NO_MEMORY, FORKED, CLOSED.
 */
REDLOCK_API redlock_code redlock_note_hold_time(redlock_client *client, const void *key,
                                                size_t key_len, int64_t held_ms);

/*
 * How long from now the lock is certainly held; 0: it is not held. Reads the clock anew.
 * Arithmetic only: no round trip.
 */
REDLOCK_API int64_t redlock_valid_ms(const redlock_lease *lease);

/*
 * The fencing token: microseconds of the nodes' time, below 2^53, larger than the token of
 * every earlier holder. Send it with each write, to a resource that refuses smaller tokens.
 * NO_FENCE: the lock is not fenced, has not been acquired, or was adopted without its
 * fencing token.
 */
REDLOCK_API int64_t redlock_fence(const redlock_lease *lease);

/* The slot of a semaphore that the lease has, or tried last, from 1 on; 0: it is none. */
REDLOCK_API unsigned redlock_slot(const redlock_lease *lease);

/* The token as it is on the nodes; "" before the first attempt began. */
REDLOCK_API const char *redlock_token(const redlock_lease *lease);

/* The number of the lease in spans and events, which begin again after 2^24. */
REDLOCK_API uint64_t redlock_lease_number(const redlock_lease *lease);

/*
 * The last outcome, node by node. If a reply came too late or not at all, the node's `text`
 * names the limit that it missed. A node that could not vote when an extension was due is
 * ABSENT, and its fault says why. Writes at most `room` elements; returns the number of
 * nodes. 0: the lease is NULL or has made no attempt, its client was freed, or this is a
 * forked child.
 */
REDLOCK_API size_t redlock_explain_sized(const redlock_lease *lease, redlock_node *nodes,
                                         size_t room, size_t size);
static inline size_t redlock_explain(const redlock_lease *lease, redlock_node *nodes,
                                     size_t room)
{
    return redlock_explain_sized(lease, nodes, room, sizeof(*nodes));
}

/* --- elections --- */

/*
 * A candidate acquires a lock of the kind ELECTION: it leads while it holds the lock, and
 * its fencing token is the number of the term. There is at most one leader at a time, and
 * terms rise. on_lost tells it that it does not lead any more; a release resigns.
 *
 * An observer is told who leads. That is a hint, and may be outdated when it arrives: a
 * resource must compare the terms of what it is asked to do.
 */
typedef struct redlock_observer redlock_observer;

typedef struct redlock_leader {
    /* OK; NO_QUORUM: too few nodes reply, so it is not known who leads */
    redlock_code code;
    int64_t term;      /* NO_FENCE: nobody leads, or it is not known */
    const char *id;    /* the leader's label; "": nobody's */
    const char *token; /* its token on the nodes; "": nobody's */
} redlock_leader;

typedef void redlock_leader_fn(redlock_observer *observer, const redlock_leader *leader,
                               void *arg);

/*
 * Calls back with who leads as soon as that is known, and again at each change: at once if
 * the nodes notify the client, otherwise within about a second. It observes until the
 * observer or the client is freed; the caller has to free the observer in any case.
 * Results: OK, NO_QUORUM.
 * Errors: BAD_KEY, BAD_OPTION (no callback), NO_MEMORY, FORKED, CLOSED.
 */
REDLOCK_API redlock_code redlock_observe(redlock_client *client, const void *key,
                                         size_t key_len, redlock_leader_fn *callback,
                                         void *arg, redlock_observer **ret_observer);

/* Ends it without a callback, also inside of one. */
REDLOCK_API void redlock_observer_free(redlock_observer *observer);

#ifdef __cplusplus
}
#endif

#endif
