#ifndef REDLOCK_ADMIN_H
#define REDLOCK_ADMIN_H
#include "redlock.h"
#ifdef __cplusplus
extern "C" {
#endif
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
typedef void redlock_admit_fn(redlock_client *client, const redlock_admitted *result,
                              void *arg);
REDLOCK_API redlock_code redlock_admit(redlock_client *client, unsigned how, size_t node,
                                       redlock_admit_fn *callback, void *arg);
REDLOCK_API redlock_code redlock_client_watch_members(redlock_client *client);
REDLOCK_API size_t redlock_client_members_sized(const redlock_client *client,
                                                redlock_node *nodes, size_t room,
                                                size_t size);
static inline size_t redlock_client_members(const redlock_client *client,
                                            redlock_node *nodes, size_t room)
{
    return redlock_client_members_sized(client, nodes, room, sizeof(*nodes));
}
typedef struct redlock_inspection {
    redlock_code code;
    redlock_reason reason;
    unsigned quorum;
    unsigned held, free;
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
typedef void redlock_inspect_fn(redlock_client *client,
                                const redlock_inspection *inspection, void *arg);
REDLOCK_API redlock_code redlock_inspect(redlock_client *client, const void *key,
                                         size_t key_len, redlock_inspect_fn *callback,
                                         void *arg);
REDLOCK_API redlock_code redlock_break(redlock_client *client, const void *key,
                                       size_t key_len, redlock_inspect_fn *callback,
                                       void *arg);
typedef struct redlock_listed {
    redlock_code code;
    const void *key;
    size_t key_len;
    const redlock_inspection *inspection;
} redlock_listed;
typedef void redlock_list_fn(redlock_client *client, const redlock_listed *listed,
                             void *arg);
enum {
    REDLOCK_LIST_FOREIGN = 1,
};
REDLOCK_API redlock_code redlock_list(redlock_client *client, const void *prefix,
                                      size_t prefix_len, unsigned how,
                                      redlock_list_fn *callback, void *arg);
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
#define REDLOCK_MEMBER_STATES(X) \
    X(UNSEEN, "unseen", "it was not reached") \
    X(UNMARKED, "unmarked", "it has no marker") \
    X(NO_MAJORITY, "no_majority", "too few nodes of its deployment were reached") \
    X(OTHER_DEPLOYMENT, "other_deployment", "it belongs to another deployment") \
    X(REPLACED, "replaced", "its member index was assigned again") \
    X(OTHER_PROCESS, "other_process", "its marker was made for another process") \
    X(QUARANTINED, "quarantined", "its marker puts it in quarantine") \
    X(CLOCK, "clock", "its clock is not trusted") \
    X(UNCONFIRMED, "unconfirmed", "its marker has changed and is read again") \
    X(ACTIVE, "active", "it may vote on fenced locks")
typedef enum redlock_member_state {
#define REDLOCK_X_(state,name,text) REDLOCK_MEMBER_ ##state,
    REDLOCK_MEMBER_STATES(REDLOCK_X_)
#undef REDLOCK_X_
} redlock_member_state;
REDLOCK_API const char *redlock_member_state_name(redlock_member_state state);
REDLOCK_API const char *redlock_member_state_text(redlock_member_state state);
typedef struct redlock_node_health {
    const char *uri;
    bool fit;
    int64_t latency_us;
    char version[40];
    char policy[24];
    char fsync[16];
    int64_t maxmemory;
    int64_t replicas;
    bool timed;
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
    unsigned quorum, fit;
    const redlock_node_health *const *nodes;
    size_t count;
} redlock_health_report;
typedef void redlock_check_fn(redlock_client *client, const redlock_health_report *report,
                              void *arg);
enum {
    REDLOCK_CHECK_STRICT = 1,
    REDLOCK_CHECK_FENCED = 2,
    REDLOCK_CHECK_CLIENTS = 4,
};
REDLOCK_API redlock_code redlock_check(redlock_client *client, unsigned how,
                                       redlock_check_fn *callback, void *arg);
#define REDLOCK_ACL_REDISSON 1u
#define REDLOCK_ACL_LIST 2u
REDLOCK_API size_t redlock_client_acl(const redlock_client *client, unsigned uses,
                                      char *text, size_t room);
#ifdef __cplusplus
}
#endif
#endif
