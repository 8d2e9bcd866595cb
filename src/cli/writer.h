/*
 * Writes to stdout and stderr. A thread for each of them waits in write(2), so a reader
 * that does not read (a full pipe, a pager, a terminal after ctrl-S) does not stop the
 * event loop, which extends locks. If both are one file, one thread writes both, in order.
 *
 * O_NONBLOCK is no alternative: it belongs to the open file, which other processes share.
 * Nor is poll(2): another process may fill the pipe between poll() and write().
 *
 * All functions are for the main thread.
 */
#ifndef CLI_WRITER_H
#define CLI_WRITER_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Writes a warning or progress to stderr: a whole line. Never blocks. At most 64 KiB wait;
 * a line for which there is no room is dropped, and the next one that fits follows the line
 * "redlock: N lines dropped".
 */
void writer_message(const char *line, size_t len);

/*
 * Writes a result. Waits for room, unless a signal ends redlock: then it is dropped. The
 * end of the process waits until the results are written.
 */
void writer_result(int fd, const char *bytes, size_t len);

/* Those of HUP, INT and TERM that are not ignored: the ones that end redlock. */
void writer_signals(sigset_t *ret_set);

/*
 * The errno of the first write that failed; EINTR if results were dropped because of the
 * signal writer_signal(); 0: none. A write that waits may still fail.
 */
int writer_error(int fd);
int writer_signal(void);

/*
 * Waits until the results are written, and returns writer_error(). While it waits for a
 * reader, it calls `meanwhile`, unless that is NULL, every 50 ms. A HUP, INT or TERM that
 * ends the wait stays pending.
 */
int writer_flush(int fd, void (*meanwhile)(void *arg), void *arg);

/* Everything that stderr got is written. */
bool writer_is_idle(void);

/* A TERM is to end redlock: from now on results wait for a reader for 0.5 s in all. */
void writer_hurry(void);

#endif
