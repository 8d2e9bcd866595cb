/*
 * A file descriptor that has events in the caller's event loop.
 *
 * A forked child shares the file with its parent, and until event_reinit() also the epoll.
 * If the child read from the file, or removed its events, the parent would lose them. So
 * fork() replaces the child's descriptor by one of its own that never becomes ready. The
 * child may then remove the events, or let the loop run, before and after event_reinit().
 */
#ifndef RL_LOOP_FD_H
#define RL_LOOP_FD_H

#include <stdbool.h>

#include "queue.h"

struct rl_loop_fd {
    int fd;
    bool is_inert; /* in a forked child: what its events report is to be ignored */
    LIST_ENTRY(rl_loop_fd) in_all;
};

/* Before the first event of `fd` is added. It is closed by rl_loop_fd_close(). */
void rl_loop_fd_init(struct rl_loop_fd *file, int fd);

/* After its last event was removed. */
void rl_loop_fd_close(struct rl_loop_fd *file);

#endif
