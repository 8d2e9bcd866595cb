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
#define REDLOCK_VERSION "1.0.0"
#define REDLOCK_VERSION_NUMBER 10000
REDLOCK_API const char *redlock_version(void);
#define REDLOCK_NODES_MAX 32
#define REDLOCK_KEY_MAX 512
#define REDLOCK_KEYS_MAX 16
#define REDLOCK_SLOTS_MAX 128
#define REDLOCK_LABEL_MAX 64
#define REDLOCK_TOKEN_MAX 128
#define REDLOCK_TEXT_MAX 255
#define REDLOCK_TTL_MAX_MS 86400000
#define REDLOCK_RECORD_MAX_MS INT64_C(5356800000)
#define REDLOCK_PORT 6379
#define REDLOCK_TTL_MS 30000
#define REDLOCK_DRIFT_PPM 10000
#define REDLOCK_CONNECT_TIMEOUT_MS 1000
#define REDLOCK_QUARANTINE_FLOOR_MS 60000
enum {
    REDLOCK_FOREVER = -1,
    REDLOCK_NODE_TIMEOUT = -2,
    REDLOCK_UNKNOWN = -3,
    REDLOCK_GIVE_UP = -4,
    REDLOCK_NO_NODE = -5,
    REDLOCK_AUTO = 0,
    REDLOCK_ONE_ATTEMPT = 0,
    REDLOCK_UNLIMITED = 0,
    REDLOCK_NO_FENCE = 0,
};
#define REDLOCK_CODES(X) \
    X(OK, 0, "it succeeded") \
    X(TAKEN, 1, "another owner holds the lock") \
    X(TIMEOUT, 2, "another owner held the lock until the wait time ended") \
    X(NO_QUORUM, 3, "too few nodes gave a usable reply") \
    X(EXPIRED, 4, "too little of the TTL is left") \
    X(CANCELLED, 5, "the operation was cancelled") \
    X(DENIED, 6, "the nodes denied access") \
    X(GONE, 7, "the nodes no longer store the token of this lock") \
    X(UNCONFIRMED, 8, "too few nodes confirmed the release") \
    X(MAX_HOLD, 9, "the longest time to hold the lock is over") \
    X(NOT_EMPTY, 10, "a node already has a marker or keys") \
    X(UNREACHED, 11, "a node did not reply") \
    X(UNADMITTED, 12, "the nodes belong to no deployment of fenced locks") \
    X(MEMBER_INACTIVE, 13, "another node does not vote yet") \
    X(WRONG_DEPLOYMENT, 14, "a node belongs to another deployment") \
    X(BAD_NODES, 20, "the number of nodes is not possible") \
    X(BAD_URI, 21, "the URI of a node is malformed") \
    X(DUPLICATE_NODE, 22, "a node is configured twice") \
    X(UNSUPPORTED, 23, "this version does not support the requested feature") \
    X(BAD_KEY, 24, "the key is not possible") \
    X(BAD_TTL, 25, "the TTL is not possible") \
    X(BAD_TOKEN, 26, "the token is not possible") \
    X(BAD_OPTION, 27, "an argument or option is not possible") \
    X(NO_MEMORY, 28, "out of memory") \
    X(BUSY, 29, "another operation has not ended") \
    X(NOT_HELD, 30, "this handle does not hold the lock") \
    X(FORKED, 31, "the client belongs to the parent process: create a new one") \
    X(CLOSED, 32, "there is no open client") \
    X(SYSTEM, 33, "a system call failed") \
    X(WOULD_DEADLOCK, 34, "the call would wait for itself")
