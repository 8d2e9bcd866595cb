/* The value of an option. */
#ifndef CLI_VALUE_H
#define CLI_VALUE_H

#include "cli.h"

/* Reads a value. Returns NULL, or what is wrong with it. */
const char *cli_read_value(enum cli_type type, const char *text, void *into);

#endif
