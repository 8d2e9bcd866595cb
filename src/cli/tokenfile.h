/*
 * A token with everything that is needed to keep its lock: the content of --token-file and
 * of `acquire --json`. The deadline is a time of CLOCK_BOOTTIME, so it is valid only under
 * the boot id that is stored with it.
 */
#ifndef CLI_TOKENFILE_H
#define CLI_TOKENFILE_H

#include "cli.h"

#define TOKENFILE_BOOT_ID 36

struct tokenfile {
    char token[REDLOCK_TOKEN_MAX + 1];
    char boot_id[TOKENFILE_BOOT_ID + 1]; /* "": the system has none */
    int64_t fence;                       /* 0: the lock is plain, or the fence is unknown */
    int64_t slot, slots;                 /* of a semaphore: which of how many; 0: unknown */
    int64_t ttl_ms, valid_ms;
    int64_t begun_us; /* of CLOCK_BOOTTIME: its release tells how long it was held; or 0 */
    int64_t deadline_us; /* of CLOCK_BOOTTIME: the lock excludes others until then */
};

enum tokenfile_state {
    TOKENFILE_VALID,
    TOKENFILE_EXPIRED,
    TOKENFILE_OTHER_BOOT, /* the deadline is a time of another boot: it is unknown */
};

/*
 * Read once, before a lock is acquired: later no descriptor may be free. "", with errno:
 * not known.
 */
const char *tokenfile_boot_id(void);

/*
 * Fills it in from a held lease; `slots` and `begun_us` stay as they are. False if the
 * lease's validity has ended.
 */
bool tokenfile_fill(struct tokenfile *file, const redlock_lease *lease, int64_t ttl_ms);

/* Checks the deadline; `ret_valid_ms` is what remains, above 0 if VALID. */
enum tokenfile_state tokenfile_left(const struct tokenfile *file, int64_t *ret_valid_ms);

json_t *tokenfile_json(const struct tokenfile *file, const struct cli_keys *keys);

/*
 * Ends the process if a token could not be stored at `path`. Call it before there is a
 * token.
 */
void tokenfile_check(const char *path);

/* Ends the process if tokenfile_write() would replace a link, or anything but a file. */
void tokenfile_need_regular(const char *path);

/* Replaces the file atomically, mode 0600. False, with errno, if that fails. */
bool tokenfile_write(const char *path, const struct tokenfile *file,
                     const struct cli_keys *keys);

/*
 * Ends the process if the file does not exist, is malformed or belongs to other keys than
 * these, whose name for messages is `name`.
 */
void tokenfile_read(const char *path, const char *name, const struct cli_keys *keys,
                    struct tokenfile *ret_file);

#endif