typedef enum redlock_code {
#define REDLOCK_X_(name,number,text) REDLOCK_ ##name = number,
    REDLOCK_CODES(REDLOCK_X_)
#undef REDLOCK_X_
} redlock_code;
REDLOCK_API const char *redlock_code_name(redlock_code code);
REDLOCK_API const char *redlock_code_text(redlock_code code);
REDLOCK_API const char *redlock_reason_name(redlock_reason reason);
REDLOCK_API const char *redlock_reason_text(redlock_reason reason);
typedef struct redlock_error {
    redlock_code code;
    redlock_reason reason;
    const char *field;
    int64_t value, bound;
    char text[1024];
} redlock_error;
REDLOCK_API const redlock_error *redlock_last_error(void);
REDLOCK_API const char *redlock_kind_name(redlock_kind kind);
REDLOCK_API redlock_kind redlock_token_kind(const char *token, bool *ret_fenced);
typedef enum redlock_level {
    REDLOCK_LEVEL_ERROR,
    REDLOCK_LEVEL_WARNING,
    REDLOCK_LEVEL_INFO,
} redlock_level;
REDLOCK_API const char *redlock_level_name(redlock_level level);
typedef struct redlock_field {
    const char *name;
    const char *text;
    size_t len;
    int64_t number;
} redlock_field;
#define REDLOCK_EVENTS(X) \
    X(NODE_CONNECTED, "node_connected", INFO) \
    X(NODE_UNREACHABLE, "node_unreachable", WARNING) \
    X(NODE_REFUSED, "node_refused", ERROR) \
    X(NODE_DISCONNECTED, "node_disconnected", WARNING) \
    X(NODE_SUSPECT, "node_suspect", WARNING) \
    X(NODE_RECOVERED, "node_recovered", INFO) \
    X(NODE_RESTARTED, "node_restarted", WARNING) \
    X(NODE_QUARANTINED, "node_quarantined", WARNING) \
    X(NODE_QUARANTINE_ENDED, "node_quarantine_ended", INFO) \
    X(MEMBER_ACTIVE, "member_active", INFO) \
    X(MEMBER_INACTIVE, "member_inactive", WARNING) \
    X(ACQUIRE_FAILED, "acquire_failed", WARNING) \
    X(LOCK_LOST, "lock_lost", ERROR) \
    X(EXTENSION_FAILED, "extension_failed", WARNING) \
    X(WATCHDOG_EXTENSION_FAILED, "watchdog_extension_failed", WARNING) \
    X(WATCHDOG_EXTENSION_RECOVERED, "watchdog_extension_recovered", INFO) \
    X(RELEASE_FAILED, "release_failed", WARNING)
typedef enum redlock_event_type {
#define REDLOCK_X_(type,name,level) REDLOCK_EVENT_ ##type,
    REDLOCK_EVENTS(REDLOCK_X_)
#undef REDLOCK_X_
} redlock_event_type;
typedef struct redlock_event {
    redlock_event_type type;
    redlock_level level;
    const char *name;
    const redlock_field *fields;
    size_t count;
    void *user;
} redlock_event;
typedef void redlock_log_fn(const redlock_event *event, void *arg);
typedef struct redlock_span {
    bool ended;
    const char *operation;
    uint64_t lease;
    const void *key;
    size_t key_len;
    redlock_kind kind;
    bool fenced;
    redlock_code code;
    unsigned attempts;
    int64_t duration_us;
    void *user;
} redlock_span;
typedef void redlock_trace_fn(const redlock_span *span, void *arg);
typedef struct redlock_client redlock_client;
typedef struct redlock_options {
    size_t size;
    const char *username;
    const char *password;
    const char *password_file;
    const char *prefix;
    const char *label;
    unsigned quorum;
    int64_t node_timeout_ms;
    int64_t connect_timeout_ms;
    uint32_t drift_ppm;
    int64_t max_ttl_ms;
    bool durable;
    bool tls;
    bool tls_insecure;
    const char *tls_ca_file;
    const char *tls_ca_dir;
    const char *tls_cert_file;
    const char *tls_key_file;
    const char *tls_name;
    redlock_log_fn *log;
    void *log_arg;
    redlock_trace_fn *trace;
    void *trace_arg;
} redlock_options;
REDLOCK_API void redlock_options_init_sized(redlock_options *options, size_t size);
static inline void redlock_options_init(redlock_options *options)
{
    redlock_options_init_sized(options, sizeof(*options));
}
REDLOCK_API redlock_code redlock_client_new(struct event_base *base,
                                            const char *const *uris, size_t count,
                                            const redlock_options *options,
                                            redlock_client **ret_client);
REDLOCK_API void redlock_client_free(redlock_client *client);
typedef void redlock_drain_fn(redlock_client *client, bool clean, void *arg);
REDLOCK_API redlock_code redlock_client_drain(redlock_client *client, int64_t timeout_ms,
                                              redlock_drain_fn *callback, void *arg);
