/*
 * An attempt: a lease machine of the core with its key and token. The client sends its
 * commands to the nodes. The first attempt of a handle is embedded in the handle and shares
 * its task. Later attempts are separate objects.
 */
#ifndef RL_ATTEMPT_H
#define RL_ATTEMPT_H

#include "config.h"
#include "key_set.h"

/*
 * The class of a task that has an attempt. An attempt calls the last three with the task of
 * its owner, the handle.
 */
struct rl_attempt_class {
    struct rl_task_class task;          /* must be first: the task points to it */
    void (*over)(struct rl_task *task); /* its attempt is over, and has no owner */
    void (*report)(struct rl_task *owner, unsigned reports); /* enum rl_report, but for
                                                                 NOT_RENEWED */
    /* Sets in a command's arguments how long the owner has waited, and whether it stays in
       the wait queue or leaves. */
    void (*set_waiting)(struct rl_task *owner, enum rl_command command,
                        struct rl_command_args *args);
    /* The node put the owner into its wait queue, by a command sent at `sent`. */
    void (*queued)(struct rl_task *owner, unsigned node, rl_time sent);
};

struct rl_attempt {
    struct rl_task task;   /* its class is an rl_attempt_class */
    struct rl_task *owner; /* the handle's task, which gets the reports; NULL: none */
    struct rl_lease_config *config;
    struct rl_key_set *set; /* NULL: it has one key */
    char *token; /* in its room, and a NUL; then its key, and RL_FENCE_SUFFIX if fenced */
    char (*value)[REDLOCK_TOKEN_MAX +
                  1];   /* other holders' values per node; NULL: none seen */
    rl_time held_since; /* telemetry.h; 0: it is not held */
    uint32_t number;    /* rl_record_lease(), for the flight recorder */
    uint16_t key_len;
    uint8_t token_len;
    uint8_t slot;        /* of a semaphore: which one; 0: none is chosen yet */
    bool has_waiters;    /* other waiters were queued when it was released */
    bool fails_to_renew; /* the watchdog's last try failed */
    struct rl_lease lease;
    /* Its room holds fences and ballots, too; layout_of() in attempt.c. */
};

_Static_assert(REDLOCK_KEY_MAX <= UINT16_MAX && REDLOCK_TOKEN_MAX <= UINT8_MAX &&
                   RL_SLOTS_MAX <= UINT8_MAX,
               "the fields of an attempt have room for their values");

static inline const struct rl_attempt_class *rl_attempt_class_of(const struct rl_task *task)
{
    return (const struct rl_attempt_class *)task->class;
}

static inline struct rl_word rl_attempt_key(const struct rl_attempt *attempt)
{
    return (struct rl_word){attempt->token + attempt->token_len + 1, attempt->key_len};
}

#define RL_SLOT_LEN_MAX 4 /* of "!128" */

/* The suffix of a slot's key: "!1" to "!128". */
static inline size_t rl_attempt_slot_len(unsigned slot)
{
    return slot == 0 ? 0 : slot < 10 ? 2 : slot < 100 ? 3 : RL_SLOT_LEN_MAX;
}

/* The key, of a semaphore without the slot. */
static inline struct rl_word rl_attempt_base(const struct rl_attempt *attempt)
{
    struct rl_word key = rl_attempt_key(attempt);
    return (struct rl_word){key.text, key.len - rl_attempt_slot_len(attempt->slot)};
}

/* If it is fenced: the key of its fence, and the nodes' time when the attempt began. */
struct rl_word rl_attempt_fence_key(const struct rl_attempt *attempt);
rl_time rl_attempt_proposed(const struct rl_attempt *attempt);

/* The bytes that an attempt needs for its room, which follows it in the same block. */
size_t rl_attempt_room(const struct rl_lease_config *config, size_t key_len,
                       size_t token_len);

/*
 * The attempt and its room must be zeroed. The caller sets up the task; the task's
 * destroy() must call rl_attempt_clear(). `set`: NULL, or its keys, of which `key` is the
 * first.
 */
void rl_attempt_init(struct rl_attempt *attempt, struct rl_lease_config *config, void *room,
                     struct rl_word key, struct rl_key_set *set, size_t token_len);
void rl_attempt_clear(struct rl_attempt *attempt);

/*
 * Sets the owner; call it before the first step. Returns the buffer for the token, which
 * has room for `token_len` bytes and a NUL.
 */
char *rl_attempt_own(struct rl_attempt *attempt, struct rl_task *owner);

/* Called before rl_attempt_own(): the key gets the number of the slot. */
void rl_attempt_choose_slot(struct rl_attempt *attempt, unsigned slot);

/* The attempt goes on with this config, which differs in the kind of lock only: its
   readers' kind instead of its writers'. */
void rl_attempt_downgrade(struct rl_attempt *attempt, struct rl_lease_config *shared);

/* The flight recorder's line of it. */
void rl_attempt_describe(const struct rl_attempt *attempt, struct rl_lease_line *ret_line);

/*
 * Keep another holder's value for redlock_explain(), and of a semaphore which slots are
 * free on the node, as its release was told. If there is no memory, they are not known.
 */
void rl_attempt_note_value(struct rl_attempt *attempt, unsigned node, struct rl_word value);
void rl_attempt_note_free_slots(struct rl_attempt *attempt, unsigned node,
                                struct rl_word free);
bool rl_attempt_sees_free(const struct rl_attempt *attempt, unsigned node, unsigned slot);

#endif
