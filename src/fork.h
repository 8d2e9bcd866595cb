/* What a handle has to know of forks: whether it was made by this very process. */
#ifndef RL_FORK_H
#define RL_FORK_H

/* How often this process was forked since the first handle; a handle remembers it. */
unsigned rl_fork_generation(void);

#endif
