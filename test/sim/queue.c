#include "queue.h"

#include <assert.h>

/* A heap of four children a node is flatter than a binary one, and quicker. */
#define ARITY 4

static bool before(const struct event *a, const struct event *b)
{
    return a->at != b->at ? a->at < b->at : a->number < b->number;
}

static void put(struct queue *queue, struct event event)
{
    assert(queue->size < QUEUE_MAX);
    unsigned place = queue->size++;
    while (place > 0) {
        unsigned parent = (place - 1) / ARITY;
        if (!before(&event, &queue->heap[parent]))
            break;
        queue->heap[place] = queue->heap[parent];
        place = parent;
    }
    queue->heap[place] = event;
}

const struct event *queue_first(const struct queue *queue)
{
    return queue->size > 0 ? &queue->heap[0] : NULL;
}

void queue_plan(struct queue *queue, rl_time at, enum event_type type, unsigned who,
                uint32_t what)
{
    put(queue, (struct event){at, queue->planned++, (uint8_t)type, (uint8_t)who, what});
}

void queue_postpone(struct queue *queue, const struct event *event, rl_time at)
{
    struct event later = *event;
    later.at = at;
    put(queue, later);
}

static unsigned least_child(const struct queue *queue, unsigned place)
{
    unsigned first = place * ARITY + 1, least = first;
    for (unsigned child = first + 1; child < first + ARITY && child < queue->size; child++)
        if (before(&queue->heap[child], &queue->heap[least]))
            least = child;
    return least;
}

struct event queue_take(struct queue *queue)
{
    assert(queue->size > 0);
    struct event first = queue->heap[0];
    struct event last = queue->heap[--queue->size];
    unsigned place = 0;
    while (place * ARITY + 1 < queue->size) {
        unsigned child = least_child(queue, place);
        if (!before(&queue->heap[child], &last))
            break;
        queue->heap[place] = queue->heap[child];
        place = child;
    }
    queue->heap[place] = last;
    return first;
}
