/* What is due when: a heap of deadlines that know their own place in it. */
#ifndef RL_HEAP_H
#define RL_HEAP_H

#include "core/types.h"

struct rl_due {
    size_t place; /* 1 + index; 0: not in the heap */
    struct rl_due *next;
};

/* The times are side by side: to compare them is most of the work. */
struct rl_slot {
    rl_time at;
    struct rl_due *due;
};

struct rl_heap {
    struct rl_slot *slot;
    size_t count, room;
};

/* Room for one more is made here, so that rl_heap_set() cannot fail. False: no memory. */
bool rl_heap_reserve(struct rl_heap *heap, size_t members);
void rl_heap_free(struct rl_heap *heap);

/* When it is due; RL_NEVER: it is not in the heap. */
rl_time rl_heap_when(const struct rl_heap *heap, const struct rl_due *due);

/* Inserts or moves. */
void rl_heap_set(struct rl_heap *heap, struct rl_due *due, rl_time at);

/* Removes, if it is in. */
void rl_heap_drop(struct rl_heap *heap, struct rl_due *due);

/* The earliest; RL_NEVER if there is none. */
rl_time rl_heap_first(const struct rl_heap *heap);

/* All that are due at `now`, chained by `next`, without taking them out. */
struct rl_due *rl_heap_list(const struct rl_heap *heap, rl_time now);

#endif
