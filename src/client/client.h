/*
 * The client connects nodes, leases, a clock and an event loop. They meet only here;
 * `lease/` and `admin/`, which use the client, call its parts directly. Each part has its
 * own struct and header, and calls go down this list: the notifications, the members, the
 * commands, the nodes, the loop, its tasks. Calls go up this list only through callbacks.
 */
#ifndef RL_CLIENT_H
#define RL_CLIENT_H

#include "base/error.h"
#include "members.h"
#include "notifications.h"

struct redlock_client {
    struct rl_loop loop;     /* must be first: see rl_client_of() */
    redlock_options options; /* the client owns its strings */
    struct rl_nodes nodes;
    struct rl_members members; /* of fenced locks */
    struct rl_notifications notifications;
    struct rl_task *drain; /* at most one at a time; NULL: none */
    struct rl_task *admit; /* likewise */
    uint64_t leases;       /* how many were ever made */
    redlock_stats stats;   /* its counters; not the gauges of nodes, which stats.c adds */
    unsigned last_slot;    /* of a semaphore, that was released last; 0: none was */
    void *config;          /* the last one of lease/config.h; no lease is left to share it
                              when the client is freed */
};

/* The client of a task; NULL once the client is gone. */
static inline redlock_client *rl_client_of(const struct rl_task *task)
{
    return (redlock_client *)task->loop;
}

/* Bracket a call of the public interface, as rl_loop_call(); CLOSED: there is no client. */
static inline redlock_code rl_client_call(redlock_client *client)
{
    return client ? rl_loop_call(&client->loop)
                  : rl_fail_by_reason(REDLOCK_CLOSED, REDLOCK_REASON_NULL_HANDLE);
}

static inline redlock_code rl_client_call_untimed(redlock_client *client)
{
    return client ? rl_loop_call_untimed(&client->loop)
                  : rl_fail_by_reason(REDLOCK_CLOSED, REDLOCK_REASON_NULL_HANDLE);
}

/*
 * Joins prefix and key, without a terminating NUL. BAD_KEY: the key is empty, the result is
 * too long, or it is a reserved key.
 */
redlock_code rl_client_key(const redlock_client *client, const void *key, size_t len,
                           char ret_key[REDLOCK_KEY_MAX], size_t *ret_len);

#endif
