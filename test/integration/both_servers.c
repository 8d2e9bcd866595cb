#include "both_servers.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "known_differences.h"
#include "random_requests.h"

#define TEXT_MAX  600  /* of what a failure shows */
#define PIECE_MAX 2000 /* bytes that the simulated server reads at once, now and then */

/* See clockshim.c. */
struct lie {
    _Atomic uint64_t turn;
    _Atomic int64_t anchor, offset, rate;
};

/* --- starting --- */

void both_servers_set_clock(struct both_servers *servers, rl_time now)
{
    servers->now = now;
    servers->lie->turn++;
    servers->lie->anchor = now * 1000;
    servers->lie->rate = -1000000; /* it stands still */
    servers->lie->turn++;
}

/* Again, with a clock of its own, and without deleting keys between the commands. */
static void restart_real(struct both_servers *both)
{
    struct servers *servers = &both->servers;
    const char *library = getenv("CLOCK_SHIM");
    char path[96];
    cr_assert_not_null(library, "CLOCK_SHIM must name clockshim.so");
    servers_kill(servers, 0);
    snprintf(path, sizeof(path), "%s/clock", servers->folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    cr_assert_geq(fd, 0);
    cr_assert_eq(ftruncate(fd, sizeof(struct lie)), 0);
    both->lie = mmap(NULL, sizeof(struct lie), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert_neq((void *)both->lie, MAP_FAILED);
    close(fd);
    setenv("LD_PRELOAD", library, 1);
    setenv("CLOCK_SHIM_FILE", path, 1);
    servers_launch(servers, 0);
    unsetenv("LD_PRELOAD");
    unsetenv("CLOCK_SHIM_FILE");
    servers_do(servers, 0, "DEBUG SET-ACTIVE-EXPIRE 0");
}

static bool denies(void *arg, const char *command, unsigned call)
{
    const struct both_servers *servers = arg;
    (void)call;
    return servers->denied && strcmp(command, servers->denied) == 0;
}

static void copy_field(struct both_servers *both, const char *section, const char *field,
                       char *text, size_t room)
{
    snprintf(text, room, "%s", servers_info(&both->servers, 0, section, field));
}

/* Starts it with the options of support/servers.c. */
void both_servers_start(struct both_servers *both)
{
    struct redis_config config = {
        .version = both->version,
        .maxmemory_policy = "noeviction",
        .fsync = "everysec",
        .no_fsync_on_rewrite = "no",
        .debug_command = "yes",
        .user = LIMITED,
        .denies = denies,
        .arg = both,
    };
    *both = (struct both_servers){0};
    servers_start(&both->servers, 1, NULL);
    restart_real(both);
    copy_field(both, "server", "redis_version", both->version, sizeof(both->version));
    snprintf(both->server, sizeof(both->server), "redis %s", both->version);
    const char *valkey = servers_info(&both->servers, 0, "server", "valkey_version");
    if (valkey)
        snprintf(both->server, sizeof(both->server), "valkey %s", valkey);
    copy_field(both, "server", "run_id", config.run_id, sizeof(config.run_id));
    copy_field(both, "replication", "master_replid", config.replid, sizeof(config.replid));
    both->redis = redis_new(&config);
    both_servers_set_clock(both, RL_SECOND * (rl_time)time(NULL));
}

void both_servers_end(struct both_servers *both)
{
    redis_free(both->redis);
    munmap(both->lie, sizeof(*both->lie));
    servers_end(&both->servers);
    bytes_free(&both->batch);
    bytes_free(&both->real);
}

void both_servers_set_replica(struct both_servers *both, bool is_replica)
{
    servers_do(&both->servers, 0,
               is_replica ? "REPLICAOF 127.0.0.1 1" : "REPLICAOF NO ONE");
    both->redis->config.is_replica = is_replica;
    copy_field(both, "replication", "master_replid", both->redis->config.replid,
               REDIS_ID + 1);
}

struct both both_connect(struct both_servers *servers)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct both both = {.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    strcpy(address.sun_path, servers->servers.server[0].socket);
    cr_assert_eq(connect(both.fd, (struct sockaddr *)&address, sizeof(address)), 0);
    both.link = redis_connect(servers->redis);
    return both;
}

void both_disconnect(struct both *both)
{
    close(both->fd);
    redis_disconnect(both->link);
}

/* --- comparing --- */

/* Where the reply, or the request, at `at` ends. */
static size_t end_of(const struct bytes *bytes, size_t at)
{
    const char *line = bytes->data + at;
    const char *end = memmem(line, bytes->len - at, "\r\n", 2);
    long long number = atoll(line + 1);
    if (!end)
        return bytes->len;
    at = (size_t)(end + 2 - bytes->data);
    if (*line == '*')
        for (long long i = 0; i < number && at < bytes->len; i++)
            at = end_of(bytes, at);
    at = *line == '$' && number >= 0 ? at + (size_t)number + 2 : at;
    return at < bytes->len ? at : bytes->len;
}

static const char *escaped(const struct bytes *bytes, size_t from, size_t to, char *text)
{
    size_t len = 0;
    for (size_t i = from; i < to && i < bytes->len && len < TEXT_MAX - 5; i++) {
        unsigned char c = (unsigned char)bytes->data[i];
        if (c >= ' ' && c <= '~')
            text[len++] = (char)c;
        else
            len += (size_t)snprintf(text + len, TEXT_MAX - len, "\\x%02x", c);
    }
    text[len] = '\0';
    return text;
}

/* Shows the first reply that differs, and its request; NULL: these are messages. */
static void fail(const struct both_servers *servers, const struct bytes *requests,
                 const struct bytes *replies, const struct bytes *simulated)
{
    char request[TEXT_MAX] = "a message", real[TEXT_MAX], other[TEXT_MAX];
    size_t at = 0, end, asked = 0;
    for (; at < replies->len && at < simulated->len; at = end) {
        end = end_of(replies, at);
        if (end_of(simulated, at) != end ||
            memcmp(replies->data + at, simulated->data + at, end - at) != 0)
            break;
        asked = requests ? end_of(requests, asked) : 0;
    }
    if (requests)
        escaped(requests, asked, end_of(requests, asked), request);
    cr_assert_fail("at %lld, denied %s: to %s\nreal:      %s\nsimulated: %s",
                   (long long)servers->now, servers->denied ? servers->denied : "nothing",
                   request, escaped(replies, at, replies->len, real),
                   escaped(simulated, at, simulated->len, other));
}

static void compare(const struct both_servers *servers, const struct bytes *requests,
                    const struct bytes *out)
{
    struct bytes real = {0}, simulated = {0};
    bytes_set(&real, bytes_word(&servers->real));
    bytes_set(&simulated, bytes_word(out));
    known_differences_remove(servers->server, &real);
    known_differences_remove(servers->server, &simulated);
    if (!word_is(bytes_word(&real), bytes_word(&simulated)))
        fail(servers, requests, &real, &simulated);
    bytes_free(&real);
    bytes_free(&simulated);
}

/* --- playing --- */

static void write_all(int fd, const struct bytes *bytes)
{
    for (size_t at = 0; at < bytes->len;) {
        ssize_t wrote = write(fd, bytes->data + at, bytes->len - at);
        cr_assert_gt(wrote, 0);
        at += (size_t)wrote;
    }
}

static bool ends_with(const struct bytes *bytes, const struct bytes *end)
{
    return bytes->len >= end->len &&
           memcmp(bytes->data + bytes->len - end->len, end->data, end->len) == 0;
}

/* Reads until this end; NULL: until the server hangs up. */
static void read_until(int fd, struct bytes *bytes, const struct bytes *end)
{
    char buffer[16384];
    bytes->len = 0;
    while (!end || !ends_with(bytes, end)) {
        ssize_t got = read(fd, buffer, sizeof(buffer));
        if (got == 0 && !end)
            return;
        cr_assert_gt(got, 0, "the real server hung up");
        bytes_add(bytes, buffer, (size_t)got);
    }
}

/* Mostly at once. */
static void feed(struct both_servers *servers, struct redis_link *link, struct prng *prng)
{
    const struct bytes *batch = &servers->batch;
    for (size_t at = 0, len; at < batch->len; at += len) {
        size_t rest = batch->len - at;
        len = prng_below(prng, 4) ? rest : 1 + prng_below(prng, PIECE_MAX);
        len = len < rest ? len : rest;
        redis_receive(link, (struct rl_word){batch->data + at, len}, servers->now);
    }
}

/* A text that comes once, and the bytes of it as a bulk string. */
static void make_mark(struct both_servers *servers, char text[32], struct bytes *ret_bulk)
{
    char bulk[64];
    snprintf(text, 32, "mark:%u", servers->marks++);
    snprintf(bulk, sizeof(bulk), "$%zu\r\n%s\r\n", strlen(text), text);
    bytes_add_text(ret_bulk, bulk);
}

void both_play(struct both_servers *servers, const struct both *both, bool is_subscribed,
               struct prng *prng)
{
    char mark[32];
    struct bytes end = {0}, *out = &both->link->out;
    if (is_subscribed)
        bytes_add_text(&end, "*2\r\n$4\r\npong\r\n");
    make_mark(servers, mark, &end);
    request_of_words(&servers->batch,
                     (struct rl_word[]){operation_word("PING"), operation_word(mark)}, 2);
    write_all(both->fd, &servers->batch);
    feed(servers, both->link, prng);
    read_until(both->fd, &servers->real, &end);
    compare(servers, &servers->batch, out);
    out->len = servers->batch.len = 0;
    bytes_free(&end);
}

void both_play_alone(struct both_servers *servers, struct prng *prng)
{
    struct both both = both_connect(servers);
    write_all(both.fd, &servers->batch);
    cr_assert_eq(shutdown(both.fd, SHUT_WR), 0);
    feed(servers, both.link, prng);
    read_until(both.fd, &servers->real, NULL);
    compare(servers, &servers->batch, &both.link->out);
    servers->batch.len = 0;
    both_disconnect(&both);
}

void both_compare_messages(struct both_servers *servers, const struct both *publisher,
                           const struct both *subscriber, const char *channel,
                           struct prng *prng)
{
    char mark[32];
    struct bytes end = {0}, *out = &subscriber->link->out;
    make_mark(servers, mark, &end);
    request_of_words(&servers->batch,
                     (struct rl_word[]){operation_word("PUBLISH"), operation_word(channel),
                                        operation_word(mark)},
                     3);
    both_play(servers, publisher, false, prng);
    read_until(subscriber->fd, &servers->real, &end);
    compare(servers, NULL, out);
    out->len = 0;
    bytes_free(&end);
}
