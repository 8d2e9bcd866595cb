#include "wire.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FDS_MAX 1024

/* The position in the stream of one connection: in a line of RESP, or in a word's bytes. */
struct stream {
    size_t skip;   /* bytes of a word, and of its line's end, that are still to come */
    size_t number; /* of the line that is being read */
    char kind;     /* that it began with; 0: a line is to begin */
    bool name;     /* the next word is the command's name */
};

static struct stream streams[FDS_MAX]; /* each is used by the one thread that sends on it */
static _Thread_local bool is_aside;
static _Atomic int64_t window_begin = INT64_MAX, window_end = INT64_MAX;
static atomic_ullong inside, all, scripts;

static int64_t now_us(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * INT64_C(1000000) + at.tv_nsec / 1000;
}

void wire_window(int64_t begin, int64_t end)
{
    window_end = end;
    window_begin = begin;
}

void wire_aside(bool aside)
{
    is_aside = aside;
}

struct wire_count wire_counted(void)
{
    return (struct wire_count){.inside = inside, .all = all, .scripts = scripts};
}

/* A line has ended: "*3" begins a command, "$5" the word that follows. */
static unsigned on_line(struct stream *stream)
{
    bool begins = stream->kind == '*';
    if (begins)
        stream->name = true;
    else
        stream->skip = stream->number + 2;
    stream->kind = 0;
    return begins;
}

/* The first characters are enough to recognize EVAL and EVALSHA. */
static size_t on_word(struct stream *stream, const char *bytes, size_t len)
{
    size_t taken = len < stream->skip ? len : stream->skip;
    if (stream->name) {
        bool script = (stream->number == 4 || stream->number == 7) &&
                      toupper((unsigned char)bytes[0]) == 'E';
        scripts += script;
        stream->name = false;
    }
    stream->skip -= taken;
    return taken;
}

/* The commands that begin in these bytes. */
static unsigned read_stream(struct stream *stream, const char *bytes, size_t len)
{
    unsigned commands = 0;
    for (size_t at = 0; at < len;) {
        char byte = bytes[at];
        if (stream->skip > 0) {
            at += on_word(stream, bytes + at, len - at);
            continue;
        }
        at++;
        if (stream->kind == 0) {
            stream->kind = byte;
            stream->number = 0;
            if (byte != '*' && byte != '$') {
                fputs("wire: this is no command\n", stderr);
                abort(); /* no figure is better than a wrong one */
            }
        } else if (byte == '\n') {
            commands += on_line(stream);
        } else if (byte != '\r') {
            stream->number = 10 * stream->number + (size_t)(byte - '0');
        }
    }
    return commands;
}

/* The functions of the C library are found after the program's own. */

int connect(int fd, __CONST_SOCKADDR_ARG address, socklen_t len)
{
    if (fd >= 0 && fd < FDS_MAX)
        streams[fd] = (struct stream){0};
    return (int)syscall(SYS_connect, fd, address.__sockaddr__, len);
}

ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
    ssize_t put = sendto(fd, bytes, len, flags, NULL, 0);
    if (put <= 0 || is_aside)
        return put;
    if (fd >= FDS_MAX)
        abort();
    unsigned commands = read_stream(&streams[fd], bytes, (size_t)put);
    int64_t now = now_us();
    all += commands;
    if (now >= window_begin && now < window_end)
        inside += commands;
    return put;
}
