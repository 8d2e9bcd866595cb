/* Admissions of nodes that are not, or no longer, those of the command line. */
#ifndef CLI_DEPLOYMENT_H
#define CLI_DEPLOYMENT_H

#include "cli.h"

/*
 * Makes new servers a deployment of fenced locks: the nodes of this list vote from then on.
 * Of the command line's options it uses the prefix and the longest TTL. Returns NULL on
 * success; else the reason, which the caller frees.
 */
char *deployment_found(const struct cli *cli, const char *list);

/* The server at `uri` was replaced by the node `node`, and must never vote again. The
   result is as above. */
char *deployment_retire(const struct cli *cli, size_t node, const char *uri);

#endif
