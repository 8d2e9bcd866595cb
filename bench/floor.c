/*
 * The floor: the minimum that any library could do. One thread, epoll, commands that were
 * formatted before: SET NX PX to all nodes, done at the q-th OK; the release to all, done
 * when q have replied to it. No timeouts, no drift, no restarts, no errors: it is a
 * reference for measurements, not a lock to use. It sends exactly libredlock's bytes
 * (lap.h: how it is run).
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/kind.h"
#include "lap.h"
#include "scripts.h"

#define ROOM      (1 << 18) /* of a node's output, and of its pending replies */
#define READ_SIZE (64 * 1024)
#define DIGITS    "32" /* of a token, as libredlock's */

/* A command of a lane. */
struct words {
    char bytes[256];
    size_t len;
};

struct lane {
    struct words set, release;
    uint32_t round; /* replies to an older one are late */
    bool releasing;
    unsigned granted, refused;
    int64_t began;
};

struct owed {
    uint32_t lane, round;
};

struct node {
    int fd;
    char out[ROOM];
    size_t out_len;
    struct owed owed[ROOM];
    uint32_t first, end; /* of the pending ones, modulo ROOM */
    char in[READ_SIZE];
    size_t in_len;
};

static struct node *node;
static unsigned nodes, quorum, running;
static struct lane lane[LAP_LANES_MAX];
static struct lap_log cycles;
static struct lap lap;

/* --- commands --- */

static struct words format(const struct rl_command_args *subject, enum rl_command text)
{
    struct rl_argv command;
    struct words words = {0};
    rl_kind_argv(rl_kind_that_is(false, REDLOCK_KIND_EXCLUSIVE), text, false, subject,
                 &command);
    words.len =
        (size_t)snprintf(words.bytes, sizeof(words.bytes), "*%zu\r\n", command.words);
    for (size_t i = 0; i < command.words; i++) {
        const struct rl_word *word = &command.word[i];
        words.len +=
            (size_t)snprintf(words.bytes + words.len, sizeof(words.bytes) - words.len,
                             "$%zu\r\n", word->len);
        memcpy(words.bytes + words.len, word->text, word->len);
        memcpy(words.bytes + words.len + word->len, "\r\n", 2);
        words.len += word->len + 2;
    }
    return words;
}

static void format_lane(unsigned i)
{
    char key[LAP_KEY + 1], token[64];
    uint64_t bits[2];
    if (getrandom(bits, sizeof(bits), 0) != sizeof(bits))
        lap_fail("no random bits");
    int len = snprintf(token, sizeof(token), "p%016llx%016llx@" LAP_LABEL,
                       (unsigned long long)bits[0], (unsigned long long)bits[1]);
    lap_key(i, key);
    struct rl_command_args subject = {
        .key = {key, LAP_KEY},
        .token = {token, (size_t)len},
        .ttl_ms = LAP_TTL_MS,
    };
    lane[i].set = format(&subject, RL_CMD_ACQUIRE);
    lane[i].release = format(&subject, RL_CMD_RELEASE);
}

static void say(unsigned i, const struct words *words)
{
    for (struct node *to = node; to < node + nodes; to++) {
        if (to->out_len + words->len > ROOM || to->end - to->first == ROOM)
            lap_fail("a node does not keep up");
        memcpy(to->out + to->out_len, words->bytes, words->len);
        to->out_len += words->len;
        to->owed[to->end++ % ROOM] = (struct owed){i, lane[i].round};
    }
    lane[i].granted = lane[i].refused = 0;
}

static void begin_cycle(unsigned i, int64_t now)
{
    struct lane *self = &lane[i];
    self->round++;
    self->releasing = false;
    self->began = now;
    say(i, &self->set);
}

static void begin_release(unsigned i)
{
    lane[i].round++;
    lane[i].releasing = true;
    say(i, &lane[i].release);
}

static void end_cycle(unsigned i)
{
    int64_t now = lap_now();
    lap_note(&cycles, now - lane[i].began);
    if (lap_goes_on(&lap, now))
        begin_cycle(i, now);
    else
        running--;
}

/* --- replies --- */

