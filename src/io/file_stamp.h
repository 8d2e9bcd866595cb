/* Tells one version of a file from another, without reading it. */
#ifndef RL_FILE_STAMP_H
#define RL_FILE_STAMP_H

#include <stdbool.h>
#include <stdint.h>

/* All 0: there is no such file. */
struct rl_file_stamp {
    uint64_t device, inode;
    int64_t size;
    int64_t modified_ns, changed_ns; /* since 1970 */
};

/* NULL: no file. */
struct rl_file_stamp rl_file_stamp(const char *path);

bool rl_file_stamp_equal(struct rl_file_stamp a, struct rl_file_stamp b);

#endif
