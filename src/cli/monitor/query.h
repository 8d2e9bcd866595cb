/* What a query of the URI says. */
#ifndef CLI_QUERY_H
#define CLI_QUERY_H

#include "cli.h"

#include <event2/keyvalq_struct.h>

/* A whole number up to `most`; `ret_number` stays as it is if there is none. */
bool query_number(const struct evkeyvalq *query, const char *name, size_t most,
                  size_t *ret_number);

/*
 * Numbers that are separated by commas, each up to `most`: how many, or -1. An empty one is
 * -1; `room`: at most so many.
 */
int query_list(const struct evkeyvalq *query, const char *name, double most,
               double *ret_numbers, unsigned room);

#endif
