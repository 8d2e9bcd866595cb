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
    struct rl_due **due = realloc(heap->due, room * sizeof(struct rl_due *));
    if (!due)
        return false;
    heap->due = due;
    heap->room = room;
    return true;
}

void rl_heap_free(struct rl_heap *heap)
{
    free(heap->due);
    *heap = (struct rl_heap){0};
}

static void put(struct rl_heap *heap, size_t place, struct rl_due *due)
{
    heap->due[place - 1] = due;
    due->place = place;
}

static void sift(struct rl_heap *heap, size_t place, struct rl_due *due)
{
    while (place > 1 && due->at < heap->due[place / 2 - 1]->at) {
        put(heap, place, heap->due[place / 2 - 1]);
        place /= 2;
    }
    for (size_t child; (child = 2 * place) <= heap->count; place = child) {
        if (child < heap->count && heap->due[child]->at < heap->due[child - 1]->at)
            child++;
        if (due->at <= heap->due[child - 1]->at)
            break;
        put(heap, place, heap->due[child - 1]);
    }
    put(heap, place, due);
}

void rl_heap_set(struct rl_heap *heap, struct rl_due *due, rl_time at)
{
    due->at = at;
    sift(heap, due->place ? due->place : ++heap->count, due);
}

void rl_heap_drop(struct rl_heap *heap, struct rl_due *due)
{
    if (!due->place)
        return;
    struct rl_due *last = heap->due[--heap->count];
    if (last != due)
        sift(heap, due->place, last);
    due->place = 0;
}

rl_time rl_heap_first(const struct rl_heap *heap)
{
    return heap->count ? heap->due[0]->at : RL_NEVER;
}

static struct rl_due *chain(const struct rl_heap *heap, size_t place, rl_time now,
                            struct rl_due *rest)
{
    if (place > heap->count || heap->due[place - 1]->at > now)
        return rest;
    struct rl_due *due = heap->due[place - 1];
    rest = chain(heap, 2 * place + 1, now, rest);
    rest = chain(heap, 2 * place, now, rest);
    due->next = rest;
    return due;
}

struct rl_due *rl_heap_list(const struct rl_heap *heap, rl_time now)
{
    return chain(heap, 1, now, NULL);
}
