/*
 * --stats-file: the client's numbers as a file for the textfile collector of Prometheus'
 * node_exporter. It is written now and then while the command runs, and at its end. A file
 * that cannot be written is reported once, and changes nothing else.
 */
#ifndef CLI_STATS_FILE_H
#define CLI_STATS_FILE_H

#include "cli.h"

struct stats_file {
    const char *path; /* NULL: none is wanted */
    const char *key;  /* the label `key` of each sample */
    const struct cli *cli;
    struct cli_timer timer;
    bool failed;
};

#define STATS_FILE_OPTION(file) "stats-file", 0, CLI_TEXT, &(file)->path

/* Ends the process with CLI_USAGE if the path cannot be replaced by a file. */
void stats_file_check(const struct stats_file *file);

/* From cli_connect() to cli_disconnect(). */
void stats_file_begin(struct stats_file *file, const struct cli *cli, const char *key);
void stats_file_end(struct stats_file *file);

#endif
