/* A private quorum: Redis servers on unix sockets in a folder of their own; and, with TLS,
   on ports of 127.0.0.1. */
#ifndef CLI_SERVERS_H
#define CLI_SERVERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define SERVERS_MAX    32
#define SERVERS_PATH   108 /* the limit for a unix socket */
#define SERVERS_FOLDER (SERVERS_PATH - 20)
#define SERVERS_LIST   (SERVERS_MAX * (SERVERS_PATH + 8))

/* Lies in memory that redlock and the keeper share: the keeper writes, redlock reads. */
struct servers {
    int count;
    bool tls;
    char program[4096];          /* redis-server or valkey-server, with its path */
    char folder[SERVERS_FOLDER]; /* the path that mkdtemp() made, or its template */
    bool made;                   /* the folder exists */
    int error; /* errno of the step that failed while the servers were started */
    pid_t pids[SERVERS_MAX];
    int ports[SERVERS_MAX]; /* with TLS */
};

/* Decides what to start and where. Ends the process if that fails. */
struct servers *servers_new(int count, bool tls);
void servers_free(struct servers *servers);

/* The keeper's `begin` and `end`. */
void servers_begin(void *servers);
void servers_end(void *servers);

enum servers_state {
    SERVERS_STARTING,
    SERVERS_READY,
    SERVERS_ENDED,    /* the server is gone: its log has the reason */
    SERVERS_STRANGER, /* another process replies at its socket */
};

/*
 * The state of server `index`, counted from 0. Waits for a reply for at most 100 ms per
 * read.
 */
enum servers_state servers_look(const struct servers *servers, int index);

/* The last line of the server's log; "" if it has none. */
void servers_last_words(const struct servers *servers, int index, char *ret_text,
                        size_t room);

/* "unix:///folder/1.sock,unix:///..."; or, with TLS, "rediss://127.0.0.1:40001,..." */
void servers_list(const struct servers *servers, bool tls, char ret_list[SERVERS_LIST]);

#endif
