/* The scripts that a server knows, compiled, and the Lua in which it executes them. */
#ifndef SIM_REDIS_SCRIPT_CACHE_H
#define SIM_REDIS_SCRIPT_CACHE_H

#include <lua.h>

#include "command.h"
#include "sha1.h"

struct script {
    char sha1[SHA1_DIGITS + 1];
    int function; /* in Lua's registry */
};

struct scripts {
    lua_State *lua;
    struct script *script;
    size_t count, room;
    /* of the script that is executed: */
    struct call *call;
    unsigned calls;         /* of redis.call() so far */
    struct request command; /* and the last one's words */
    struct bytes reply;
};

struct scripts *scripts_new(void);
void scripts_free(struct scripts *scripts);
void scripts_forget(struct scripts *scripts);

/* By its SHA-1 in any case; NULL: the server does not know it. */
const struct script *scripts_find(const struct scripts *scripts, struct rl_word sha1);

/* Compiles a script that is not known yet; NULL: the error was replied. */
const struct script *scripts_load(struct scripts *scripts, struct rl_word body,
                                  struct bytes *out);

/*
 * Executes it with the words of `call` from word `first` on: `keys` of them are KEYS, the
 * rest is ARGV.
 */
void scripts_run(struct scripts *scripts, const struct script *script, struct call *call,
                 size_t first, size_t keys);

#endif
