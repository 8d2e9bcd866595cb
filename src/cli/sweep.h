/* Killing a command with all that it has started, and seeing that it is dead. */
#ifndef CLI_SWEEP_H
#define CLI_SWEEP_H

#include <stdbool.h>
#include <sys/types.h>

struct sweep_prey {
    pid_t group;              /* the command's; 0: none */
    bool everything;          /* also all descendants of this process ... */
    unsigned long long since; /* ... that began no earlier, in /proc's ticks */
};

/*
 * Kills until nothing is left, and reaps, but the command, which gave the group its number.
 * False if something is left all the same: it may not be killed, or does not die.
 */
bool sweep_kill(const struct sweep_prey *prey);

/* When the process began, in /proc's ticks; 0: not known. */
unsigned long long sweep_birth(pid_t pid);

#endif
