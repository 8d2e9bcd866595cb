/* The wards: what a client knows of its nodes as members of a fenced deployment. */
#ifndef RL_WARDS_H
#define RL_WARDS_H

#include "client.h"
#include "core/admission.h"

bool rl_wards_init(redlock_client *client); /* false: no memory */

/* From now on the client has fenced locks: nodes that do not vote are taken care of. */
void rl_wards_use(redlock_client *client);

void rl_wards_greeted(redlock_client *client, unsigned node,
                      const struct rl_identity *identity);
void rl_wards_gone(redlock_client *client, unsigned node);

/* A node told its time; 0: it did not. False: what it said with it cannot be trusted. */
bool rl_wards_time(redlock_client *client, unsigned node, rl_time sent, rl_time told);

/* A node refused by its clock, and so did not tell it: it is asked. */
RL_RARE void rl_wards_doubt(redlock_client *client, unsigned node);

/* A node refused what was sent at `sent`, for its marker is another: that is read anew. */
RL_RARE void rl_wards_disputed(redlock_client *client, unsigned node, rl_time sent);

/* Why it has no vote on a fenced lock, if its connection is well. */
enum rl_fault rl_wards_fault(const redlock_client *client, unsigned node);

/* The deployment's longest TTL, if it is known already, is not less than this. */
bool rl_wards_bear(const redlock_client *client, rl_time ttl);

/* An operator's wish; see admission.h. */
enum rl_refusal rl_wards_admit(redlock_client *client, enum rl_admission how,
                               unsigned *node, int64_t max_ttl_ms);

/* Keys that end so are our own: the marker, and the fence of a key. */
bool rl_wards_own(const char *key, size_t len);
struct rl_word rl_wards_fence_mark(void);

#endif
