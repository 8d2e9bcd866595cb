/*
 * The scripts that a server knows. All servers of a process share one Lua, and what it has
 * compiled: servers restart and lose their scripts far more often than there are new ones.
 */
#ifndef SIM_REDIS_SCRIPT_CACHE_H
#define SIM_REDIS_SCRIPT_CACHE_H

#include <stdio.h>

#include "command.h"
#include "sha1.h"

#define SCRIPT_SOURCE "@user_script" /* what Lua calls it */
#define SCRIPT_LINES  256

struct script {
    struct bytes body;
    char sha1[SHA1_DIGITS + 1];
    int function;                                             /* in Lua's registry */
    unsigned servers;                                         /* that know it */
    uint8_t executable[SCRIPT_LINES], executed[SCRIPT_LINES]; /* if it is watched */
    struct script *next;
};

/* The scripts of one server. */
struct scripts {
    struct script **known;
    size_t count, room;
};

struct scripts *scripts_new(void);
void scripts_free(struct scripts *scripts);
void scripts_forget(struct scripts *scripts);

/* Finds a script by its SHA-1 in any case; NULL: the server does not know it. */
const struct script *scripts_find(const struct scripts *scripts, struct rl_word sha1);

/* Compiles a script that is not known yet; NULL: the error was replied. */
const struct script *scripts_load(struct scripts *scripts, struct rl_word body,
                                  struct bytes *out);

/*
 * Executes it with the words of `call` from word `first` on: `keys` of them are KEYS, the
 * rest is ARGV.
 */
void scripts_run(const struct script *script, struct call *call, size_t first, size_t keys);

/* Of all that were executed: the lines that were not. True: there is none. */
bool scripts_print_lines(FILE *to);

#endif
