/* A heap of deadlines. Each entry stores its own position, so that it can be moved. */
#ifndef RL_HEAP_H
#define RL_HEAP_H

#include "core/types.h"

struct rl_due {
    size_t position; /* 1 + index; 0: not in the heap */
    struct rl_due *next;
};

/* The times are adjacent in memory, because comparing them is most of the work. */
struct rl_slot {
    rl_time at;
    struct rl_due *due;
};

struct rl_heap {
    struct rl_slot *slot;
    size_t count, room;
};

/* Makes room for `members` entries, so that rl_heap_set() cannot fail. False: no memory. */
bool rl_heap_reserve(struct rl_heap *heap, size_t members);
void rl_heap_free(struct rl_heap *heap);

/* When the entry is due; RL_NEVER: it is not in the heap. */
rl_time rl_heap_when(const struct rl_heap *heap, const struct rl_due *due);

/* Inserts the entry, or moves it. */
void rl_heap_set(struct rl_heap *heap, struct rl_due *due, rl_time at);

/* Removes the entry if it is in the heap. */
void rl_heap_drop(struct rl_heap *heap, struct rl_due *due);

/* The earliest time; RL_NEVER: the heap is empty. */
rl_time rl_heap_first(const struct rl_heap *heap);

/* A list, linked by `next`, of all entries due at `now`. They stay in the heap. */
struct rl_due *rl_heap_list(const struct rl_heap *heap, rl_time now);

#endif
