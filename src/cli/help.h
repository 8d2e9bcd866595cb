/* Help texts. Each function prints to stdout and ends the process. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "cli.h"

/* The help of the command: after -h its brief part. */
_Noreturn void cli_print_help(const struct cli *cli);

/* The rest of the help of redlock itself: the options of every command. */
_Noreturn void cli_end_help(bool brief);

_Noreturn void cli_print_version(void);

#endif
