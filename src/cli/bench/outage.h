/*
 * Tracks outages: the time between two successes if an attempt failed in between. Failed
 * cycles are slow and held ones fast, so the share of failed cycles says little about the
 * time. Pure.
 */
#ifndef CLI_OUTAGE_H
#define CLI_OUTAGE_H

#include <stdint.h>

/* All times are since the beginning, in us. */
struct outage {
    int64_t last;    /* time of the last success */
    int64_t failed;  /* time of the first failure since the last success; 0: none */
    int64_t longest; /* the longest time between two successes with a failure in between */
    int64_t sum;     /* the total of these times */
};

void outage_success(struct outage *outage, int64_t at);
void outage_failure(struct outage *outage, int64_t at);
void outage_end(struct outage *outage, int64_t at);

#endif
