#include "servers.h"

#include "certificates.h"
#include "cli.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define ANSWER_WAIT_MS 100
#define ANSWER_MAX     8192
#define WALK_FILES     16 /* the limit of files that nftw() holds open */

static const char template[] = "/redlock-XXXXXX";

/* --- where and what --- */

static bool find_program(const char *name, char *ret_path, size_t room)
{
    const char *path = getenv("PATH");
    for (const char *at = path ? path : "/usr/bin:/bin"; *at;) {
        size_t len = strcspn(at, ":");
        int size = snprintf(ret_path, room, "%.*s/%s", (int)len, at, name);
        struct stat file;
        if (len > 0 && size < (int)room && access(ret_path, X_OK) == 0 &&
            stat(ret_path, &file) == 0 && S_ISREG(file.st_mode))
            return true;
        at += len + (at[len] == ':');
    }
    return false;
}

/*
 * The paths go into URIs, configuration files and shells, where other characters have a
 * special meaning.
 */
static void choose_folder(struct servers *servers)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyz"
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+";
    const char *folder = getenv("TMPDIR");
    char real[PATH_MAX];
    if (!realpath(folder && *folder ? folder : "/tmp", real))
        cli_fail(CLI_FAILED, "local: %s: %s", folder && *folder ? folder : "/tmp",
                 strerror(errno));
    if (real[strspn(real, plain)] != '\0')
        cli_fail(CLI_FAILED, "local: TMPDIR=%s: characters that a URI cannot have", real);
    int size = snprintf(servers->folder, sizeof(servers->folder), "%s%s",
                        strcmp(real, "/") == 0 ? "" : real, template);
    if (size >= (int)sizeof(servers->folder))
        cli_fail(CLI_FAILED, "local: TMPDIR=%s: too long for a unix socket", real);
}