REDLOCK_API size_t redlock_client_nodes(const redlock_client *client);
REDLOCK_API unsigned redlock_client_quorum(const redlock_client *client);
REDLOCK_API int64_t redlock_client_nodes_time(redlock_client *client);
typedef enum redlock_fault {
#define REDLOCK_X_(fault,name,prefix,text) REDLOCK_FAULT_ ##fault,
    REDLOCK_FAULTS(REDLOCK_X_)
#undef REDLOCK_X_
} redlock_fault;
REDLOCK_API const char *redlock_fault_name(redlock_fault fault);
REDLOCK_API const char *redlock_fault_text(redlock_fault fault);
#define REDLOCK_VERDICTS(X) \
                                                                                           \
    X(UNASKED, "unasked", "the client sent it nothing") \
    X(WAITING, "waiting", "the client waits for its reply") \
    X(GRANTED, "granted", "it acquired, extended or released, as requested") \
    X(HELD, "held", "its key holds another value") \
    X(GONE, "gone", "its key is missing") \
    X(RECREATED, "recreated", "an extension found no key and stored the token again") \
    X(ERROR, "error", "it refused with an error; nothing was changed") \
    X(UNKNOWN, "unknown", "the command may have been executed; no reply confirms it") \
    X(SILENT, "silent", "it did not reply in time") \
    X(ABSENT, "absent", "it could not vote when the round began, or cannot vote now") \
                                                                                           \
    X(DOWN, "down", "it is not connected") \
    X(CONNECTING, "connecting", "the client connects to it") \
    X(GREETING, "greeting", "it has not replied to the first commands yet") \
    X(READY, "ready", "it is connected and may vote") \
    X(SUSPECT, "suspect", "its replies are late") \
    X(QUARANTINED, "quarantined", "it may have forgotten locks and does not vote yet") \
                                                                                           \
    X(ACTIVE, "active", "it may vote on fenced locks")
typedef enum redlock_verdict {
#define REDLOCK_X_(verdict,name,text) REDLOCK_VERDICT_ ##verdict,
    REDLOCK_VERDICTS(REDLOCK_X_)
#undef REDLOCK_X_
} redlock_verdict;
REDLOCK_API const char *redlock_verdict_name(redlock_verdict verdict);
REDLOCK_API const char *redlock_verdict_text(redlock_verdict verdict);
#define REDLOCK_WAITING_WRITER "a waiting writer"
typedef struct redlock_node {
    const char *uri;
    redlock_verdict verdict;
    redlock_fault fault;
    bool denied;
    int64_t latency_us;
    int64_t remaining_us;
    char text[REDLOCK_TEXT_MAX + 1];
    char holder[REDLOCK_TOKEN_MAX + 1];
    char value[REDLOCK_TOKEN_MAX + 1];
    unsigned key;
} redlock_node;
REDLOCK_API size_t redlock_client_explain_sized(const redlock_client *client,
                                                redlock_node *nodes, size_t room,
                                                size_t size);
static inline size_t redlock_client_explain(const redlock_client *client,
                                            redlock_node *nodes, size_t room)
{
    return redlock_client_explain_sized(client, nodes, room, sizeof(*nodes));
}
REDLOCK_API size_t redlock_client_record(const redlock_client *client, char *text,
                                         size_t room);
typedef struct redlock_lease redlock_lease;
typedef struct redlock_result {
    redlock_code code;
    redlock_reason reason;
    unsigned nodes, quorum;
    unsigned granted;
    unsigned attempts;
    int64_t took_ms;
    int64_t valid_ms;
    int64_t remaining_ms;
} redlock_result;
typedef void redlock_lease_fn(redlock_lease *lease, const redlock_result *result,
                              void *arg);
