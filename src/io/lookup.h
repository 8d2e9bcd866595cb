/*
 * Host names and their addresses, for all clients of the process: getaddrinfo(3) in threads
 * of its own, so that no event loop waits for a name server.
 *
 * IPv4 and IPv6 are asked separately: a server may answer for one of them at once, and for
 * the other one never. At most one lookup of a name and family runs at a time, and while it
 * fails, at most one begins in 5 s. A lookup goes on when nobody waits for it any more.
 *
 * A lookup that has run for 1 s is silent. At most 16 others run at a time, and at most 8
 * that were silent before; all in at most 64 threads. The rest are queued.
 */
#ifndef RL_LOOKUP_H
#define RL_LOOKUP_H

#include "queue.h"
#include "stream.h"

#define RL_ADDRESSES_MAX   8 /* of a name; further ones are not tried */
#define RL_LOOKUP_REASON   80
#define RL_LOOKUP_FAMILIES 2

struct rl_name;

/* A use of a name. While a name is used, its last addresses are remembered. */
struct rl_name_user {
    struct rl_name *name;
    int wake_fd; /* an eventfd: written to when a lookup of the name has ended */
    LIST_ENTRY(rl_name_user) link;
};

struct rl_addresses {
    bool is_whole;   /* no lookup of the name runs or is queued */
    bool is_running; /* one runs */
    unsigned count;
    struct rl_address address[RL_ADDRESSES_MAX]; /* without a port */
    char reason[RL_LOOKUP_REASON];               /* of a failure; "" if there was none */
};

/* False: no memory. */
bool rl_name_use(struct rl_name_user *user, const char *host, int wake_fd);
void rl_name_leave(struct rl_name_user *user);

/* Begins the lookups that may begin now. */
void rl_name_look_up(const struct rl_name_user *user);

/*
 * The known addresses. The family that was answered first comes first, and a family whose
 * lookup runs or failed, with its last known addresses, last. An answer that there is no
 * such name or address also ends what was known.
 */
void rl_name_read(const struct rl_name_user *user, struct rl_addresses *ret_addresses);

#endif
