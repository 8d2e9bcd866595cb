/* The options of the command line. */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include "cli.h"

/* Sets all fields to "not set" or their defaults. */
void cli_init(struct cli *cli);

/* Reads options from argv[1] on; returns the index of the first operand. */
int cli_read_options(struct cli *cli, int argc, char **argv, const struct cli_option *own);

#endif
