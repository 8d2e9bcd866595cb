/* redlock pipe: locks for the process that started it, by lines of JSON. docs/pipe.md */
#include "holds.h"

#include "../tokenfile.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINE_MAX     65536
#define READ_AT_ONCE 65536
#define REPLIES_MAX  (1 << 20) /* bytes that wait; then requests wait, too */

const struct cli_help cli_pipe_help = {
    "Usage: redlock pipe --parent PID\n"
    "Lock for the program PID that started this one: a request is a line of JSON on "
    "stdin,\n"
    "a reply one on stdout. While the program lives, a lock ends only by its unlock or by\n"
    "its deadline; when it has exited, all its locks are released.\n\n"
    "      --parent PID          the process that started this one\n\n"
    "Example:\n"
    "  {\"id\":1,\"op\":\"lock\",\"key\":\"report\"}\n",
    "  {\"id\":1,\"hold\":7,\"until_us\":812375678901,\"fence\":null,\"slot\":null}\n\n"
    "docs/pipe.md has all requests, and what a program must do. HUP, INT, QUIT, TERM and\n"
    "PIPE are ignored.\n\n"
    "Exit codes: 0 the program has exited, or stdin has ended and nothing is held; 64\n"
    "also: PID is not the process that started this one.\n",
};

struct pipe {
    struct cli *cli;
    int64_t parent;
    struct outbox outbox;
    struct holds holds;
    struct evbuffer *in;
    struct event *readable, *exited;
    bool ended; /* no request comes any more */
    bool done;
};

static bool has_begun; /* hello was said */

/* --- the start --- */

/* The only line, if there is no start. */
static void tell_failure(int status, void *arg)
{
    (void)arg;
    if (has_begun || status == CLI_OK)
        return;
    json_t *notice = json_pack("{s:s, s:i, s:o}", "notice", "error", "exit", status, "text",
                               cli_json_text(cli_last_complaint()));
    char *line = cli_json_dump(notice);
    if (line)
        dprintf(STDOUT_FILENO, "%s\n", line);
    free(line);
    json_decref(notice);
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

/* The pid may have been reused if the parent had exited before it was opened. */
static int open_parent(const struct pipe *pipe)
{
    int fd = -1;
    if (getppid() == pipe->parent) {
        fd = (int)syscall(SYS_pidfd_open, (pid_t)pipe->parent, 0);
        if (fd < 0)
            cli_fail(CLI_FAILED, "pidfd_open: %s", strerror(errno));
    }
    if (getppid() != pipe->parent)
        cli_fail(CLI_USAGE, "pipe: --parent is not the process that started this one");
    return fd;
}

static void say_hello(struct pipe *pipe)
{
    outbox_put(&pipe->outbox,
               json_pack("{s:s, s:s, s:s, s:s, s:I}", "notice", "hello", "schema",
                         "redlock.pipe/1", "version", redlock_version(), "boot_id",
                         tokenfile_boot_id(), "now_us",
                         (json_int_t)cli_clock_us(CLOCK_BOOTTIME)));
    has_begun = true;
}

/* --- the ends --- */

static void on_over(void *arg)
{
    struct pipe *pipe = arg;
    pipe->done = pipe->ended && holds_are_over(&pipe->holds);
}

/* What was told stays held until its deadline: the application may still work. */
static void end_requests(void *arg)
{
    struct pipe *pipe = arg;
    if (pipe->ended)
        return;
    pipe->ended = true;
    event_del(pipe->readable);
    holds_leave_untold(&pipe->holds);
    outbox_close(&pipe->outbox);
    holds_extend_all(&pipe->holds, false);
    on_over(pipe);
}

static void on_parent_exited(evutil_socket_t fd, short what, void *arg)
{
    struct pipe *pipe = arg;
    (void)fd;
    (void)what;
    end_requests(pipe);
    holds_leave_all(&pipe->holds);
}

/* --- requests --- */

/* False: it is none. */
static bool take_line(struct pipe *pipe, const char *line, size_t len)
{
    struct request request;
    struct request_fault fault;
    if (len > LINE_MAX || !request_read(line, len, &request, &fault))
        return false;
    if (fault.code == REDLOCK_OK) {
        holds_do(&pipe->holds, &request);
        return true;
    }
    holds_refuse(&pipe->holds, request.id, fault.code, REDLOCK_REASON_MALFORMED,
                 fault.text);
    request_free(&request);
    return true;
}

static void take_lines(struct pipe *pipe)
{
    char *line = NULL;
    size_t len;
    while (!pipe->ended && (line = evbuffer_readln(pipe->in, &len, EVBUFFER_EOL_LF))) {
        if (!take_line(pipe, line, len))
            end_requests(pipe);
        free(line);
    }
    if (evbuffer_get_length(pipe->in) > LINE_MAX)
        end_requests(pipe);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct pipe *pipe = arg;
    (void)what;
    if (outbox_waiting(&pipe->outbox) >= REPLIES_MAX) {
        event_del(pipe->readable); /* until put_until() */
        return;
    }
    int size = evbuffer_read(pipe->in, fd, READ_AT_ONCE);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    take_lines(pipe);
    if (size <= 0)
        end_requests(pipe);
}

/* --- what the outbox tells --- */

/* All other lines were written. */
static bool put_until(void *arg)
{
    struct pipe *pipe = arg;
    event_add(pipe->readable, NULL);
    return holds_put_until(&pipe->holds);
}

static void on_stall_changed(void *arg)
{
    struct pipe *pipe = arg;
    holds_extend_all(&pipe->holds, !pipe->outbox.stalled);
}

int cli_pipe(struct cli *cli, int argc, char **argv)
{
    static struct pipe pipe;
    const struct cli_option own[] = {
        {"parent", 0, CLI_NUMBER, &pipe.parent},
        {NULL, 0, CLI_FLAG, NULL},
    };
    on_exit(tell_failure, NULL);
    ignore_signals();
    cli_parse(cli, argc, argv, own);
    int parent = open_parent(&pipe);
    cli_connect(cli);
    pipe.cli = cli;
    pipe.in = cli_need_memory(evbuffer_new());
    pipe.outbox = (struct outbox){
        .next = put_until,
        .stall_changed = on_stall_changed,
        .failed = end_requests,
        .arg = &pipe,
    };
    outbox_begin(&pipe.outbox, cli->base);
    holds_begin(&pipe.holds, cli, &pipe.outbox);
    pipe.holds.over = on_over;
    pipe.holds.arg = &pipe;
    evutil_make_socket_nonblocking(STDIN_FILENO);
    pipe.readable = cli_need_memory(
        event_new(cli->base, STDIN_FILENO, EV_READ | EV_PERSIST, on_readable, &pipe));
    pipe.exited =
        cli_need_memory(event_new(cli->base, parent, EV_READ, on_parent_exited, &pipe));
    if (event_add(pipe.readable, NULL) != 0)
        cli_fail(CLI_USAGE, "stdin is no pipe and no socket");
    event_add(pipe.exited, NULL);
    say_hello(&pipe);
    cli_wait(cli->base, &pipe.done);
    cli_drain(cli);
    return CLI_OK;
}
