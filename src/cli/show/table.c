#include "table.h"

#include <stdlib.h>

#define LESS 1024 /* rows that there is room for at first */

void table_add(struct table *table, const struct row *row)
{
    if (table->count == table->room) {
        table->room = table->room ? 2 * table->room : LESS;
        table->row =
            cli_need_memory(realloc(table->row, table->room * sizeof(*table->row)));
    }
    table->row[table->count++] = *row;
}

static void sort(struct row *row, size_t count, int (*compare)(const void *, const void *))
{
    if (count > 0)
        qsort(row, count, sizeof(*row), compare);
}

static int by_token(const void *row, const void *other)
{
    int order = strcmp(row_token(row), row_token(other));
    return order != 0 ? order : row_compare(row, other);
}

/* Sets go to the front; the rows of one, which have the same token, become one. */
static void join_sets(struct table *table)
{
    struct row *row = table->row;
    size_t sets = 0, count = 0;
    for (size_t i = 0; i < table->count; i++)
        if (row[i].kind == REDLOCK_KIND_SET) {
            struct row set = row[i];
            row[i] = row[sets];
            row[sets++] = set;
        }
    sort(row, sets, by_token);
    for (size_t i = 0; i < sets; i++)
        if (count > 0 && strcmp(row_token(&row[count - 1]), row_token(&row[i])) == 0)
            row_join(&row[count - 1], &row[i]);
        else
            row[count++] = row[i];
    while (sets < table->count)
        row[count++] = row[sets++];
    table->count = count;
}

void table_join(struct table *table)
{
    struct row *row = table->row;
    size_t count = 0;
    join_sets(table);
    sort(row, table->count, row_compare);
    for (size_t i = 0; i < table->count; i++)
        if (count > 0 && row_compare(&row[count - 1], &row[i]) == 0)
            row_free(&row[i]);
        else
            row[count++] = row[i];
    table->count = count;
}

void table_keep_ages(struct table *table, const struct table *old)
{
    size_t at = 0;
    for (size_t i = 0; i < table->count; i++) {
        struct row *row = &table->row[i];
        while (at < old->count && row_compare(&old->row[at], row) < 0)
            at++;
        if (at < old->count && row_compare(&old->row[at], row) == 0 &&
            strcmp(row_token(&old->row[at]), row_token(row)) == 0)
            row->since_us = old->row[at].since_us;
    }
}

void table_empty(struct table *table)
{
    for (size_t i = 0; i < table->count; i++)
        row_free(&table->row[i]);
    table->count = 0;
}

void table_free(struct table *table)
{
    table_empty(table);
    free(table->row);
}
