#include "locks_view.h"

#include <stdlib.h>

bool locks_sort_of(const char *name, enum locks_sort *ret_sort)
{
    static const char *const names[LOCKS_SORTS] = {
        "key", "holder", "kind", "state", "since", "remaining", "fence", "waiting",
    };
    for (unsigned i = 0; i < LOCKS_SORTS; i++)
        if (strcmp(name, names[i]) == 0) {
            *ret_sort = (enum locks_sort)i;
            return true;
        }
    return false;
}

/* --- prefixes --- */

static void add_locks(struct locks_prefix *to, const struct locks_prefix *prefix)
{
    to->locks += prefix->locks;
    for (unsigned i = 0; i < ROW_STATES; i++)
        to->in_state[i] += prefix->in_state[i];
}

/* Bytes that are no UTF-8 are shown in the form of a text, which may be another prefix. */
static bool is_text(const struct locks_prefix *prefix)
{
    json_t *text = json_stringn(prefix->text, prefix->len);
    json_decref(text);
    return text != NULL;
}

/* Keeps those that have the most locks; the rest becomes `other`. */
static void add_prefix(struct locks_view *view, const struct locks_prefix *prefix)
{
    struct locks_prefix *least = &view->prefix[0];
    if (prefix->locks == 0)
        return;
    if (!is_text(prefix)) {
        add_locks(&view->other, prefix);
        return;
    }
    if (view->prefixes < LOCKS_PREFIXES) {
        view->prefix[view->prefixes++] = *prefix;
        return;
    }
    for (size_t i = 1; i < LOCKS_PREFIXES; i++)
        if (view->prefix[i].locks < least->locks)
            least = &view->prefix[i];
    bool has_more = prefix->locks > least->locks;
    add_locks(&view->other, has_more ? least : prefix);
    if (has_more)
        *least = *prefix;
}

static int by_locks(const void *prefix, const void *other)
{
    const struct locks_prefix *a = prefix, *b = other;
    if (a->locks != b->locks)
        return a->locks > b->locks ? -1 : 1;
    return strcmp(a->text, b->text);
}

/* Rows are in the order of their keys: so those with one prefix follow each other. */
static void count_prefixes(struct locks_view *view)
{
    struct locks_prefix none = {.text = ""}, now = none;
    for (size_t i = 0; i < view->count; i++) {
        const struct row *row = &view->table->row[i];
        const char *key = row_key(row), *colon = strchr(key, ':');
        size_t len = colon ? (size_t)(colon - key) + 1 : 0;
        if (len > 0 && (len != now.len || memcmp(key, now.text, len) != 0)) {
            add_prefix(view, &now);
            now = (struct locks_prefix){.text = key, .len = len};
        }
        struct locks_prefix *prefix = len > 0 ? &now : &none;
        prefix->locks++;
        prefix->in_state[row->state]++;
    }
    add_prefix(view, &now);
    add_prefix(view, &none);
    qsort(view->prefix, view->prefixes, sizeof(view->prefix[0]), by_locks);
}

void locks_view_begin(struct locks_view *view, const struct table *table)
{
    locks_view_end(view);
    *view = (struct locks_view){.table = table, .count = table->count};
    count_prefixes(view);
}

void locks_view_end(struct locks_view *view)
{
    for (unsigned i = 0; i < LOCKS_SORTS; i++)
        free(view->order[i]);
}

/* --- the order --- */

struct item {
    int64_t number;
    const struct row *row;
};

/* Rows were read one after the other: compare when the locks end. */
static int64_t ends_ms(const struct row *row)
{
    return row->remaining_ms == REDLOCK_UNKNOWN ? REDLOCK_UNKNOWN
                                                : row->seen_us / 1000 + row->remaining_ms;
}

static int64_t number_of(const struct row *row, enum locks_sort sort)
{
    switch (sort) {
    case LOCKS_BY_KIND: return row->kind;
    case LOCKS_BY_STATE: return row->state;
    case LOCKS_BY_SINCE: return row->since_us;
    case LOCKS_BY_REMAINING: return ends_ms(row);
    case LOCKS_BY_FENCE: return row->fence;
    case LOCKS_BY_WAITING: return row->waiting;
    default: return 0;
    }
}

/* The table is in the order of the keys. */
static int by_key(const struct item *item, const struct item *other)
{
    return item->row < other->row ? -1 : item->row > other->row;
}

static int by_number(const void *item, const void *other)
{
    const struct item *a = item, *b = other;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return by_key(a, b);
}

static int by_holder(const void *item, const void *other)
{
    const struct item *a = item, *b = other;
    int order = strcmp(row_holder(a->row), row_holder(b->row));
    return order != 0 ? order : by_key(a, b);
}

static const uint32_t *order_of(struct locks_view *view, enum locks_sort sort)
{
    size_t count = view->count;
    if (view->order[sort] || count == 0)
        return view->order[sort];
    struct item *item = cli_need_memory(calloc(count, sizeof(*item)));
    uint32_t *order = cli_need_memory(calloc(count, sizeof(*order)));
    for (size_t i = 0; i < count; i++) {
        const struct row *row = &view->table->row[i];
        item[i] = (struct item){.number = number_of(row, sort), .row = row};
    }
    if (sort != LOCKS_BY_KEY)
        qsort(item, count, sizeof(*item), sort == LOCKS_BY_HOLDER ? by_holder : by_number);
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)(item[i].row - view->table->row);
    free(item);
    view->order[sort] = order;
    return order;
}

/* --- a selection --- */

/* Where the first row is whose key begins with `prefix`, or the first one `after` them. */
static size_t edge_of(const struct locks_view *view, const char *prefix, bool after)
{
    size_t low = 0, high = view->count, len = strlen(prefix);
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strncmp(row_key(&view->table->row[middle]), prefix, len);
        if (order < 0 || (after && order == 0))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool has_text(const struct row *row, const char *text)
{
    const char *key = row_key(row);
    for (unsigned i = 0; i < row->keys; i++, key = row_next_key(key))
        if (strstr(key, text))
            return true;
    return strstr(row_holder(row), text);
}

size_t locks_view_select(struct locks_view *view, const struct locks_query *query,
                         const struct row **ret_row, size_t *ret_count)
{
    const uint32_t *order = order_of(view, query->sort);
    size_t first = edge_of(view, query->prefix, false);
    size_t end = edge_of(view, query->prefix, true), matched = 0;
    *ret_count = 0;
    for (size_t i = 0; i < view->count; i++) {
        size_t at = order[query->descends ? view->count - 1 - i : i];
        const struct row *row = &view->table->row[at];
        if (at < first || at >= end || (*query->filter && !has_text(row, query->filter)))
            continue;
        if (matched++ >= query->offset && *ret_count < query->limit)
            ret_row[(*ret_count)++] = row;
    }
    return matched;
}
