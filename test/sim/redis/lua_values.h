/* Values of Lua and replies of Redis, each as the other. */
#ifndef SIM_REDIS_LUA_VALUES_H
#define SIM_REDIS_LUA_VALUES_H

#include <lua.h>

#include "bytes.h"

/* Replies what is on top of the stack: what a script returned. */
void lua_values_reply(lua_State *lua, struct bytes *out);

/* Pushes a reply, as redis.call() returns it. */
void lua_values_push(lua_State *lua, struct rl_word reply);

/* Pushes {err = ...}; `text` is "text", then its code is ERR, or "-CODE text". */
void lua_values_push_error(lua_State *lua, struct rl_word text);

#endif
