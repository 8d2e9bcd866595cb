/* Help texts. Each function prints to stdout and ends the process. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "cli.h"

/* The help of the command. */
_Noreturn void cli_print_help(const struct cli *cli);

/* The rest of a help text: the options of every command, and `more`. */
_Noreturn void cli_end_help(const char *more);

_Noreturn void cli_print_version(void);

#endif
