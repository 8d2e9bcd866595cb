/* redlock pipe: locks for the process that started it, by lines of JSON. docs/pipe.md */
#include "../tokenfile.h"
#include "holds.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINE_MAX    65536
#define REPLIES_MAX (1 << 20) /* bytes that wait; then requests wait, too */

const struct cli_help cli_pipe_help = {
    "Usage: redlock pipe --parent PID\n"
    "Lock for the program PID that started this one: a request is a line of JSON on "
    "stdin,\n"
    "a reply one on stdout. While the program lives, a lock ends only by its unlock or by\n"
    "its deadline; when it has exited, all its locks are released.\n\n"
    "      --parent PID          the process that started this one\n\n"
    "Example:\n"
    "  {\"id\":1,\"op\":\"lock\",\"key\":\"report\"}\n",
    "\n"
    "docs/pipe.md has all requests, and what a program must do. HUP, INT, QUIT, TERM and\n"
    "PIPE are ignored.\n\n"
    "Exit codes: 0 the program has exited, or stdin has ended and nothing is held; 64\n"
    "also: PID is not the process that started this one.\n",
};

struct pipe {
    int64_t parent;
    struct bufferevent *from;
    struct holds holds;
    bool ended, done; /* `ended`: no request comes any more */
};

/* --- the start --- */

static bool has_begun; /* hello was said */

/* The first line, at once: what comes next may end the pipe. */
static void say(json_t *notice)
{
    char *line = cli_json_dump(notice);
    if (line)
        dprintf(STDOUT_FILENO, "%s\n", line);
    free(line);
    json_decref(notice);
}

/* The only line, if there is no start. */
static void tell_failure(int status, void *arg)
{
    (void)arg;
    if (!has_begun && status != CLI_OK)
        say(json_pack("{s:s, s:i, s:o}", "notice", "error", "exit", status, "text",
                      cli_json_text(cli_last_complaint())));
}

/*
 * A signal to a whole group would release locks while the application still works; and to
 * write to a terminal must not stop the extensions.
 */
static void ignore_signals(void)
{
    static const int numbers[] = {SIGINT,  SIGTERM, SIGHUP, SIGQUIT,
                                  SIGPIPE, SIGTTIN, SIGTTOU};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        signal(numbers[i], SIG_IGN);
}

/* Its pid may have been reused if it had exited before it was opened. */
static int open_parent(int64_t pid)
{
    int fd = getppid() == pid ? (int)syscall(SYS_pidfd_open, (pid_t)pid, 0) : -1;
    int error = errno;
    if (getppid() != pid)
        cli_fail(CLI_USAGE, "pipe: --parent is not the process that started this one");
    if (fd < 0)
        cli_fail(CLI_FAILED, "pidfd_open: %s", strerror(error));
    return fd;
}

static void say_hello(void)
{
    say(json_pack("{s:s, s:s, s:s, s:s, s:I}", "notice", "hello", "schema",
                  "redlock.pipe/1", "version", redlock_version(), "boot_id",
                  tokenfile_boot_id(), "now_us", (json_int_t)cli_clock_us(CLOCK_BOOTTIME)));
    has_begun = true;
}

/* Libevent can wait for no file. */
static void need_pipe(int fd)
{
    struct stat status;
    bool is_known = fstat(fd, &status) == 0;
    if (!is_known || !(S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || isatty(fd)))
        cli_fail(CLI_USAGE, "pipe: stdin and stdout must be pipes or sockets");
    evutil_make_socket_nonblocking(fd);
}

/* --- the end --- */

static void on_over(void *arg)
{
    struct pipe *pipe = arg;
    pipe->done = pipe->ended;
}

/* What was told stays held until its deadline: the application may still work. */
static void end_requests(void *arg)
{
    struct pipe *pipe = arg;
    if (pipe->ended)
        return;
    pipe->ended = true;
    bufferevent_disable(pipe->from, EV_READ);
    holds_leave(&pipe->holds, false);
    outbox_close(&pipe->holds.outbox);
    holds_extend(&pipe->holds, false);
    pipe->done = pipe->holds.count == 0;
}

static void on_parent_exited(evutil_socket_t fd, short what, void *arg)
{
    struct pipe *pipe = arg;
    (void)fd;
    (void)what;
    end_requests(pipe);
    holds_leave(&pipe->holds, true);
}

/* --- what comes and goes --- */

static void take_line(struct pipe *pipe, const char *line, size_t len)
{
    struct request request;
    if (len <= LINE_MAX && request_read(line, len, &request))
        holds_do(&pipe->holds, &request);
    else
        end_requests(pipe);
}

static void on_read(struct bufferevent *from, void *arg)
{
    struct pipe *pipe = arg;
    struct evbuffer *in = bufferevent_get_input(from);
    char *line;
    size_t len;
    while (!pipe->ended && (line = evbuffer_readln(in, &len, EVBUFFER_EOL_LF))) {
        take_line(pipe, line, len);
        free(line);
    }
    if (evbuffer_get_length(in) > LINE_MAX)
        end_requests(pipe);
    else if (!pipe->ended && outbox_waiting(&pipe->holds.outbox) > REPLIES_MAX)
        bufferevent_disable(from, EV_READ); /* until on_changed() */
}

static void on_read_ended(struct bufferevent *from, short what, void *arg)
{
    (void)from;
    (void)what;
    end_requests(arg);
}

static void on_changed(void *arg)
{
    struct pipe *pipe = arg;
    holds_extend(&pipe->holds, !pipe->holds.outbox.stalled);
    if (outbox_waiting(&pipe->holds.outbox) > 0)
        return;
    holds_put_renewed(&pipe->holds);
    bufferevent_enable(pipe->from, EV_READ);
}

int cli_pipe(struct cli *cli, int argc, char **argv)
{
    static struct pipe pipe = {.holds = {.extends = true}};
    const struct cli_option own[] = {
        {"parent", 0, CLI_NUMBER, &pipe.parent},
        {NULL, 0, CLI_FLAG, NULL},
    };
    on_exit(tell_failure, NULL);
    ignore_signals();
    cli_parse(cli, argc, argv, own);
    int parent = open_parent(pipe.parent);
    need_pipe(STDIN_FILENO);
    need_pipe(STDOUT_FILENO);
    cli_connect(cli);
    pipe.holds.cli = cli;
    pipe.holds.over = on_over;
    pipe.holds.outbox.changed = on_changed;
    pipe.holds.outbox.failed = end_requests;
    pipe.holds.arg = pipe.holds.outbox.arg = &pipe;
    say_hello();
    outbox_begin(&pipe.holds.outbox, cli->base);
    pipe.from = cli_need_memory(bufferevent_socket_new(cli->base, STDIN_FILENO, 0));
    bufferevent_setcb(pipe.from, on_read, NULL, on_read_ended, &pipe);
    struct event *exited = event_new(cli->base, parent, EV_READ, on_parent_exited, &pipe);
    if (!exited || event_add(exited, NULL) != 0)
        cli_fail(CLI_FAILED, "pidfd: %s", strerror(errno));
    bufferevent_enable(pipe.from, EV_READ);
    cli_wait(cli->base, &pipe.done);
    cli_drain(cli);
    return CLI_OK;
}
