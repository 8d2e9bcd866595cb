#include "settings_file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/system.h"

static int64_t now_ms(void)
{
    return rl_system_clock_ns(CLOCK_MONOTONIC) / 1000000;
}

static const char *refuse(const char *why)
{
    errno = 0;
    return why;
}

/* Of the open file: its name may belong to another one by now. */
static const char *check_status(int fd, struct rl_settings_file *file)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return strerror(errno);
    if (!S_ISREG(status.st_mode))
        return NULL;
    if (status.st_uid != 0 && status.st_uid != geteuid())
        return refuse("belongs to another user: chown it");
    if (status.st_mode & S_IWOTH)
        return refuse("all users may write it: chmod o-w");
    file->group_may_write = status.st_mode & S_IWGRP;
    return NULL;
}

/* A named pipe that has no writer yet would read as one that has ended. */
static const char *await_bytes(int fd, int64_t give_up_ms)
{
    struct pollfd file = {.fd = fd, .events = POLLIN};
    int found;
    do {
        int64_t left = give_up_ms - now_ms();
        found = poll(&file, 1, left > 0 ? (int)left : 0);
    } while (found < 0 && errno == EINTR);
    if (found < 0)
        return strerror(errno);
    return found == 0 ? refuse("has no end after 5 s") : NULL;
}

static const char *read_all(int fd, struct rl_settings_file *file)
{
    int64_t give_up_ms = now_ms() + RL_SETTINGS_FILE_WAIT_MS;
    while (file->len <= RL_SETTINGS_FILE_MAX) {
        const char *wrong = await_bytes(fd, give_up_ms);
        if (wrong)
            return wrong;
        size_t room = RL_SETTINGS_FILE_MAX + 1 - file->len;
        ssize_t got = read(fd, file->text + file->len, room);
        if (got == 0)
            return NULL;
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            return strerror(errno);
        file->len += got > 0 ? (size_t)got : 0;
    }
    return refuse("is longer than 64 KiB");
}

static const char *read_file(int fd, struct rl_settings_file *file)
{
    const char *wrong = check_status(fd, file);
    if (wrong)
        return wrong;
    if (!(file->text = malloc(RL_SETTINGS_FILE_MAX + 2)))
        return strerror(errno);
    wrong = read_all(fd, file);
    file->text[file->len] = '\0';
    return wrong;
}

const char *rl_settings_file_read(const char *name, struct rl_settings_file *ret_file)
{
    *ret_file = (struct rl_settings_file){0};
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return strerror(errno);
    const char *wrong = read_file(fd, ret_file);
    int error = errno;
    close(fd);
    if (wrong)
        free(ret_file->text);
    errno = error;
    return wrong;
}
