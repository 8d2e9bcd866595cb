#include "kill_tree.h"

#include "cli.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define KILL_TREE_STEP_MS 2
#define KILL_TREE_CLEAN   2     /* scans in a row that must find nothing */
#define TREE_MAX          65536 /* processes in one scan */

struct process {
    pid_t pid, parent;
    bool running; /* not a zombie */
    unsigned long long birth;
};

/* Reads /proc/PID/stat. False: the process is gone, or hidden. */
static bool process_read(pid_t pid, struct process *ret_process)
{
    char path[64], text[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t size = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[size > 0 ? size : 0] = '\0';
    const char *rest = strrchr(text, ')'); /* a name may contain blanks and parentheses */
    char state;
    int parent, threads;
    unsigned long long birth;
    static const char fields[] =
        ") %c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
        "%*s %*s %d %*s %llu";
    if (!rest || sscanf(rest, fields, &state, &parent, &threads, &birth) != 4)
        return false;
    *ret_process = (struct process){
        .pid = pid,
        .parent = parent,
        .running = (state != 'Z' && state != 'X') || threads > 1,
        .birth = birth,
    };
    return true;
}

unsigned long long kill_tree_birth(pid_t pid)
{
    struct process process;
    return process_read(pid, &process) ? process.birth : 0;
}

/* In the /proc of another pid namespace, "self" has another number. */
bool kill_tree_can_see(void)
{
    char text[32];
    ssize_t size = readlink("/proc/self", text, sizeof(text) - 1);
    text[size > 0 ? size : 0] = '\0';
    return atoi(text) == getpid();
}

/* --- the tree of descendants --- */

struct tree {
    struct process *process;
    size_t count, room;
    bool whole; /* no error while it was read */
};

static void kill_tree_add(struct tree *tree, pid_t pid, pid_t parent)
{
    if (tree->count == tree->room) {
        size_t room = tree->room ? 2 * tree->room : 64;
        struct process *more =
            room <= TREE_MAX ? realloc(tree->process, room * sizeof(*more)) : NULL;
        if (!more) {
            tree->whole = false;
            return;
        }
        tree->process = more;
        tree->room = room;
    }
    tree->process[tree->count++] = (struct process){.pid = pid, .parent = parent};
}

/*
 * The children of one thread, from the list of a kernel with CONFIG_PROC_CHILDREN. For this
 * process the list is complete, because only this process reaps its children. Returns 0, or
 * errno.
 */
static int add_children_of_thread(struct tree *tree, pid_t pid, int thread)
{
    char path[64];
    int child;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, thread);
    FILE *file = fopen(path, "re");
    if (!file)
        return errno;
    while (fscanf(file, "%d", &child) == 1)
        kill_tree_add(tree, child, pid);
    int error = ferror(file) ? EIO : 0;
    fclose(file);
    return error;
}

static void add_children(struct tree *tree, pid_t pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    const struct dirent *entry;
    while (threads && (entry = readdir(threads)))
        if (entry->d_name[0] != '.')
            add_children_of_thread(tree, pid, atoi(entry->d_name));
    if (threads)
        closedir(threads);
}

/* Reads all processes; used if the kernel has no lists of children. */
static void read_all(struct tree *all)
{
    DIR *proc = opendir("/proc");
    const struct dirent *entry;
    all->whole = proc != NULL;
    while (proc && (entry = readdir(proc))) {
        struct process process;
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            process_read((pid_t)atoi(entry->d_name), &process))
            kill_tree_add(all, process.pid, process.parent);
    }
    if (proc)
        closedir(proc);
}

static void add_from_all(struct tree *tree, const struct tree *all, pid_t parent)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->process[i].parent == parent)
            kill_tree_add(tree, all->process[i].pid, parent);
}

/*
 * Removes children that began before CMD: they do not descend from CMD. A child whose birth
 * cannot be read may do.
 */
static void drop_older(struct tree *tree, unsigned long long since)
{
    size_t kept = 0;
    if (since == 0)
        return;
    for (size_t i = 0; i < tree->count; i++) {
        unsigned long long birth = kill_tree_birth(tree->process[i].pid);
        if (birth == 0 || birth >= since)
            tree->process[kept++] = tree->process[i];
    }
    tree->count = kept;
}

static void read_tree(struct tree *tree, unsigned long long since)
{
    struct tree all = {.whole = true};
    pid_t self = getpid();
    tree->whole = true;
    int error = add_children_of_thread(tree, self, (int)self);
    if (error == ENOENT) {
        read_all(&all);
        add_from_all(tree, &all, self);
    }
    drop_older(tree, since);
    for (size_t i = 0; i < tree->count; i++) {
        if (error == ENOENT)
            add_from_all(tree, &all, tree->process[i].pid);
        else
            add_children(tree, tree->process[i].pid);
    }
    tree->whole &= all.whole && (error == 0 || error == ENOENT);
    free(all.process);
}

