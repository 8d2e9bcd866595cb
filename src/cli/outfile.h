/* A file that is to be written at the end of a long run: that it cannot be is told before.
 */
#ifndef CLI_OUTFILE_H
#define CLI_OUTFILE_H

#include <stdbool.h>
#include <stdio.h>

struct outfile {
    const char *path; /* NULL: none is wanted */
    int fd;
    bool created; /* and nothing was begun yet */
    int error;    /* of the first write that failed; 0: none did */
    FILE *stream; /* from outfile_begin() on */
    struct outfile *next;
};

/*
 * What it holds stays as it is until something is begun, and a file that was not there goes
 * again, should the process end before that: *file lives as long. False, with a word on
 * stderr: it cannot be written.
 */
bool outfile_open(struct outfile *file);

/* False, with a word on stderr: two names for one file, each would write over the other. */
bool outfile_differ(const struct outfile *file, const struct outfile *other);

/* From here on what it held is gone. */
void outfile_begin(struct outfile *file);

/* After something was written: says on stderr, once, that it could not be. */
void outfile_note(struct outfile *file);

/* False: not all could be written, as was said. Fine without a file. */
bool outfile_end(struct outfile *file);

#endif
