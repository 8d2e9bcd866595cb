/* The table of waiters: a number finds its waiter until it is removed, and never another.
 */
#include "client/waiter_table.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "prng.h"

#define WAITERS 300
#define STEPS   20000

static struct rl_waiter_table table;
static uint64_t number[WAITERS], last[WAITERS]; /* 0: not in the table; the one before */

/* No task is read, so any address will do. */
static struct rl_task *task_of(unsigned waiter)
{
    return (struct rl_task *)&number[waiter];
}

Test(waiter_table, finds_each_waiter_until_it_is_removed)
{
    struct prng prng = {.state = 1};
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned i = prng_below(&prng, WAITERS);
        if (number[i]) {
            rl_waiter_table_remove(&table, number[i]);
            last[i] = number[i];
            number[i] = 0;
        } else {
            number[i] = rl_waiter_table_add(&table, task_of(i));
            cr_assert_neq(number[i], 0);
        }
        cr_assert_null(rl_waiter_table_find(&table, last[i]));
        if (number[i])
            cr_assert_eq(rl_waiter_table_find(&table, number[i]), task_of(i));
    }
    for (unsigned i = 0; i < WAITERS; i++)
        cr_assert_eq(rl_waiter_table_find(&table, number[i]),
                     number[i] ? task_of(i) : NULL);
    cr_assert_null(rl_waiter_table_find(&table, UINT64_MAX));
    rl_waiter_table_remove(&table, UINT64_MAX);
    free(table.slot);
}
