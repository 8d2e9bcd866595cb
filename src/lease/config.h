/*
 * A lease config: the caller's options for a lease, checked and converted. Most leases of a
 * program use the same options, so these leases share one config.
 */
#ifndef RL_CONFIG_H
#define RL_CONFIG_H

#include "client/client.h"
#include "core/kind.h"
#include "core/retry.h"

struct rl_lease_config {
    /* A copy; compared with the caller's field by field. `user` is not shared: see the
       handle. */
    redlock_lease_options options;
    struct rl_lease_params params;
    struct rl_retry retry;
    const struct rl_kind *kind;
    unsigned fences; /* how many to reserve, at least 1 */
    bool of_sets;    /* of several keys */
    bool waits;
    size_t sharers;
};

/*
 * Returns the client's last config if all of these are equal, else a new one.
 * The caller must call rl_lease_config_unref() once.
 */
redlock_code rl_lease_config_get(redlock_client *client,
                                 const redlock_lease_options *options, unsigned fences,
                                 bool of_sets, struct rl_lease_config **ret_config);

struct rl_lease_config *rl_lease_config_ref(struct rl_lease_config *config);
void rl_lease_config_unref(struct rl_lease_config *config); /* NULL is fine */

#endif
