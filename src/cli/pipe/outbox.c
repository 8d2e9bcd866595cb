#include "outbox.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static const struct timeval stall_after = {1, 0};

static void on_written(struct bufferevent *to, void *arg)
{
    struct outbox *outbox = arg;
    (void)to;
    outbox->stalled = false;
    outbox->changed(outbox->arg);
}

static void on_not_written(struct bufferevent *to, short what, void *arg)
{
    struct outbox *outbox = arg;
    if (!(what & BEV_EVENT_TIMEOUT)) {
        outbox->failed(outbox->arg);
        return;
    }
    outbox->stalled = true;
    bufferevent_enable(to, EV_WRITE); /* the timeout has disabled it */
    outbox->changed(outbox->arg);
}

void outbox_begin(struct outbox *outbox, struct event_base *base)
{
    outbox->to = cli_need_memory(bufferevent_socket_new(base, STDOUT_FILENO, 0));
    bufferevent_setcb(outbox->to, NULL, on_written, on_not_written, outbox);
    bufferevent_setwatermark(outbox->to, EV_WRITE, SIZE_MAX, 0); /* at each write */
    bufferevent_set_timeouts(outbox->to, NULL, &stall_after);
}

void outbox_put(struct outbox *outbox, json_t *object)
{
    char *line = cli_need_memory(cli_json_dump(object));
    size_t len = strlen(line);
    json_decref(object);
    line[len++] = '\n'; /* in the place of the NUL */
    if (outbox->to) {
        /* If nothing waits, without libevent: it would first wait until stdout takes some.
         */
        ssize_t now = outbox_waiting(outbox) > 0 ? 0 : write(STDOUT_FILENO, line, len);
        size_t done = now > 0 ? (size_t)now : 0;
        if (done < len && bufferevent_write(outbox->to, line + done, len - done) != 0)
            cli_need_memory(NULL);
    }
    outbox->put += len;
    free(line);
}

bool outbox_has_written(const struct outbox *outbox, uint64_t put)
{
    return outbox->put - outbox_waiting(outbox) > put;
}

size_t outbox_waiting(const struct outbox *outbox)
{
    return outbox->to ? evbuffer_get_length(bufferevent_get_output(outbox->to)) : 0;
}

/* Another file takes the place of the descriptor, so that no socket gets its number. */
void outbox_close(struct outbox *outbox)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    bufferevent_free(outbox->to);
    outbox->to = NULL;
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0)
        cli_fail(CLI_FAILED, "/dev/null: %s", strerror(errno));
    close(fd);
}
