#include "servers.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_S 30 /* until a server replies, and for each command */
#define LOOK_US    2000

/* --- processes --- */

/* Ended if the test is aborted, when the test's own variables are gone. */
static struct {
    pid_t pid[SERVERS_MAX];
    char folder[64];
} left;

static void redirect(struct servers *servers, unsigned i)
{
    char path[96];
    snprintf(path, sizeof(path), "%s/%u.log", servers->folder, i);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (null < 0 || log < 0 || dup2(null, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0)
        _exit(126);
}

/* The child becomes the server, and dies with the test. */
static void become_server(struct servers *servers, unsigned i, pid_t parent)
{
    struct server *server = &servers->server[i];
    char port[8], dump[16];
    snprintf(port, sizeof(port), "%d", server->port);
    snprintf(dump, sizeof(dump), "%u.rdb", i);
    const char *program = getenv("REDIS_SERVER");
    const char *words[64] = {
        program ? program : "redis-server",
        "--port",
        port,
        "--unixsocket",
        server->socket,
        "--dir",
        servers->folder,
        "--dbfilename",
        dump,
        "--save",
        "",
        "--appendonly",
        "no",
        "--enable-debug-command",
        "yes",
    };
    size_t count = 0;
    while (words[count])
        count++;
    for (size_t j = 0; server->word[j]; j++)
        words[count++] = server->word[j];
    redirect(servers, i);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(126);
    execvp(words[0], (char *const *)words);
    _exit(127);
}

static void expect_alive(struct servers *servers, unsigned i)
{
    int status;
    if (waitpid(servers->server[i].pid, &status, WNOHANG) == 0)
        return;
    servers->server[i].pid = left.pid[i] = 0;
    cr_assert_fail("server %u ended (%x): see %s/%u.log", i, (unsigned)status,
                   servers->folder, i);
}

static time_t seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static bool is_this(struct servers *servers, unsigned i)
{
    const char *pid = servers_info(servers, i, "server", "process_id");
    return pid && atol(pid) == (long)servers->server[i].pid;
}

static void connect_admin(struct server *server)
{
    struct timeval patience = {.tv_sec = PATIENCE_S};
    if (server->admin)
        redisFree(server->admin);
    server->admin = redisConnectUnixWithTimeout(server->socket, patience);
    cr_assert_not_null(server->admin);
    if (!server->admin->err)
        redisSetTimeout(server->admin, patience);
}

void servers_launch(struct servers *servers, unsigned i)
{
    struct server *server = &servers->server[i];
    pid_t parent = getpid();
    cr_assert_eq(server->pid, 0, "server %u runs already", i);
    unlink(server->socket);
    server->pid = fork();
    cr_assert_geq(server->pid, 0);
    if (server->pid == 0)
        become_server(servers, i, parent);
    left.pid[i] = server->pid;
    server->stopped = false;
    for (time_t end = seconds() + PATIENCE_S;;) {
        expect_alive(servers, i);
        connect_admin(server);
        if (!server->admin->err)
            break;
        cr_assert_lt(seconds(), end, "server %u does not reply", i);
        usleep(LOOK_US);
    }
    cr_assert(is_this(servers, i), "another server replies at the address of server %u", i);
}

void servers_kill(struct servers *servers, unsigned i)
{
    struct server *server = &servers->server[i];
    if (server->pid == 0)
        return;
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    server->pid = left.pid[i] = 0;
    if (server->admin)
        redisFree(server->admin);
    server->admin = NULL;
}

void servers_restart(struct servers *servers, unsigned i)
{
    servers_kill(servers, i);
    servers_launch(servers, i);
}

void servers_stop(struct servers *servers, unsigned i)
{
    struct server *server = &servers->server[i];
    int status;
    cr_assert_eq(kill(server->pid, SIGSTOP), 0);
    cr_assert_eq(waitpid(server->pid, &status, WUNTRACED), server->pid);
    cr_assert(WIFSTOPPED(status));
    server->stopped = true;
}

void servers_cont(struct servers *servers, unsigned i)
{
    struct server *server = &servers->server[i];
    int status;
    cr_assert_eq(kill(server->pid, SIGCONT), 0);
    cr_assert_eq(waitpid(server->pid, &status, WCONTINUED), server->pid);
    server->stopped = false;
}

void servers_stop_first(struct servers *servers, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        servers_stop(servers, i);
}

void servers_cont_first(struct servers *servers, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        servers_cont(servers, i);
}

void servers_kill_first(struct servers *servers, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        servers_kill(servers, i);
}

/* --- starting and ending --- */

static int remove_entry(const char *path, const struct stat *stat, int type,
                        struct FTW *ftw)
{
    (void)stat;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void remove_folder(void)
{
    if (left.folder[0])
        nftw(left.folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    left.folder[0] = '\0';
}

void servers_end(struct servers *servers)
{
    for (unsigned i = 0; i < servers->n; i++)
        servers_kill(servers, i);
    remove_folder();
}

static void end_what_is_left(void)
{
    for (unsigned i = 0; i < SERVERS_MAX; i++)
        if (left.pid[i] > 0)
            kill(left.pid[i], SIGKILL);
    for (unsigned i = 0; i < SERVERS_MAX; i++)
        if (left.pid[i] > 0)
            waitpid(left.pid[i], NULL, 0);
    remove_folder();
}

static void make_folder(struct servers *servers)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(servers->folder, sizeof(servers->folder), "%s/redlock-XXXXXX",
             tmp && strlen(tmp) < 40 ? tmp : "/tmp");
    cr_assert_not_null(mkdtemp(servers->folder));
    strcpy(left.folder, servers->folder);
}

static void name_server(struct servers *servers, unsigned i, const char *const *word)
{
    struct server *server = &servers->server[i];
    snprintf(server->socket, sizeof(server->socket), "%s/%u.sock", servers->folder, i);
    snprintf(server->uri, sizeof(server->uri), "unix://%s", server->socket);
    servers->uri[i] = server->uri;
    for (size_t j = 0; word && word[j]; j++) {
        cr_assert_lt(j + 1, SERVERS_WORDS_MAX);
        server->word[j] = word[j];
    }
}

void servers_start(struct servers *servers, unsigned n, const char *const *word)
{
    cr_assert_leq(n, SERVERS_MAX);
    cr_assert_str_empty(left.folder, "one set of servers at a time");
    memset(servers, 0, sizeof(*servers));
    atexit(end_what_is_left);
    make_folder(servers);
    servers->n = n;
    for (unsigned i = 0; i < n; i++)
        name_server(servers, i, word);
    for (unsigned i = 0; i < n; i++)
        servers_launch(servers, i);
}

int servers_free_port(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_geq(fd, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&addr, len), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
    close(fd);
    return ntohs(addr.sin_port);
}

void servers_choose_port(struct servers *servers, unsigned i, const char *addresses)
{
    struct server *server = &servers->server[i];
    size_t count = 0;
    cr_assert_eq(server->pid, 0);
    server->port = servers_free_port();
    while (server->word[count])
        count++;
    cr_assert_lt(count + 2, SERVERS_WORDS_MAX);
    server->word[count] = "--bind";
    server->word[count + 1] = addresses;
}

/* --- commands --- */

static redisReply *run(struct servers *servers, unsigned i, const char *format,
                       va_list args)
{
    struct server *server = &servers->server[i];
    cr_assert(server->pid > 0 && !server->stopped, "server %u cannot reply", i);
    redisReply *reply = redisvCommand(server->admin, format, args);
    cr_assert_not_null(reply, "server %u: %s", i, server->admin->errstr);
    return reply;
}

/* A va_list can be read only once: each of these functions needs its own reply. */
#define RUN(reply)                                                                         \
    va_list args;                                                                          \
    va_start(args, format);                                                                \
    redisReply *reply = run(servers, i, format, args);                                     \
    va_end(args)

redisReply *servers_run(struct servers *servers, unsigned i, const char *format, ...)
{
    RUN(reply);
    return reply;
}

static void do_one(struct servers *servers, unsigned i, const char *format, va_list args)
{
    redisReply *reply = run(servers, i, format, args);
    cr_assert_neq(reply->type, REDIS_REPLY_ERROR, "server %u, %s: %s", i, format,
                  reply->str);
    freeReplyObject(reply);
}

void servers_do(struct servers *servers, unsigned i, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    do_one(servers, i, format, args);
    va_end(args);
}

void servers_do_first(struct servers *servers, unsigned n, const char *format, ...)
{
    for (unsigned i = 0; i < n; i++) {
        va_list args;
        va_start(args, format);
        do_one(servers, i, format, args);
        va_end(args);
    }
}

bool servers_int(struct servers *servers, unsigned i, long long value, const char *format,
                 ...)
{
    RUN(reply);
    bool same = reply->type == REDIS_REPLY_INTEGER && reply->integer == value;
    freeReplyObject(reply);
    return same;
}

static bool has_text(const redisReply *reply, const char *text)
{
    bool is_text = reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS ||
                   reply->type == REDIS_REPLY_ERROR;
    return text ? is_text && strcmp(reply->str, text) == 0 : reply->type == REDIS_REPLY_NIL;
}

bool servers_text(struct servers *servers, unsigned i, const char *text, const char *format,
                  ...)
{
    RUN(reply);
    bool same = has_text(reply, text);
    freeReplyObject(reply);
    return same;
}

long long servers_number(struct servers *servers, unsigned i, const char *format, ...)
{
    RUN(reply);
    cr_assert_eq(reply->type, REDIS_REPLY_INTEGER, "server %u, %s: %s", i, format,
                 reply->str ? reply->str : "no number");
    long long value = reply->integer;
    freeReplyObject(reply);
    return value;
}

void servers_settle(struct servers *servers)
{
    for (int turn = 0; turn < 2;
         turn++) /* Redis writes replies before its next iteration */
        for (unsigned i = 0; i < servers->n; i++)
            if (servers->server[i].pid > 0 && !servers->server[i].stopped)
                servers_do(servers, i, "PING");
}

unsigned servers_with(struct servers *servers, const char *key, const char *value)
{
    unsigned count = 0;
    for (unsigned i = 0; i < servers->n; i++)
        if (servers->server[i].pid > 0 && !servers->server[i].stopped)
            count += servers_text(servers, i, value, "GET %s", key);
    return count;
}

long long servers_keys(struct servers *servers)
{
    long long count = 0;
    for (unsigned i = 0; i < servers->n; i++)
        if (servers->server[i].pid > 0 && !servers->server[i].stopped)
            count += servers_number(servers, i, "DBSIZE");
    return count;
}

const char *servers_info(struct servers *servers, unsigned i, const char *section,
                         const char *field)
{
    static char value[128];
    redisReply *reply = servers_run(servers, i, "INFO %s", section);
    const char *found = NULL;
    size_t len = strlen(field);
    for (char *line = reply->str; line && !found; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, field, len) == 0 && line[len] == ':')
            found = line + len + 1;
    }
    if (found)
        snprintf(value, sizeof(value), "%.*s", (int)strcspn(found, "\r\n"), found);
    freeReplyObject(reply);
    return found ? value : NULL;
}
