/*
 * The command's sources, compiled so that what ends the process ends the input, what was
 * allocated until then is freed, and the only file with a content is the input.
 */
#ifndef TEST_FUZZ_CLI_INPUT_H
#define TEST_FUZZ_CLI_INPUT_H

#include "cli/cli.h"

#define INPUT_FILE "input" /* its name */

/*
 * Runs it, with these bytes as the file, and with cli_init() done. Returns the exit code if
 * it ended the process, and -1 if it returned.
 */
int cli_input_run(const char *file, size_t len, void (*run)(struct cli *cli, void *arg),
                  void *arg);

/* From here on this is the file, until the run ends. */
void cli_input_set(const char *file, size_t len);

#endif
