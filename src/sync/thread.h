/* Objects that belong to a thread: at its end the owner of each binding is called. */
#ifndef RL_THREAD_H
#define RL_THREAD_H

#include <stdbool.h>

#include "io/queue.h"

struct rl_thread;

/* Embedded in the object that belongs to a thread. */
struct rl_binding {
    LIST_ENTRY(rl_binding) link;
    bool bound;
    void (*on_thread_end)(struct rl_binding *binding);
};

/* The rl_thread of the calling thread; NULL: no memory. */
struct rl_thread *rl_thread_here(void);

/* Any thread may unbind. After that on_thread_end is neither running nor called. */
void rl_thread_bind(struct rl_thread *thread, struct rl_binding *binding,
                    void (*on_thread_end)(struct rl_binding *binding));
void rl_thread_unbind(struct rl_binding *binding);

#endif
