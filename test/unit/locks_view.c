/* Which locks are shown, in which order, and how many have a prefix. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "cli/monitor/locks_view.h"

#define TOKEN                                                                              \
    "p"                                                                                    \
    "abcdefghabcdefghabcdefghabcdefgh@"

static struct table table;
static struct locks_view view;

static struct row *add(const char *key, const char *holder)
{
    struct row row = {.keys = 1, .count = 5, .nodes = 5};
    row.holder_at = (unsigned short)(strlen(TOKEN) + strlen(holder) + 1);
    row.key_at = (unsigned short)(row.holder_at + strlen(holder) + 1);
    row.text = malloc(row.key_at + strlen(key) + 1);
    cr_assert(row.text);
    strcpy(stpcpy(row.text, TOKEN), holder);
    strcpy(row.text + row.holder_at, holder);
    strcpy(row.text + row.key_at, key);
    table_add(&table, &row);
    return &table.row[table.count - 1];
}

static void add_many(const char *prefix, unsigned count)
{
    char key[64];
    for (unsigned i = 0; i < count; i++) {
        snprintf(key, sizeof(key), "%s%u", prefix, i);
        add(key, "a");
    }
}

static void begin(void)
{
    table_join(&table);
    locks_view_begin(&view, &table);
}

/* The keys, each with a blank. */
static const char *select_keys(struct locks_query query, size_t *ret_matched)
{
    static char text[512];
    const struct row *row[16];
    size_t count;
    query.limit = query.limit ? query.limit : 16;
    query.filter = query.filter ? query.filter : "";
    query.prefix = query.prefix ? query.prefix : "";
    *ret_matched = locks_view_select(&view, &query, row, &count);
    text[0] = '\0';
    for (size_t i = 0; i < count; i++)
        strcat(strcat(text, row_key(row[i])), " ");
    return text;
}

#define SELECTS(expected, count, ...)                                                      \
    do {                                                                                   \
        size_t matched;                                                                    \
        const char *keys = select_keys((struct locks_query){__VA_ARGS__}, &matched);       \
        cr_assert_str_eq(keys, expected, "%s", keys);                                      \
        cr_assert_eq(matched, count, "%zu", matched);                                      \
    } while (0)

static void teardown(void)
{
    locks_view_end(&view);
    table_free(&table);
}

TestSuite(locks_view, .fini = teardown);

Test(locks_view, without_a_lock_there_is_nothing)
{
    begin();
    SELECTS("", 0, .sort = LOCKS_BY_HOLDER);
    SELECTS("", 0, .prefix = "a", .filter = "b", .offset = 7);
    cr_assert_eq(view.prefixes, 0);
}

Test(locks_view, each_order_and_its_reverse)
{
    static const char *const names[] = {"key",   "holder",    "kind",  "state",
                                        "since", "remaining", "fence", "waiting"};
    static const char *const orders[] = {"a b c ", "c a b ", "b c a ", "c a b ",
                                         "b a c ", "c b a ", "a c b ", "b c a "};
    struct row *row = add("c", "k");
    row->kind = REDLOCK_KIND_SHARED, row->state = ROW_HELD, row->since_us = 3;
    row->remaining_ms = REDLOCK_UNKNOWN, row->fence = 2, row->waiting = 2;
    row = add("a", "l");
    row->kind = REDLOCK_KIND_SLOT, row->state = ROW_ORPHANED, row->since_us = 2;
    row->remaining_ms = 20, row->fence = 1, row->waiting = 3;
    row = add("b", "m");
    row->kind = REDLOCK_KIND_EXCLUSIVE, row->state = ROW_UNKNOWN, row->since_us = 1;
    row->remaining_ms = 10, row->fence = 3, row->waiting = 1;
    begin();
    for (unsigned i = 0; i < LOCKS_SORTS; i++) {
        enum locks_sort sort;
        char reverse[7] = "";
        cr_assert(locks_sort_of(names[i], &sort));
        SELECTS(orders[i], 3, .sort = sort);
        for (int k = 4; k >= 0; k -= 2)
            strncat(reverse, &orders[i][k], 2);
        SELECTS(reverse, 3, .sort = sort, .descends = true);
    }
    enum locks_sort none;
    cr_assert(!locks_sort_of("colour", &none));
    cr_assert(!locks_sort_of("", &none));
}

Test(locks_view, equal_locks_are_in_the_order_of_their_keys)
{
    for (const char *key = "dbeca"; *key; key++)
        add((char[]){*key, '\0'}, "k");
    begin();
    SELECTS("a b c d e ", 5, .sort = LOCKS_BY_HOLDER);
    SELECTS("a b c d e ", 5, .sort = LOCKS_BY_WAITING);
}

Test(locks_view, the_remaining_time_counts_from_when_a_row_was_read)
{
    struct row *row = add("a", "k");
    row->seen_us = 1000000, row->remaining_ms = 5000;
    row = add("b", "k");
    row->seen_us = 3000000, row->remaining_ms = 4000;
    row = add("c", "k");
    row->seen_us = 4000000, row->remaining_ms = REDLOCK_UNKNOWN;
    begin();
    SELECTS("c a b ", 3, .sort = LOCKS_BY_REMAINING);
}