struct servers *servers_new(int count, bool tls)
{
    struct servers *servers = mmap(NULL, sizeof(*servers), PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (servers == MAP_FAILED)
        cli_fail(CLI_FAILED, "local: %s", strerror(errno));
    servers->count = count;
    servers->tls = tls;
    if (!find_program("redis-server", servers->program, sizeof(servers->program)) &&
        !find_program("valkey-server", servers->program, sizeof(servers->program)))
        cli_fail(CLI_NOT_FOUND, "local: neither redis-server nor valkey-server is in PATH");
    choose_folder(servers);
    return servers;
}

void servers_free(struct servers *servers)
{
    munmap(servers, sizeof(*servers));
}

static void name_file(const struct servers *servers, int index, const char *kind,
                      char ret_path[SERVERS_PATH])
{
    snprintf(ret_path, SERVERS_PATH, "%s/%d.%s", servers->folder, index + 1, kind);
}

void servers_list(const struct servers *servers, bool tls, char ret_list[SERVERS_LIST])
{
    char *to = ret_list;
    for (int i = 0; i < servers->count; i++) {
        const char *comma = i > 0 ? "," : "";
        char path[SERVERS_PATH];
        name_file(servers, i, "sock", path);
        to += tls ? sprintf(to, "%srediss://127.0.0.1:%d", comma, servers->ports[i])
                  : sprintf(to, "%sunix://%s", comma, path);
    }
}

/* --- in the keeper --- */

/*
 * Lets the kernel choose a port. The socket that has it stays open, and never listens: so a
 * server that sets SO_REUSEADDR can use the port, and nobody else gets it. False: errno.
 */
static bool reserve_port(int *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool has_port = fd >= 0 &&
                    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
                    bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
                    getsockname(fd, (struct sockaddr *)&address, &len) == 0;
    *ret_port = ntohs(address.sin_port);
    return has_port;
}

static void write_tls(FILE *file, const struct servers *servers, int index)
{
    const char *folder = servers->folder;
    fprintf(file,
            "bind 127.0.0.1\n"
            "tls-port %d\n"
            "tls-cert-file %s/server.crt\n"
            "tls-key-file %s/server.key\n"
            "tls-ca-cert-file %s/ca.crt\n"
            "tls-auth-clients yes\n",
            servers->ports[index], folder, folder, folder);
}

static bool write_configuration(const struct servers *servers, int index)
{
    char path[SERVERS_PATH], socket[SERVERS_PATH], log[SERVERS_PATH];
    name_file(servers, index, "conf", path);
    name_file(servers, index, "sock", socket);
    name_file(servers, index, "log", log);
    FILE *file = fopen(path, "wxe");
    if (!file)
        return false;
    fprintf(file,
            "# redlock local, server %d of %d\n"
            "port 0\n"
            "unixsocket %s\n"
            "unixsocketperm 700\n"
            "dir %s\n"
            "logfile %s\n"
            "dbfilename %d.rdb\n"
            "save \"\"\n"
            "appendonly no\n"
            "daemonize no\n"
            "enable-debug-command local\n",
            index + 1, servers->count, socket, servers->folder, log, index + 1);
    if (servers->tls)
        write_tls(file, servers, index);
    bool written = !ferror(file);
    return fclose(file) == 0 && written;
}

/*
 * Runs in the server, between fork and exec. The server inherits no file but its own log.
 */
_Noreturn static void become_server(const struct servers *servers, int index, pid_t parent)
{
    char log[SERVERS_PATH], configuration[SERVERS_PATH];
    sigset_t none;
    name_file(servers, index, "log", log);
    name_file(servers, index, "conf", configuration);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
    int null = open("/dev/null", O_RDONLY);
    int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (null < 0 || out < 0 || dup2(null, STDIN_FILENO) < 0 ||
        dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0) {
        perror(log);
        _exit(EXIT_FAILURE);
    }
    (void)syscall(SYS_close_range, STDERR_FILENO + 1, UINT_MAX, 0);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execl(servers->program, servers->program, configuration, (char *)NULL);
    perror(servers->program);
    _exit(EXIT_FAILURE);
}

void servers_begin(void *arg)
{
    struct servers *servers = arg;
    pid_t self = getpid();
    servers->made = mkdtemp(servers->folder) != NULL;
    if (!servers->made)
        servers->error = errno;
    else if (servers->tls && !certificates_make(servers->folder))
        servers->error = errno;
    for (int i = 0; i < servers->count && servers->error == 0; i++) {
        errno = 0;
        if ((servers->tls && !reserve_port(&servers->ports[i])) ||
            !write_configuration(servers, i)) {
            servers->error = errno ? errno : EIO;
            return;
        }
        pid_t pid = fork();
        if (pid == 0)
            become_server(servers, i, self);
        if (pid < 0)
            servers->error = errno;
        servers->pids[i] = pid;
    }
}

static int remove_one(const char *path, const struct stat *file, int kind, struct FTW *walk)
{
    (void)file;
    (void)kind;
    (void)walk;
    remove(
        path); /* an entry that cannot be removed must not stop the removal of the others */
    return 0;
}

void servers_end(void *arg)
{
    struct servers *servers = arg;
    if (servers->made)
        nftw(servers->folder, remove_one, WALK_FILES, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* --- in redlock --- */

/* The pid that the server at the socket reports; 0: no reply yet. */
static pid_t ask_for_pid(const char *path)
{
    static const char request[] = "INFO server\r\n", field[] = "process_id:";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char answer[ANSWER_MAX + 1];
    size_t size = 0;
    pid_t pid = 0;
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return 0;
    bool sent = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
                send(fd, request, strlen(request), MSG_NOSIGNAL) == (int)strlen(request);
    while (sent && pid == 0) {
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        poll(&readable, 1, ANSWER_WAIT_MS);
        ssize_t more = recv(fd, answer + size, ANSWER_MAX - size, MSG_DONTWAIT);
        if (more <= 0)
            break;
        size += (size_t)more;
        answer[size] = '\0';
        const char *at = strstr(answer, field);
        if (at && strchr(at, '\n'))
            pid = (pid_t)atoi(at + strlen(field));
    }
    close(fd);
    return pid;
}

enum servers_state servers_look(const struct servers *servers, int index)
{
    char path[SERVERS_PATH];
    name_file(servers, index, "sock", path);
    if (kill(servers->pids[index], 0) != 0) /* the keeper has reaped it */
        return SERVERS_ENDED;
    pid_t pid = ask_for_pid(path);
    if (pid == 0)
        return SERVERS_STARTING;
    return pid == servers->pids[index] ? SERVERS_READY : SERVERS_STRANGER;
}

void servers_last_words(const struct servers *servers, int index, char *ret_text,
                        size_t room)
{
    char path[SERVERS_PATH], line[1024];
    name_file(servers, index, "log", path);
    FILE *file = fopen(path, "re");
    ret_text[0] = '\0';
    while (file && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\r\n")] = '\0';
        if (line[0] != '\0')
            snprintf(ret_text, room, "%s", line);
    }
    if (file)
        fclose(file);
}
