#include "lua_sandbox.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>

#include "lua_numbers.h"
#include "lua_values.h"
#include "sha1.h"

/* --- redis.call, redis.pcall --- */

static void push_error(lua_State *lua, const char *text)
{
    lua_values_push_error(lua, (struct rl_word){text, strlen(text)});
}

/*
 * The arguments as words; they live as long as they are on the stack. False: an error was
 * pushed.
 */
static bool read_arguments(lua_State *lua, struct request *command)
{
    char digits[64];
    int count = lua_gettop(lua);
    command->words = 0;
    if (count == 0) {
        push_error(lua, "Please specify at least one argument for this redis lib call");
        return false;
    }
    for (int i = 1; i <= count; i++) {
        struct rl_word word;
        if (lua_type(lua, i) == LUA_TNUMBER) {
            int len = snprintf(digits, sizeof(digits), "%.17g", lua_tonumber(lua, i));
            lua_pushlstring(lua, digits, (size_t)len);
            lua_replace(lua, i);
        }
        word.text = lua_tolstring(lua, i, &word.len);
        if (!word.text) {
            push_error(lua, "Lua redis lib command arguments must be strings or integers");
            return false;
        }
        request_add(command, word);
    }
    return true;
}

/* Pushes what the command replied; true: an error. */
static bool execute(lua_State *lua, struct lua_sandbox *sandbox)
{
    struct call call = *sandbox->call;
    if (!read_arguments(lua, &sandbox->command))
        return true;
    call.word = sandbox->command.word;
    call.words = sandbox->command.words;
    call.in_script = ++sandbox->calls;
    call.out = &sandbox->reply;
    sandbox->reply.len = 0;
    const char *refused = command_execute_in_script(&call);
    if (refused) {
        push_error(lua, refused);
        return true;
    }
    bytes_reserve(&sandbox->reply, 1)[0] = '\0';
    lua_values_push(lua, bytes_word(&sandbox->reply));
    return sandbox->reply.data[0] == '-';
}

static struct lua_sandbox *sandbox_of(lua_State *lua)
{
    return lua_touserdata(lua, lua_upvalueindex(1));
}

static int redis_call(lua_State *lua)
{
    if (execute(lua, sandbox_of(lua)))
        return lua_error(lua);
    return 1;
}

static int redis_pcall(lua_State *lua)
{
    execute(lua, sandbox_of(lua));
    return 1;
}

/* --- the rest of `redis` --- */

static bool has_one_string(lua_State *lua)
{
    if (lua_gettop(lua) == 1 && lua_type(lua, 1) == LUA_TSTRING)
        return true;
    push_error(lua, "wrong number or type of arguments");
    return false;
}

static int error_reply(lua_State *lua)
{
    if (!has_one_string(lua))
        return 1;
    const char *text = lua_tostring(lua, 1);
    lua_pushfstring(lua, "-%s", text + (text[0] == '-'));
    push_error(lua, lua_tostring(lua, -1));
    return 1;
}

static int status_reply(lua_State *lua)
{
    if (!has_one_string(lua))
        return 1;
    lua_createtable(lua, 0, 1);
    lua_pushvalue(lua, 1);
    lua_setfield(lua, -2, "ok");
    return 1;
}

static int sha1hex(lua_State *lua)
{
    char digits[SHA1_DIGITS + 1];
    struct rl_word text;
    if (lua_gettop(lua) != 1)
        return luaL_error(lua, "wrong number of arguments");
    text.text = lua_tolstring(lua, 1, &text.len);
    sha1_digits(text.text ? text : (struct rl_word){"", 0}, digits);
    lua_pushlstring(lua, digits, SHA1_DIGITS);
    return 1;
}

/* --- errors --- */

/* As Redis' own pcall(): of an error of redis.call() it returns the text only. */
static int protected_call(lua_State *lua)
{
    int words = lua_gettop(lua);
    luaL_checkany(lua, 1);
    if (lua_pcall(lua, words - 1, LUA_MULTRET, 0) == 0) {
        lua_pushboolean(lua, 1);
        lua_insert(lua, 1);
        return lua_gettop(lua);
    }
    if (lua_istable(lua, -1)) {
        lua_getfield(lua, -1, "err");
        if (lua_isstring(lua, -1))
            lua_replace(lua, -2);
        else
            lua_pop(lua, 1);
    }
    lua_pushboolean(lua, 0);
    lua_insert(lua, -2);
    return 2;
}

