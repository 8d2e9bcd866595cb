#include "timeline.h"

#include <stddef.h>
#include <string.h>

static bool init_coarse(struct histogram *histogram)
{
    return histogram_init(histogram, HISTOGRAM_COARSE);
}

static bool init_slot(struct timeline_slot *slot, unsigned n)
{
    bool has_memory = init_coarse(&slot->acquire) && init_coarse(&slot->release) &&
                      init_coarse(&slot->qth);
    for (unsigned i = 0; has_memory && i < n; i++)
        has_memory = init_coarse(&slot->grant[i]);
    return has_memory;
}

bool timeline_init(struct timeline *timeline, unsigned n)
{
    bool has_memory = true;
    memset(timeline, 0, sizeof(*timeline));
    timeline->n = n;
    timeline->interval_ms = TIMELINE_FIRST_MS;
    for (size_t i = 0; has_memory && i < TIMELINE_SLOTS; i++)
        has_memory = init_slot(&timeline->slot[i], n);
    return has_memory;
}

void timeline_free(struct timeline *timeline)
{
    for (size_t i = 0; i < TIMELINE_SLOTS; i++) {
        struct timeline_slot *slot = &timeline->slot[i];
        histogram_free(&slot->acquire);
        histogram_free(&slot->release);
        histogram_free(&slot->qth);
        for (unsigned k = 0; k < timeline->n; k++)
            histogram_free(&slot->grant[k]);
    }
}

/* Empties `from`, which may be the same. */
static void move_slot(struct timeline_slot *to, struct timeline_slot *from, unsigned n)
{
    if (to == from)
        return;
    bool is_less = to->acquire.total == 0 || from->valid_least < to->valid_least;
    if (from->acquire.total > 0 && is_less)
        to->valid_least = from->valid_least;
    histogram_move(&to->acquire, &from->acquire);
    histogram_move(&to->release, &from->release);
    histogram_move(&to->qth, &from->qth);
    to->failed += from->failed;
    for (size_t i = 0; i < CYCLE_CODES; i++)
        to->code[i] += from->code[i];
    for (unsigned i = 0; i < n; i++) {
        histogram_move(&to->grant[i], &from->grant[i]);
        to->silent[i] += from->silent[i];
        to->other[i] += from->other[i];
    }
    /* All but the histograms. */
    memset(&from->valid_least, 0,
           sizeof(*from) - offsetof(struct timeline_slot, valid_least));
}

static void fold(struct timeline *timeline)
{
    timeline->interval_ms *= 2;
    for (size_t i = 0; i < TIMELINE_SLOTS; i++)
        move_slot(&timeline->slot[i / 2], &timeline->slot[i], timeline->n);
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
