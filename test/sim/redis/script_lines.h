/* Which lines of the scripts have been executed, while that is watched. */
#ifndef SIM_REDIS_SCRIPT_LINES_H
#define SIM_REDIS_SCRIPT_LINES_H

#include <stdio.h>

#include "script_cache.h"

struct lua_State;

/* Watches from now on, until the process ends. */
void script_lines_watch(void);
bool script_lines_are_watched(void);

/* Called before this script is executed. */
void script_lines_begin(struct lua_State *lua, struct script *script);

/* Prints those that were not executed of all scripts from `first` on; true: there is none.
 */
bool script_lines_print(FILE *to, const struct script *first);

#endif