static void count(const struct owed *owed, bool granted)
{
    struct lane *self = &lane[owed->lane];
    if (owed->round != self->round)
        return;
    self->granted += granted;
    self->refused += !granted;
    if (self->refused > nodes - quorum)
        lap_fail("a free key was refused");
    if (self->granted != quorum)
        return;
    if (self->releasing)
        end_cycle(owed->lane);
    else
        begin_release(owed->lane);
}

/* +OK or :1 grant; $-1 and :0 do not; nothing else is expected. */
static void read_lines(struct node *from)
{
    char *at = from->in, *end = from->in + from->in_len;
    for (char *line; (line = memchr(at, '\n', (size_t)(end - at))); at = line + 1) {
        if (from->first == from->end || !strchr("+:$", *at))
            lap_fail("an unexpected reply");
        count(&from->owed[from->first++ % ROOM],
              *at == '+' || (*at == ':' && at[1] == '1'));
    }
    from->in_len = (size_t)(end - at);
    memmove(from->in, at, from->in_len);
}

static void take(struct node *from)
{
    ssize_t got =
        recv(from->fd, from->in + from->in_len, READ_SIZE - from->in_len, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0)
        lap_fail("a node is gone");
    from->in_len += (size_t)got;
    read_lines(from);
}

static void flush(void)
{
    for (struct node *to = node; to < node + nodes; to++) {
        if (to->out_len == 0)
            continue;
        if (send(to->fd, to->out, to->out_len, MSG_NOSIGNAL) != (ssize_t)to->out_len)
            lap_fail("a node is gone");
        to->out_len = 0;
    }
}

static bool owes(void)
{
    for (struct node *from = node; from < node + nodes; from++)
        if (from->first != from->end)
            return true;
    return false;
}

/* Until the lanes have ended, and then until all nodes have replied. */
static void run(int poll)
{
    struct epoll_event event[LAP_NODES_MAX];
    running = lap.order.lanes;
    for (unsigned i = 0; i < lap.order.lanes; i++)
        begin_cycle(i, lap_now());
    flush();
    while (running > 0 || owes()) {
        int ready = epoll_wait(poll, event, LAP_NODES_MAX, -1);
        for (int i = 0; i < ready; i++)
            take(event[i].data.ptr);
        flush();
    }
}

/* --- connecting --- */

static int connect_to(const char *uri)
{
    char host[256], port[16];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    if (sscanf(uri, "redis://%255[^:]:%15[0-9]", host, port) != 2 ||
        getaddrinfo(host, port, &hints, &found) != 0)
        lap_fail("a node is redis://HOST:PORT");
    int fd = socket(found->ai_family, SOCK_STREAM, 0), on = 1;
    if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
        lap_fail("a node does not reply");
    freeaddrinfo(found);
    return fd;
}

/* The release is sent by its hash from then on. */
static void teach(int fd)
{
    char answer[64];
    const struct rl_script *script = &rl_script_plain_release;
    dprintf(fd, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%zu\r\n%s\r\n", script->len,
            script->body);
    ssize_t got = recv(fd, answer, sizeof(answer), 0);
    if (got < 45 || memcmp(answer + 5, script->sha1, 40) != 0)
        lap_fail("a node takes no script");
}

static int connect_all(void)
{
    const char *uri[LAP_NODES_MAX];
    int poll = epoll_create1(EPOLL_CLOEXEC);
    nodes = (unsigned)lap_nodes(uri);
    node = calloc(nodes, sizeof(*node));
    if (poll < 0 || !node)
        lap_fail("out of memory");
    for (unsigned i = 0; i < nodes; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &node[i]};
        node[i].fd = connect_to(uri[i]);
        teach(node[i].fd);
        if (epoll_ctl(poll, EPOLL_CTL_ADD, node[i].fd, &event) != 0)
            lap_fail("a node cannot be polled");
    }
    quorum = nodes / 2 + 1;
    return poll;
}

int main(void)
{
    struct lap_order order;
    int poll = connect_all();
    lap_log_init(&cycles);
    for (unsigned i = 0; i < LAP_LANES_MAX; i++)
        format_lane(i);
    lap_ready();
    while (lap_read_order(&order)) {
        lap_begin(&lap, &order);
        run(poll);
        lap_end(&lap, &cycles, 1);
    }
    return EXIT_SUCCESS;
}
