#include "outfile.h"

#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MODE 0666 /* before the umask */

static struct outfile *opened;

static void remove_unused(void)
{
    for (struct outfile *file = opened; file; file = file->next)
        if (file->created)
            unlink(file->path);
}

/* Does not block until a pipe has a reader: no signal would end that wait. */
static int open_anew(struct outfile *file)
{
    const int how = O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK;
    int fd = open(file->path, how | O_EXCL, FILE_MODE);
    file->created = fd >= 0;
    if (fd < 0 && errno == EEXIST)
        fd = open(file->path, how, FILE_MODE);
    if (fd >= 0)
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd;
}

bool outfile_open(struct outfile *file)
{
    if (!file->path)
        return true;
    if (!opened)
        atexit(remove_unused);
    file->fd = open_anew(file);
    file->next = opened;
    opened = file;
    if (file->fd < 0)
        cli_complain("%s: %s", file->path,
                     errno == ENXIO ? "a pipe without a reader" : strerror(errno));
    return file->fd >= 0;
}

bool outfile_differ(const struct outfile *file, const struct outfile *other)
{
    struct stat a, b;
    if (file->path && other->path && fstat(file->fd, &a) == 0 &&
        fstat(other->fd, &b) == 0 && S_ISREG(a.st_mode) && a.st_dev == b.st_dev &&
        a.st_ino == b.st_ino) {
        cli_complain("%s and %s are the same file", file->path, other->path);
        return false;
    }
    return true;
}

/* A file that is not regular, like /dev/stdout, cannot and need not be truncated. */
void outfile_begin(struct outfile *file)
{
    if (!file->path)
        return;
    file->created = false;
    (void)!ftruncate(file->fd, 0);
    file->stream = fdopen(file->fd, "w");
    if (!file->stream)
        cli_fail(CLI_FAILED, "%s: %s", file->path, strerror(errno));
}

static void outfile_fail(struct outfile *file)
{
    if (file->error)
        return;
    file->error = errno;
    cli_complain("%s: %s", file->path, strerror(errno));
}

void outfile_note(struct outfile *file)
{
    if (file->stream && ferror(file->stream))
        outfile_fail(file);
}

bool outfile_end(struct outfile *file)
{
    if (!file->stream)
        return true;
    if (fflush(file->stream) != 0)
        outfile_fail(file);
    if (fclose(file->stream) != 0)
        outfile_fail(file);
    file->stream = NULL;
    return !file->error;
}
