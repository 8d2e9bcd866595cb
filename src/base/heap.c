#include "heap.h"

#include <stdlib.h>

#define LEAST_ROOM 64

bool rl_heap_reserve(struct rl_heap *heap, size_t members)
{
    if (members <= heap->room)
        return true;
    size_t room = heap->room ? 2 * heap->room : LEAST_ROOM;
    while (room < members)
        room *= 2;
    struct rl_slot *slot = realloc(heap->slot, room * sizeof(*slot));
    if (!slot)
        return false;
    heap->slot = slot;
    heap->room = room;
    return true;
}

void rl_heap_free(struct rl_heap *heap)
{
    free(heap->slot);
    *heap = (struct rl_heap){0};
}

/* --- by index --- */

/* Four children per entry: half as many levels as with two, and the four are adjacent. */
#define CHILDREN 4

static void heap_put(struct rl_heap *heap, size_t i, struct rl_slot slot)
{
    heap->slot[i] = slot;
    slot.due->position = i + 1;
}

static size_t first_child(size_t i)
{
    return CHILDREN * i + 1;
}

/* For a leaf, this is not above first_child(). */
static size_t end_of_children(const struct rl_heap *heap, size_t i)
{
    size_t end = first_child(i) + CHILDREN;
    return end < heap->count ? end : heap->count;
}

static size_t earliest_child(const struct rl_heap *heap, size_t i)
{
    size_t earliest = first_child(i), end = end_of_children(heap, i);
    for (size_t child = earliest + 1; child < end; child++)
        earliest = heap->slot[child].at < heap->slot[earliest].at ? child : earliest;
    return earliest;
}

static void sift(struct rl_heap *heap, size_t i, struct rl_slot slot)
{
    const struct rl_slot *all = heap->slot;
    for (size_t parent; i > 0; i = parent) {
        parent = (i - 1) / CHILDREN;
        if (all[parent].at <= slot.at)
            break;
        heap_put(heap, i, all[parent]);
    }
    for (size_t child; first_child(i) < heap->count; i = child) {
        child = earliest_child(heap, i);
        if (slot.at <= all[child].at)
            break;
        heap_put(heap, i, all[child]);
    }
    heap_put(heap, i, slot);
}

static struct rl_due *chain(const struct rl_heap *heap, size_t i, rl_time now,
                            struct rl_due *rest)
{
    if (heap->slot[i].at > now)
        return rest;
    for (size_t child = end_of_children(heap, i); child-- > first_child(i);)
        rest = chain(heap, child, now, rest);
    heap->slot[i].due->next = rest;
    return heap->slot[i].due;
}

/* --- by entry --- */

rl_time rl_heap_when(const struct rl_heap *heap, const struct rl_due *due)
{
    return due->position ? heap->slot[due->position - 1].at : RL_NEVER;
}

void rl_heap_set(struct rl_heap *heap, struct rl_due *due, rl_time at)
{
    size_t index = due->position ? due->position - 1 : heap->count++;
    sift(heap, index, (struct rl_slot){at, due});
}

void rl_heap_drop(struct rl_heap *heap, struct rl_due *due)
{
    if (!due->position)
        return;
    struct rl_slot last = heap->slot[--heap->count];
    if (last.due != due)
        sift(heap, due->position - 1, last);
    due->position = 0;
}

rl_time rl_heap_first(const struct rl_heap *heap)
{
    return heap->count ? heap->slot[0].at : RL_NEVER;
}

struct rl_due *rl_heap_list(const struct rl_heap *heap, rl_time now)
{
    return heap->count ? chain(heap, 0, now, NULL) : NULL;
}
