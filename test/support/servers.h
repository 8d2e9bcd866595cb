/*
 * Real redis-servers for a test, each on a unix socket in a temporary folder. They end with
 * the test's process, however that ends. Every failure here fails the test.
 */
#ifndef TEST_SERVERS_H
#define TEST_SERVERS_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <sys/types.h>

#define SERVERS_MAX       8
#define SERVERS_WORDS_MAX 16

struct server {
    pid_t pid; /* 0: it does not run */
    bool stopped;
    int port; /* 0: the unix socket only */
    char socket[100];
    char uri[112];
    redisContext *admin;
    const char *word[SERVERS_WORDS_MAX]; /* more of its command line; ends with NULL */
};

struct servers {
    unsigned n;
    char folder[64];
    struct server server[SERVERS_MAX];
    const char *uri[SERVERS_MAX];
};

/* Starts `n` servers; `word` is appended to each command line and may be NULL. */
void servers_start(struct servers *servers, unsigned n, const char *const *word);
void servers_end(struct servers *servers);

/* A port that the kernel chose; another process may take it before it is used. */
int servers_free_port(void);

/*
 * Makes the server listen on a TCP port that the kernel chose, too. The server must not
 * run.
 */
void servers_choose_port(struct servers *servers, unsigned i, const char *addresses);

void servers_launch(struct servers *servers, unsigned i);  /* and waits until it replies */
void servers_stop(struct servers *servers, unsigned i);    /* SIGSTOP */
void servers_cont(struct servers *servers, unsigned i);    /* SIGCONT */
void servers_kill(struct servers *servers, unsigned i);    /* SIGKILL: loses its memory */
void servers_restart(struct servers *servers, unsigned i); /* kill and launch */

/* Only the first `n` servers. */
void servers_stop_first(struct servers *servers, unsigned n);
void servers_cont_first(struct servers *servers, unsigned n);
void servers_kill_first(struct servers *servers, unsigned n);

/* Runs a command; the caller frees the reply. */
redisReply *servers_run(struct servers *servers, unsigned i, const char *format, ...);

/* Runs a command for its effect: an error reply fails the test. */
void servers_do(struct servers *servers, unsigned i, const char *format, ...);
void servers_do_first(struct servers *servers, unsigned n, const char *format, ...);

/* The reply is this integer, or this text. */
bool servers_int(struct servers *servers, unsigned i, long long value, const char *format,
                 ...);
bool servers_text(struct servers *servers, unsigned i, const char *text, const char *format,
                  ...);

/* The integer that the command returns. */
long long servers_number(struct servers *servers, unsigned i, const char *format, ...);

/*
 * Waits until the servers have executed and answered everything that was sent to them. A
 * server that is about to reply on a unix socket when that is closed drops the connection,
 * with the commands that it has not read yet.
 */
void servers_settle(struct servers *servers);

/* Counts running servers on which the key has this value; for NULL: does not exist. */
unsigned servers_with(struct servers *servers, const char *key, const char *value);

/* Counts the keys on all running servers. */
long long servers_keys(struct servers *servers);

/* One field of INFO, as text; valid until the next call. */
const char *servers_info(struct servers *servers, unsigned i, const char *section,
                         const char *field);

#endif
