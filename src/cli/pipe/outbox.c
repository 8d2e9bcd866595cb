#include "outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define STALL_MS 1000
#define PORTION  4096 /* bytes: what is more urgent waits for no more */

static void note_progress(struct outbox *outbox)
{
    bool was_stalled = outbox->stalled;
    outbox->stalled = false;
    if (outbox_waiting(outbox) > 0)
        cli_timer_set(&outbox->timer, STALL_MS);
    else
        cli_timer_stop(&outbox->timer);
    if (was_stalled)
        outbox->stall_changed(outbox->arg);
}

static void on_stalled(void *arg)
{
    struct outbox *outbox = arg;
    outbox->stalled = true;
    outbox->stall_changed(outbox->arg);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    struct outbox *outbox = arg;
    bool more = true;
    (void)what;
    if (outbox_waiting(outbox) == 0)
        while (more && outbox_waiting(outbox) < PORTION)
            more = outbox->next(outbox->arg);
    if (outbox_waiting(outbox) == 0 || !outbox->writable)
        return;
    int size = evbuffer_write(outbox->lines, fd);
    if (size > 0)
        note_progress(outbox);
    if (size < 0 && errno != EAGAIN && errno != EINTR)
        outbox->failed(outbox->arg);
    else
        outbox_wake(outbox);
}

void outbox_begin(struct outbox *outbox, struct event_base *base)
{
    outbox->base = base;
    outbox->lines = cli_need_memory(evbuffer_new());
    outbox->writable =
        cli_need_memory(event_new(base, STDOUT_FILENO, EV_WRITE, on_writable, outbox));
    evutil_make_socket_nonblocking(STDOUT_FILENO);
    cli_timer_begin(&outbox->timer, base, 0, on_stalled, outbox);
}

void outbox_wake(struct outbox *outbox)
{
    if (outbox->writable && event_add(outbox->writable, NULL) != 0)
        cli_fail(CLI_FAILED, "stdout is no pipe and no socket");
}

void outbox_put(struct outbox *outbox, json_t *object)
{
    if (!outbox->writable) {
        json_decref(object);
        return;
    }
    char *line = cli_need_memory(cli_json_dump(object));
    json_decref(object);
    if (outbox_waiting(outbox) == 0)
        cli_timer_set(&outbox->timer, STALL_MS);
    outbox->put += strlen(line) + 1;
    evbuffer_add(outbox->lines, line, strlen(line));
    evbuffer_add(outbox->lines, "\n", 1);
    free(line);
    outbox_wake(outbox);
}

bool outbox_has_written(const struct outbox *outbox, uint64_t put)
{
    return outbox->put - outbox_waiting(outbox) > put;
}

size_t outbox_waiting(const struct outbox *outbox)
{
    return evbuffer_get_length(outbox->lines);
}

/* Another file takes the place of the descriptor, so that no socket gets its number. */
void outbox_close(struct outbox *outbox)
{
    if (!outbox->writable)
        return;
    cli_timer_end(&outbox->timer);
    event_free(outbox->writable);
    outbox->writable = NULL;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0)
        cli_fail(CLI_FAILED, "/dev/null: %s", strerror(errno));
    close(fd);
}
