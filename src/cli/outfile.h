/* A file that is to be written at the end of a long run: that it cannot be is told before.
 */
#ifndef CLI_OUTFILE_H
#define CLI_OUTFILE_H

#include <stdbool.h>
#include <stdio.h>

struct outfile {
    const char *path; /* NULL: none is wanted */
    int fd;
    bool opened, created;
    FILE *stream; /* from outfile_begin() on */
};

/* What it holds stays as it is. False, with a word on stderr: it cannot be written. */
bool outfile_open(struct outfile *file);

/* False, with a word on stderr: two names for one file, each would write over the other. */
bool outfile_differ(const struct outfile *file, const struct outfile *other);

/* From here on what it held is gone. */
void outfile_begin(struct outfile *file);

/* False, with a word on stderr: not all could be written. Fine without a file. */
bool outfile_end(struct outfile *file);

/* Nothing was begun: a file that was not there before goes. */
void outfile_abandon(struct outfile *file);

#endif
