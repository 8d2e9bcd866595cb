#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool write_all(int fd, const char *text)
{
    for (size_t len = strlen(text); len > 0;) {
        ssize_t written = write(fd, text, len);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return false;
        text += written;
        len -= (size_t)written;
    }
    return true;
}

bool cli_replace_file(const char *path, const char *text, mode_t mode, bool durable)
{
    char draft[PATH_MAX];
    if (snprintf(draft, sizeof(draft), "%s.XXXXXX", path) >= (int)sizeof(draft)) {
        errno = ENAMETOOLONG;
        return false;
    }
    int fd = mkostemp(draft, O_CLOEXEC); /* mode 0600 */
    if (fd < 0)
        return false;
    bool written =
        write_all(fd, text) && fchmod(fd, mode) == 0 && (!durable || fsync(fd) == 0);
    written = close(fd) == 0 && written;
    if (written && rename(draft, path) == 0)
        return true;
    int error = errno;
    unlink(draft);
    errno = error;
    return false;
}
