/* Parts of operations: calls of one thread, and the codes that the header allows for each.
   Any other code ends the program. */
#ifndef TEST_ACTOR_H
#define TEST_ACTOR_H

#include "operations.h"

#define BIT(name) (UINT64_C(1) << REDLOCK_##name)

/* The allowed codes of an attempt, of an unlock, and of an extension, without losses. */
#define TRIED    (BIT(OK) | BIT(TAKEN) | BIT(NO_QUORUM) | BIT(EXPIRED))
#define WAITED   (TRIED | BIT(TIMEOUT))
#define UNLOCKED (BIT(OK) | BIT(EXPIRED))
#define EXTENDED (BIT(OK) | BIT(NO_QUORUM) | BIT(EXPIRED))

/* Codes if the key is deleted under its holder. */
#define ROBBERY (BIT(GONE) | BIT(TAKEN))

/* `code`, which must be among the allowed ones. */
redlock_code actor_expect(const struct actor *actor, const char *call, redlock_code code,
                          uint64_t allowed);
void actor_expect_true(const struct actor *actor, bool holds, const char *what);

/* A random number of [0, below). */
unsigned actor_draw(struct actor *actor, unsigned below);

void actor_pause_us(unsigned us);

/* Options for this key, some of them random. */
redlock_lock_options actor_options(struct actor *actor, unsigned key);

redlock_code actor_lock(struct actor *actor, unsigned key,
                        const redlock_lock_options *options, redlock_hold **ret_hold);
redlock_code actor_lock_for(struct actor *actor, unsigned key, int64_t wait_ms,
                            const redlock_lock_options *options, redlock_hold **ret_hold);

/* The work of holders. */
void actor_use(struct actor *actor, redlock_hold *hold);

/* Unlocks it in one of several ways, and frees it. */
void actor_give_back(struct actor *actor, unsigned key, redlock_hold *hold);

#endif
