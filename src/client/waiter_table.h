/*
 * The waiters of a client, by number. A waiter's number is its slot in the table, above a
 * count that makes it unique. So the numbers of a client with few waiters are short.
 */
#ifndef RL_WAITER_TABLE_H
#define RL_WAITER_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rl_task;

struct rl_waiter_slot {
    uint64_t number; /* 0: the slot is free */
    union {
        struct rl_task *task;
        size_t next_free; /* 1 + index; 0: none */
    };
};

struct rl_waiter_table {
    struct rl_waiter_slot *slot;
    size_t slots, first_free; /* `first_free` as `next_free` */
    uint64_t added;           /* how many waiters were ever added */
};

/* Returns the waiter's number; 0: no memory. A number is not used again. */
uint64_t rl_waiter_table_add(struct rl_waiter_table *table, struct rl_task *task);

/* A number that is not in the table is fine: removes nothing, finds NULL. */
void rl_waiter_table_remove(struct rl_waiter_table *table, uint64_t number);
struct rl_task *rl_waiter_table_find(const struct rl_waiter_table *table, uint64_t number);

#endif
