#include "file_stamp.h"

#include <stddef.h>
#include <sys/stat.h>

static int64_t ns_of(struct timespec at)
{
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

struct rl_file_stamp rl_file_stamp(const char *path)
{
    struct stat file;
    if (!path || stat(path, &file) != 0)
        return (struct rl_file_stamp){0};
    return (struct rl_file_stamp){
        .device = file.st_dev,
        .inode = file.st_ino,
        .size = file.st_size,
        .modified_ns = ns_of(file.st_mtim),
        .changed_ns = ns_of(file.st_ctim),
    };
}

bool rl_file_stamp_equal(struct rl_file_stamp a, struct rl_file_stamp b)
{
    return a.device == b.device && a.inode == b.inode && a.size == b.size &&
           a.modified_ns == b.modified_ns && a.changed_ns == b.changed_ns;
}
