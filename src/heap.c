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

static void put(struct rl_heap *heap, size_t place, struct rl_slot slot)
{
    heap->slot[place - 1] = slot;
    slot.due->place = place;
}

static void sift(struct rl_heap *heap, size_t place, struct rl_slot slot)
{
    const struct rl_slot *all = heap->slot;
    while (place > 1 && slot.at < all[place / 2 - 1].at) {
        put(heap, place, all[place / 2 - 1]);
        place /= 2;
    }
    for (size_t child; (child = 2 * place) <= heap->count; place = child) {
        if (child < heap->count && all[child].at < all[child - 1].at)
            child++;
        if (slot.at <= all[child - 1].at)
            break;
        put(heap, place, all[child - 1]);
    }
    put(heap, place, slot);
}

rl_time rl_heap_when(const struct rl_heap *heap, const struct rl_due *due)
{
    return due->place ? heap->slot[due->place - 1].at : RL_NEVER;
}

void rl_heap_set(struct rl_heap *heap, struct rl_due *due, rl_time at)
{
    size_t place = due->place ? due->place : ++heap->count;
    sift(heap, place, (struct rl_slot){at, due});
}

void rl_heap_drop(struct rl_heap *heap, struct rl_due *due)
{
    if (!due->place)
        return;
    struct rl_slot last = heap->slot[--heap->count];
    if (last.due != due)
        sift(heap, due->place, last);
    due->place = 0;
}

rl_time rl_heap_first(const struct rl_heap *heap)
{
    return heap->count ? heap->slot[0].at : RL_NEVER;
}

static struct rl_due *chain(const struct rl_heap *heap, size_t place, rl_time now,
                            struct rl_due *rest)
{
    if (place > heap->count || heap->slot[place - 1].at > now)
        return rest;
    struct rl_due *due = heap->slot[place - 1].due;
    rest = chain(heap, 2 * place + 1, now, rest);
    rest = chain(heap, 2 * place, now, rest);
    due->next = rest;
    return due;
}

struct rl_due *rl_heap_list(const struct rl_heap *heap, rl_time now)
{
    return chain(heap, 1, now, NULL);
}
