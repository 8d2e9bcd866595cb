#include "stats_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <redlock/stats.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EVERY_MS  15000 /* as often as Prometheus asks by default, or more often */
#define FILE_MODE 0644

/* A pipe or a device would be replaced by the file. */
void stats_file_check(const struct stats_file *file)
{
    struct stat found;
    if (!file->path)
        return;
    size_t len = strlen(file->path);
    if (len == 0 || file->path[len - 1] == '/')
        cli_fail(CLI_USAGE, "--stats-file: \"%s\" is no name of a file", file->path);
    if (stat(file->path, &found) == 0 && !S_ISREG(found.st_mode))
        cli_fail(CLI_USAGE, "--stats-file: %s is not a regular file", file->path);
}

static char *text_of(const struct stats_file *file, size_t *ret_len)
{
    const redlock_label key = {"key", file->key};
    redlock_node_stats nodes[REDLOCK_NODES_MAX];
    redlock_stats stats;
    redlock_stats_init(&stats);
    stats.nodes = nodes;
    stats.room = REDLOCK_NODES_MAX;
    if (redlock_client_stats(file->cli->client, &stats) != REDLOCK_OK)
        return NULL;
    *ret_len = redlock_stats_prometheus(&stats, &key, 1, NULL, 0);
    char *text = malloc(*ret_len + 1);
    if (text)
        redlock_stats_prometheus(&stats, &key, 1, text, *ret_len + 1);
    return text;
}

static bool write_all(int fd, const char *text, size_t len)
{
    while (len > 0) {
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

/* A reader finds the old file or the new one, never a part of it. */
static bool stats_file_replace(const char *path, const char *text, size_t len)
{
    char draft[PATH_MAX];
    if (snprintf(draft, sizeof(draft), "%s.XXXXXX", path) >= (int)sizeof(draft)) {
        errno = ENAMETOOLONG;
        return false;
    }
    int fd = mkostemp(draft, O_CLOEXEC);
    if (fd < 0)
        return false;
    bool written = write_all(fd, text, len) && fchmod(fd, FILE_MODE) == 0;
    written = close(fd) == 0 && written;
    if (written && rename(draft, path) == 0)
        return true;
    int error = errno;
    unlink(draft);
    errno = error;
    return false;
}

static void write_file(void *arg)
{
    struct stats_file *file = arg;
    size_t len;
    char *text = text_of(file, &len);
    bool written = text && stats_file_replace(file->path, text, len);
    if (!written && !file->failed)
        cli_complain("--stats-file: %s: %s", file->path,
                     text ? strerror(errno) : "out of memory");
    file->failed |= !written;
    free(text);
}

void stats_file_begin(struct stats_file *file, const struct cli *cli, const char *key)
{
    if (!file->path)
        return;
    file->cli = cli;
    file->key = key;
    cli_timer_begin(&file->timer, cli->base, EVERY_MS, write_file, file);
}

void stats_file_end(struct stats_file *file)
{
    if (!file->path)
        return;
    write_file(file);
    cli_timer_end(&file->timer);
}
