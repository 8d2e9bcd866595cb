#include "gnuplot.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define END       "</svg>"
#define TAIL      64 /* bytes with the end of the drawing and the white space after it */
#define COPY_STEP 16384

/* -d: gnuplot reads neither ~/.gnuplot nor the system's file. */
static int spawn(pid_t *ret_pid, int in, int out)
{
    char *const words[] = {"gnuplot", "-d", "-", NULL};
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

static int gnuplot_start(struct gnuplot *gnuplot)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return errno;
    gnuplot->script = fdopen(ends[1], "w");
    int error = gnuplot->script ? spawn(&gnuplot->pid, ends[0], gnuplot->drawn) : errno;
    close(ends[0]);
    if (error && gnuplot->script)
        fclose(gnuplot->script);
    else if (error)
        close(ends[1]);
    return error;
}

int gnuplot_begin(struct gnuplot *gnuplot)
{
    gnuplot->drawn = memfd_create("picture", MFD_CLOEXEC);
    if (gnuplot->drawn < 0)
        return errno;
    int error = gnuplot_start(gnuplot);
    if (error)
        gnuplot_free(gnuplot);
    return error;
}

static bool is_whole(const struct gnuplot *gnuplot)
{
    char tail[TAIL];
    off_t size = lseek(gnuplot->drawn, 0, SEEK_END);
    ssize_t len = pread(gnuplot->drawn, tail, TAIL, size > TAIL ? size - TAIL : 0);
    while (len > 0 && isspace((unsigned char)tail[len - 1]))
        len--;
    ssize_t end = (ssize_t)strlen(END);
    return len >= end && memcmp(&tail[len - end], END, strlen(END)) == 0;
}

bool gnuplot_end(struct gnuplot *gnuplot)
{
    int status = 0;
    bool told = fclose(gnuplot->script) == 0;
    while (waitpid(gnuplot->pid, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return told && WIFEXITED(status) && WEXITSTATUS(status) == 0 && is_whole(gnuplot);
}

void gnuplot_copy(const struct gnuplot *gnuplot, FILE *to)
{
    char part[COPY_STEP];
    ssize_t len;
    for (off_t at = 0; (len = pread(gnuplot->drawn, part, sizeof(part), at)) > 0; at += len)
        if (fwrite(part, 1, (size_t)len, to) != (size_t)len)
            return;
}

void gnuplot_free(struct gnuplot *gnuplot)
{
    close(gnuplot->drawn);
    gnuplot->drawn = -1;
}
