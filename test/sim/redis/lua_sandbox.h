/* What a script finds in Lua: its libraries, and `redis`. */
#ifndef SIM_REDIS_LUA_SANDBOX_H
#define SIM_REDIS_LUA_SANDBOX_H

#include "script_cache.h"

void lua_sandbox_open(struct scripts *scripts);

/* Pushes the function that lua_pcall() calls for an error that no script caught. */
void lua_sandbox_push_handler(lua_State *lua);

#endif
