#include "connection.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define REST_MAX     VIRTUAL_MS /* after the first part of a message that is cut */
#define VANISHED_MIN VIRTUAL_S  /* how long a server talks to a machine that is off */
#define VANISHED_MAX (60 * VIRTUAL_S)

struct path *connection_path(const struct connection *connection)
{
    return &network.path[connection->process_index][connection->server];
}

/* --- the end --- */

static void free_segment(struct connection *connection, struct segment *segment)
{
    const struct network_observer *observer = network.observer;
    if (segment->note && observer && observer->dropped)
        observer->dropped(connection, segment->note);
    free(segment);
}

static void free_segments(struct connection *connection, struct segment **first)
{
    while (*first) {
        struct segment *segment = *first;
        *first = segment->next;
        free_segment(connection, segment);
    }
}

static void pipe_clear(struct connection *connection, struct pipe *pipe)
{
    event_cancel(&pipe->arrival);
    free_segments(connection, &pipe->first);
    pipe->last = &pipe->first;
    pipe->bytes = 0;
}

void connection_forget(struct connection *connection)
{
    event_cancel(&connection->connecting);
    event_cancel(&connection->breaking);
    event_cancel(&connection->vanishing);
    pipe_clear(connection, &connection->up);
    pipe_clear(connection, &connection->down);
    free_segments(connection, &connection->inbox);
    if (connection->account)
        network.observer->gone(connection);
    *connection->link = connection->next;
    if (connection->next)
        connection->next->link = connection->link;
    free(connection);
}

/* Nobody knows it any more. */
static void forget_if_over(struct connection *connection)
{
    if (!connection->stream && !connection->peer && !connection->is_busy &&
        !event_is_scheduled(&connection->connecting) &&
        !event_is_scheduled(&connection->vanishing))
        connection_forget(connection);
}

static void hang_up(struct connection *connection)
{
    pipe_clear(connection, &connection->up);
    if (connection->peer && network.class->closed(connection->peer))
        connection->peer = NULL;
}

/* --- pipes --- */

static struct segment *pipe_add(struct pipe *pipe, const char *bytes, size_t len)
{
    struct segment *segment = malloc(sizeof(*segment) + len);
    if (!segment)
        abort();
    *segment = (struct segment){.written = events_now(), .len = len};
    if (len > 0)
        memcpy(segment->bytes, bytes, len);
    *pipe->last = segment;
    pipe->last = &segment->next;
    pipe->bytes += len;
    return segment;
}

static void await_first(struct pipe *pipe)
{
    if (pipe->first && pipe->first->arrives != NETWORK_NEVER)
        event_at(&pipe->arrival, pipe->first->arrives);
}

static void pipe_send(struct connection *connection, struct pipe *pipe,
                      enum direction direction, struct segment *segment)
{
    bool lost;
    int64_t now = events_now();
    int64_t arrives = network_arrival(connection_path(connection), direction, now, &lost);
    if (lost && arrives > pipe->resent)
        pipe->resent = arrives;
    segment->is_under_way = pipe->resent <= now;
    pipe->arrives = arrives > pipe->arrives ? arrives : pipe->arrives;
    segment->arrives = pipe->arrives;
    if (pipe->first == segment)
        await_first(pipe);
}

/* The first segment has arrived, or a part of it, which is returned instead. */
static struct segment *pipe_take(struct pipe *pipe)
{
    struct segment *segment = pipe->first;
    if (segment->len > 1 && draw_once_in(network.faults.cut)) {
        size_t len = 1 + events_random(segment->len - 1);
        network.counts.cuts++;
        struct segment *part = malloc(sizeof(*part) + len);
        if (!part)
            abort();
        *part = *segment;
        part->next = NULL;
        part->note = NULL;
        part->is_end = false;
        part->len = len;
        memcpy(part->bytes, segment->bytes, len);
        segment->len -= len;
        memmove(segment->bytes, segment->bytes + len, segment->len);
        segment->arrives = events_now() + draw_between(0, REST_MAX);
        pipe->arrives = segment->arrives > pipe->arrives ? segment->arrives : pipe->arrives;
        segment = part;
    } else {
        pipe->first = segment->next;
        if (!pipe->first)
            pipe->last = &pipe->first;
        segment->next = NULL;
    }
    pipe->bytes -= segment->len;
    await_first(pipe);
    return segment;
}

