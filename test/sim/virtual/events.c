#include "events.h"

#include <assert.h>
#include <stdlib.h>

#include "prng.h"

static struct prng prng;
static int64_t now;
static uint64_t next_order;

/* A binary heap: the parent of the event at place i is at i / 2. */
static struct event **queue;
static size_t count, room;

void events_begin(uint64_t seed)
{
    prng = (struct prng){seed};
    now = 0;
    next_order = 0;
    assert(count == 0);
}

void events_end(void)
{
    while (count > 0)
        queue[count--]->place = 0;
    free(queue);
    queue = NULL;
    room = 0;
}

int64_t events_now(void)
{
    return now;
}

void events_pretend(int64_t at)
{
    now = at;
}

uint64_t events_random(uint64_t below)
{
    return prng_bits(&prng) % below;
}

int64_t draw_between(int64_t low, int64_t high)
{
    return low + (int64_t)events_random((uint64_t)(high - low) + 1);
}

static int magnitude(int64_t value)
{
    return 63 - __builtin_clzll((unsigned long long)value | 1);
}

int64_t draw_span(int64_t low, int64_t high)
{
    int64_t least = INT64_C(1) << draw_between(magnitude(low), magnitude(high));
    int64_t drawn = draw_between(least, 2 * least);
    return drawn < low ? low : drawn > high ? high : drawn;
}

bool draw_once_in(unsigned times)
{
    return times > 0 && events_random(times) == 0;
}

/* --- the queue --- */

static bool is_before(const struct event *a, const struct event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void put(struct event *event, size_t place)
{
    queue[place] = event;
    event->place = place;
}

static void settle(struct event *event, size_t place)
{
    for (; place > 1 && is_before(event, queue[place / 2]); place /= 2)
        put(queue[place / 2], place);
    for (size_t child; (child = 2 * place) <= count; place = child) {
        if (child < count && is_before(queue[child + 1], queue[child]))
            child++;
        if (!is_before(queue[child], event))
            break;
        put(queue[child], place);
    }
    put(event, place);
}

void event_cancel(struct event *event)
{
    size_t place = event->place;
    if (place == 0)
        return;
    event->place = 0;
    struct event *last = queue[count--];
    if (last != event)
        settle(last, place);
}

void event_at(struct event *event, int64_t at)
{
    event_cancel(event);
    if (count + 1 >= room) {
        room = room ? 2 * room : 256;
        queue = realloc(queue, room * sizeof(struct event *));
        if (!queue)
            abort();
    }
    event->at = at > now ? at : now;
    event->order = next_order++;
    settle(event, ++count);
}

bool events_step(int64_t until)
{
    if (count == 0 || queue[1]->at > until) {
        now = until > now ? until : now;
        return false;
    }
    struct event *event = queue[1];
    event_cancel(event);
    now = event->at;
    event->happen(event->arg);
    return true;
}
