#include "actor.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "oracle.h"

unsigned actor_draw(struct actor *actor, unsigned below)
{
    actor->prng ^= actor->prng << 13;
    actor->prng ^= actor->prng >> 7;
    actor->prng ^= actor->prng << 17;
    return (unsigned)(actor->prng >> 33) % below;
}

void actor_pause_us(unsigned us)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)us * 1000}, NULL);
}

redlock_code actor_expect(const struct actor *actor, const char *call, redlock_code code,
                          uint64_t allowed)
{
    if (allowed >> code & 1)
        return code;
    fprintf(stderr, "stress: %s of %s returns %s\n", call, actor->operation->name,
            redlock_code_name(code));
    oracle_fail();
}

void actor_expect_true(const struct actor *actor, bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "stress: check failed, in %s: %s\n", actor->operation->name, what);
    oracle_fail();
}

redlock_lock_options actor_options(struct actor *actor, unsigned key)
{
    redlock_lock_options options;
    redlock_lock_options_init(&options);
    options.ttl_ms = operations_keys[key].ttl_ms;
    options.fenced = operations_keys[key].fenced;
    options.user = actor;
    if (actor_draw(actor, 4) == 0)
        options.handoffs = actor_draw(actor, 3);
    return options;
}

redlock_code actor_lock(struct actor *actor, unsigned key,
                        const redlock_lock_options *options, redlock_hold **ret_hold)
{
    return redlock_lock(actor->sync, operations_keys[key].name,
                        strlen(operations_keys[key].name), options, ret_hold);
}

redlock_code actor_lock_for(struct actor *actor, unsigned key, int64_t wait_ms,
                            const redlock_lock_options *options, redlock_hold **ret_hold)
{
    return redlock_lock_for(actor->sync, operations_keys[key].name,
                            strlen(operations_keys[key].name), wait_ms, options, ret_hold);
}

void actor_give_back(struct actor *actor, unsigned key, redlock_hold *hold)
{
    unsigned how = actor_draw(actor, 4) == 0 ? REDLOCK_CONFIRM : 0;
    uint64_t allowed = UNLOCKED | (how ? BIT(UNCONFIRMED) : 0);
    oracle_leave(key, actor->slot);
    if (actor_draw(actor, 8) > 0) {
        actor_expect(actor, "unlock", redlock_unlock(hold, how), allowed);
        actor_expect_true(actor, redlock_hold_lost(hold), "it is lost when it is unlocked");
        actor_expect_true(actor, redlock_hold_valid_ms(hold) == 0, "and not valid");
        if (actor_draw(actor, 8) == 0)
            actor_expect(actor, "second unlock", redlock_unlock(hold, how), BIT(NOT_HELD));
    }
    redlock_hold_free(hold);
}

void actor_use(struct actor *actor, redlock_hold *hold)
{
    switch (actor_draw(actor, 6)) {
    case 0: sched_yield(); break;
    case 1: actor_pause_us(actor_draw(actor, 2000)); break;
    case 2: actor_expect(actor, "extend", redlock_hold_extend(hold, 0), EXTENDED); break;
    case 3:
        actor_expect_true(actor, redlock_hold_token(hold)[0] != '\0', "it has a token");
        actor_expect_true(actor,
                          redlock_hold_valid_ms(hold) <= operations_keys[CALM].ttl_ms,
                          "and no more validity than a TTL");
        break;
    default: break;
    }
}
