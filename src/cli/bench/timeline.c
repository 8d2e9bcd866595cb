#include "timeline.h"

#include <string.h>

bool timeline_init(struct timeline *timeline)
{
    memset(timeline, 0, sizeof(*timeline));
    timeline->interval_ms = TIMELINE_FIRST_MS;
    for (size_t i = 0; i < TIMELINE_SLOTS; i++)
        if (!histogram_init(&timeline->slot[i].acquire, HISTOGRAM_COARSE))
            return false;
    return true;
}

void timeline_free(struct timeline *timeline)
{
    for (size_t i = 0; i < TIMELINE_SLOTS; i++)
        histogram_free(&timeline->slot[i].acquire);
}

/* Empties `from`, which may be the same. */
static void move_slot(struct timeline_slot *to, struct timeline_slot *from)
{
    if (to == from)
        return;
    histogram_move(&to->acquire, &from->acquire);
    to->failed += from->failed;
    from->failed = 0;
    for (size_t i = 0; i < REDLOCK_NODES_MAX; i++) {
        to->silent[i] += from->silent[i];
        to->other[i] += from->other[i];
    }
    memset(from->silent, 0, sizeof(from->silent));
    memset(from->other, 0, sizeof(from->other));
}

static void fold(struct timeline *timeline)
{
    timeline->interval_ms *= 2;
    for (size_t i = 0; i < TIMELINE_SLOTS; i++)
        move_slot(&timeline->slot[i / 2], &timeline->slot[i]);
    timeline->used = (timeline->used + 1) / 2;
}

struct timeline_slot *timeline_slot(struct timeline *timeline, int64_t at_us)
{
    while (at_us / 1000 / timeline->interval_ms >= TIMELINE_SLOTS)
        fold(timeline);
    size_t index = (size_t)(at_us / 1000 / timeline->interval_ms);
    if (timeline->used <= index)
        timeline->used = index + 1;
    return &timeline->slot[index];
}
