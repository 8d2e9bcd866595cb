"""Made by make_cdef.py from the headers of libredlock: do not edit."""

CDEF = r"""
typedef enum redlock_kind {
    REDLOCK_KIND_FOREIGN = -1,
    REDLOCK_KIND_EXCLUSIVE,
    REDLOCK_KIND_SHARED,
    REDLOCK_KIND_SLOT,
    REDLOCK_KIND_ELECTION,
    REDLOCK_KIND_RECORD,
    REDLOCK_KIND_REDISSON,
    REDLOCK_KIND_SET,
} redlock_kind;
typedef enum redlock_reason {
    REDLOCK_REASON_NONE,
    REDLOCK_REASON_PASSWORD,
    REDLOCK_REASON_PERMISSION,
    REDLOCK_REASON_PROTECTED,
    REDLOCK_REASON_CERTIFICATE,
    REDLOCK_REASON_QUARANTINED,
    REDLOCK_REASON_NOT_ADMITTED,
    REDLOCK_REASON_CLOCK,
    REDLOCK_REASON_REFUSED,
    REDLOCK_REASON_NOT_CONNECTED,
    REDLOCK_REASON_SILENT,
    REDLOCK_REASON_MISSING,
    REDLOCK_REASON_LATE,
    REDLOCK_REASON_MARGIN,
    REDLOCK_REASON_DEADLINE,
    REDLOCK_REASON_THREAD,
    REDLOCK_REASON_RUNNING,
    REDLOCK_REASON_RECURSION,
    REDLOCK_REASON_IN_CALLBACK,
    REDLOCK_REASON_BY_CALLER,
    REDLOCK_REASON_CLIENT_FREED,
    REDLOCK_REASON_THREAD_ENDED,
    REDLOCK_REASON_RELEASED,
    REDLOCK_REASON_DISOWNED,
    REDLOCK_REASON_ACQUIRING,
    REDLOCK_REASON_NOT_ACQUIRED,
    REDLOCK_REASON_LOST,
    REDLOCK_REASON_NULL_HANDLE,
    REDLOCK_REASON_EMPTY,
    REDLOCK_REASON_TOO_LONG,
    REDLOCK_REASON_OUT_OF_RANGE,
    REDLOCK_REASON_NOT_SET,
    REDLOCK_REASON_MALFORMED,
    REDLOCK_REASON_RESERVED,
    REDLOCK_REASON_TWICE,
    REDLOCK_REASON_CONFLICT,
    REDLOCK_REASON_FOREIGN,
    REDLOCK_REASON_TTL_DRIFT,
    REDLOCK_REASON_TTL_MARGIN,
    REDLOCK_REASON_TTL_MIN_VALIDITY,
    REDLOCK_REASON_TTL_CLIENT_MAX,
    REDLOCK_REASON_TTL_ADMITTED,
    REDLOCK_REASON_RESOURCES,
    REDLOCK_REASON_RANDOM,
} redlock_reason;
struct event_base;
const char *redlock_version(void);
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
typedef enum redlock_code {
    REDLOCK_OK = 0,
    REDLOCK_TAKEN = 1,
    REDLOCK_TIMEOUT = 2,
    REDLOCK_NO_QUORUM = 3,
    REDLOCK_EXPIRED = 4,
    REDLOCK_CANCELLED = 5,
    REDLOCK_DENIED = 6,
    REDLOCK_GONE = 7,
    REDLOCK_UNCONFIRMED = 8,
    REDLOCK_MAX_HOLD = 9,
    REDLOCK_NOT_EMPTY = 10,
    REDLOCK_UNREACHED = 11,
    REDLOCK_UNADMITTED = 12,
    REDLOCK_MEMBER_INACTIVE = 13,
    REDLOCK_WRONG_DEPLOYMENT = 14,
    REDLOCK_BAD_NODES = 20,
    REDLOCK_BAD_URI = 21,
    REDLOCK_DUPLICATE_NODE = 22,
    REDLOCK_UNSUPPORTED = 23,
    REDLOCK_BAD_KEY = 24,
    REDLOCK_BAD_TTL = 25,
    REDLOCK_BAD_TOKEN = 26,
    REDLOCK_BAD_OPTION = 27,
    REDLOCK_NO_MEMORY = 28,
    REDLOCK_BUSY = 29,
    REDLOCK_NOT_HELD = 30,
    REDLOCK_FORKED = 31,
    REDLOCK_CLOSED = 32,
    REDLOCK_SYSTEM = 33,
    REDLOCK_WOULD_DEADLOCK = 34,
} redlock_code;
const char *redlock_code_name(redlock_code code);
const char *redlock_code_text(redlock_code code);
const char *redlock_reason_name(redlock_reason reason);
const char *redlock_reason_text(redlock_reason reason);
typedef struct redlock_error {
    redlock_code code;
    redlock_reason reason;
    const char *field;
    int64_t value,
    bound;
    char text[1024];
} redlock_error;
const redlock_error *redlock_last_error(void);
const char *redlock_kind_name(redlock_kind kind);
redlock_kind redlock_token_kind(const char *token, _Bool *ret_fenced);
typedef enum redlock_level {
    REDLOCK_LEVEL_ERROR,
    REDLOCK_LEVEL_WARNING,
    REDLOCK_LEVEL_INFO,
} redlock_level;
const char *redlock_level_name(redlock_level level);
typedef struct redlock_field {
    const char *name;
    const char *text;
    size_t len;
    int64_t number;
} redlock_field;
typedef enum redlock_event_type {
    REDLOCK_EVENT_NODE_CONNECTED,
    REDLOCK_EVENT_NODE_UNREACHABLE,
    REDLOCK_EVENT_NODE_REFUSED,
    REDLOCK_EVENT_NODE_DISCONNECTED,
    REDLOCK_EVENT_NODE_SUSPECT,
    REDLOCK_EVENT_NODE_RECOVERED,
    REDLOCK_EVENT_NODE_RESTARTED,
    REDLOCK_EVENT_NODE_QUARANTINED,
    REDLOCK_EVENT_NODE_QUARANTINE_ENDED,
    REDLOCK_EVENT_MEMBER_ACTIVE,
    REDLOCK_EVENT_MEMBER_INACTIVE,
    REDLOCK_EVENT_ACQUIRE_FAILED,
    REDLOCK_EVENT_LOCK_LOST,
    REDLOCK_EVENT_EXTENSION_FAILED,
    REDLOCK_EVENT_WATCHDOG_EXTENSION_FAILED,
    REDLOCK_EVENT_WATCHDOG_EXTENSION_RECOVERED,
    REDLOCK_EVENT_RELEASE_FAILED,
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
    _Bool ended;
    const char *operation;
    uint64_t lease;
    const void *key;
    size_t key_len;
    redlock_kind kind;
    _Bool fenced;
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
    _Bool durable;
    _Bool tls;
    _Bool tls_insecure;
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
void redlock_options_init_sized(redlock_options *options, size_t size);
redlock_code redlock_client_new(struct event_base *base, const char *const *uris, size_t count, const redlock_options *options, redlock_client **ret_client);
void redlock_client_free(redlock_client *client);
typedef void redlock_drain_fn(redlock_client *client, _Bool clean, void *arg);
redlock_code redlock_client_drain(redlock_client *client, int64_t timeout_ms, redlock_drain_fn *callback, void *arg);
size_t redlock_client_nodes(const redlock_client *client);
unsigned redlock_client_quorum(const redlock_client *client);
int64_t redlock_client_nodes_time(redlock_client *client);
typedef enum redlock_fault {
    REDLOCK_FAULT_NONE,
    REDLOCK_FAULT_ERR,
    REDLOCK_FAULT_MAXCLIENTS,
    REDLOCK_FAULT_NOSCRIPT,
    REDLOCK_FAULT_LOADING,
    REDLOCK_FAULT_BUSY,
    REDLOCK_FAULT_READONLY,
    REDLOCK_FAULT_MASTERDOWN,
    REDLOCK_FAULT_CLUSTERDOWN,
    REDLOCK_FAULT_MOVED,
    REDLOCK_FAULT_CROSSSLOT,
    REDLOCK_FAULT_PROTECTED,
    REDLOCK_FAULT_NOAUTH,
    REDLOCK_FAULT_WRONGPASS,
    REDLOCK_FAULT_NOPERM,
    REDLOCK_FAULT_OOM,
    REDLOCK_FAULT_MISCONF,
    REDLOCK_FAULT_NOREPLICAS,
    REDLOCK_FAULT_WRONGTYPE,
    REDLOCK_FAULT_LATE,
    REDLOCK_FAULT_AHEAD,
    REDLOCK_FAULT_MARKER,
    REDLOCK_FAULT_FENCE,
    REDLOCK_FAULT_UNMARKED,
    REDLOCK_FAULT_MARKER_LOST,
    REDLOCK_FAULT_NO_MAJORITY,
    REDLOCK_FAULT_OTHER_DEPLOYMENT,
    REDLOCK_FAULT_REPLACED,
    REDLOCK_FAULT_OTHER_PROCESS,
    REDLOCK_FAULT_OTHER_HISTORY,
    REDLOCK_FAULT_MEMBER_QUARANTINE,
    REDLOCK_FAULT_CLOCK_SET,
    REDLOCK_FAULT_CLOCK_STILL,
    REDLOCK_FAULT_CLOCK_FAST,
    REDLOCK_FAULT_CLOCK_SLOW,
    REDLOCK_FAULT_CONNECTING,
    REDLOCK_FAULT_RESOLVE,
    REDLOCK_FAULT_CONNECT,
    REDLOCK_FAULT_CLOSED,
    REDLOCK_FAULT_TIMEOUT,
    REDLOCK_FAULT_PROTOCOL,
    REDLOCK_FAULT_REPLICA,
    REDLOCK_FAULT_CLUSTER,
    REDLOCK_FAULT_DUPLICATE,
    REDLOCK_FAULT_QUARANTINE,
    REDLOCK_FAULT_MEMORY,
    REDLOCK_FAULT_FILES,
    REDLOCK_FAULT_TLS_CA,
    REDLOCK_FAULT_TLS_NAME,
    REDLOCK_FAULT_TLS_EXPIRED,
    REDLOCK_FAULT_TLS_NOT_YET_VALID,
    REDLOCK_FAULT_TLS_CERTIFICATE,
    REDLOCK_FAULT_TLS_CLIENT,
    REDLOCK_FAULT_TLS_PLAINTEXT,
    REDLOCK_FAULT_TLS_VERSION,
    REDLOCK_FAULT_TLS_REFUSED,
    REDLOCK_FAULT_TLS_CA_FILE,
    REDLOCK_FAULT_TLS_CERT_FILE,
    REDLOCK_FAULT_TLS_KEY_FILE,
    REDLOCK_FAULT_TLS,
    REDLOCK_FAULT_NO_EVAL,
    REDLOCK_FAULT_NO_ROLE,
    REDLOCK_FAULT_NO_RUN_ID,
} redlock_fault;
const char *redlock_fault_name(redlock_fault fault);
const char *redlock_fault_text(redlock_fault fault);
typedef enum redlock_verdict {
    REDLOCK_VERDICT_UNASKED,
    REDLOCK_VERDICT_WAITING,
    REDLOCK_VERDICT_GRANTED,
    REDLOCK_VERDICT_HELD,
    REDLOCK_VERDICT_GONE,
    REDLOCK_VERDICT_RECREATED,
    REDLOCK_VERDICT_ERROR,
    REDLOCK_VERDICT_UNKNOWN,
    REDLOCK_VERDICT_SILENT,
    REDLOCK_VERDICT_ABSENT,
    REDLOCK_VERDICT_DOWN,
    REDLOCK_VERDICT_CONNECTING,
    REDLOCK_VERDICT_GREETING,
    REDLOCK_VERDICT_READY,
    REDLOCK_VERDICT_SUSPECT,
    REDLOCK_VERDICT_QUARANTINED,
    REDLOCK_VERDICT_ACTIVE,
} redlock_verdict;
const char *redlock_verdict_name(redlock_verdict verdict);
const char *redlock_verdict_text(redlock_verdict verdict);
typedef struct redlock_node {
    const char *uri;
    redlock_verdict verdict;
    redlock_fault fault;
    _Bool denied;
    int64_t latency_us;
    int64_t remaining_us;
    char text[255 + 1];
    char holder[128 + 1];
    char value[128 + 1];
    unsigned key;
} redlock_node;
size_t redlock_client_explain_sized(const redlock_client *client, redlock_node *nodes, size_t room, size_t size);
size_t redlock_client_record(const redlock_client *client, char *text, size_t room);
typedef struct redlock_lease redlock_lease;
typedef struct redlock_result {
    redlock_code code;
    redlock_reason reason;
    unsigned nodes,
    quorum;
    unsigned granted;
    unsigned attempts;
    int64_t took_ms;
    int64_t valid_ms;
    int64_t remaining_ms;
} redlock_result;
typedef void redlock_lease_fn(redlock_lease *lease, const redlock_result *result, void *arg);
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
    _Bool fenced;
    int64_t fence;
    int64_t ttl_ms;
    int64_t wait_ms;
    int64_t min_validity_ms;
    int64_t margin_ms;
    _Bool watchdog;
    int64_t max_hold_ms;
    redlock_retry retry;
    int64_t retry_base_ms,
    retry_cap_ms;
    redlock_retry_fn *retry_fn;
    void *retry_arg;
    redlock_lease_fn *on_lost;
    void *lost_arg;
    redlock_lease_fn *on_extended;
    void *extended_arg;
    void *user;
} redlock_lease_options;
void redlock_lease_options_init_sized(redlock_lease_options *options, size_t size);
redlock_code redlock_acquire(redlock_client *client, const void *key, size_t key_len, const redlock_lease_options *options, redlock_lease_fn *callback, void *arg, redlock_lease **ret_lease);
typedef struct redlock_key {
    const void *bytes;
    size_t len;
} redlock_key;
redlock_code redlock_acquire_many(redlock_client *client, const redlock_key *keys, size_t count, const redlock_lease_options *options, redlock_lease_fn *callback, void *arg, redlock_lease **ret_lease);
redlock_code redlock_adopt(redlock_client *client, const void *key, size_t key_len, const char *token, int64_t valid_ms, const redlock_lease_options *options, redlock_lease **ret_lease);
redlock_code redlock_adopt_many(redlock_client *client, const redlock_key *keys, size_t count, const char *token, int64_t valid_ms, const redlock_lease_options *options, redlock_lease **ret_lease);
redlock_code redlock_extend(redlock_lease *lease, int64_t ttl_ms, redlock_lease_fn *callback, void *arg);
redlock_code redlock_downgrade(redlock_lease *lease, redlock_lease_fn *callback, void *arg);
redlock_code redlock_release(redlock_lease *lease, redlock_lease_fn *callback, void *arg);
void redlock_cancel(redlock_lease *lease);
void redlock_disown(redlock_lease *lease);
void redlock_lease_free(redlock_lease *lease);
typedef void redlock_hold_time_fn(redlock_client *client, int64_t longest_ms, void *arg);
redlock_code redlock_hold_time(redlock_client *client, const void *key, size_t key_len, redlock_hold_time_fn *callback, void *arg);
redlock_code redlock_note_hold_time(redlock_client *client, const void *key, size_t key_len, int64_t held_ms);
int64_t redlock_valid_ms(const redlock_lease *lease);
int64_t redlock_fence(const redlock_lease *lease);
unsigned redlock_slot(const redlock_lease *lease);
const char *redlock_token(const redlock_lease *lease);
uint64_t redlock_lease_number(const redlock_lease *lease);
size_t redlock_explain_sized(const redlock_lease *lease, redlock_node *nodes, size_t room, size_t size);
typedef struct redlock_observer redlock_observer;
typedef struct redlock_leader {
    redlock_code code;
    int64_t term;
    const char *id;
    const char *token;
} redlock_leader;
typedef void redlock_leader_fn(redlock_observer *observer, const redlock_leader *leader, void *arg);
redlock_code redlock_observe(redlock_client *client, const void *key, size_t key_len, redlock_leader_fn *callback, void *arg, redlock_observer **ret_observer);
void redlock_observer_free(redlock_observer *observer);
typedef struct redlock_sync redlock_sync;
redlock_code redlock_sync_new(const char *const *uris, size_t count, const redlock_options *options, redlock_sync **ret_sync);
void redlock_sync_free(redlock_sync *sync);
size_t redlock_sync_nodes(const redlock_sync *sync);
unsigned redlock_sync_quorum(const redlock_sync *sync);
size_t redlock_sync_explain_sized(redlock_sync *sync, redlock_node *nodes, size_t room, size_t size);
size_t redlock_sync_record(redlock_sync *sync, char *text, size_t room);
typedef struct redlock_stop redlock_stop;
redlock_code redlock_stop_new(redlock_sync *sync, redlock_stop **ret_stop);
void redlock_stop_all(redlock_stop *stop);
void redlock_stop_free(redlock_stop *stop);
typedef struct redlock_failure {
    size_t size,
    node_size;
    const redlock_error *error;
    int64_t remaining_ms;
    char holder[128 + 1];
    redlock_node *nodes;
    size_t room,
    count;
} redlock_failure;
void redlock_failure_init_sized(redlock_failure *failure, size_t size, size_t node_size);
typedef struct redlock_hold redlock_hold;
typedef void redlock_lost_fn(redlock_hold *hold, redlock_code why, redlock_reason reason, int64_t valid_ms, void *arg);
typedef struct redlock_lock_options {
    size_t size;
    _Bool fenced;
    int64_t ttl_ms;
    int64_t min_validity_ms;
    int64_t margin_ms;
    _Bool watchdog;
    int64_t max_hold_ms;
    _Bool any_thread;
    unsigned handoffs;
    redlock_stop *stop;
    redlock_lost_fn *on_lost;
    void *lost_arg;
    _Bool release_on_free;
    redlock_failure *failure;
    int64_t fence;
    _Bool recursive;
    redlock_kind kind;
    unsigned slots;
    void *user;
} redlock_lock_options;
void redlock_lock_options_init_sized(redlock_lock_options *options, size_t size);
redlock_code redlock_lock(redlock_sync *sync, const void *key, size_t key_len, const redlock_lock_options *options, redlock_hold **ret_hold);
redlock_code redlock_try_lock(redlock_sync *sync, const void *key, size_t key_len, const redlock_lock_options *options, redlock_hold **ret_hold);
redlock_code redlock_lock_for(redlock_sync *sync, const void *key, size_t key_len, int64_t wait_ms, const redlock_lock_options *options, redlock_hold **ret_hold);
redlock_code redlock_lock_many(redlock_sync *sync, const redlock_key *keys, size_t count, int64_t wait_ms, const redlock_lock_options *options, redlock_hold **ret_hold);
redlock_code redlock_lock_adopt(redlock_sync *sync, const void *key, size_t key_len, const char *token, int64_t valid_ms, const redlock_lock_options *options, redlock_hold **ret_hold);
redlock_code redlock_lock_adopt_many(redlock_sync *sync, const redlock_key *keys, size_t count, const char *token, int64_t valid_ms, const redlock_lock_options *options, redlock_hold **ret_hold);
redlock_code redlock_lock_release(redlock_sync *sync, const void *key, size_t key_len, const char *token);
redlock_code redlock_lock_release_many(redlock_sync *sync, const redlock_key *keys, size_t count, const char *token);
enum {
    REDLOCK_CONFIRM = 1,
    REDLOCK_DISOWN = 2,
};
redlock_code redlock_unlock(redlock_hold *hold, unsigned how);
redlock_code redlock_hold_extend(redlock_hold *hold, int64_t ttl_ms);
redlock_code redlock_hold_downgrade(redlock_hold *hold);
size_t redlock_hold_explain_sized(redlock_hold *hold, redlock_node *nodes, size_t room, size_t size);
void redlock_hold_free(redlock_hold *hold);
_Bool redlock_hold_lost(const redlock_hold *hold);
int64_t redlock_hold_valid_ms(const redlock_hold *hold);
int64_t redlock_hold_fence(const redlock_hold *hold);
unsigned redlock_hold_slot(const redlock_hold *hold);
const char *redlock_hold_token(const redlock_hold *hold);
uint64_t redlock_hold_number(const redlock_hold *hold);
typedef int redlock_flight_fn(redlock_hold *hold, void *arg);
redlock_code redlock_single_flight(redlock_sync *sync, const void *key, size_t key_len, int64_t wait_ms, const redlock_lock_options *options, redlock_flight_fn *fn, void *arg, int *ret_returned, _Bool *ret_led);
typedef struct redlock_sync_observer redlock_sync_observer;
typedef void redlock_sync_leader_fn(redlock_sync_observer *observer, const redlock_leader *leader, void *arg);
redlock_code redlock_sync_observe(redlock_sync *sync, const void *key, size_t key_len, redlock_sync_leader_fn *callback, void *arg, redlock_sync_observer **ret_observer);
void redlock_sync_observer_free(redlock_sync_observer *observer);
typedef enum redlock_admission {
    REDLOCK_ADMIT_NEW = 1,
    REDLOCK_ADMIT_AT_ONCE,
    REDLOCK_ADMIT_READMIT,
    REDLOCK_ADMIT_REPLACE,
    REDLOCK_ADMIT_RETIRE,
} redlock_admission;
enum {
    REDLOCK_PROMISE_NONE = 0x100,
    REDLOCK_PROMISE_DURABLE = 0x200,
    REDLOCK_PROMISE_SOLE = 0x400,
};
typedef struct redlock_admitted {
    redlock_code code;
    int node;
    const char *text;
} redlock_admitted;
typedef void redlock_admit_fn(redlock_client *client, const redlock_admitted *result, void *arg);
redlock_code redlock_admit(redlock_client *client, unsigned how, size_t node, redlock_admit_fn *callback, void *arg);
redlock_code redlock_client_watch_members(redlock_client *client);
size_t redlock_client_members_sized(const redlock_client *client, redlock_node *nodes, size_t room, size_t size);
typedef struct redlock_inspection {
    redlock_code code;
    redlock_reason reason;
    unsigned quorum;
    unsigned held,
    free;
    unsigned agreeing;
    int64_t remaining_ms;
    const redlock_node *const *nodes;
    size_t count;
    unsigned readers;
    const char *const *reader;
    unsigned depth;
    unsigned waiting;
    int64_t fence;
    int64_t since_ms;
    int64_t waited_ms;
} redlock_inspection;
typedef void redlock_inspect_fn(redlock_client *client, const redlock_inspection *inspection, void *arg);
redlock_code redlock_inspect(redlock_client *client, const void *key, size_t key_len, redlock_inspect_fn *callback, void *arg);
redlock_code redlock_break(redlock_client *client, const void *key, size_t key_len, redlock_inspect_fn *callback, void *arg);
typedef struct redlock_listed {
    redlock_code code;
    const void *key;
    size_t key_len;
    const redlock_inspection *inspection;
} redlock_listed;
typedef void redlock_list_fn(redlock_client *client, const redlock_listed *listed, void *arg);
enum {
    REDLOCK_LIST_FOREIGN = 1,
};
redlock_code redlock_list(redlock_client *client, const void *prefix, size_t prefix_len, unsigned how, redlock_list_fn *callback, void *arg);
typedef enum redlock_severity {
    REDLOCK_NOTE,
    REDLOCK_WARNING,
    REDLOCK_DEFECT,
} redlock_severity;
typedef struct redlock_finding {
    redlock_severity severity;
    const char *code;
    const char *text;
    const char *detail;
} redlock_finding;
typedef enum redlock_member_state {
    REDLOCK_MEMBER_UNSEEN,
    REDLOCK_MEMBER_UNMARKED,
    REDLOCK_MEMBER_NO_MAJORITY,
    REDLOCK_MEMBER_OTHER_DEPLOYMENT,
    REDLOCK_MEMBER_REPLACED,
    REDLOCK_MEMBER_OTHER_PROCESS,
    REDLOCK_MEMBER_QUARANTINED,
    REDLOCK_MEMBER_CLOCK,
    REDLOCK_MEMBER_UNCONFIRMED,
    REDLOCK_MEMBER_ACTIVE,
} redlock_member_state;
const char *redlock_member_state_name(redlock_member_state state);
const char *redlock_member_state_text(redlock_member_state state);
typedef struct redlock_node_health {
    const char *uri;
    _Bool fit;
    int64_t latency_us;
    char version[40];
    char policy[24];
    char fsync[16];
    int64_t maxmemory;
    int64_t replicas;
    _Bool timed;
    int64_t offset_us;
    int64_t offset_err_us;
    const redlock_finding *const *findings;
    size_t count;
    redlock_member_state member_state;
    int64_t member_index;
    int64_t generation;
    int64_t quarantine_us;
    int64_t max_ttl_us;
    unsigned promises;
    int64_t certificate_us;
} redlock_node_health;
typedef enum redlock_health {
    REDLOCK_FIT,
    REDLOCK_FIT_WITH_WARNINGS,
    REDLOCK_UNFIT,
    REDLOCK_NOT_CHECKED,
} redlock_health;
typedef struct redlock_health_report {
    redlock_code code;
    redlock_health health;
    unsigned quorum,
    fit;
    const redlock_node_health *const *nodes;
    size_t count;
} redlock_health_report;
typedef void redlock_check_fn(redlock_client *client, const redlock_health_report *report, void *arg);
enum {
    REDLOCK_CHECK_STRICT = 1,
    REDLOCK_CHECK_FENCED = 2,
    REDLOCK_CHECK_CLIENTS = 4,
};
redlock_code redlock_check(redlock_client *client, unsigned how, redlock_check_fn *callback, void *arg);
size_t redlock_client_acl(const redlock_client *client, unsigned uses, char *text, size_t room);
typedef struct redlock_histogram {
    uint64_t sum_us;
    uint64_t bucket[144];
} redlock_histogram;
uint64_t redlock_histogram_count(const redlock_histogram *histogram);
int64_t redlock_histogram_bound(unsigned bucket);
int64_t redlock_histogram_quantile(const redlock_histogram *histogram, double part);
typedef struct redlock_node_stats {
    const char *uri;
    _Bool connected;
    _Bool votes;
    _Bool votes_fenced;
    uint64_t queue;
    uint64_t errors;
    uint64_t timeouts;
    uint64_t disconnects;
    uint64_t connect_failures;
    redlock_histogram round_trip;
} redlock_node_stats;
typedef struct redlock_stats {
    size_t size,
    node_size;
    redlock_node_stats *nodes;
    size_t room,
    count;
    unsigned quorum;
    unsigned votes,
    votes_fenced;
    uint64_t acquiring;
    uint64_t acquire_results[48];
    uint64_t attempt_results[48];
    uint64_t held;
    uint64_t losses[48];
    uint64_t watchdog_extensions,
    watchdog_extensions_failed;
    uint64_t events_dropped;
    redlock_histogram acquire_time;
    redlock_histogram wait_time;
    redlock_histogram hold_time;
    redlock_histogram validity;
} redlock_stats;
void redlock_stats_init_sized(redlock_stats *stats, size_t size, size_t node_size);
redlock_code redlock_client_stats(const redlock_client *client, redlock_stats *stats);
redlock_code redlock_sync_stats(redlock_sync *sync, redlock_stats *stats);
typedef struct redlock_label {
    const char *name,
    *value;
} redlock_label;
size_t redlock_stats_prometheus(const redlock_stats *stats, const redlock_label *labels, size_t count, char *bytes, size_t room);
typedef struct redlock_settings {
    const char *const *uris;
    size_t count;
    int64_t ttl_ms;
    int64_t wait_ms;
    const char *warning;
} redlock_settings;
redlock_code redlock_settings_read(const char *file, const char *nodes, redlock_settings **ret_settings);
redlock_code redlock_settings_options_sized(const redlock_settings *settings, redlock_options *ret_options, size_t size);
void redlock_settings_free(redlock_settings *settings);
redlock_code redlock_duration_read(const char *text, int64_t *ret_ms);
#define REDLOCK_VERSION_NUMBER 10000
#define REDLOCK_NODES_MAX 32
#define REDLOCK_KEY_MAX 512
#define REDLOCK_KEYS_MAX 16
#define REDLOCK_SLOTS_MAX 128
#define REDLOCK_LABEL_MAX 64
#define REDLOCK_TOKEN_MAX 128
#define REDLOCK_TEXT_MAX 255
#define REDLOCK_TTL_MAX_MS 86400000
#define REDLOCK_RECORD_MAX_MS 5356800000
#define REDLOCK_PORT 6379
#define REDLOCK_TTL_MS 30000
#define REDLOCK_DRIFT_PPM 10000
#define REDLOCK_CONNECT_TIMEOUT_MS 1000
#define REDLOCK_QUARANTINE_FLOOR_MS 60000
#define REDLOCK_HANDOFFS 16
#define REDLOCK_HANDOFFS_MAX 63
#define REDLOCK_DEPTH_MAX 1000000
#define REDLOCK_ACL_REDISSON 1
#define REDLOCK_ACL_LIST 2
#define REDLOCK_BUCKETS 144
#define REDLOCK_RESULTS 48
struct event_base *event_base_new(void);
void event_base_free(struct event_base *);
int event_base_loop(struct event_base *, int);
int event_base_loopbreak(struct event_base *);
struct event *event_new(struct event_base *, int, short, void (*)(int, short, void *), void *);
int event_add(struct event *, void *);
void event_free(struct event *);
#define EVENT_READ 2
#define EVENT_PERSIST 16
#define EVENT_NO_EXIT_ON_EMPTY 4
"""
