/*
 * A file that is written at the end of a long run. If it cannot be written, that is
 * reported before the run.
 */
#ifndef CLI_OUTFILE_H
#define CLI_OUTFILE_H

#include <stdbool.h>
#include <stdio.h>

struct outfile {
    const char *path; /* NULL: no file */
    int fd;
    bool created; /* the file is new, and nothing was written yet */
    int error;    /* errno of the first write that failed; 0: none */
    FILE *stream; /* set by outfile_begin() */
    struct outfile *next;
};

/*
 * Keeps the old content until outfile_begin(). If the process ends before that, a file that
 * did not exist is removed; so *file must live until the process ends. False, with a
 * message on stderr: the file cannot be written.
 */
bool outfile_open(struct outfile *file);

/*
 * False, with a message on stderr, if both names are the same file: each would overwrite
 * the other.
 */
bool outfile_differ(const struct outfile *file, const struct outfile *other);

/* From here on the old content is gone. */
void outfile_begin(struct outfile *file);

/* Call it after each write: reports a write error on stderr, once. */
void outfile_note(struct outfile *file);

/* False: a write failed, as was reported. True if there is no file. */
bool outfile_end(struct outfile *file);

#endif
