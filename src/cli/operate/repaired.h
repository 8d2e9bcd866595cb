/* redlock check --until-repaired: waits until all nodes store the locks again. */
#ifndef CLI_REPAIRED_H
#define CLI_REPAIRED_H

#include "cli.h"

/* Waits for at most `wait_ms`; CLI_UNSAID: without limit. Returns the exit code. */
int repaired_wait(struct cli *cli, int64_t wait_ms);

#endif