typedef enum redlock_retry {
    REDLOCK_RETRY_EXPONENTIAL,
    REDLOCK_RETRY_FIXED,
    REDLOCK_RETRY_NONE,
    REDLOCK_RETRY_CUSTOM,
} redlock_retry;
typedef int64_t redlock_retry_fn(unsigned attempt, uint64_t random, void *arg);
typedef struct redlock_lease_options {
    size_t size;
    redlock_kind kind;
    unsigned slots;
    bool fenced;
    int64_t fence;
    int64_t ttl_ms;
    int64_t wait_ms;
    int64_t min_validity_ms;
    int64_t margin_ms;
    bool watchdog;
    int64_t max_hold_ms;
    redlock_retry retry;
    int64_t retry_base_ms, retry_cap_ms;
    redlock_retry_fn *retry_fn;
    void *retry_arg;
    redlock_lease_fn *on_lost;
    void *lost_arg;
    redlock_lease_fn *on_extended;
    void *extended_arg;
    void *user;
} redlock_lease_options;
REDLOCK_API void redlock_lease_options_init_sized(redlock_lease_options *options,
                                                  size_t size);
static inline void redlock_lease_options_init(redlock_lease_options *options)
{
    redlock_lease_options_init_sized(options, sizeof(*options));
}
REDLOCK_API redlock_code redlock_acquire(redlock_client *client, const void *key,
                                         size_t key_len,
                                         const redlock_lease_options *options,
                                         redlock_lease_fn *callback, void *arg,
                                         redlock_lease **ret_lease);
typedef struct redlock_key {
    const void *bytes;
    size_t len;
} redlock_key;
REDLOCK_API redlock_code redlock_acquire_many(redlock_client *client,
                                              const redlock_key *keys, size_t count,
                                              const redlock_lease_options *options,
                                              redlock_lease_fn *callback, void *arg,
                                              redlock_lease **ret_lease);
REDLOCK_API redlock_code redlock_adopt(redlock_client *client, const void *key,
                                       size_t key_len, const char *token, int64_t valid_ms,
                                       const redlock_lease_options *options,
                                       redlock_lease **ret_lease);
REDLOCK_API redlock_code redlock_adopt_many(redlock_client *client, const redlock_key *keys,
                                            size_t count, const char *token,
                                            int64_t valid_ms,
                                            const redlock_lease_options *options,
                                            redlock_lease **ret_lease);
REDLOCK_API redlock_code redlock_extend(redlock_lease *lease, int64_t ttl_ms,
                                        redlock_lease_fn *callback, void *arg);
REDLOCK_API redlock_code redlock_downgrade(redlock_lease *lease, redlock_lease_fn *callback,
                                           void *arg);
REDLOCK_API redlock_code redlock_release(redlock_lease *lease, redlock_lease_fn *callback,
                                         void *arg);
REDLOCK_API void redlock_cancel(redlock_lease *lease);
REDLOCK_API void redlock_disown(redlock_lease *lease);
REDLOCK_API void redlock_lease_free(redlock_lease *lease);
typedef void redlock_hold_time_fn(redlock_client *client, int64_t longest_ms, void *arg);
REDLOCK_API redlock_code redlock_hold_time(redlock_client *client, const void *key,
                                           size_t key_len, redlock_hold_time_fn *callback,
                                           void *arg);
REDLOCK_API redlock_code redlock_note_hold_time(redlock_client *client, const void *key,
                                                size_t key_len, int64_t held_ms);
REDLOCK_API int64_t redlock_valid_ms(const redlock_lease *lease);
REDLOCK_API int64_t redlock_fence(const redlock_lease *lease);
REDLOCK_API unsigned redlock_slot(const redlock_lease *lease);
REDLOCK_API const char *redlock_token(const redlock_lease *lease);
REDLOCK_API uint64_t redlock_lease_number(const redlock_lease *lease);
REDLOCK_API size_t redlock_explain_sized(const redlock_lease *lease, redlock_node *nodes,
                                         size_t room, size_t size);
static inline size_t redlock_explain(const redlock_lease *lease, redlock_node *nodes,
                                     size_t room)
{
    return redlock_explain_sized(lease, nodes, room, sizeof(*nodes));
}
typedef struct redlock_observer redlock_observer;
typedef struct redlock_leader {
    redlock_code code;
    int64_t term;
    const char *id;
    const char *token;
} redlock_leader;
typedef void redlock_leader_fn(redlock_observer *observer, const redlock_leader *leader,
                               void *arg);
REDLOCK_API redlock_code redlock_observe(redlock_client *client, const void *key,
                                         size_t key_len, redlock_leader_fn *callback,
                                         void *arg, redlock_observer **ret_observer);
REDLOCK_API void redlock_observer_free(redlock_observer *observer);
#ifdef __cplusplus
}
#endif
#endif
