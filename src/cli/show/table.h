/* The rows that a scan of the nodes has found. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "row.h"

struct table {
    struct row *row;
    size_t count, room;
};

/* Takes over the row. Ends the process if there is no memory. */
void table_add(struct table *table, const struct row *row);

/*
 * One row for each lock: joins the keys of a set, and drops what SCAN has returned twice.
 * Sorts by row_compare(). More rows may be added afterwards, and joined again.
 */
void table_join(struct table *table);

/* Keeps `since_us` of rows whose key and token are also in `old`. Both are joined. */
void table_keep_ages(struct table *table, const struct table *old);

/* Frees the rows; table_free() the table, too. */
void table_empty(struct table *table);
void table_free(struct table *table);

#endif
