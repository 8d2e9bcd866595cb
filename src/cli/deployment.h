/* A deployment of fenced locks, of servers that are as new. */
#ifndef CLI_DEPLOYMENT_H
#define CLI_DEPLOYMENT_H

#include "cli.h"

/*
 * Admits the nodes of this list, which votes from then on; of the command line's options
 * the prefix and the longest TTL count. NULL: done; else why not, to be freed.
 */
char *deployment_found(const struct cli *cli, const char *list);

#endif
