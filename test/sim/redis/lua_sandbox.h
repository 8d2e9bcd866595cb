/* What a script finds in Lua: its libraries, and `redis`. */
#ifndef SIM_REDIS_LUA_SANDBOX_H
#define SIM_REDIS_LUA_SANDBOX_H

#include <lua.h>

#include "command.h"

struct lua_sandbox {
    lua_State *lua;
    /* of the script that is executed: */
    struct call *call;
    unsigned calls;         /* of redis.call() so far */
    struct request command; /* and the last one's words */
    struct bytes reply;
};

void lua_sandbox_open(struct lua_sandbox *sandbox);

/* Pushes the function that lua_pcall() calls for an error that no script caught. */
void lua_sandbox_push_handler(lua_State *lua);

#endif
