/*
 * A program that makes invalid calls: it is refused, it is told why, and nothing is done.
 * Called as code of the client's process.
 */
#ifndef SIM_MISTAKES_H
#define SIM_MISTAKES_H

#include "client.h"

void mistakes_make(struct client *client);

#endif
