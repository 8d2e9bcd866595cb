/* The socket on which `redlock monitor` listens. */
#ifndef CLI_LISTENER_H
#define CLI_LISTENER_H

#include "cli.h"

#include <event2/listener.h>
#include <sys/stat.h>

struct listener {
    struct evconnlistener *of_loop; /* disabled at first, and if accept() has failed */
    bool is_remote;                 /* other hosts can connect */
    char *place;                    /* "http://127.0.0.1:9121/", or "unix:PATH" */
    const char *path;               /* of a unix socket, or NULL */
    struct stat made;               /* that socket, so that no other one is removed */
};

/* As http_new(). */
void listener_begin(struct listener *listener, const struct cli *cli, const char *where,
                    bool allow_remote);

/* Removes the unix socket. Its owner frees `of_loop`. */
void listener_end(struct listener *listener);

#endif
