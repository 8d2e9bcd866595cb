#include "script_cache.h"

#include <ctype.h>
#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "lua_sandbox.h"
#include "lua_values.h"
#include "reply.h"
#include "script_lines.h"

#define UNUSED_MAX 64 /* compiled scripts that no server knows */

static struct lua_sandbox sandbox;
static struct script *compiled;
static size_t unused;

struct scripts *scripts_new(void)
{
    struct scripts *scripts = bytes_realloc(NULL, sizeof(*scripts));
    *scripts = (struct scripts){0};
    if (!sandbox.lua)
        lua_sandbox_open(&sandbox);
    return scripts;
}

static void drop_unused(void)
{
    struct script **at = &compiled;
    while (*at) {
        struct script *script = *at;
        if (script->servers > 0) {
            at = &script->next;
            continue;
        }
        *at = script->next;
        luaL_unref(sandbox.lua, LUA_REGISTRYINDEX, script->function);
        bytes_free(&script->body);
        free(script);
    }
    unused = 0;
}

void scripts_forget(struct scripts *scripts)
{
    for (size_t i = 0; i < scripts->count; i++)
        unused += --scripts->known[i]->servers == 0;
    scripts->count = 0;
    if (unused > UNUSED_MAX && !script_lines_are_watched())
        drop_unused();
}

void scripts_free(struct scripts *scripts)
{
    scripts_forget(scripts);
    free(scripts->known);
    free(scripts);
}

const struct script *scripts_find(const struct scripts *scripts, struct rl_word sha1)
{
    char digits[SHA1_DIGITS];
    if (sha1.len != SHA1_DIGITS)
        return NULL;
    for (size_t i = 0; i < SHA1_DIGITS; i++)
        digits[i] = (char)tolower((unsigned char)sha1.text[i]);
    for (size_t i = 0; i < scripts->count; i++)
        if (memcmp(scripts->known[i]->sha1, digits, SHA1_DIGITS) == 0)
            return scripts->known[i];
    return NULL;
}

/* NULL: the error was replied. */
static struct script *compile(struct rl_word body, struct bytes *out)
{
    struct script *script = compiled;
    while (script && !word_is(bytes_word(&script->body), body))
        script = script->next;
    if (script)
        return script;
    if (luaL_loadbuffer(sandbox.lua, body.text, body.len, SCRIPT_SOURCE) != 0) {
        reply_error_format(out, "ERR Error compiling script (new function): %s",
                           lua_tostring(sandbox.lua, -1));
        lua_pop(sandbox.lua, 1);
        return NULL;
    }
    script = bytes_realloc(NULL, sizeof(*script));
    *script = (struct script){.function = luaL_ref(sandbox.lua, LUA_REGISTRYINDEX),
                              .next = compiled};
    bytes_set(&script->body, body);
    sha1_digits(body, script->sha1);
    compiled = script;
    unused++;
    return script;
}

const struct script *scripts_load(struct scripts *scripts, struct rl_word body,
                                  struct bytes *out)
{
    struct script *script = compile(body, out);
    if (!script || scripts_find(scripts, (struct rl_word){script->sha1, SHA1_DIGITS}))
        return script;
    unused -= script->servers++ == 0;
    if (scripts->count == scripts->room) {
        scripts->room = scripts->room ? 2 * scripts->room : 16;
        scripts->known =
            bytes_realloc(scripts->known, scripts->room * sizeof(struct script *));
    }
    scripts->known[scripts->count++] = script;
    return script;
}

/* Past the check that forbids scripts to create globals. */
static void set_global_words(lua_State *lua, const char *name, const struct rl_word *word,
                             size_t words)
{
    lua_pushstring(lua, name);
    lua_createtable(lua, (int)words, 0);
    for (size_t i = 0; i < words; i++) {
        lua_pushlstring(lua, word[i].text, word[i].len);
        lua_rawseti(lua, -2, (int)i + 1);
    }
    lua_rawset(lua, LUA_GLOBALSINDEX);
}

/* `field` of the table on top, or NULL. */
static const char *field_of(lua_State *lua, const char *field)
{
    lua_getfield(lua, -1, field);
    const char *text = lua_tostring(lua, -1);
    lua_pop(lua, 1); /* the table still refers to it */
    return text;
}

/* An error that the script did not catch, as on_error() of the sandbox left it. */
static void reply_failure(lua_State *lua, const struct script *script, struct bytes *out)
{
    if (!lua_istable(lua, -1)) {
        reply_error_format(out, "ERR Error running script %s, %.100s", script->sha1,
                           lua_tostring(lua, -1));
        return;
    }
    struct bytes text = {0};
    const char *err = field_of(lua, "err"), *source = field_of(lua, "source");
    bytes_add_text(&text, err ? err : "");
    lua_getfield(lua, -1, "line");
    if (source && lua_isnumber(lua, -1)) {
        bytes_add_text(&text, " script: ");
        bytes_add_text(&text, script->sha1);
        bytes_add_text(&text, ", on ");
        bytes_add_text(&text, source);
        bytes_add_text(&text, ":");
        bytes_add_text(&text, lua_tostring(lua, -1));
        bytes_add_text(&text, ".");
    }
    lua_pop(lua, 1);
    reply_error(out, bytes_word(&text));
    bytes_free(&text);
}

void scripts_run(const struct script *script, struct call *call, size_t first, size_t keys)
{
    lua_State *lua = sandbox.lua;
    sandbox.call = call;
    sandbox.calls = 0;
    set_global_words(lua, "KEYS", call->word + first, keys);
    set_global_words(lua, "ARGV", call->word + first + keys, call->words - first - keys);
    lua_sandbox_push_handler(lua);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, script->function);
    if (script_lines_are_watched())
        script_lines_begin(lua, (struct script *)script);
    if (lua_pcall(lua, 0, 1, -2) != 0)
        reply_failure(lua, script, call->out);
    else
        lua_values_reply(lua, call->out);
    lua_settop(lua, 0);
}

bool scripts_print_lines(FILE *to)
{
    return script_lines_print(to, compiled);
}