/* --- one process --- */

static bool is_dead(pid_t child)
{
    siginfo_t info = {.si_pid = 0};
    int kinds = WEXITED | WNOHANG | WNOWAIT | __WALL;
    return waitid(P_PID, (id_t)child, &info, kinds) != 0 || info.si_pid == child;
}

/*
 * The pid may have been reused: read the process again after opening a pidfd, which stays
 * bound to one process. If its parent has died meanwhile, it is our child now.
 */
static void signal_descendant(const struct process *process, int number)
{
    struct process now;
    int fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
    if (fd < 0)
        return;
    if (process_read(process->pid, &now) &&
        (now.parent == process->parent || now.parent == getpid()))
        (void)syscall(SYS_pidfd_send_signal, fd, number, NULL, 0);
    close(fd);
}

/* The pid of a child is not reused until this process reaps the child. */
static void send_signal(const struct process *process, int number)
{
    if (process->parent == getpid())
        kill(process->pid, number);
    else
        signal_descendant(process, number);
}

/* True if it is alive and not spared, or was reaped here: a further scan is needed. */
static bool handle_process(struct kill_tree *kill_tree, const struct process *process,
                           int number)
{
    struct process now = {.running = false};
    bool is_child = process->parent == getpid();
    bool is_over = is_child ? is_dead(process->pid)
                            : !process_read(process->pid, &now) || !now.running;
    if (is_over) {
        bool is_ours = is_child && process->pid != kill_tree->command;
        return is_ours && waitpid(process->pid, NULL, WNOHANG | __WALL) > 0;
    }
    if (kill_tree->spare_daemons && getsid(process->pid) != getsid(0))
        return false;
    if (kill_tree->left.count < KILL_TREE_LEFT)
        kill_tree->left.pid[kill_tree->left.count] = process->pid;
    kill_tree->left.count++;
    if (number != 0)
        send_signal(process, number);
    if (number == SIGTERM)
        send_signal(process, SIGCONT);
    return true;
}

/* --- all processes --- */

/*
 * Reads the list of children. CMD's children are added to it when CMD dies. So if the list
 * has only CMD, nothing else lives, provided that CMD was dead before the list was read.
 * Without a list, if this process may reap, it reaps all dead children, CMD too; ECHILD
 * then means that nothing is left.
 */
bool kill_tree_is_over(struct kill_tree *kill_tree)
{
    struct tree tree = {.whole = true};
    pid_t self = getpid(), command = kill_tree->command;
    bool is_command_dead = command > 0 && is_dead(command);
    bool is_listed =
        kill_tree_can_see() && add_children_of_thread(&tree, self, (int)self) == 0;
    bool is_alone = tree.count == 0 ||
                    (is_command_dead && tree.count == 1 && tree.process[0].pid == command);
    free(tree.process);
    if (is_listed)
        return is_alone && tree.whole;
    pid_t reaped = kill_tree->may_reap ? 1 : 0;
    while (reaped > 0)
        if ((reaped = waitpid(-1, NULL, WNOHANG | __WALL)) == kill_tree->command)
            kill_tree->command = 0;
    return reaped < 0 && errno == ECHILD;
}

/*
 * SIGKILL goes to CMD's whole group at once, so that no member can escape by fork. The
 * others are killed one by one; processes that they start meanwhile are killed at the next
 * scan. Without /proc the group is all that can be killed, while its number cannot be
 * reused.
 */
bool kill_tree_look(struct kill_tree *kill_tree, int number)
{
    struct tree tree = {.whole = true};
    unsigned found = 0;
    kill_tree->left.count = 0;
    bool can_see = kill_tree_can_see();
    bool kills_group = !can_see || (number == SIGKILL && !kill_tree->spare_daemons);
    if (kills_group && kill_tree->command > 0)
        kill(-kill_tree->command, SIGKILL);
    if (kill_tree_is_over(kill_tree))
        return true;
    if (!can_see)
        return false;
    read_tree(&tree, kill_tree->since);
    for (size_t i = 0; i < tree.count; i++)
        found += handle_process(kill_tree, &tree.process[i], number);
    free(tree.process);
    kill_tree->clean = found == 0 && tree.whole ? kill_tree->clean + 1 : 0;
    return kill_tree->clean >= KILL_TREE_CLEAN;
}

bool kill_tree_kill(struct kill_tree *kill_tree)
{
    int64_t give_up = cli_clock_us(CLOCK_BOOTTIME) + KILL_TREE_MAX_US;
    while (!kill_tree_look(kill_tree, SIGKILL)) {
        if (cli_clock_us(CLOCK_BOOTTIME) >= give_up)
            return false;
        if (kill_tree->clean == 0)
            poll(NULL, 0, KILL_TREE_STEP_MS);
    }
    return true;
}
