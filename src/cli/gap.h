/*
 * Something that is to come again and again: for how long it did not, where it was tried
 * and failed. Cycles fail slowly and are held fast: their share says little of that. Pure.
 */
#ifndef CLI_GAP_H
#define CLI_GAP_H

#include <stdint.h>

/* All times are since the beginning, in us. */
struct gap {
    int64_t last;    /* when it came last */
    int64_t failed;  /* the first time that it failed since; 0: it did not */
    int64_t longest; /* from when it came to when it came again, if it failed meanwhile */
    int64_t sum;     /* of all of these */
};

void gap_came(struct gap *gap, int64_t at);
void gap_failed(struct gap *gap, int64_t at);
void gap_end(struct gap *gap, int64_t at);

#endif
