/* Words of later servers that differ from those of the simulated one, where nothing depends
   on it. docs/simulator.md has this list, too. */
#ifndef TEST_KNOWN_DIFFERENCES_H
#define TEST_KNOWN_DIFFERENCES_H

#include "sim/redis/bytes.h"

/* Removes from replies what differs in this release, for example "redis 8.6.3". */
void known_differences_remove(const char *server, struct bytes *replies);

#endif
