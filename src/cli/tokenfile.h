/*
 * A token with all that is needed to go on holding its lock: what --token-file keeps and
 * `acquire --json` prints. The deadline counts on CLOCK_BOOTTIME, so it means something
 * only under the boot id that stands beside it.
 */
#ifndef CLI_TOKENFILE_H
#define CLI_TOKENFILE_H

#include "cli.h"

#define TOKENFILE_BOOT_ID 36

struct tokenfile {
    char token[REDLOCK_TOKEN_MAX + 1];
    char boot_id[TOKENFILE_BOOT_ID + 1]; /* "": the system does not tell */
    int64_t fence;                       /* 0: the lock is plain, or it is not known */
    int64_t ttl_ms, valid_ms;
    int64_t deadline_us; /* of CLOCK_BOOTTIME: the lock excludes others until then */
};

enum tokenfile_state {
    TOKENFILE_VALID,
    TOKENFILE_EXPIRED,
    TOKENFILE_OTHER_BOOT, /* the deadline cannot be compared with any clock of ours */
};

/* From a held lease. False if its validity has run out. */
bool tokenfile_fill(struct tokenfile *file, const redlock_lease *lease, int64_t ttl_ms);

/* Whether the deadline has passed; `ret_valid_ms` is what remains, above 0 if VALID. */
enum tokenfile_state tokenfile_left(const struct tokenfile *file, int64_t *ret_valid_ms);

/* Microseconds of CLOCK_BOOTTIME. */
int64_t tokenfile_clock(void);

/* "fenced" or "plain", by the token. */
const char *tokenfile_kind(const char *token);

json_t *tokenfile_json(const struct tokenfile *file, const char *key);

/* Ends the process where a token could not be kept at `path`, before there is one. */
void tokenfile_check(const char *path);

/* Replaces the file in one step, mode 0600. False, with errno, if that cannot be done. */
bool tokenfile_write(const char *path, const struct tokenfile *file, const char *key);

/* Ends the process if there is no such file, if it is malformed or of another key. */
void tokenfile_read(const char *path, const char *key, struct tokenfile *ret_file);

#endif
