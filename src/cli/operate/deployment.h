/* Makes new servers a deployment of fenced locks. */
#ifndef CLI_DEPLOYMENT_H
#define CLI_DEPLOYMENT_H

#include "cli.h"

/*
 * Admits the nodes of this list; they vote from then on. Of the command line's options it
 * uses the prefix and the longest TTL. Returns NULL on success; else the reason, which the
 * caller frees.
 */
char *deployment_found(const struct cli *cli, const char *list);

#endif
