/* The file of redlock.conf(5): whether it may be trusted, and its text. */
#ifndef RL_SETTINGS_FILE_H
#define RL_SETTINGS_FILE_H

#include <stdbool.h>
#include <stddef.h>

#define RL_SETTINGS_FILE_MAX 65536

#ifndef RL_SETTINGS_FILE_WAIT_MS      /* a test waits for less */
#define RL_SETTINGS_FILE_WAIT_MS 5000 /* for the end of a pipe */
#endif

struct rl_settings_file {
    char *text; /* `len` bytes and a NUL; the caller frees it */
    size_t len;
    bool group_may_write;
};

/*
 * Opens the file and reads it, once, so that a pipe will do. Returns NULL, or why not, with
 * errno; 0: that is no errno.
 */
const char *rl_settings_file_read(const char *name, struct rl_settings_file *ret_file);

#endif