Test(locks_view, a_filter_is_a_part_of_a_key_or_of_the_holder)
{
    add("alpha", "host:1");
    add("beta", "host:2");
    add("gamma", "alphabet:1");
    begin();
    SELECTS("alpha gamma ", 2, .filter = "alpha");
    SELECTS("beta ", 1, .filter = ":2");
    SELECTS("", 0, .filter = "abcdefgh"); /* of the token */
    SELECTS("", 0, .filter = "Alpha");
}

Test(locks_view, a_page_of_those_that_match)
{
    add_many("job:", 9);
    add_many("jo", 3);
    add_many("k", 3);
    begin();
    SELECTS("job:2 job:3 ", 9, .prefix = "job:", .offset = 2, .limit = 2);
    SELECTS("job:6 job:5 ", 9, .prefix = "job:", .offset = 2, .limit = 2, .descends = true);
    SELECTS("job:8 ", 9, .prefix = "job:", .offset = 8, .limit = 2);
    SELECTS("", 9, .prefix = "job:", .offset = 9);
    SELECTS("jo0 ", 12, .prefix = "jo", .limit = 1);
    SELECTS("", 0, .prefix = "job:x");
    SELECTS("job:7 ", 1, .prefix = "job:", .filter = "7");
}

static unsigned locks_of(const char *prefix)
{
    for (size_t i = 0; i < view.prefixes; i++)
        if (view.prefix[i].len == strlen(prefix) &&
            memcmp(view.prefix[i].text, prefix, strlen(prefix)) == 0)
            return view.prefix[i].locks;
    return 0;
}

Test(locks_view, a_prefix_ends_with_the_first_colon)
{
    add_many("a:b:", 2);
    add_many("a:", 3);
    add_many("a", 4);
    add_many("b:", 6);
    add(":", "k")->state = ROW_SPLIT;
    add("z", "k");
    begin();
    cr_assert_eq(view.prefixes, 4);
    cr_assert_eq(locks_of("a:"), 5);
    cr_assert_eq(locks_of("b:"), 6);
    cr_assert_eq(locks_of(":"), 1);
    cr_assert_eq(locks_of(""), 5);
    cr_assert_eq(view.prefix[0].locks, 6, "those with the most come first");
    cr_assert_eq(view.prefix[3].in_state[ROW_SPLIT], 1);
    cr_assert_eq(view.other.locks, 0);
}

Test(locks_view, beyond_100_prefixes_the_smallest_are_counted_together)
{
    char prefix[16];
    unsigned locks = 0;
    for (unsigned i = 0; i < 150; i++) {
        snprintf(prefix, sizeof(prefix), "p%03u:", i * 37 % 150);
        add_many(prefix, 1 + i);
        locks += 1 + i;
    }
    begin();
    cr_assert_eq(view.prefixes, LOCKS_PREFIXES);
    for (size_t i = 0; i < LOCKS_PREFIXES; i++) {
        cr_assert_eq(view.prefix[i].locks, 150 - i);
        locks -= view.prefix[i].locks;
    }
    cr_assert_eq(view.other.locks, locks);
    cr_assert_eq(view.other.in_state[ROW_HELD], locks);
}

Test(locks_view, one_row_for_a_set_and_for_what_a_scan_returned_twice)
{
    for (const char *key = "dbeca"; *key; key++)
        add((char[]){*key, '\0'}, "k")->kind = REDLOCK_KIND_SET;
    add("x", "other")->kind = REDLOCK_KIND_SET;
    add("y", "k");
    add("c2", "k")->slot = 2;
    add("c2", "k")->slot = 1;
    add("y", "k");
    begin();
    SELECTS("a c2 c2 x y ", 5, .sort = LOCKS_BY_KEY);
    cr_assert_eq(table.row[0].keys, 5);
    const char *key = row_key(&table.row[0]);
    for (const char *expected = "abcde"; *expected; expected++, key = row_next_key(key))
        cr_assert_eq(*key, *expected);
    SELECTS("a ", 1, .filter = "d");
    add("f", "k")->kind = REDLOCK_KIND_SET;
    add("e", "k")->kind = REDLOCK_KIND_SET;
    begin();
    SELECTS("a c2 c2 x y ", 5, .sort = LOCKS_BY_KEY);
    cr_assert_eq(table.row[0].keys, 6);
}

Test(locks_view, who_still_holds_it_is_as_old_as_before)
{
    struct table old;
    add("a", "k")->since_us = 1;
    add("b", "k")->since_us = 1;
    add("d", "k")->since_us = 1;
    table_join(&table);
    old = table;
    table = (struct table){0};
    add("d", "k")->since_us = 2;
    add("c", "k")->since_us = 2;
    add("b", "another")->since_us = 2;
    add("a", "k")->since_us = 2;
    begin();
    table_keep_ages(&table, &old);
    cr_assert_eq(table.row[0].since_us, 1);
    cr_assert_eq(table.row[1].since_us, 2);
    cr_assert_eq(table.row[2].since_us, 2);
    cr_assert_eq(table.row[3].since_us, 1);
    table_free(&old);
}
