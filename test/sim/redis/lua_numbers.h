/*
 * tonumber() and string.format('%.0f') for integers, several times as fast as Lua's own:
 * every command of a fenced lock calls them. All else is left to Lua's own.
 */
#ifndef SIM_REDIS_LUA_NUMBERS_H
#define SIM_REDIS_LUA_NUMBERS_H

#include <lua.h>

void lua_numbers_open(lua_State *lua);

#endif