/* Makes it a table with the text and where it happened. */
static int on_error(lua_State *lua)
{
    lua_Debug where;
    bool found = lua_getstack(lua, 1, &where) && lua_getinfo(lua, "Sl", &where);
    if (found && strcmp(where.what, "C") == 0)
        found = lua_getstack(lua, 2, &where) && lua_getinfo(lua, "Sl", &where);
    lua_settop(lua, 1);
    if (!lua_istable(lua, 1)) {
        lua_createtable(lua, 0, 3);
        lua_pushstring(lua, "ERR ");
        lua_getglobal(lua, "tostring");
        lua_pushvalue(lua, 1);
        lua_call(lua, 1, 1);
        lua_concat(lua, 2);
        lua_setfield(lua, -2, "err");
        lua_replace(lua, 1);
    }
    if (found) {
        lua_pushstring(lua, where.source);
        lua_setfield(lua, 1, "source");
        lua_pushinteger(lua, where.currentline);
        lua_setfield(lua, 1, "line");
    }
    return 1;
}

void lua_sandbox_push_handler(lua_State *lua)
{
    lua_pushcfunction(lua, on_error);
}

static int no_such_global(lua_State *lua)
{
    return luaL_error(lua, "Script attempted to access nonexistent global variable '%s'",
                      lua_tostring(lua, 2));
}

static int no_new_global(lua_State *lua)
{
    return luaL_error(lua, "Attempt to modify a readonly table");
}

/* --- opening --- */

/* Not in Redis, or different in every run. */
static void remove_globals(lua_State *lua)
{
    static const char *const names[] = {"dofile",  "loadfile", "print",    "newproxy",
                                        "getfenv", "setfenv",  "gcinfo",   "module",
                                        "require", "package",  "_VERSION", "io"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        lua_pushnil(lua);
        lua_setglobal(lua, names[i]);
    }
    lua_getglobal(lua, "math");
    lua_pushnil(lua);
    lua_setfield(lua, -2, "random");
    lua_pushnil(lua);
    lua_setfield(lua, -2, "randomseed");
    lua_pop(lua, 1);
}

static void add_redis(struct lua_sandbox *sandbox)
{
    static const luaL_Reg functions[] = {
        {"call", redis_call},         {"pcall", redis_pcall},
        {"error_reply", error_reply}, {"status_reply", status_reply},
        {"sha1hex", sha1hex},
    };
    lua_State *lua = sandbox->lua;
    lua_newtable(lua);
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        lua_pushlightuserdata(lua, sandbox);
        lua_pushcclosure(lua, functions[i].func, 1);
        lua_setfield(lua, -2, functions[i].name);
    }
    lua_setglobal(lua, "redis");
}

static void protect_globals(lua_State *lua)
{
    lua_pushvalue(lua, LUA_GLOBALSINDEX);
    lua_createtable(lua, 0, 2);
    lua_pushcfunction(lua, no_such_global);
    lua_setfield(lua, -2, "__index");
    lua_pushcfunction(lua, no_new_global);
    lua_setfield(lua, -2, "__newindex");
    lua_setmetatable(lua, -2);
    lua_pop(lua, 1);
}

void lua_sandbox_open(struct lua_sandbox *sandbox)
{
    static const struct {
        const char *name;
        lua_CFunction open;
    } libraries[] = {
        {"", luaopen_base},
        {LUA_TABLIBNAME, luaopen_table},
        {LUA_STRLIBNAME, luaopen_string},
        {LUA_MATHLIBNAME, luaopen_math},
    };
    lua_State *lua = sandbox->lua = luaL_newstate();
    if (!lua)
        abort();
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        lua_pushcfunction(lua, libraries[i].open);
        lua_pushstring(lua, libraries[i].name);
        lua_call(lua, 1, 0);
    }
    remove_globals(lua);
    lua_numbers_open(lua);
    lua_pushcfunction(lua, protected_call);
    lua_setglobal(lua, "pcall");
    add_redis(sandbox);
    protect_globals(lua);
}
