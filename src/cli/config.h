/* Values that the command line does not set. */
#ifndef CLI_CONFIG_H
#define CLI_CONFIG_H

#include "cli.h"

/* Fills in unset options by redlock/settings.h, and sets the nodes. */
void cli_configure(struct cli *cli);

#endif
