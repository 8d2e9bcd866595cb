#include "script_lines.h"

#include <lua.h>
#include <string.h>

static bool watched;
static struct script *running;

void script_lines_watch(void)
{
    watched = true;
}

bool script_lines_are_watched(void)
{
    return watched;
}

static void set(uint8_t *lines, lua_Integer line)
{
    if (line > 0 && line < SCRIPT_LINES)
        lines[line] = 1;
}

/* A function that is called shows which of its lines can be. */
static void on_event(lua_State *lua, lua_Debug *event)
{
    lua_getinfo(lua, "Sl", event);
    if (strcmp(event->source, SCRIPT_SOURCE) != 0)
        return;
    if (event->event == LUA_HOOKLINE) {
        set(running->executed, event->currentline);
        return;
    }
    lua_getinfo(lua, "L", event);
    if (lua_istable(lua, -1))
        for (lua_pushnil(lua); lua_next(lua, -2) != 0; lua_pop(lua, 1))
            set(running->executable, lua_tointeger(lua, -2));
    lua_pop(lua, 1);
}

void script_lines_begin(lua_State *lua, struct script *script)
{
    running = script;
    lua_sethook(lua, on_event, LUA_MASKLINE | LUA_MASKCALL, 0);
}

static void print_line(FILE *to, const struct script *script, unsigned number)
{
    const char *line = script->body.data, *end = line + script->body.len;
    for (unsigned i = 1; i < number; i++)
        line = (const char *)memchr(line, '\n', (size_t)(end - line)) + 1;
    const char *next = memchr(line, '\n', (size_t)(end - line));
    fprintf(to, "script %.8s, line %u is never executed: %.*s\n", script->sha1, number,
            (int)((next ? next : end) - line), line);
}

bool script_lines_print(FILE *to, const struct script *first)
{
    unsigned scripts = 0, lines = 0, missing = 0;
    for (const struct script *script = first; script; script = script->next, scripts++)
        for (unsigned i = 1; i < SCRIPT_LINES; i++) {
            bool misses = script->executable[i] && !script->executed[i];
            lines += script->executable[i];
            missing += misses;
            if (misses)
                print_line(to, script, i);
        }
    fprintf(to, "%u of %u lines of %u scripts\n", lines - missing, lines, scripts);
    return missing == 0;
}
