#include "zset.h"

#include <stdlib.h>

static int compare(const struct zset_item *a, double score, struct rl_word member)
{
    if (a->score != score)
        return a->score < score ? -1 : 1;
    size_t len = a->member.len < member.len ? a->member.len : member.len;
    int order = len > 0 ? memcmp(a->member.data, member.text, len) : 0;
    if (order != 0)
        return order;
    return (a->member.len > member.len) - (a->member.len < member.len);
}

size_t zset_find(const struct zset *set, struct rl_word member)
{
    size_t i = 0;
    while (i < set->items && !word_is(bytes_word(&set->item[i].member), member))
        i++;
    return i;
}

void zset_add(struct zset *set, double score, struct rl_word member)
{
    if (set->items == set->room) {
        size_t room = set->room ? 2 * set->room : 4;
        set->item = bytes_realloc(set->item, room * sizeof(*set->item));
        memset(set->item + set->room, 0, (room - set->room) * sizeof(*set->item));
        set->room = room;
    }
    struct zset_item added = set->item[set->items];
    size_t i = set->items++;
    for (; i > 0 && compare(&set->item[i - 1], score, member) > 0; i--)
        set->item[i] = set->item[i - 1];
    added.score = score;
    bytes_set(&added.member, member);
    set->item[i] = added;
}

void zset_remove(struct zset *set, size_t position)
{
    struct zset_item removed = set->item[position];
    set->items--;
    for (size_t i = position; i < set->items; i++)
        set->item[i] = set->item[i + 1];
    set->item[set->items] = removed;
}

void zset_copy(struct zset *to, const struct zset *from)
{
    to->items = 0;
    for (size_t i = 0; i < from->items; i++)
        zset_add(to, from->item[i].score, bytes_word(&from->item[i].member));
}

void zset_free(struct zset *set)
{
    for (size_t i = 0; i < set->room; i++)
        bytes_free(&set->item[i].member);
    free(set->item);
    *set = (struct zset){0};
}
