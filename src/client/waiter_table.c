#include "waiter_table.h"

#include <stdlib.h>

#define COUNT_BITS 40
#define SLOTS_MAX  ((size_t)1 << (64 - COUNT_BITS))
#define SLOTS      16 /* the table's first size; it doubles as needed */

static bool double_slots(struct rl_waiter_table *table)
{
    size_t slots = table->slots ? 2 * table->slots : SLOTS;
    struct rl_waiter_slot *slot =
        slots <= SLOTS_MAX ? realloc(table->slot, slots * sizeof(*slot)) : NULL;
    if (!slot)
        return false;
    for (size_t i = table->slots; i < slots; i++)
        slot[i] = (struct rl_waiter_slot){.next_free = i + 1 < slots ? i + 2 : 0};
    table->first_free = table->slots + 1;
    table->slot = slot;
    table->slots = slots;
    return true;
}

uint64_t rl_waiter_table_add(struct rl_waiter_table *table, struct rl_task *task)
{
    if (!table->first_free && !double_slots(table))
        return 0;
    uint64_t i = table->first_free - 1;
    struct rl_waiter_slot *slot = &table->slot[i];
    table->first_free = slot->next_free;
    slot->number = i << COUNT_BITS | (++table->added & ((UINT64_C(1) << COUNT_BITS) - 1));
    slot->task = task;
    return slot->number;
}

static struct rl_waiter_slot *waiter_table_find(const struct rl_waiter_table *table,
                                                uint64_t number)
{
    uint64_t i = number >> COUNT_BITS;
    bool found = number && i < table->slots && table->slot[i].number == number;
    return found ? &table->slot[i] : NULL;
}

struct rl_task *rl_waiter_table_find(const struct rl_waiter_table *table, uint64_t number)
{
    const struct rl_waiter_slot *slot = waiter_table_find(table, number);
    return slot ? slot->task : NULL;
}

void rl_waiter_table_remove(struct rl_waiter_table *table, uint64_t number)
{
    struct rl_waiter_slot *slot = waiter_table_find(table, number);
    if (!slot)
        return;
    *slot = (struct rl_waiter_slot){.next_free = table->first_free};
    table->first_free = (size_t)(slot - table->slot) + 1;
}
