/*
 * The settings of the command `redlock`, for any program: redlock.conf(5) and the
 * environment. The rules of redlock.h apply; these functions need no client and may be
 * called in any thread that does not change the environment meanwhile.
 */
#ifndef REDLOCK_SETTINGS_H
#define REDLOCK_SETTINGS_H

#include "redlock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What redlock_client_new() and redlock_sync_new() take, but for the options. */
typedef struct redlock_settings {
    const char *const *uris;
    size_t count;
    int64_t ttl_ms;      /* for the options of a lock; default REDLOCK_TTL_MS */
    int64_t wait_ms;     /* for a lock; default FOREVER */
    const char *warning; /* for the user: the file's group may write it; or NULL */
} redlock_settings;

/*
 * Reads the settings. A variable overrides the file; a value that is overridden must be
 * possible, too, but for the nodes. `file` is the configuration file. NULL or empty: that
 * of REDLOCK_CONFIG, otherwise /etc/redlock.conf if it exists. It has at most 64 KiB; a
 * pipe is read once, and must end within 5 s. A regular file that all users may write, or
 * that belongs to neither root nor the effective user, is refused. `nodes`, if not NULL,
 * overrides the list of nodes. If a value is refused, redlock_last_error() names it and its
 * line of the file, or its variable, but never a password.
 * A process that is setuid or alike reads no variable.
 * Errors: BAD_NODES (there are none, or more than REDLOCK_NODES_MAX), BAD_OPTION (also: the
 * file or the password file cannot be read, or others may write the file), NO_MEMORY.
 */
REDLOCK_API redlock_code redlock_settings_read(const char *file, const char *nodes,
                                               redlock_settings **ret_settings);

/*
 * Fills in the options for redlock_client_new() and redlock_sync_new(), which the caller
 * may change: all but `label`, `quorum`, `log` and `trace`, which are defaults. Their texts
 * belong to the settings.
 * Errors: UNSUPPORTED (an option is set that this program was compiled without).
 */
REDLOCK_API redlock_code redlock_settings_options_sized(const redlock_settings *settings,
                                                        redlock_options *ret_options,
                                                        size_t size);
static inline redlock_code redlock_settings_options(const redlock_settings *settings,
                                                    redlock_options *ret_options)
{
    return redlock_settings_options_sized(settings, ret_options, sizeof(*ret_options));
}

REDLOCK_API void redlock_settings_free(redlock_settings *settings);

/*
 * Reads a duration as it is in these files: 250ms, 30s, 5m, 1h, 1d, 0.5s; a bare number is
 * seconds.
 * Errors: BAD_OPTION.
 */
REDLOCK_API redlock_code redlock_duration_read(const char *text, int64_t *ret_ms);

#ifdef __cplusplus
}
#endif

#endif
