/* The interface between main, the options and the configuration. */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include "cli.h"

/* Sets all fields to "not set" or their defaults. */
void cli_init(struct cli *cli);

/* Reads options from argv[1] on; returns the index of the first operand. */
int cli_read_options(struct cli *cli, int argc, char **argv, const struct cli_option *own);

/* Reads a value. Returns NULL, or what is wrong with it. */
const char *cli_read_value(enum cli_type type, const char *text, void *into);

/* Prints the help text of the command, or of redlock, and ends the process. */
_Noreturn void cli_print_help(const struct cli *cli);
_Noreturn void cli_print_version(void);

/* Fills in unset options from the environment, the configuration file and the defaults. */
void cli_configure(struct cli *cli);

#endif
