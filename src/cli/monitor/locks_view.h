/* What is shown of all locks: which of them, in which order, and how many by prefix. Pure.
 */
#ifndef CLI_MONITOR_LOCKS_VIEW_H
#define CLI_MONITOR_LOCKS_VIEW_H

#include <stdint.h>

#include "show/table.h"

#define LOCKS_PREFIXES 100

enum locks_sort {
    LOCKS_BY_KEY,
    LOCKS_BY_HOLDER,
    LOCKS_BY_KIND,
    LOCKS_BY_STATE,
    LOCKS_BY_SINCE,
    LOCKS_BY_REMAINING,
    LOCKS_BY_FENCE,
    LOCKS_BY_WAITING,
    LOCKS_SORTS
};

/* A prefix is the begin of a key, up to and with the first ':'; "" if there is none. */
struct locks_prefix {
    const char *text; /* of `len` bytes */
    size_t len;
    unsigned locks, in_state[ROW_STATES];
};

struct locks_view {
    const struct table *table;
    size_t count;                 /* those of its rows that are viewed */
    uint32_t *order[LOCKS_SORTS]; /* their indexes; NULL: not needed yet */
    struct locks_prefix prefix[LOCKS_PREFIXES];
    size_t prefixes; /* those with the most locks, and these first */
    struct locks_prefix other;
};

/* The prefixes, and after them `other`. */
static inline const struct locks_prefix *locks_prefix_at(const struct locks_view *view,
                                                         size_t i)
{
    return i < view->prefixes ? &view->prefix[i] : &view->other;
}

struct locks_query {
    enum locks_sort sort;
    bool descends;
    const char *filter, *prefix; /* "": all; `filter` is a part of a key or of the holder */
    size_t offset, limit;
};

/* False: no sort has this name. */
bool locks_sort_of(const char *name, enum locks_sort *ret_sort);

/*
 * All rows of the table, which is joined, until it is joined again: then this is called
 * again. Rows that are added meanwhile are not viewed.
 */
void locks_view_begin(struct locks_view *view, const struct table *table);
void locks_view_end(struct locks_view *view);

/* Returns how many match; `ret_row` gets up to `limit` of them, and their number. */
size_t locks_view_select(struct locks_view *view, const struct locks_query *query,
                         const struct row **ret_row, size_t *ret_count);

#endif