/* Bytes, or the process' end, arrive at the server. */
static void arrive_up(void *arg)
{
    struct connection *connection = arg;
    struct segment *segment = pipe_take(&connection->up);
    bool is_end = segment->is_end;
    connection->is_busy = true;
    if (connection->peer && segment->len > 0)
        network.class->received(connection->peer, segment);
    free_segment(connection, segment);
    if (is_end)
        hang_up(connection);
    connection->is_busy = false;
    if (connection->stream)
        stream_changed(connection->stream);
    forget_if_over(connection);
}

static void arrive_down(void *arg)
{
    struct connection *connection = arg;
    struct segment *segment = pipe_take(&connection->down);
    if (segment->is_end)
        connection->has_ended = true;
    if (!connection->stream || connection->error || segment->len == 0) {
        free_segment(connection, segment);
    } else {
        *connection->inbox_last = segment;
        connection->inbox_last = &segment->next;
    }
    if (connection->stream)
        stream_changed(connection->stream);
}

/* --- connecting --- */

static void on_connected(void *arg)
{
    struct connection *connection = arg;
    if (connection->stream) {
        connection->is_connected = !connection->error;
        stream_changed(connection->stream);
    }
    forget_if_over(connection);
}

/* The server's kernel has the first packet. */
static void on_requested(void *arg)
{
    struct connection *connection = arg;
    void *server = network.server[connection->server];
    bool lost;
    if (!server || network.class->is_down(server))
        connection->error = ECONNREFUSED;
    else
        connection->peer = network.class->accepted(server, connection);
    connection->connecting.happen = on_connected;
    int64_t back = network_arrival(connection_path(connection), DOWN, events_now(), &lost);
    if (back != NETWORK_NEVER)
        event_at(&connection->connecting, back);
    else
        forget_if_over(connection);
}

/* The process gets a reset. */
static void on_broken(void *arg)
{
    struct connection *connection = arg;
    if (!connection->error)
        connection->error = ECONNRESET;
    connection->is_aborted = true;
    if (connection->stream)
        stream_changed(connection->stream);
    forget_if_over(connection);
}

static void on_vanished(void *arg)
{
    struct connection *connection = arg;
    hang_up(connection);
    forget_if_over(connection);
}

struct connection *connection_open(struct process *process, unsigned host)
{
    struct connection *connection = malloc(sizeof(*connection));
    bool lost;
    if (!connection)
        abort();
    *connection = (struct connection){
        .next = network.connection,
        .link = &network.connection,
        .process = process,
        .process_index = process->index,
        .host = host,
        .server = network.address[host].server,
        .connecting = {.happen = on_requested, .arg = connection},
        .breaking = {.happen = on_broken, .arg = connection},
        .vanishing = {.happen = on_vanished, .arg = connection},
        .up.arrival = {.happen = arrive_up, .arg = connection},
        .down.arrival = {.happen = arrive_down, .arg = connection},
    };
    connection->up.last = &connection->up.first;
    connection->down.last = &connection->down.first;
    connection->inbox_last = &connection->inbox;
    if (network.connection)
        network.connection->link = &connection->next;
    network.connection = connection;
    if (network.observer && network.observer->opened)
        network.observer->opened(connection);
    int64_t there = network_arrival(connection_path(connection), UP, events_now(), &lost);
    if (there != NETWORK_NEVER)
        event_at(&connection->connecting, there);
    return connection;
}

/* --- the process' side --- */

void connection_send(struct connection *connection, const char *bytes, size_t len)
{
    struct segment *segment = pipe_add(&connection->up, bytes, len);
    int64_t timeout = events_now() + RL_STREAM_USER_TIMEOUT_MS * VIRTUAL_MS;
    if (connection->lost_at > 0)
        segment->arrives = NETWORK_NEVER;
    else
        pipe_send(connection, &connection->up, UP, segment);
    if (segment->arrives > timeout && !event_is_scheduled(&connection->breaking))
        event_at(&connection->breaking, timeout);
    network_note(bytes, len);
}

