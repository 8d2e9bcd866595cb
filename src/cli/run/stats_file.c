#include "stats_file.h"

#include <errno.h>
#include <redlock/stats.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define EVERY_MS  15000 /* as often as Prometheus asks by default, or more often */
#define FILE_MODE 0644

/* A link, a pipe or a device would be replaced by the file. */
void stats_file_check(const struct stats_file *file)
{
    struct stat found;
    if (!file->path)
        return;
    size_t len = strlen(file->path);
    if (len == 0 || file->path[len - 1] == '/')
        cli_fail(CLI_USAGE, "--stats-file: \"%s\" is no name of a file", file->path);
    if (lstat(file->path, &found) == 0 && !S_ISREG(found.st_mode))
        cli_fail(CLI_USAGE, "--stats-file: %s is not a regular file", file->path);
}

static char *text_of(const struct stats_file *file)
{
    const redlock_label key = {"key", file->key};
    redlock_node_stats nodes[REDLOCK_NODES_MAX];
    redlock_stats stats;
    redlock_stats_init(&stats);
    stats.nodes = nodes;
    stats.room = REDLOCK_NODES_MAX;
    if (redlock_client_stats(file->cli->client, &stats) != REDLOCK_OK)
        return NULL;
    size_t len = redlock_stats_prometheus(&stats, &key, 1, NULL, 0);
    char *text = malloc(len + 1);
    if (text)
        redlock_stats_prometheus(&stats, &key, 1, text, len + 1);
    return text;
}

static void write_file(void *arg)
{
    struct stats_file *file = arg;
    char *text = text_of(file);
    bool written = text && cli_replace_file(file->path, text, FILE_MODE, false);
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
