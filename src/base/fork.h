/* Detects forks: a handle must know whether the current process made it. */
#ifndef RL_FORK_H
#define RL_FORK_H

/*
 * The number of forks from the process that made the first handle to this process. A
 * handle stores it when it is made. A different value later means that this process is a
 * forked child.
 */
unsigned rl_fork_generation(void);

#endif
