/* One lock, as redlock list and monitor show it. */
#ifndef CLI_ROW_H
#define CLI_ROW_H

#include <string.h>

#include "cli.h"

enum row_state {
    ROW_HELD,
    ROW_SPLIT,    /* no value is on a quorum, and no quorum is free */
    ROW_ORPHANED, /* nobody holds it, and keys are left on a minority of the nodes */
    ROW_FOREIGN,  /* held by another program */
    ROW_UNKNOWN,  /* too few nodes replied to tell whether it is held */
    ROW_FREE,     /* of a lock that is looked at again: it has no key any more */
    ROW_STATES
};

struct row {
    /* Allocated: the token, its holder and the keys in order, each with its NUL. A NUL in a
       key is \xc0\x80, and \xc0 is \xc0\x81. */
    char *text;
    unsigned short holder_at, key_at; /* in `text` */
    unsigned short keys;              /* several if it is a set */
    unsigned short slot;              /* of a semaphore, whose key is row_key(); or 0 */
    unsigned short nodes, count, readers, waiting;
    redlock_kind kind;
    enum row_state state;
    bool is_held; /* a quorum stores one value; not used if the state is unknown */
    int64_t remaining_ms, fence, waited_ms;
    int64_t since_ms;          /* since 1970, by the holder's clock; or UNKNOWN */
    int64_t seen_us, since_us; /* CLOCK_BOOTTIME: when it was read; its holder, first,
                                  unless `since_ms` is known */
};

static inline const char *row_token(const struct row *row)
{
    return row->text;
}

static inline const char *row_holder(const struct row *row)
{
    return row->text + row->holder_at;
}

/* The first key, by which rows are in order; and the one after a key. */
static inline const char *row_key(const struct row *row)
{
    return row->text + row->key_at;
}

static inline const char *row_next_key(const char *key)
{
    return key + strlen(key) + 1;
}

/* A key of a row as it is on the nodes. The caller frees it. */
char *row_read_key(const char *key, size_t *ret_len);

/* The finding at a key. Ends the process if there is no memory. */
void row_take(struct row *row, const redlock_listed *listed);
void row_free(struct row *row);

/* A lock of several keys: adds the keys of `other`, and frees `other`. */
void row_join(struct row *row, struct row *other);

/* For qsort(3): by the key, then the slot. */
int row_compare(const void *row, const void *other);

/*
 * One line, of 80 columns unless the keys and the holder are long. row_print_head() prints
 * the names of the columns.
 */
void row_print_head(void);
void row_print(const struct row *row, bool color);
json_t *row_json(const struct row *row);

const char *row_state_name(enum row_state state);

/* Why not all locks were found, or if `code` is OK, why `unknown` rows are of unknown
   state. The caller frees it. */
char *row_why_not_all(const struct cli *cli, redlock_code code, size_t unknown);

#endif
