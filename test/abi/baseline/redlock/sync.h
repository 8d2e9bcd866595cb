#ifndef REDLOCK_SYNC_H
#define REDLOCK_SYNC_H
#include "redlock.h"
#ifdef __cplusplus
extern "C" {
#endif
#define REDLOCK_HANDOFFS 16
#define REDLOCK_HANDOFFS_MAX 63
#define REDLOCK_DEPTH_MAX 1000000
typedef struct redlock_sync redlock_sync;
REDLOCK_API redlock_code redlock_sync_new(const char *const *uris, size_t count,
                                          const redlock_options *options,
                                          redlock_sync **ret_sync);
REDLOCK_API void redlock_sync_free(redlock_sync *sync);
REDLOCK_API size_t redlock_sync_nodes(const redlock_sync *sync);
REDLOCK_API unsigned redlock_sync_quorum(const redlock_sync *sync);
REDLOCK_API size_t redlock_sync_explain_sized(redlock_sync *sync, redlock_node *nodes,
                                              size_t room, size_t size);
static inline size_t redlock_sync_explain(redlock_sync *sync, redlock_node *nodes,
                                          size_t room)
{
    return redlock_sync_explain_sized(sync, nodes, room, sizeof(*nodes));
}
REDLOCK_API size_t redlock_sync_record(redlock_sync *sync, char *text, size_t room);
typedef struct redlock_stop redlock_stop;
REDLOCK_API redlock_code redlock_stop_new(redlock_sync *sync, redlock_stop **ret_stop);
REDLOCK_API void redlock_stop_all(redlock_stop *stop);
REDLOCK_API void redlock_stop_free(redlock_stop *stop);
typedef struct redlock_failure {
    size_t size, node_size;
    const redlock_error *error;
    int64_t remaining_ms;
    char holder[REDLOCK_TOKEN_MAX + 1];
    redlock_node *nodes;
    size_t room, count;
} redlock_failure;
REDLOCK_API void redlock_failure_init_sized(redlock_failure *failure, size_t size,
                                            size_t node_size);
static inline void redlock_failure_init(redlock_failure *failure)
{
    redlock_failure_init_sized(failure, sizeof(*failure), sizeof(redlock_node));
}
typedef struct redlock_hold redlock_hold;
typedef void redlock_lost_fn(redlock_hold *hold, redlock_code why, redlock_reason reason,
                             int64_t valid_ms, void *arg);
typedef struct redlock_lock_options {
    size_t size;
    bool fenced;
    int64_t ttl_ms;
    int64_t min_validity_ms;
    int64_t margin_ms;
    bool watchdog;
    int64_t max_hold_ms;
    bool any_thread;
    unsigned handoffs;
    redlock_stop *stop;
    redlock_lost_fn *on_lost;
    void *lost_arg;
    bool release_on_free;
    redlock_failure *failure;
    int64_t fence;
    bool recursive;
    redlock_kind kind;
    unsigned slots;
    void *user;
} redlock_lock_options;
REDLOCK_API void redlock_lock_options_init_sized(redlock_lock_options *options,
                                                 size_t size);
static inline void redlock_lock_options_init(redlock_lock_options *options)
{
    redlock_lock_options_init_sized(options, sizeof(*options));
}
REDLOCK_API redlock_code redlock_lock(redlock_sync *sync, const void *key, size_t key_len,
                                      const redlock_lock_options *options,
                                      redlock_hold **ret_hold);
REDLOCK_API redlock_code redlock_try_lock(redlock_sync *sync, const void *key,
                                          size_t key_len,
                                          const redlock_lock_options *options,
                                          redlock_hold **ret_hold);
REDLOCK_API redlock_code redlock_lock_for(redlock_sync *sync, const void *key,
                                          size_t key_len, int64_t wait_ms,
                                          const redlock_lock_options *options,
                                          redlock_hold **ret_hold);
REDLOCK_API redlock_code redlock_lock_many(redlock_sync *sync, const redlock_key *keys,
                                           size_t count, int64_t wait_ms,
                                           const redlock_lock_options *options,
                                           redlock_hold **ret_hold);
REDLOCK_API redlock_code redlock_lock_adopt(redlock_sync *sync, const void *key,
                                            size_t key_len, const char *token,
                                            int64_t valid_ms,
                                            const redlock_lock_options *options,
                                            redlock_hold **ret_hold);
REDLOCK_API redlock_code redlock_lock_adopt_many(redlock_sync *sync,
                                                 const redlock_key *keys, size_t count,
                                                 const char *token, int64_t valid_ms,
                                                 const redlock_lock_options *options,
                                                 redlock_hold **ret_hold);
REDLOCK_API redlock_code redlock_lock_release(redlock_sync *sync, const void *key,
                                              size_t key_len, const char *token);
REDLOCK_API redlock_code redlock_lock_release_many(redlock_sync *sync,
                                                   const redlock_key *keys, size_t count,
                                                   const char *token);
enum {
    REDLOCK_CONFIRM = 1,
    REDLOCK_DISOWN = 2,
};
REDLOCK_API redlock_code redlock_unlock(redlock_hold *hold, unsigned how);
REDLOCK_API redlock_code redlock_hold_extend(redlock_hold *hold, int64_t ttl_ms);
REDLOCK_API redlock_code redlock_hold_downgrade(redlock_hold *hold);
REDLOCK_API size_t redlock_hold_explain_sized(redlock_hold *hold, redlock_node *nodes,
                                              size_t room, size_t size);
static inline size_t redlock_hold_explain(redlock_hold *hold, redlock_node *nodes,
                                          size_t room)
{
    return redlock_hold_explain_sized(hold, nodes, room, sizeof(*nodes));
}
REDLOCK_API void redlock_hold_free(redlock_hold *hold);
REDLOCK_API bool redlock_hold_lost(const redlock_hold *hold);
REDLOCK_API int64_t redlock_hold_valid_ms(const redlock_hold *hold);
REDLOCK_API int64_t redlock_hold_fence(const redlock_hold *hold);
REDLOCK_API unsigned redlock_hold_slot(const redlock_hold *hold);
REDLOCK_API const char *redlock_hold_token(const redlock_hold *hold);
REDLOCK_API uint64_t redlock_hold_number(const redlock_hold *hold);
typedef int redlock_flight_fn(redlock_hold *hold, void *arg);
REDLOCK_API redlock_code redlock_single_flight(redlock_sync *sync, const void *key,
                                               size_t key_len, int64_t wait_ms,
                                               const redlock_lock_options *options,
                                               redlock_flight_fn *fn, void *arg,
                                               int *ret_returned, bool *ret_led);
typedef struct redlock_sync_observer redlock_sync_observer;
typedef void redlock_sync_leader_fn(redlock_sync_observer *observer,
                                    const redlock_leader *leader, void *arg);
REDLOCK_API redlock_code redlock_sync_observe(redlock_sync *sync, const void *key,
                                              size_t key_len,
                                              redlock_sync_leader_fn *callback, void *arg,
                                              redlock_sync_observer **ret_observer);
REDLOCK_API void redlock_sync_observer_free(redlock_sync_observer *observer);
#ifdef __cplusplus
}
#endif
#endif
