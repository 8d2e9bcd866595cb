/*
 * Calls to the operating system: clocks, random numbers, and about the process and machine.
 *
 * The folder io/ is all that a client takes from outside, besides memory: these calls, the
 * event loop (timer.h), sockets (stream.h) and name resolution (resolver.h).
 */
#ifndef RL_SYSTEM_H
#define RL_SYSTEM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

int64_t rl_system_clock_ns(clockid_t id);

/*
 * Random bytes from the kernel. `wait`: until it has entropy. False: there are none, or
 * getrandom() failed.
 */
bool rl_system_random(void *bytes, size_t len, bool wait);

/*
 * The number of forks from the process that made the first handle to this process. A handle
 * stores it when it is made. A different value later means that this process is a forked
 * child.
 */
unsigned rl_system_fork_generation(void);

/*
 * Starts a thread with all signals blocked: they are for the program's own threads. `name`:
 * at most 15 bytes. Returns 0, or the error number of pthread_create().
 */
int rl_system_start_thread(pthread_t *ret_thread, const char *name, void *(*run)(void *arg),
                           void *arg);

/* False: it has no name, or one longer than `room` - 1 bytes. */
bool rl_system_host_name(char *ret_name, size_t room);
long rl_system_pid(void);

/* Reads the begin of a file, up to `room` - 1 bytes, as a string. False: it cannot be read.
 */
bool rl_system_read_file(const char *path, char *ret_text, size_t room);

#endif