/* What is not under way is dropped. */
static void drop_unsent(struct connection *connection)
{
    struct pipe *pipe = &connection->up;
    struct segment **at = &pipe->first;
    while (*at && (*at)->is_under_way)
        at = &(*at)->next;
    for (struct segment *segment = *at; segment; segment = segment->next)
        pipe->bytes -= segment->len;
    free_segments(connection, at);
    pipe->last = at;
    if (!pipe->first)
        event_cancel(&pipe->arrival);
}

void connection_leave(struct connection *connection, bool is_aborted)
{
    const struct process *process = connection->process;
    /* Where input is left unread, the kernel sends a reset instead of a normal close. */
    connection->is_aborted |= is_aborted || process->is_powerless || connection->inbox;
    if (connection->account)
        network.observer->left(connection);
    connection->stream = NULL;
    connection->process = NULL;
    free_segments(connection, &connection->inbox);
    pipe_clear(connection, &connection->down);
    event_cancel(&connection->breaking);
    event_cancel(&connection->connecting);
    if (connection->is_aborted)
        drop_unsent(connection);
    if (connection->lost_at > 0) {
        pipe_clear(connection, &connection->up);
        forget_if_over(connection);
        return;
    }
    if (process->is_powerless) {
        event_at(&connection->vanishing,
                 events_now() + draw_span(VANISHED_MIN, VANISHED_MAX));
        return;
    }
    pipe_add(&connection->up, NULL, 0)->is_end = true;
    for (struct segment *segment = connection->up.first; segment; segment = segment->next)
        if (segment->is_end)
            pipe_send(connection, &connection->up, UP, segment);
    forget_if_over(connection);
}

/* --- the server's side --- */

void connection_write(struct connection *connection, const char *bytes, size_t len,
                      void *note)
{
    if (!connection->stream || connection->is_half_closed ||
        connection->lost_at > 0) { /* nobody reads it */
        if (note && network.observer && network.observer->dropped)
            network.observer->dropped(connection, note);
        return;
    }
    network_note(bytes, len);
    struct segment *segment = pipe_add(&connection->down, bytes, len);
    segment->note = note;
    pipe_send(connection, &connection->down, DOWN, segment);
}

static void send_end(struct connection *connection)
{
    if (!connection->stream || connection->is_half_closed || connection->lost_at > 0)
        return;
    struct segment *end = pipe_add(&connection->down, NULL, 0);
    end->is_end = true;
    pipe_send(connection, &connection->down, DOWN, end);
}

void connection_half_close(struct connection *connection)
{
    send_end(connection);
    connection->is_half_closed = true;
}

void connection_close(struct connection *connection)
{
    connection->peer = NULL;
    pipe_clear(connection, &connection->up);
    send_end(connection);
    if (!connection->is_busy)
        forget_if_over(connection);
}

static void break_for_process(struct connection *connection)
{
    bool lost;
    int64_t at = network_arrival(connection_path(connection), DOWN, events_now(), &lost);
    at = at < connection->down.arrives ? connection->down.arrives : at;
    if (connection->stream && at != NETWORK_NEVER && connection->lost_at == 0)
        event_at(&connection->breaking, at);
}

void connection_break(struct connection *connection)
{
    connection->peer = NULL;
    pipe_clear(connection, &connection->up);
    break_for_process(connection);
    if (!connection->is_busy)
        forget_if_over(connection);
}

void connection_cut(struct connection *connection, bool unseen)
{
    break_for_process(connection);
    if (unseen)
        return;
    bool lost;
    int64_t at = network_arrival(connection_path(connection), UP, events_now(), &lost);
    at = at < connection->up.arrives ? connection->up.arrives : at;
    if (connection->peer && at != NETWORK_NEVER)
        event_at(&connection->vanishing, at);
}

void connection_lose(struct connection *connection)
{
    if (connection->lost_at > 0)
        return;
    connection->lost_at = events_now();
    pipe_clear(connection, &connection->up);
    pipe_clear(connection, &connection->down);
    event_at(&connection->vanishing, events_now() + draw_span(VANISHED_MIN, VANISHED_MAX));
}
