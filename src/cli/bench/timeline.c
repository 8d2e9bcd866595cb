#include "timeline.h"

#include <string.h>

bool timeline_init(struct timeline *timeline)
{
    memset(timeline, 0, sizeof(*timeline));
    timeline->interval_ms = TIMELINE_FIRST_MS;
    for (size_t i = 0; i < TIMELINE_SLOTS; i++)
        if (!histogram_init(&timeline->slot[i].acquire, HISTOGRAM_COARSE) ||
            !histogram_init(&timeline->slot[i].release, HISTOGRAM_COARSE))
            return false;
    return true;
}

void timeline_free(struct timeline *timeline)
{
    for (size_t i = 0; i < TIMELINE_SLOTS; i++) {
        histogram_free(&timeline->slot[i].acquire);
        histogram_free(&timeline->slot[i].release);
    }
}

static void merge_means(struct timeline_mean *mean, struct timeline_mean other)
{
    mean->count += other.count;
    mean->sum += other.sum;
    mean->most = other.most > mean->most ? other.most : mean->most;
}

void timeline_mean_add(struct timeline_mean *mean, int64_t us)
{
    merge_means(mean, (struct timeline_mean){1, us, us});
}

/* Empties `from`, which may be the same. */
static void move_slot(struct timeline_slot *to, struct timeline_slot *from)
{
    if (to == from)
        return;
    bool is_less = to->acquire.total == 0 || from->valid_least < to->valid_least;
    if (from->acquire.total > 0 && is_less)
        to->valid_least = from->valid_least;
    histogram_move(&to->acquire, &from->acquire);
    histogram_move(&to->release, &from->release);
    merge_means(&to->qth, from->qth);
    to->failed += from->failed;
    for (size_t i = 0; i < CYCLE_CODES; i++)
        to->code[i] += from->code[i];
    for (size_t i = 0; i < REDLOCK_NODES_MAX; i++) {
        merge_means(&to->grant[i], from->grant[i]);
        to->silent[i] += from->silent[i];
        to->other[i] += from->other[i];
    }
    *from = (struct timeline_slot){.acquire = from->acquire, .release = from->release};
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
