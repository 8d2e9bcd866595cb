/*
 * The shortest run of a seed that still breaks the same: its storm is cut, and faults are
 * left out, as long as it does. Source: Zeller and Hildebrandt, Simplifying and Isolating
 * Failure-Inducing Input, 2002; here greedily, one thing at a time.
 */
#ifndef SIM_SHORTEN_H
#define SIM_SHORTEN_H

#include "plan.h"

/* Shortens a run that, with this cut, breaks something. It plays some hundred runs. */
struct cut shorten(uint64_t seed, struct cut cut);

/* The arguments that play it: " --storm N --without NAMES", or nothing. */
const char *shorten_arguments(const struct cut *cut);

/* Names of faults, separated by commas. False: one is unknown. */
bool shorten_read_names(const char *names, uint64_t *ret_without);

#endif
