/*
 * redlock acquire -t auto: the TTL is twice the longest of the recent holds, as the nodes
 * remember them. redlock release tells them, by the time that is in the token file.
 */
#ifndef CLI_LEARN_H
#define CLI_LEARN_H

#include "cli.h"

struct learn {
    bool is_told;
    int64_t longest_ms; /* or UNKNOWN */
};

/* Asks the nodes. Call it right before the lock is acquired. */
void learn_ask(struct learn *learn, const struct cli *cli);

/*
 * The lock is held: extends it to the TTL that was learned, if that is longer than its own,
 * and tries until its deadline. Returns its TTL, ms.
 */
int64_t learn_extend(const struct learn *learn, const struct cli *cli,
                     redlock_lease *lease);

/* The hold that began at `begun_us` of CLOCK_BOOTTIME ends. */
void learn_tell(const struct cli *cli, int64_t begun_us, int64_t ttl_ms);

#endif
