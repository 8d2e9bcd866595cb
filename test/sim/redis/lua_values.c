#include "lua_values.h"

#include <lauxlib.h>

#include "number.h"
#include "reply.h"

/* --- from Lua --- */

/* If the table on top has this field as a string, its text as C sees it: up to a NUL. */
static const char *text_field(lua_State *lua, const char *field)
{
    lua_pushstring(lua, field);
    lua_rawget(lua, -2);
    const char *text = lua_type(lua, -1) == LUA_TSTRING ? lua_tostring(lua, -1) : NULL;
    lua_pop(lua, 1); /* the table still refers to it */
    return text;
}

/* {err = ...}, {ok = ...}, or an array that ends before its first nil. */
static void reply_table(lua_State *lua, struct bytes *out)
{
    const char *err = text_field(lua, "err");
    const char *ok = err ? NULL : text_field(lua, "ok");
    struct bytes items = {0};
    size_t count = 0;
    if (err) {
        reply_error(out, (struct rl_word){err, strlen(err)});
        return;
    }
    if (ok) {
        reply_status(out, (struct rl_word){ok, strlen(ok)});
        return;
    }
    for (;; count++) {
        lua_rawgeti(lua, -1, (int)count + 1);
        if (lua_isnil(lua, -1))
            break;
        lua_values_reply(lua, &items);
        lua_pop(lua, 1);
    }
    lua_pop(lua, 1);
    reply_array(out, count);
    bytes_add(out, items.data, items.len);
    bytes_free(&items);
}

/* As the machine converts it: what int64_t cannot hold becomes its least number. */
static int64_t integer_of(lua_Number number)
{
    const double limit = 9223372036854775808.0;
    return number >= -limit && number < limit ? (int64_t)number : INT64_MIN;
}

void lua_values_reply(lua_State *lua, struct bytes *out)
{
    struct rl_word text;
    if (!lua_checkstack(lua, 4)) {
        reply_error_format(out, "ERR reached lua stack limit");
        return;
    }
    switch (lua_type(lua, -1)) {
    case LUA_TSTRING:
        text.text = lua_tolstring(lua, -1, &text.len);
        reply_bulk(out, text);
        break;
    case LUA_TNUMBER: reply_integer(out, integer_of(lua_tonumber(lua, -1))); break;
    case LUA_TTABLE: reply_table(lua, out); break;
    case LUA_TBOOLEAN:
        if (lua_toboolean(lua, -1)) {
            reply_integer(out, 1);
            break;
        }
        /* fall through */
    default: reply_nil(out); break;
    }
}

/* --- to Lua --- */

static void push_field(lua_State *lua, const char *field, const char *text, size_t len)
{
    lua_createtable(lua, 0, 1);
    lua_pushlstring(lua, text, len);
    lua_setfield(lua, -2, field);
}

void lua_values_push_error(lua_State *lua, struct rl_word text)
{
    const char *code = "ERR ";
    if (text.len > 0 && text.text[0] == '-') {
        text.text++;
        text.len--;
        if (memchr(text.text, ' ', text.len))
            code = "";
    }
    while (text.len > 0 && strchr("\r\n", text.text[text.len - 1]))
        text.len--;
    lua_createtable(lua, 0, 1);
    lua_pushstring(lua, code);
    lua_pushlstring(lua, text.text, text.len);
    lua_concat(lua, 2);
    lua_setfield(lua, -2, "err");
}

static const char *push(lua_State *lua, const char *at);

static void push_array(lua_State *lua, int64_t items, const char **next)
{
    lua_createtable(lua, (int)items, 0);
    for (int i = 1; i <= items; i++) {
        *next = push(lua, *next);
        lua_rawseti(lua, -2, i);
    }
}

/* The reply at `at` is whole: this server wrote it. Returns where the next one begins. */
static const char *push(lua_State *lua, const char *at)
{
    const char *line = at + 1, *end = strchr(line, '\r'), *next = end + 2;
    size_t len = (size_t)(end - line);
    int64_t number = 0;
    number_integer((struct rl_word){line, len}, &number);
    luaL_checkstack(lua, 4, NULL);
    switch (*at) {
    case ':': lua_pushnumber(lua, (lua_Number)number); break;
    case '+': push_field(lua, "ok", line, len); break;
    case '-': lua_values_push_error(lua, (struct rl_word){at, len + 1}); break;
    case '*': push_array(lua, number, &next); break;
    default:
        if (number < 0) {
            lua_pushboolean(lua, 0);
            break;
        }
        lua_pushlstring(lua, next, (size_t)number);
        next += number + 2;
    }
    return next;
}

void lua_values_push(lua_State *lua, struct rl_word reply)
{
    push(lua, reply.text);
}
