#include "sweep.h"

#include "keeper.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SWEEP_MAX_US  (5 * INT64_C(1000000)) /* a stuck process may never die */
#define SWEEP_STEP_MS 2
#define SWEEP_CLEAN   2 /* for so many looks in a row /proc must show nothing */

struct process {
    pid_t pid, parent, group;
    bool running; /* no zombie */
    unsigned long long birth;
};

/* What /proc says; false: the process is gone. */
static bool process_read(const char *pid, struct process *ret_process)
{
    char path[64], text[1024];
    snprintf(path, sizeof(path), "/proc/%s/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t size = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[size > 0 ? size : 0] = '\0';
    const char *rest = strrchr(text, ')'); /* a name may contain blanks and brackets */
    char state;
    int parent, group, threads;
    unsigned long long birth;
    static const char fields[] =
        ") %c %d %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
        "%*s %*s %d %*s %llu";
    if (!rest || sscanf(rest, fields, &state, &parent, &group, &threads, &birth) != 5)
        return false;
    *ret_process = (struct process){
        .pid = (pid_t)atoi(pid),
        .parent = parent,
        .group = group,
        .running = (state != 'Z' && state != 'X') || threads > 1,
        .birth = birth,
    };
    return true;
}

unsigned long long sweep_birth(pid_t pid)
{
    char text[16];
    struct process process;
    snprintf(text, sizeof(text), "%d", (int)pid);
    return process_read(text, &process) ? process.birth : 0;
}

/*
 * Whether the process had to be dealt with. Only children are killed by their own number,
 * which stays theirs until we reap them; CMD pins the group's in the same way. Deeper
 * descendants become children when their parents have died.
 */
static bool kill_process(const struct sweep_prey *prey, const struct process *process)
{
    bool child = process->parent == getpid() && process->birth >= prey->since;
    if (child && !process->running && process->pid != prey->group) {
        waitpid(process->pid, NULL, WNOHANG);
        return true;
    }
    if (child && process->running && prey->everything) {
        kill(process->pid, SIGKILL);
        return true;
    }
    return process->running && prey->group > 0 && process->group == prey->group;
}

/* Kills what it finds; returns the number of processes that had to be dealt with. */
static unsigned kill_once(const struct sweep_prey *prey)
{
    unsigned met = 0;
    if (prey->group > 0)
        kill(-prey->group, SIGKILL);
    DIR *proc = opendir("/proc");
    if (!proc)
        return 1; /* nothing can be told */
    const struct dirent *entry;
    while ((entry = readdir(proc))) {
        struct process process;
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            process_read(entry->d_name, &process))
            met += kill_process(prey, &process);
    }
    closedir(proc);
    return met;
}

/* One look is enough for a group; a descendant may become our child behind our look. */
bool sweep_kill(const struct sweep_prey *prey)
{
    int64_t give_up = keeper_clock() + SWEEP_MAX_US;
    int clean = 0, enough = prey->everything ? SWEEP_CLEAN : 1;
    while (clean < enough && keeper_clock() < give_up) {
        clean = kill_once(prey) == 0 ? clean + 1 : 0;
        if (clean == 0)
            poll(NULL, 0, SWEEP_STEP_MS);
    }
    return clean == enough;
}
