/* Values that the command line does not set. */
#ifndef CLI_CONFIG_H
#define CLI_CONFIG_H

#include "cli.h"

/* Fills in unset options by redlock/settings.h, and sets the nodes. */
void cli_configure(struct cli *cli);

/* Copies what the options and the keys have in argv, for a process that overwrites argv. */
void cli_copy_words(struct cli *cli);

#endif
