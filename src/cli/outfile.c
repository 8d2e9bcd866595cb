#include "outfile.h"

#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MODE 0666 /* less what the umask takes */

bool outfile_open(struct outfile *file)
{
    const int how = O_WRONLY | O_CREAT | O_CLOEXEC;
    if (!file->path)
        return true;
    file->fd = open(file->path, how | O_EXCL, FILE_MODE);
    file->created = file->fd >= 0;
    if (file->fd < 0 && errno == EEXIST)
        file->fd = open(file->path, how, FILE_MODE);
    file->opened = file->fd >= 0;
    if (!file->opened)
        cli_complain("%s: %s", file->path, strerror(errno));
    return file->opened;
}

bool outfile_differ(const struct outfile *file, const struct outfile *other)
{
    struct stat a, b;
    if (file->path && other->path && fstat(file->fd, &a) == 0 &&
        fstat(other->fd, &b) == 0 && S_ISREG(a.st_mode) && a.st_dev == b.st_dev &&
        a.st_ino == b.st_ino) {
        cli_complain("%s and %s are one file", file->path, other->path);
        return false;
    }
    return true;
}

/* What is no regular file, like /dev/stdout, cannot be cut and needs not be. */
void outfile_begin(struct outfile *file)
{
    if (!file->path)
        return;
    (void)!ftruncate(file->fd, 0);
    file->stream = fdopen(file->fd, "w");
    if (!file->stream)
        cli_fail(CLI_FAILED, "%s: %s", file->path, strerror(errno));
}

bool outfile_end(struct outfile *file)
{
    if (!file->stream)
        return true;
    errno = 0;
    bool failed = ferror(file->stream);
    failed = fclose(file->stream) != 0 || failed;
    file->stream = NULL;
    if (failed)
        cli_complain("%s: %s", file->path, errno ? strerror(errno) : "cannot be written");
    return !failed;
}

void outfile_abandon(struct outfile *file)
{
    if (!file->opened)
        return;
    close(file->fd); /* nothing was begun */
    if (file->created)
        unlink(file->path);
}
