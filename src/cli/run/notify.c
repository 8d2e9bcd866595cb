/* redlock run under systemd: says that its unit is ready, as sd_notify(3) does. */
#include "cmd.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Never waits, because the lock must be extended meanwhile. False, with errno. */
static bool send_ready(const char *name)
{
    static const char text[] = "READY=1";
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t len = strlen(name);
    errno = len < sizeof(to.sun_path) ? EAFNOSUPPORT : ENAMETOOLONG;
    if ((name[0] != '/' && name[0] != '@') || len >= sizeof(to.sun_path))
        return false;
    memcpy(to.sun_path, name, len);
    if (name[0] == '@') /* an abstract name */
        to.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool sent =
        sendto(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&to,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) > 0;
    int error = errno;
    close(fd);
    errno = error;
    return sent;
}

void cmd_notify_ready(const char *key)
{
    const char *name = getenv("NOTIFY_SOCKET");
    if (name && name[0] != '\0' && !send_ready(name))
        cli_complain("%s: systemd could not be notified by %s: %s", key, name,
                     strerror(errno));
}
