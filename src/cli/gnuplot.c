#include "gnuplot.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

static int spawn(pid_t *ret_pid, int in, int out)
{
    char *const words[] = {"gnuplot", "-", NULL};
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error)
        return error;
    error = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (!error)
        error = posix_spawnp(ret_pid, words[0], &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

int gnuplot_begin(struct gnuplot *gnuplot, int fd)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return errno;
    gnuplot->script = fdopen(ends[1], "w");
    int error = gnuplot->script ? spawn(&gnuplot->pid, ends[0], fd) : errno;
    close(ends[0]);
    if (error && gnuplot->script)
        fclose(gnuplot->script);
    else if (error)
        close(ends[1]);
    return error;
}

bool gnuplot_end(struct gnuplot *gnuplot)
{
    int status = 0;
    bool told = fclose(gnuplot->script) == 0;
    while (waitpid(gnuplot->pid, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return told && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
