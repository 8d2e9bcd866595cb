#include "lua_numbers.h"

#include "bytes.h"
#include "number.h"

#define EXACT_MAX (INT64_C(1) << 53) /* a double represents all integers up to here */

/* Lua's own function is the upvalue. It runs in place of this one, also in its errors. */
static int call_original(lua_State *lua)
{
    return lua_tocfunction(lua, lua_upvalueindex(1))(lua);
}

static int to_number(lua_State *lua)
{
    struct rl_word word;
    int64_t value;
    if (lua_gettop(lua) != 1 || lua_type(lua, 1) != LUA_TSTRING)
        return call_original(lua);
    word.text = lua_tolstring(lua, 1, &word.len);
    if (!number_integer(word, &value))
        return call_original(lua);
    lua_pushnumber(lua, (lua_Number)value);
    return 1;
}

static int format(lua_State *lua)
{
    char digits[NUMBER_ROOM];
    if (lua_gettop(lua) != 2 || lua_type(lua, 1) != LUA_TSTRING ||
        lua_type(lua, 2) != LUA_TNUMBER || strcmp(lua_tostring(lua, 1), "%.0f") != 0)
        return call_original(lua);
    lua_Number number = lua_tonumber(lua, 2);
    if (!(number >= 1 && number <= EXACT_MAX) || (lua_Number)(int64_t)number != number)
        return call_original(lua);
    lua_pushlstring(lua, digits, number_write(digits, (int64_t)number));
    return 1;
}

void lua_numbers_open(lua_State *lua)
{
    lua_getglobal(lua, "tonumber");
    lua_pushcclosure(lua, to_number, 1);
    lua_setglobal(lua, "tonumber");
    lua_getglobal(lua, "string");
    lua_getfield(lua, -1, "format");
    lua_pushcclosure(lua, format, 1);
    lua_setfield(lua, -2, "format");
    lua_pop(lua, 1);
}
