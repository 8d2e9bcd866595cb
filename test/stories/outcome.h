/* The outcome of a step of a story, as text: what has changed for the holder since. */
#ifndef STORY_OUTCOME_H
#define STORY_OUTCOME_H

#include "core/types.h"

/* From here on changes belong to one step. */
void outcome_begin(void);

/* Adds what has changed. `greeted`: the step greets these nodes. */
void outcome_look(rl_node_set greeted);

/* Ends the step. "": nothing has changed. */
const char *outcome_end(void);

#endif
