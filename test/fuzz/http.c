/* Requests to redlock monitor: whatever comes, the answer is whole, and of a known code. */
#include "cli/monitor/http.h"
#include "cli/monitor/locks.h"
#include "cli/monitor/locks_view.h"
#include "cli/monitor/query.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/monitor/monitor.h"
#include "fuzz.h"

#define TURNS_MAX  10000
#define ANSWER_MAX (1 << 20)

static char folder[] = "/tmp/fuzz-http-XXXXXX", place[64];
static struct cli cli;
static struct monitor monitor = {.cli = &cli};

/* In place of the library's: some locks, at once. */
redlock_code redlock_list(redlock_client *client, const void *prefix, size_t prefix_len,
                          unsigned how, redlock_list_fn *callback, void *arg)
{
    static const char *const keys[] = {"job:1", "job:2", "other", "\xff\"\\\n:"};
    redlock_node node = {.holder = "host:1",
                         .value = "pabcdefghabcdefghabcdefghabcdefgh@host:1"};
    const redlock_node *nodes[] = {&node};
    const redlock_inspection found = {
        .quorum = 1, .agreeing = 1, .held = 1, .nodes = nodes, .count = 1};
    const redlock_listed end = {.code = REDLOCK_OK};
    (void)prefix, (void)prefix_len, (void)how;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const redlock_listed listed = {
            .key = keys[i], .key_len = strlen(keys[i]), .inspection = &found};
        callback(client, &listed, arg);
    }
    callback(client, &end, arg);
    return REDLOCK_OK;
}

/* In place of /api/whatif, which needs a canary. */
static int answer_list(void *arg, const struct evkeyvalq *query, struct evbuffer *body)
{
    double number[4];
    int count = query_list(query, "rtt", 60000, number, 4);
    (void)arg;
    FUZZ_CHECK(count >= -1 && count <= 4);
    for (int i = 0; i < count; i++)
        FUZZ_CHECK(number[i] == -1 || (number[i] >= 0 && number[i] <= 60000));
    evbuffer_add_printf(body, "{\"locks\":[]}");
    return 200;
}

static void clean(void)
{
    unlink(place + strlen("unix:"));
    rmdir(folder);
}

static void begin(void)
{
    static const struct http_route routes[] = {
        {"/api/locks", HTTP_JSON, monitor_api_locks, NULL, false},
        {"/list", HTTP_JSON, answer_list, NULL, false},
        {NULL, NULL, NULL, NULL, false},
    };
    FUZZ_CHECK(mkdtemp(folder) && atexit(clean) == 0);
    snprintf(place, sizeof(place), "unix:%s/s", folder);
    cli.base = event_base_new();
    FUZZ_CHECK(cli.base);
    monitor.locks = monitor_locks_new(&cli);
    monitor.http = http_new(&cli, place, false, routes, &monitor);
}

static int send_all(const uint8_t *data, size_t size)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0), room = ANSWER_MAX;
    strcpy(address.sun_path, place + strlen("unix:"));
    FUZZ_CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    FUZZ_CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    FUZZ_CHECK(size == 0 || write(fd, data, size) > 0);
    shutdown(fd, SHUT_WR);
    return fd;
}

/* Until the connection ends, which each one does. */
static size_t receive(int fd, char *answer)
{
    size_t len = 0;
    for (unsigned turn = 0; turn < TURNS_MAX; turn++) {
        event_base_loop(cli.base, EVLOOP_NONBLOCK);
        ssize_t got = read(fd, answer + len, ANSWER_MAX - 1 - len);
        if (got == 0 || (got < 0 && errno != EAGAIN))
            break;
        len += got > 0 ? (size_t)got : 0;
        FUZZ_CHECK(turn + 1 < TURNS_MAX);
    }
    answer[len] = '\0';
    return len;
}

static void check_locks(const char *body)
{
    json_t *object = json_loads(body, 0, NULL), *locks = json_object_get(object, "locks");
    json_int_t matched = json_integer_value(json_object_get(object, "matched"));
    FUZZ_CHECK(locks && json_array_size(locks) <= 4);
    FUZZ_CHECK(matched <= 4 && (json_int_t)json_array_size(locks) <= matched);
    json_decref(object);
}

static void check(const char *answer, size_t len)
{
    const char *body = strstr(answer, "\r\n\r\n"),
               *length = strstr(answer, "Content-Length: ");
    int status = 0;
    if (len == 0)
        return;
    FUZZ_CHECK(sscanf(answer, "HTTP/%*d.%*d %d ", &status) == 1);
    FUZZ_CHECK(strlen(answer) == len && body);
    FUZZ_CHECK(status != 200 || strstr(answer, "\r\nContent-Security-Policy: "));
    if (length && length < body && body[4]) /* not of HEAD */
        FUZZ_CHECK(strtoul(strchr(length, ' '), NULL, 10) == strlen(body + 4));
    if (status == 200 && body[4])
        check_locks(body + 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char answer[ANSWER_MAX];
    if (!monitor.http)
        begin();
    int fd = send_all(data, size);
    check(answer, receive(fd, answer));
    close(fd);
    return 0;
}
